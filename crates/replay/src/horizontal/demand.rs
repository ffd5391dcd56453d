//! Recorded demand of one workload per minute.

use crate::series::no_time;

/// Pods that the 99th percentile of the demand needs at [`USUAL_TARGET`].
const PODS: f64 = 50.0;
/// Share of a pod's capacity that an HPA aims at.
pub(super) const USUAL_TARGET: f64 = 0.7;

/// Demand per minute. The unit is the capacity of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    pub name: String,
    /// Start of the first minute in seconds since 1970, a whole minute.
    pub start: i64,
    /// Demand of each minute; `None` if it was not measured.
    pub minutes: Vec<Option<f64>>,
}

impl Demand {
    /// Demands from a CSV text with `unix_seconds` in the first column and one column per series.
    /// Samples further apart than a minute count for each minute of their step.
    ///
    /// They are scaled so that the 99th percentile needs 50 pods at 70 % of their capacity. Columns
    /// without a positive percentile are left out.
    pub fn parse_csv(text: &str, step: i64) -> Result<Vec<Self>, String> {
        if step < 60 || step % 60 != 0 {
            return Err(format!(
                "a step of {step} s is not a whole number of minutes"
            ));
        }
        let mut lines = text.lines();
        let names = lines.next().unwrap_or_default().split(',').skip(1);
        let mut columns: Vec<_> = names.map(|name| (name, Vec::new())).collect();
        let mut start = None;
        for (index, line) in lines.enumerate() {
            let mut cells = line.split(',');
            let second: Option<i64> = cells.next().and_then(|cell| cell.parse().ok());
            let second = second.ok_or_else(|| no_time(index + 2))?.div_euclid(60) * 60;
            let first = *start.get_or_insert(second);
            let minute = usize::try_from((second - first) / 60).unwrap_or_default();
            for (_, minutes) in &mut columns {
                let value: Option<f64> = cells.next().and_then(|cell| cell.parse().ok());
                minutes.resize(minute.max(minutes.len()), None);
                minutes.truncate(minute);
                minutes.resize(minute + (step / 60) as usize, value);
            }
        }
        let demand = |(name, minutes): (&str, Vec<Option<f64>>)| {
            Self::in_pods(name.to_owned(), start?, minutes)
        };
        Ok(columns.into_iter().filter_map(demand).collect())
    }

    /// Scales values of any unit. `None` if their 99th percentile is not above zero.
    pub fn in_pods(name: String, start: i64, mut minutes: Vec<Option<f64>>) -> Option<Self> {
        let mut sorted: Vec<f64> = minutes.iter().copied().flatten().collect();
        sorted.sort_by(f64::total_cmp);
        let p99 = sorted.get(sorted.len().checked_sub(1)? * 99 / 100)?;
        let unit = p99 / (PODS * USUAL_TARGET);
        for value in minutes.iter_mut().flatten() {
            *value /= unit;
        }
        (unit > 0.0).then_some(Self {
            name,
            start,
            minutes,
        })
    }

    /// The largest demand of a range of minutes.
    pub fn peak(&self, minutes: std::ops::Range<usize>) -> Option<f64> {
        let minutes = minutes.start..minutes.end.min(self.minutes.len());
        let known = self.minutes.get(minutes)?.iter().copied().flatten();
        known.reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, step: i64, expected: &[Option<f64>]) {
        let demands = Demand::parse_csv(text, step).expect("a valid file");
        assert_eq!(demands.len(), 1, "{text}");
        assert_eq!((demands[0].start, demands[0].name.as_str()), (600, "a"));
        assert_eq!(demands[0].minutes, expected, "{text}");
    }

    #[test]
    fn the_99th_percentile_needs_fifty_pods_at_seventy_percent() {
        check(
            "unix_seconds,a,zero\n600,2,0\n660,4,0\n",
            60,
            &[Some(35.0), Some(70.0)],
        );
        check(
            "unix_seconds,a\n600,4\n660,\n780,2\n",
            60,
            &[Some(70.0), None, None, Some(35.0)],
        );
        check("unix_seconds,a\n600,4\n720,4\n", 120, &[Some(35.0); 4]);
    }

    #[test]
    fn lines_without_a_time_and_short_steps_are_errors() {
        let time = Demand::parse_csv("unix_seconds,a\n600,1\nx,1\n", 60);
        let no_time = "line 3 does not begin with seconds since 1970";
        assert_eq!(time, Err(no_time.to_owned()));
        let step = Demand::parse_csv("unix_seconds,a\n600,1\n", 15);
        let short = "a step of 15 s is not a whole number of minutes";
        assert_eq!(step, Err(short.to_owned()));
    }
}
