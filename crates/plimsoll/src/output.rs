//! Tables as text, Markdown, CSV, JSON, YAML and HTML.

pub(crate) mod numbers;
mod page;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Width, presets};
use maud::html;
use serde::Serialize;
use serde_json::Value;

use crate::failure::Outcome;
use crate::severity::Severity;

pub(crate) use page::{LINE, markup_text, page};

const ABSENT: &str = "-";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    #[value(alias = "text")]
    Table,
    /// One JSON object; its fields keep their names and meaning between versions.
    Json,
    /// The same as YAML.
    Yaml,
    /// The first table as CSV.
    Csv,
    /// Tables in Markdown.
    Md,
    /// One HTML page.
    Html,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub(crate) output: Format,
    /// No colours. Colours are used on a terminal only, and not if `NO_COLOR` is set.
    #[arg(long)]
    pub(crate) no_color: bool,
}

pub(crate) struct Document {
    pub(crate) title: String,
    /// Tables; the first one is the main one.
    pub(crate) tables: Vec<Table>,
    /// Remarks below the tables, one sentence each.
    pub(crate) notes: Vec<String>,
    pub(crate) data: Value,
}

impl Document {
    /// One without tables.
    pub(crate) fn titled(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            tables: Vec::new(),
            notes: Vec::new(),
            data: Value::Null,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) title: String,
    /// Names of the columns. Those that begin with a space are aligned to the right, without it.
    pub(crate) columns: Vec<&'static str>,
    pub(crate) rows: Vec<Row>,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Cells, as many as columns.
    pub(crate) cells: Vec<String>,
    pub(crate) severity: Option<Severity>,
    /// Address of the page about the object of the first cell, in HTML.
    pub(crate) link: Option<String>,
}

impl Row {
    pub(crate) fn plain(cells: impl Into<Vec<String>>) -> Self {
        Self {
            cells: cells.into(),
            severity: None,
            link: None,
        }
    }
}

impl Table {
    /// A table with these columns, which `|` separates.
    pub(crate) fn new(
        title: impl Into<String>,
        columns: &'static str,
        rows: impl IntoIterator<Item = Row>,
    ) -> Self {
        Self {
            title: title.into(),
            columns: columns.split('|').collect(),
            rows: rows.into_iter().collect(),
        }
    }

    /// A table of a list that has a form as JSON. A column is its name and its field, such as
    /// `type`, ` CPU cores=cpu/cores:2` with two digits, or ` CPU=cpu/percent:1%` with a unit too.
    pub(crate) fn of(
        title: impl Into<String>,
        columns: &'static str,
        list: impl Serialize,
    ) -> Self {
        let list = serde_json::to_value(list).unwrap_or_default();
        let columns: Vec<_> = columns.split('|').map(column).collect();
        let rows = list.as_array().into_iter().flatten().map(|object| {
            let cells = columns.iter().map(|(_, pointer, form)| {
                let value = object.pointer(pointer).unwrap_or(&Value::Null);
                cell(value, *form)
            });
            Row::plain(cells.collect::<Vec<_>>())
        });
        Self {
            title: title.into(),
            rows: rows.collect(),
            columns: columns.iter().map(|(name, ..)| *name).collect(),
        }
    }

    /// One table of those of several clusters, which have the same columns. The first column is the
    /// cluster.
    pub(crate) fn of_clusters<'a>(
        title: &str,
        tables: impl IntoIterator<Item = (&'a str, Self)>,
    ) -> Self {
        let mut all = Self {
            title: title.to_owned(),
            ..Self::default()
        };
        for (cluster, table) in tables {
            // A table without rows may lack columns.
            if all.rows.is_empty() {
                all.columns = table.columns;
                all.columns.insert(0, "Cluster");
            }
            all.rows.extend(table.rows.into_iter().map(|mut row| {
                row.cells.insert(0, cluster.to_owned());
                row
            }));
        }
        all
    }

    fn is_number(&self, column: usize) -> bool {
        self.columns[column].starts_with(' ')
    }

    /// Letters of the longest word in a column, at most those of a line.
    fn longest_word(&self, column: usize, with_name: bool) -> u16 {
        let cells = self.rows.iter().map(|row| row.cells[column].as_str());
        let name = with_name.then_some(self.columns[column]);
        let words = cells.chain(name).flat_map(str::split_whitespace);
        let longest = words.map(|word| word.chars().count()).max();
        longest
            .and_then(|letters| u16::try_from(letters).ok())
            .unwrap_or(1)
            .min(100)
    }

    fn names(&self) -> impl Iterator<Item = &'static str> {
        self.columns.iter().map(|name| name.trim_start())
    }
}

/// Unit of a share, which is shown in percent.
const SHARE: &str = " %";

/// Number of digits after the point, and the unit.
type Form = (usize, &'static str);

fn column(text: &'static str) -> (&'static str, String, Option<Form>) {
    let (name, field) = text.split_once('=').unwrap_or((text, text.trim_start()));
    let (field, form) = match field.split_once(':') {
        Some((field, form)) => (field, Some(form.split_at(1))),
        None => (field, None),
    };
    let form = form.map(|(digits, unit)| (digits.parse().unwrap_or(0), unit));
    (name, format!("/{field}"), form)
}

/// A value as text; an absent one is [`ABSENT`].
fn cell(value: &Value, form: Option<Form>) -> String {
    match (value, form) {
        (Value::String(text), _) => text.clone(),
        (Value::Bool(is_true), _) => if *is_true { "yes" } else { "no" }.to_owned(),
        (Value::Number(number), Some((digits, unit))) => {
            let factor = if unit == SHARE { 100.0 } else { 1.0 };
            let number = factor * number.as_f64().unwrap_or_default() + 0.0;
            format!("{number:.digits$}{unit}")
        }
        (Value::Number(number), None) => match number.as_i64() {
            Some(number) => number.to_string(),
            None => number.as_f64().unwrap_or_default().to_string(),
        },
        (Value::Array(values), _) if !values.is_empty() => {
            let texts: Vec<String> = values.iter().map(|value| cell(value, form)).collect();
            texts.join(", ")
        }
        _ => ABSENT.to_owned(),
    }
}

pub(crate) fn or_absent(text: Option<impl ToString>) -> String {
    text.map_or_else(|| ABSENT.to_owned(), |text| text.to_string())
}

pub(crate) fn print(document: &Document, args: &OutputArgs) -> anyhow::Result<Outcome> {
    let width = comfy_table::Table::new().width();
    print_text(render(document, args, width)?)
}

pub(crate) fn print_text(text: impl AsRef<[u8]>) -> anyhow::Result<Outcome> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.flush()?;
    Ok(Outcome::Done)
}

/// The document in its form; tables as text fit the width, that of the terminal.
fn render(document: &Document, args: &OutputArgs, width: Option<u16>) -> anyhow::Result<String> {
    Ok(match args.output {
        Format::Table => {
            let color = uses_color(args);
            text(document, |text, table| align(text, table, color, width))
        }
        Format::Md => text(document, markdown),
        Format::Csv => csv(document)?,
        Format::Json => format!("{:#}\n", document.data),
        Format::Yaml => serde_yaml_ng::to_string(&document.data)?,
        Format::Html => page(&document.title, &html! {}, &document.html()),
    })
}

fn uses_color(args: &OutputArgs) -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !args.no_color && !is_set("NO_COLOR") && !is_dumb
}

fn csv(document: &Document) -> anyhow::Result<String> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    if let Some(table) = document.tables.first() {
        let key = |name: &str| {
            name.to_lowercase()
                .replace(',', "")
                .replace(['-', ' '], "_")
        };
        let names = table.names().map(key);
        writer.write_record(names)?;
        // The sections of several clusters have a table of this title each.
        let same = document.tables.iter().filter(|it| it.title == table.title);
        for row in same.flat_map(|table| &table.rows) {
            writer.write_record(&row.cells)?;
        }
    }
    let bytes = writer.into_inner().context("cannot write CSV")?;
    Ok(String::from_utf8(bytes)?)
}

/// The first names, and the number of the others: `a, b and 3 more`.
pub(crate) fn first_names(names: &[String], most: usize) -> String {
    let (shown, others) = names.split_at(names.len().min(most));
    let shown = shown.join(", ");
    match others.len() {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// The tables in a form, one below the other, and the notes.
fn text(document: &Document, table: impl Fn(&mut String, &Table)) -> String {
    let mut text = String::new();
    for of in &document.tables {
        table(&mut text, of);
        text.push('\n');
    }
    for note in &document.notes {
        let _ = writeln!(text, "{note}");
    }
    text
}

/// Blanks between columns.
const GAP: u16 = 2;

/// Adds a table with aligned columns, whose cells wrap where it would be wider.
fn align(text: &mut String, table: &Table, color: bool, width: Option<u16>) {
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(table.names().map(str::to_uppercase))
        .force_no_tty();
    if let Some(width) = width {
        grid.set_width(width);
    }
    if color {
        grid.enforce_styling();
    }
    for row in &table.rows {
        let color = row.severity.and_then(Severity::color).filter(|_| color);
        grid.add_row(row.cells.iter().map(|cell| {
            let cell = Cell::new(printable(cell));
            color.map_or_else(|| cell.clone(), |color| cell.clone().fg(color))
        }));
    }
    // Words of names are divided where the table would be too wide, then those of cells.
    let words = [true, false].map(|with_name| {
        let columns = 0..table.columns.len();
        let words = columns.map(|it| GAP + table.longest_word(it, with_name));
        words.collect::<Vec<u16>>()
    });
    let fits = |words: &&Vec<u16>| width.is_some_and(|width| words.iter().sum::<u16>() <= width);
    let least = words.iter().find(fits);
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, GAP));
        if let Some(least) = least {
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least[index])));
        }
        if table.is_number(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let _ = writeln!(text, "{}", table.title);
    for line in grid.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// The text without control characters, which could change the terminal.
pub(crate) fn printable(cell: &str) -> String {
    cell.replace(char::is_control, "\u{fffd}")
}

fn markdown(text: &mut String, table: &Table) {
    let cell = |cell: &String| printable(cell).replace('|', "\\|").replace('<', "&lt;");
    let names: Vec<&str> = table.names().collect();
    let numbers = (0..names.len()).map(|column| table.is_number(column));
    let rules = numbers.map(|is_number| if is_number { "--:" } else { "---" });
    let rules = rules.collect::<Vec<_>>().join("|");
    let _ = writeln!(
        text,
        "### {}\n\n| {} |\n|{rules}|",
        table.title,
        names.join(" | ")
    );
    for row in &table.rows {
        let cells: Vec<String> = row.cells.iter().map(cell).collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}
