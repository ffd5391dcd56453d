//! Samples of a case: literal values, or rows of a recorded trace.
//!
//! The traces are in `tests/vectors/crane/traces`: first second and step in the first line, then a
//! value per line, empty if missing.

use std::path::Path;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(untagged)]
pub(crate) enum Source {
    Explicit {
        first_timestamp: i64,
        step_seconds: i64,
        values: Vec<f64>,
    },
    Trace {
        trace: String,
        column: String,
        first_row: usize,
        rows: usize,
        scale: f64,
        removed_rows: Option<Vec<usize>>,
    },
}

impl Source {
    /// The samples: (second since 1970, value).
    pub(crate) fn samples(&self) -> Vec<(i64, f64)> {
        match self {
            Self::Explicit {
                first_timestamp,
                step_seconds,
                values,
            } => values
                .iter()
                .enumerate()
                .map(|(row, value)| (first_timestamp + row as i64 * step_seconds, *value))
                .collect(),
            Self::Trace {
                trace,
                column,
                first_row,
                rows,
                scale,
                removed_rows,
            } => {
                let removed = removed_rows.as_deref().unwrap_or_default();
                let slice = read(trace, column)
                    .into_iter()
                    .skip(*first_row)
                    .take(*rows)
                    .enumerate();
                let kept = slice.filter(|(row, _)| !removed.contains(row));
                kept.map(|(_, (second, value))| (second, value * scale))
                    .collect()
            }
        }
    }
}

fn read(trace: &str, column: &str) -> Vec<(i64, f64)> {
    let folder = Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/vectors/crane/traces"
    ));
    let path = folder.join(format!("{}.{column}.csv", trace.trim_end_matches(".csv")));
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut lines = text.lines();
    let (first, step) = lines
        .next()
        .and_then(|line| line.split_once(','))
        .expect("first second and step");
    let (first, step): (i64, i64) = (
        first.parse().expect("a second"),
        step.parse().expect("a step"),
    );
    let rows = lines.enumerate().filter(|(_, line)| !line.is_empty());
    rows.map(|(row, line)| (first + row as i64 * step, line.parse().expect("a value")))
        .collect()
}
