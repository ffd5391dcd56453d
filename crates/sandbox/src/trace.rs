//! A recorded usage over time and its value at any moment: CPU in millicores and memory in MiB,
//! each scaled by a factor. A file is CSV; its first column is `unix_seconds`, and an empty cell
//! means that the value has not changed.

use anyhow::{Context as _, Result, bail, ensure};

/// Names of the columns when none are given.
const CPU_COLUMN: &str = "cpu_millicores";
const MEMORY_COLUMN: &str = "memory_mib";
/// Rows of a trace; a year of minutes fits.
const MOST_ROWS: usize = 600_000;

/// Columns of a file, and factors for their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// CPU in millicores; default `cpu_millicores`, if present.
    pub cpu: Option<String>,
    /// Memory in MiB; default `memory_mib`, if present.
    pub memory: Option<String>,
    pub cpu_scale: f64,
    pub memory_scale: f64,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            cpu: None,
            memory: None,
            cpu_scale: 1.0,
            memory_scale: 1.0,
        }
    }
}

/// Usage of a container at one moment; `None` leaves it unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    pub cpu_millicores: Option<f64>,
    /// Memory in MiB.
    pub memory_mib: Option<f64>,
}

/// A recorded usage.
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
    /// Reads the text of a CSV file.
    pub fn parse(text: &str, columns: &Columns) -> Result<Self> {
        for scale in [columns.cpu_scale, columns.memory_scale] {
            ensure!(
                is_amount(scale),
                "scale {scale} is not a number from zero on"
            );
        }
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
        let cpu = position(&header, columns.cpu.as_deref(), CPU_COLUMN)?;
        let memory = position(&header, columns.memory.as_deref(), MEMORY_COLUMN)?;
        if cpu.is_none() && memory.is_none() {
            bail!(
                "there is neither a column cpu_millicores nor memory_mib; name the columns to use"
            );
        }
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
            let value = |column: Option<usize>, scale: f64, last: Option<f64>| {
                let cell = column.map(|column| cells.get(column).copied().unwrap_or_default());
                match cell {
                    Some("") => Ok(last),
                    Some(cell) => number(cell).map(|value| Some(value * scale)),
                    None => Ok(None),
                }
            };
            let before = last.map(|last| last.usage).unwrap_or_default();
            let usage = Usage {
                cpu_millicores: value(cpu, columns.cpu_scale, before.cpu_millicores)?,
                memory_mib: value(memory, columns.memory_scale, before.memory_mib)?,
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

fn position(header: &[&str], wanted: Option<&str>, usual: &str) -> Result<Option<usize>> {
    let column = wanted.unwrap_or(usual);
    let found = header.iter().position(|name| *name == column);
    ensure!(
        found.is_some() || wanted.is_none(),
        "there is no column {column:?}"
    );
    Ok(found)
}

/// A number from zero on.
fn number(cell: &str) -> Option<f64> {
    cell.parse().ok().filter(|value| is_amount(*value))
}

fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "unix_seconds,cpu_millicores,memory_mib,other\n1000,100,50,7\n1300,,60,8\n1600,300,,9\n";

    fn trace() -> Trace {
        Trace::parse(TEXT, &Columns::default()).unwrap()
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
        let single = Trace::parse("unix_seconds,memory_mib\n5,1\n", &Columns::default()).unwrap();
        assert_eq!(
            single.usage_in_loop(1e9),
            Usage {
                cpu_millicores: None,
                memory_mib: Some(1.0)
            }
        );
    }

    #[test]
    fn columns_are_chosen_by_name_and_scaled() {
        let columns = Columns {
            cpu: Some("other".to_owned()),
            cpu_scale: 10.0,
            ..Columns::default()
        };
        let usage = Trace::parse(TEXT, &columns).unwrap().usage_at(0.0);
        assert_eq!(
            usage,
            Some(Usage {
                cpu_millicores: Some(70.0),
                memory_mib: Some(50.0)
            })
        );
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_place() {
        let refuse = |text: &str, columns: &Columns| {
            let error = Trace::parse(text, columns).unwrap_err();
            error.to_string()
        };
        let usual = Columns::default();
        assert_eq!(refuse("", &usual), "no rows");
        assert_eq!(refuse("unix_seconds,cpu_millicores\n", &usual), "no rows");
        assert_eq!(
            refuse("time,cpu_millicores\n", &usual),
            "the first column must be unix_seconds, not \"time\""
        );
        assert_eq!(
            refuse("unix_seconds,x\n1,2\n", &usual),
            "there is neither a column cpu_millicores nor memory_mib; name the columns to use"
        );
        assert_eq!(
            refuse("unix_seconds,memory_mib\n1,2\n1,3\n", &usual),
            "line 3: unix_seconds must grow from line to line"
        );
        for cell in ["-1", "NaN", "inf", "x"] {
            assert_eq!(
                refuse(&format!("unix_seconds,memory_mib\n1,{cell}\n"), &usual),
                format!("line 2: {cell:?} is not a number from zero on")
            );
        }
        let columns = Columns {
            memory: Some("m".to_owned()),
            ..Columns::default()
        };
        assert_eq!(refuse(TEXT, &columns), "there is no column \"m\"");
        let columns = Columns {
            cpu_scale: -1.0,
            ..usual
        };
        assert_eq!(
            refuse(TEXT, &columns),
            "scale -1 is not a number from zero on"
        );
    }
}
