//! A recorded usage over time and its value at any moment: CPU in millicores and memory in MiB. A file is
//! CSV; its first column is `unix_seconds`, and an empty cell means that the value has not changed.

use anyhow::{Context as _, Result, ensure};

/// Rows of a trace; a year of minutes fits.
const MOST_ROWS: usize = 600_000;

/// Usage of a container at one moment; `None` leaves it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_millicores: Option<f64>,
    /// Memory in MiB.
    pub memory_mib: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Row {
    /// Seconds since the first row.
    at: f64,
    usage: Usage,
}

impl Trace {
    pub fn parse(text: &str) -> Result<Self> {
        let mut lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let header: Vec<&str> = lines
            .next()
            .map(|(_, line)| line.split(',').map(str::trim).collect())
            .context("no rows")?;
        ensure!(
            header[0] == "unix_seconds",
            "the first column must be unix_seconds, not {:?}",
            header[0]
        );
        let position = |name: &str| header.iter().position(|column| *column == name);
        let (cpu, memory) = (position("cpu_millicores"), position("memory_mib"));
        ensure!(
            cpu.is_some() || memory.is_some(),
            "there is neither a column cpu_millicores nor memory_mib"
        );
        let mut rows: Vec<Row> = Vec::new();
        let mut first = None;
        for (index, line) in lines {
            let number = |cell: &str| {
                number(cell).with_context(|| {
                    format!("line {}: {cell:?} is not a number from zero on", index + 1)
                })
            };
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let time = number(cells[0])?;
            let last = rows.last().copied();
            let at = time - *first.get_or_insert(time);
            ensure!(
                last.is_none_or(|last| at > last.at),
                "line {}: unix_seconds must grow from line to line",
                index + 1
            );
            let value = |column: Option<usize>, last: Option<f64>| {
                let cell = column.map(|column| cells.get(column).copied().unwrap_or_default());
                match cell {
                    Some("") => Ok(last),
                    Some(cell) => number(cell).map(Some),
                    None => Ok(None),
                }
            };
            let before = last.map(|last| last.usage).unwrap_or_default();
            let usage = Usage {
                cpu_millicores: value(cpu, before.cpu_millicores)?,
                memory_mib: value(memory, before.memory_mib)?,
            };
            ensure!(rows.len() < MOST_ROWS, "more than {MOST_ROWS} rows");
            rows.push(Row { at, usage });
        }
        ensure!(!rows.is_empty(), "no rows");
        Ok(Self { rows })
    }

    /// Duration in seconds: the last value lasts as long as the one before it.
    pub fn duration_seconds(&self) -> f64 {
        match self.rows.as_slice() {
            [.., before, last] => last.at + (last.at - before.at),
            _ => 0.0,
        }
    }

    /// The usage this many seconds after the start; `None` after the end.
    pub fn usage_at(&self, seconds: f64) -> Option<Usage> {
        let after = self.rows.partition_point(|row| row.at <= seconds);
        let is_over = seconds > self.duration_seconds();
        (!is_over).then(|| self.rows[after.saturating_sub(1)].usage)
    }

    /// The usage when the trace is repeated.
    pub fn usage_in_loop(&self, seconds: f64) -> Usage {
        let duration = self.duration_seconds();
        let seconds = if duration > 0.0 {
            seconds.max(0.0) % duration
        } else {
            0.0
        };
        self.usage_at(seconds).unwrap_or_default()
    }
}

/// A number from zero on.
fn number(cell: &str) -> Option<f64> {
    let value = cell.parse().ok();
    value.filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "unix_seconds,cpu_millicores,memory_mib,other\n1000,100,50,7\n1300,,60,8\n1600,300,,9\n";

    fn trace() -> Trace {
        Trace::parse(TEXT).unwrap()
    }

    fn check(seconds: f64, cpu_millicores: f64, memory_mib: f64) {
        let expected = Usage {
            cpu_millicores: Some(cpu_millicores),
            memory_mib: Some(memory_mib),
        };
        assert_eq!(trace().usage_at(seconds), Some(expected), "{seconds}");
    }

    #[test]
    fn a_value_holds_until_the_next_and_an_empty_cell_keeps_the_last() {
        check(0.0, 100.0, 50.0);
        check(299.9, 100.0, 50.0);
        check(300.0, 100.0, 60.0);
        check(600.0, 300.0, 60.0);
        check(900.0, 300.0, 60.0);
    }

    #[test]
    fn a_trace_ends_and_a_loop_does_not() {
        assert_eq!(trace().usage_at(900.1), None);
        assert_eq!(
            trace().usage_in_loop(900.0 + 310.0),
            Usage {
                cpu_millicores: Some(100.0),
                memory_mib: Some(60.0)
            }
        );
        let single = Trace::parse("unix_seconds,memory_mib\n5,1\n").unwrap();
        assert_eq!(
            single.usage_in_loop(1e9),
            Usage {
                cpu_millicores: None,
                memory_mib: Some(1.0)
            }
        );
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        let refuse = |text: &str| Trace::parse(text).unwrap_err().to_string();
        assert_eq!(refuse(""), "no rows");
        assert_eq!(refuse("unix_seconds,cpu_millicores\n"), "no rows");
        assert_eq!(
            refuse("time,cpu_millicores\n"),
            "the first column must be unix_seconds, not \"time\""
        );
        assert_eq!(
            refuse("unix_seconds,x\n1,2\n"),
            "there is neither a column cpu_millicores nor memory_mib"
        );
        assert_eq!(
            refuse("unix_seconds,memory_mib\n1,2\n1,3\n"),
            "line 3: unix_seconds must grow from line to line"
        );
        for cell in ["-1", "NaN", "inf", "x"] {
            assert_eq!(
                refuse(&format!("unix_seconds,memory_mib\n1,{cell}\n")),
                format!("line 2: {cell:?} is not a number from zero on")
            );
        }
    }
}
