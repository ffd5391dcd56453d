//! Events and changes of conditions over time, a row per reason.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::explain::Mark;
use crate::output::escape;

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 250.0;
const RIGHT: f64 = 985.0;
const ROW: f64 = 22.0;
/// Maximum number of rows; those with the latest marks are shown.
const MAX_ROWS: usize = 12;
const MAX_LABEL: usize = 34;

pub(super) fn html(marks: &[Mark], now: Timestamp) -> String {
    let Some(first) = marks.iter().map(|mark| mark.time).min() else {
        return String::new();
    };
    let rows = rows(marks);
    let bottom = ROW * rows.len() as f64;
    let span = (now.as_second() - first.as_second()).max(1) as f64;
    let x = |time: Timestamp| {
        let share = (time.as_second() - first.as_second()) as f64 / span;
        LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)
    };
    let mut html = format!(
        "<h2>Time line</h2>\n<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Time line\">\
         <svg viewBox=\"0 0 {WIDTH} {:.0}\" role=\"img\" aria-label=\"{} events and changes of \
         conditions since {}; the tables have their texts\">\n",
        bottom + 30.0,
        marks.len(),
        minute(first),
    );
    for (index, (label, of_row)) in rows.iter().enumerate() {
        let y = ROW * (index as f64 + 0.5);
        let short: String = label.chars().take(MAX_LABEL).collect();
        let _ = writeln!(
            html,
            "<text x=\"0\" y=\"{:.1}\">{}</text><path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>",
            y + 4.0,
            escape(&short)
        );
        for mark in of_row {
            let class = if mark.is_warning { "oom" } else { "bar" };
            let title = format!("{}: {}", minute(mark.time), mark.text);
            let _ = writeln!(
                html,
                "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"5\"><title>{}</title></circle>",
                x(mark.time),
                escape(&title)
            );
        }
    }
    for (time, anchor) in [(first, "start"), (now, "end")] {
        let _ = writeln!(
            html,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            x(time),
            bottom + 18.0,
            minute(time)
        );
    }
    html + "</svg></div>\n"
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

fn minute(time: Timestamp) -> String {
    let time = time.to_zoned(TimeZone::UTC);
    time.strftime("%b %-d %H:%M UTC").to_string()
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
        let html = html(&marks, now);
        for part in [
            "<circle class=\"bar\" cx=\"250.0\" cy=\"33.0\"",
            "<circle class=\"bar\" cx=\"617.5\" cy=\"33.0\"",
            "<circle class=\"oom\" cx=\"985.0\" cy=\"11.0\"",
            "aria-label=\"3 events and changes of conditions since Jan 1 00:00 UTC",
            "<title>Jan 1 00:08 UTC: &lt;b&gt;</title>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert_eq!(super::html(&[], now), "");
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
