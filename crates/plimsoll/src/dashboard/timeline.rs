//! Events and changes of conditions over time, a row per reason.

use jiff::Timestamp;
use maud::{Markup, html};

use crate::explain::Mark;
use crate::output::numbers::{ago, minute};

/// Shortest time of the axis, in seconds.
const LEAST_SPAN: i64 = 900;
/// Maximum number of rows; those with the latest marks are shown.
const MAX_ROWS: usize = 12;

pub(super) fn html(marks: &[Mark], now: Timestamp) -> Markup {
    html! { @if !marks.is_empty() { h2 { "Time line" } (lines(marks, now)) } }
}

/// The rows without a heading.
pub(super) fn lines(marks: &[Mark], now: Timestamp) -> Markup {
    // A single mark is not at the edge.
    let first = marks.iter().map(|mark| mark.time.as_second()).min();
    let first = first.unwrap_or(i64::MAX).min(now.as_second() - LEAST_SPAN);
    let first = Timestamp::from_second(first).unwrap_or(now);
    let before = |mark: &Mark| now.as_second() - mark.time.as_second();
    let place = |mark: &Mark| {
        let span = (now.as_second() - first.as_second()).max(1) as f64;
        let share = 1.0 - before(mark) as f64 / span;
        format!("{:.1}%", 100.0 * share.clamp(0.0, 1.0))
    };
    html! {
        @if !marks.is_empty() {
            p.note { (minute(first)) ", " (ago(now.as_second() - first.as_second())) ", until now" }
            @for (label, marks) in rows(marks) {
                p.row { (label) " × " (marks.len()) }
                svg width="100%" height="12" role="img" aria-label={ (marks.len()) " times " (label) } {
                    line.grid x2="100%" y1="6" y2="6" {}
                    @for mark in marks {
                        g class=(if mark.is_warning { "oom" } else { "usage" }) {
                            circle.mark cx=(place(mark)) cy="6" r="5" {
                                title { (minute(mark.time)) ", " (ago(before(mark))) ": " (mark.text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Labels with their marks, those with the latest mark first.
fn rows(marks: &[Mark]) -> Vec<(&str, Vec<&Mark>)> {
    let mut latest: Vec<&Mark> = marks.iter().collect();
    latest.sort_by_key(|mark| std::cmp::Reverse(mark.time));
    let mut rows: Vec<(&str, Vec<&Mark>)> = Vec::new();
    for mark in latest {
        match rows.iter().position(|(label, _)| *label == mark.label) {
            Some(row) => rows[row].1.push(mark),
            None if rows.len() < MAX_ROWS => rows.push((&mark.label, vec![mark])),
            None => {}
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(second: i64, label: &str, is_warning: bool) -> Mark {
        Mark {
            time: Timestamp::from_second(second).expect("a time"),
            label: label.to_owned(),
            text: "<b>".to_owned(),
            is_warning,
        }
    }

    #[test]
    fn marks_are_placed_by_time_in_rows_by_reason() {
        let now = Timestamp::from_second(1000).expect("a time");
        let marks = [
            mark(0, "EvictedPod", false),
            mark(500, "EvictedPod", false),
            mark(1000, "Applied: False", true),
        ];
        let html = html(&marks, now).into_string();
        for part in [
            "<circle class=\"mark\" cx=\"0.0%\" cy=\"6\"",
            "<circle class=\"mark\" cx=\"50.0%\" cy=\"6\"",
            "<g class=\"oom\"><circle class=\"mark\" cx=\"100.0%\"",
            "aria-label=\"2 times EvictedPod\"",
            "1970-01-01 00:00 UTC, 16 min ago, until now",
            "<title>1970-01-01 00:08 UTC, 8 min ago: &lt;b&gt;</title>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        let at = |label: &str| html.find(&format!(">{label} × ")).expect(label);
        assert!(at("Applied: False") < at("EvictedPod"));
        assert_eq!(super::html(&[], now).into_string(), "");
    }

    #[test]
    fn rows_are_bounded() {
        let marks: Vec<Mark> = (0..100)
            .map(|second| mark(second, &second.to_string(), false))
            .collect();
        let rows = rows(&marks);
        assert_eq!(rows.len(), MAX_ROWS);
        assert_eq!(rows[0].0, "99");
    }
}
