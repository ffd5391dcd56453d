//! A recorded usage over time and its value at any moment: CPU in millicores and memory in MiB,
//! each scaled by a factor. A file is CSV; its first column is `unix_seconds`, and an empty cell
//! means that the value has not changed.

use thiserror::Error;

/// Names of the columns when none are given.
const CPU_COLUMN: &str = "cpu_millicores";
const MEMORY_COLUMN: &str = "memory_mib";
/// Rows of a trace; a year of minutes fits.
const MOST_ROWS: usize = 600_000;

/// Errors of a trace file.
#[derive(Debug, PartialEq, Error)]
pub enum TraceError {
    /// The first column is not `unix_seconds`.
    #[error("the first column must be unix_seconds, not {0:?}")]
    NoTime(String),
    /// A named column is missing.
    #[error("there is no column {0:?}")]
    NoColumn(String),
    /// Neither default column exists.
    #[error("there is neither a column cpu_millicores nor memory_mib; name the columns to use")]
    NoUsage,
    /// A cell is not a finite number from zero on.
    #[error("line {line}: {cell:?} is not a number from zero on")]
    Cell {
        line: usize,
        /// Text of the cell.
        cell: String,
    },
    /// Time runs backwards.
    #[error("line {0}: unix_seconds must grow from line to line")]
    ControlRequest(usize),
    /// A scale is not a finite number from zero on.
    #[error("scale {0} is not a number from zero on")]
    Scale(f64),
    /// More than the maximum number of rows.
    #[error("more than {MOST_ROWS} rows")]
    Long,
    /// No row at all.
    #[error("no rows")]
    Empty,
}

/// Columns of a file, and factors for their numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    /// CPU in millicores; default `cpu_millicores`, if present.
    pub cpu: Option<String>,
    /// Memory in MiB; default `memory_mib`, if present.
    pub memory: Option<String>,
    /// Factor for the CPU.
    pub cpu_scale: f64,
    /// Factor for the memory.
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
    pub fn parse(text: &str, columns: &Columns) -> Result<Self, TraceError> {
        if let Some(scale) = [columns.cpu_scale, columns.memory_scale]
            .into_iter()
            .find(|scale| !is_amount(*scale))
        {
            return Err(TraceError::Scale(scale));
        }
        let mut lines = text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
        let header: Vec<&str> = lines
            .next()
            .map(|(_, line)| line.split(',').map(str::trim).collect())
            .ok_or(TraceError::Empty)?;
        if header[0] != "unix_seconds" {
            return Err(TraceError::NoTime(header[0].to_owned()));
        }
        let cpu = position(&header, columns.cpu.as_deref(), CPU_COLUMN)?;
        let memory = position(&header, columns.memory.as_deref(), MEMORY_COLUMN)?;
        if cpu.is_none() && memory.is_none() {
            return Err(TraceError::NoUsage);
        }
        let mut rows: Vec<Row> = Vec::new();
        let mut first = None;
        for (index, line) in lines {
            let line_number = index + 1;
            let cells: Vec<&str> = line.split(',').map(str::trim).collect();
            let time = number(cells[0], line_number)?.ok_or(TraceError::Cell {
                line: line_number,
                cell: String::new(),
            })?;
            let last = rows.last().copied();
            let at = time - *first.get_or_insert(time);
            if last.is_some_and(|last| at <= last.at) {
                return Err(TraceError::ControlRequest(line_number));
            }
            let value = |column: Option<usize>, scale: f64, last: Option<f64>| match column {
                Some(column) => {
                    let here = number(cells.get(column).copied().unwrap_or_default(), line_number)?;
                    Ok(here.map(|value| value * scale).or(last))
                }
                None => Ok(None),
            };
            let before = last.map(|last| last.usage).unwrap_or_default();
            let usage = Usage {
                cpu_millicores: value(cpu, columns.cpu_scale, before.cpu_millicores)?,
                memory_mib: value(memory, columns.memory_scale, before.memory_mib)?,
            };
            if rows.len() == MOST_ROWS {
                return Err(TraceError::Long);
            }
            rows.push(Row { at, usage });
        }
        if rows.is_empty() {
            Err(TraceError::Empty)
        } else {
            Ok(Self { rows })
        }
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

fn position(
    header: &[&str],
    wanted: Option<&str>,
    usual: &str,
) -> Result<Option<usize>, TraceError> {
    let find = |name: &str| header.iter().position(|column| *column == name);
    match wanted {
        Some(name) => find(name)
            .map(Some)
            .ok_or_else(|| TraceError::NoColumn(name.to_owned())),
        None => Ok(find(usual)),
    }
}

/// A number from zero on; `None` for an empty cell.
fn number(cell: &str, line: usize) -> Result<Option<f64>, TraceError> {
    if cell.is_empty() {
        return Ok(None);
    }
    let value = cell.parse().ok().filter(|value| is_amount(*value));
    value.map(Some).ok_or_else(|| TraceError::Cell {
        line,
        cell: cell.to_owned(),
    })
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
        let refuse = |text: &str, columns: &Columns| Trace::parse(text, columns).unwrap_err();
        let usual = Columns::default();
        assert_eq!(refuse("", &usual), TraceError::Empty);
        assert_eq!(
            refuse("unix_seconds,cpu_millicores\n", &usual),
            TraceError::Empty
        );
        assert_eq!(
            refuse("time,cpu_millicores\n", &usual),
            TraceError::NoTime("time".to_owned())
        );
        assert_eq!(refuse("unix_seconds,x\n1,2\n", &usual), TraceError::NoUsage);
        assert_eq!(
            refuse("unix_seconds,memory_mib\n1,2\n1,3\n", &usual),
            TraceError::ControlRequest(3)
        );
        for cell in ["-1", "NaN", "inf", "x"] {
            let error = refuse(&format!("unix_seconds,memory_mib\n1,{cell}\n"), &usual);
            assert_eq!(
                error,
                TraceError::Cell {
                    line: 2,
                    cell: cell.to_owned()
                }
            );
        }
        let columns = Columns {
            memory: Some("m".to_owned()),
            ..Columns::default()
        };
        assert_eq!(refuse(TEXT, &columns), TraceError::NoColumn("m".to_owned()));
        assert_eq!(
            refuse(
                TEXT,
                &Columns {
                    cpu_scale: -1.0,
                    ..usual
                }
            ),
            TraceError::Scale(-1.0)
        );
    }
}
