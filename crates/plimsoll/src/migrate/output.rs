//! The forms of a migration: a table of its objects, its steps as a commented script and as JSON.

use std::fmt::Write as _;

use serde_json::json;

use super::plan::{Migration, Verdict};
use crate::output::{Document, Table, printable};
use crate::severity::Severity;

/// Longest line of a comment, in characters.
const WIDTH: usize = 100;

/// The objects of a migration, with those to be solved first at the top.
pub(crate) fn check(product: &str, migration: &Migration, unread: &[String]) -> Document {
    let mut items: Vec<_> = migration.items.iter().collect();
    items.sort_by_key(|item| std::cmp::Reverse(item.verdict));
    let mut table = Table::of(
        format!("Objects of {product}"),
        "object|verdict|reason",
        &items,
    );
    for (row, item) in table.rows.iter_mut().zip(&items) {
        row.severity = Some(match item.verdict {
            Verdict::Kept | Verdict::Changed => Severity::Ok,
            Verdict::Manual => Severity::Warning,
            Verdict::Blocked => Severity::Critical,
        });
    }
    let mut notes = migration.notes.clone();
    notes.extend(unread.iter().map(|reason| format!("Not shown: {reason}.")));
    notes.push("--plan prints the steps.".to_owned());
    Document {
        title: format!("From {product}"),
        tables: vec![table],
        data: json!({"product": product, "objects": items, "notes": notes}),
        notes,
    }
}

/// The steps as a document of a form without tables.
pub(crate) fn plan(product: &str, migration: &Migration) -> Document {
    Document {
        title: format!("Plan from {product}"),
        tables: Vec::new(),
        notes: migration.notes.clone(),
        data: json!({"product": product, "steps": migration.steps, "notes": migration.notes}),
    }
}

pub(crate) fn script(product: &str, migration: &Migration) -> String {
    let mut text = String::new();
    comment(
        &mut text,
        "",
        &format!("From {product}. Run it step by step, and look at the result of each."),
    );
    for note in &migration.notes {
        comment(&mut text, "", note);
    }
    for (index, step) in migration.steps.iter().enumerate() {
        text.push('\n');
        comment(&mut text, "", &format!("{}. {}", index + 1, step.title));
        comment(&mut text, "   ", &step.reason);
        for command in &step.commands {
            let _ = writeln!(text, "{command}");
        }
        for command in &step.undo {
            for (index, line) in command.lines().enumerate() {
                let lead = if index == 0 { "Undo: " } else { "      " };
                let _ = writeln!(text, "#    {lead}{}", printable(line));
            }
        }
    }
    text
}

/// Adds a comment, wrapped at spaces.
fn comment(text: &mut String, indent: &str, sentence: &str) {
    let sentence = printable(sentence);
    let mut line = String::new();
    for word in sentence.split_whitespace() {
        if !line.is_empty() && line.chars().count() + word.chars().count() >= WIDTH - indent.len() {
            let _ = writeln!(text, "# {indent}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        let _ = writeln!(text, "# {indent}{line}");
    }
}
