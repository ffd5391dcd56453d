//! Recorded usage of one container and resource, in slots of equal length.

use jiff::Timestamp;

/// Usage of one container and resource. A slot without a sample has the value of the slot before.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Name of the container or machine.
    pub name: String,
    /// Start of the first slot in seconds since 1970.
    pub start: i64,
    /// Length of a slot in seconds.
    pub step: i64,
    /// Usage in millicores or MiB.
    pub usage: Vec<f64>,
    /// The request that its owner chose.
    pub provisioned: f64,
}

/// The error of a line, from 1, without a time.
pub(crate) fn no_time(line: usize) -> String {
    format!("line {line} does not begin with seconds since 1970")
}

/// A time in seconds since 1970; the last possible one for seconds beyond it.
pub(crate) fn timestamp(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap_or(Timestamp::MAX)
}

impl Series {
    pub fn time(&self, slot: usize) -> Timestamp {
        timestamp(self.start + self.step * slot as i64)
    }

    /// The number of slots in a duration, at least one.
    pub fn slots(&self, seconds: i64) -> usize {
        usize::try_from(seconds / self.step).unwrap_or(1).max(1)
    }

    pub fn peak(&self) -> f64 {
        self.usage.iter().copied().fold(0.0, f64::max)
    }

    /// The series of a CSV text with `unix_seconds` in the first column and one column per series.
    /// Values are multiplied by `unit`. The step is the least distance of times. Without a
    /// record of it, the provisioned amount is the peak.
    pub fn parse_csv(text: &str, unit: f64) -> Result<Vec<Self>, String> {
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split(',').skip(1);
        let mut times = Vec::new();
        let mut columns: Vec<(String, Vec<Option<f64>>)> =
            names.map(|name| (name.to_owned(), Vec::new())).collect();
        for (index, line) in lines.enumerate() {
            let mut cells = line.split(',');
            let time = cells.next().and_then(|cell| cell.parse::<i64>().ok());
            times.push(time.ok_or_else(|| no_time(index + 2))?);
            for (_, column) in &mut columns {
                let value = cells.next().and_then(|cell| cell.parse::<f64>().ok());
                column.push(value.map(|value| value * unit));
            }
        }
        let step = times
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .filter(|step| *step > 0)
            .min()
            .ok_or("the file has no two times in order")?;
        let series = columns.into_iter().filter_map(|(name, column)| {
            let cells = times.iter().zip(column);
            Self::from_samples(
                name,
                step,
                cells.filter_map(|(time, value)| Some((*time, value?))),
            )
        });
        Ok(series.collect())
    }

    /// A series from samples in the order of time; `None` without samples.
    pub fn from_samples(
        name: String,
        step: i64,
        samples: impl IntoIterator<Item = (i64, f64)>,
    ) -> Option<Self> {
        let mut samples = samples.into_iter().peekable();
        let start = samples.peek()?.0.div_euclid(step) * step;
        let mut usage: Vec<f64> = Vec::new();
        for (time, value) in samples {
            let slot = usize::try_from((time - start) / step).ok()?;
            let before = usage.last().copied().unwrap_or(value);
            usage.resize((slot + 1).max(usage.len()), before);
            usage[slot] = value;
        }
        let mut series = Self {
            name,
            start,
            step,
            usage,
            provisioned: 0.0,
        };
        series.provisioned = series.peak();
        Some(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_sample_has_the_value_before_it() {
        let text = "unix_seconds,a,b\n600,1,\n900,,2\n1500,3,4\n";
        let series = Series::parse_csv(text, 10.0).expect("series");
        let usage: Vec<_> = series.iter().map(|series| series.usage.clone()).collect();
        assert_eq!(
            usage,
            [vec![10.0, 10.0, 10.0, 30.0], vec![20.0, 20.0, 40.0]]
        );
        assert_eq!((series[1].start, series[1].step), (900, 300));
        assert_eq!(series[0].slots(3600), 12);
        assert_eq!(series[1].name, "b");
    }

    #[test]
    fn other_texts_are_refused() {
        let check = |text, expected: &str| {
            assert_eq!(Series::parse_csv(text, 1.0), Err(expected.to_owned()));
        };
        check(
            "unix_seconds,a\n600,1\nx,2\n",
            "line 3 does not begin with seconds since 1970",
        );
        check(
            "unix_seconds,a\n600,1\n",
            "the file has no two times in order",
        );
        check("", "the file has no two times in order");
    }
}
