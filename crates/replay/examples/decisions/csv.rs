//! Series and demands from CSV files with `unix_seconds` in the first column and one column per series.

use std::path::Path;

use replay::Series;
use replay::horizontal::Demand;

/// Pods that the 99th percentile of a demand needs at [`USUAL_TARGET`].
const PODS: f64 = 50.0;
/// Share of a pod's capacity that an HPA aims at.
pub(crate) const USUAL_TARGET: f64 = 0.7;

pub(crate) type NamedDemand = (String, Demand);

pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The error of a line, from 1, without a time.
fn no_time(line: usize) -> String {
    format!("line {line} does not begin with seconds since 1970")
}

/// The series of a text with their names. Values are multiplied by `unit`. The step is the least
/// distance of times. Without a record of it, the provisioned amount is the peak.
pub(crate) fn series(text: &str, unit: f64) -> Result<Vec<(String, Series)>, String> {
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
        let samples = cells.filter_map(|(time, value)| Some((*time, value?)));
        Some((name, Series::from_samples(step, samples)?))
    });
    Ok(series.collect())
}

/// Demands of the files in `FOLDER/horizontal` with a sample per minute.
pub(crate) fn read_demands(folder: &Path) -> Result<Vec<NamedDemand>, String> {
    let folder = folder.join("horizontal");
    let unreadable = |error: std::io::Error| format!("{}: {error}", folder.display());
    let entries = std::fs::read_dir(&folder).map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<_> = paths.collect::<Result<_, _>>().map_err(unreadable)?;
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(stem) = stem.filter(|stem| stem.ends_with("__60s")) else {
            continue;
        };
        let found = demands(&read(&path)?, 60);
        for (mut name, demand) in found.map_err(|error| format!("{}: {error}", path.display()))? {
            // A file with one series is identified by its own name.
            if name == "value" {
                stem.split("__")
                    .nth(1)
                    .unwrap_or(stem)
                    .clone_into(&mut name);
            }
            all.push((name, demand));
        }
    }
    Ok(all)
}

/// The demands of a text. Samples further apart than a minute count for each minute of their step.
///
/// They are scaled so that the 99th percentile needs 50 pods at 70 % of their capacity. Columns
/// without a positive percentile are left out.
pub(crate) fn demands(text: &str, step: i64) -> Result<Vec<NamedDemand>, String> {
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
        Some((name.to_owned(), in_pods(start?, minutes)?))
    };
    Ok(columns.into_iter().filter_map(demand).collect())
}

/// Scales values of any unit. `None` if their 99th percentile is not above zero.
fn in_pods(start: i64, mut minutes: Vec<Option<f64>>) -> Option<Demand> {
    let mut sorted: Vec<f64> = minutes.iter().copied().flatten().collect();
    sorted.sort_by(f64::total_cmp);
    let p99 = sorted.get(sorted.len().checked_sub(1)? * 99 / 100)?;
    let unit = p99 / (PODS * USUAL_TARGET);
    for value in minutes.iter_mut().flatten() {
        *value /= unit;
    }
    (unit > 0.0).then_some(Demand { start, minutes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_sample_has_the_value_before_it() {
        let text = "unix_seconds,a,b\n600,1,\n900,,2\n1500,3,4\n";
        let series = super::series(text, 10.0).expect("series");
        let usage: Vec<_> = series.iter().map(|(_, it)| it.usage.clone()).collect();
        assert_eq!(
            usage,
            [vec![10.0, 10.0, 10.0, 30.0], vec![20.0, 20.0, 40.0]]
        );
        assert_eq!((series[1].1.start, series[1].1.step), (900, 300));
        assert_eq!(series[0].1.slots(3600), 12);
        assert_eq!(series[1].0, "b");
    }

    #[test]
    fn other_texts_are_refused() {
        let check = |text, expected: &str| {
            assert_eq!(super::series(text, 1.0), Err(expected.to_owned()));
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

    fn check(text: &str, step: i64, expected: &[Option<f64>]) {
        let found = demands(text, step).expect("a valid file");
        let [(name, demand)] = found.as_slice() else {
            panic!("{text}: {found:?}");
        };
        assert_eq!((demand.start, name.as_str()), (600, "a"));
        assert_eq!(demand.minutes, expected, "{text}");
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
        let time = demands("unix_seconds,a\n600,1\nx,1\n", 60);
        let no_time = "line 3 does not begin with seconds since 1970";
        assert_eq!(time, Err(no_time.to_owned()));
        let step = demands("unix_seconds,a\n600,1\n", 15);
        let short = "a step of 15 s is not a whole number of minutes";
        assert_eq!(step, Err(short.to_owned()));
    }
}
