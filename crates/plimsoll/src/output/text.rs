//! Aligned columns and Markdown.

use std::fmt::Write as _;

use super::{Document, Row, Table};
use crate::severity::Severity;

const RESET: &str = "\u{1b}[0m";

/// The tables with aligned columns, one below the other, and the notes.
pub(super) fn aligned(document: &Document, color: bool) -> String {
    let mut text = String::new();
    for table in &document.tables {
        align(&mut text, table, color);
        text.push('\n');
    }
    for note in &document.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

fn align(text: &mut String, table: &Table, color: bool) {
    let cells =
        |row: &Row| -> Vec<String> { row.cells.iter().map(|cell| printable(cell)).collect() };
    let rows: Vec<Vec<String>> = table.rows.iter().map(cells).collect();
    let heads: Vec<String> = table.names().map(str::to_uppercase).collect();
    let widths: Vec<usize> = (0..heads.len())
        .map(|column| {
            let cells = rows.iter().map(|row| width(&row[column]));
            cells.chain([width(&heads[column])]).max().unwrap_or(0)
        })
        .collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate();
        let padded = padded.map(|(column, (cell, width_of_column))| {
            let padding = " ".repeat(width_of_column - width(cell));
            if table.is_number(column) {
                padding + cell
            } else {
                cell.clone() + &padding
            }
        });
        let line: Vec<String> = padded.collect();
        line.join("  ").trim_end().to_owned()
    };
    let _ = writeln!(text, "{}\n{}", table.title, line(&heads));
    for (row, cells) in table.rows.iter().zip(&rows) {
        let line = line(cells);
        let _ = match row.severity.and_then(Severity::color).filter(|_| color) {
            Some(code) => writeln!(text, "{code}{line}{RESET}"),
            None => writeln!(text, "{line}"),
        };
    }
}

fn width(cell: &str) -> usize {
    cell.chars().count()
}

/// The text without control characters, which could change the terminal.
pub(crate) fn printable(cell: &str) -> String {
    cell.replace(char::is_control, "\u{fffd}")
}

pub(super) fn markdown(document: &Document) -> String {
    let cell = |cell: &String| printable(cell).replace('|', "\\|").replace('<', "&lt;");
    let mut text = String::new();
    for table in &document.tables {
        let _ = writeln!(text, "### {}\n", table.title);
        let names: Vec<&str> = table.names().collect();
        let _ = writeln!(text, "| {} |", names.join(" | "));
        let numbers = (0..names.len()).map(|column| table.is_number(column));
        let rules = numbers.map(|is_number| if is_number { "--:" } else { "---" });
        let _ = writeln!(text, "|{}|", rules.collect::<Vec<_>>().join("|"));
        for row in &table.rows {
            let cells: Vec<String> = row.cells.iter().map(cell).collect();
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    for note in &document.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}
