//! Findings as text and JSON.

use std::fmt::Write as _;

use serde_json::json;

use super::Form;
use super::finding::{Finding, Status};
use crate::output::printable;

pub(super) fn render(findings: &[Finding], form: Form) -> String {
    match form {
        Form::Table => table(findings),
        Form::Short => short(findings),
        Form::Json => {
            let [errors, warnings, skipped] = counts(findings);
            let document = json!({
                "errors": errors, "warnings": warnings, "skipped": skipped, "checks": findings,
            });
            format!("{document:#}\n")
        }
    }
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Ok => "√",
        Status::Skipped => "-",
        Status::Warning => "‼",
        Status::Error => "×",
    }
}

fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    let mut category = "";
    for finding in findings {
        if finding.category != category {
            category = finding.category;
            let begin = if text.is_empty() { "" } else { "\n" };
            let _ = writeln!(text, "{begin}{category}\n{}", "-".repeat(category.len()));
        }
        let line = format!("{} {}", mark(finding.status), finding.title);
        let _ = match (finding.status, finding.message.is_empty()) {
            (Status::Ok | Status::Skipped, false) => {
                writeln!(text, "{line} ({})", printable(&finding.message))
            }
            (Status::Ok | Status::Skipped, true) => writeln!(text, "{line}"),
            (Status::Warning | Status::Error, _) => writeln!(
                text,
                "{line}\n    {}\n    {}",
                printable(&finding.message),
                finding.hint
            ),
        };
    }
    let _ = writeln!(text, "\n{}", summary(findings));
    text
}

fn short(findings: &[Finding]) -> String {
    let is_shown = |finding: &&Finding| finding.status >= Status::Warning;
    let mut text = String::new();
    for finding in findings.iter().filter(is_shown) {
        let message = printable(&finding.message);
        let _ = writeln!(text, "{} {}: {message}", mark(finding.status), finding.id);
    }
    text + &summary(findings) + "\n"
}

fn summary(findings: &[Finding]) -> String {
    let [errors, warnings, skipped] = counts(findings);
    let total = findings.len();
    format!("{total} checks: {errors} errors, {warnings} warnings, {skipped} skipped")
}

fn counts(findings: &[Finding]) -> [usize; 3] {
    [Status::Error, Status::Warning, Status::Skipped]
        .map(|status| findings.iter().filter(|one| one.status == status).count())
}

#[cfg(test)]
mod tests {
    use super::super::finding::{Findings, error, skip, warn};
    use super::*;

    fn findings() -> Vec<Finding> {
        let mut findings = Findings {
            category: "metrics",
            list: Vec::new(),
        };
        findings.add("a", "is there", Ok(String::new()));
        findings.add("b", "is served", Ok("by\u{1b}c".to_owned()));
        findings.add("d", "is read", skip("no right"));
        findings.add("e", "is one", warn("there are two", "Remove one"));
        findings.add("f", "runs", error("it is gone", "Start it"));
        findings.list
    }

    fn check(form: Form, expected: &str) {
        assert_eq!(render(&findings(), form), expected);
    }

    #[test]
    fn failures_have_a_message_and_a_hint() {
        check(
            Form::Table,
            "metrics\n-------\n√ is there\n√ is served (by\u{fffd}c)\n- is read (no right)\n\
             ‼ is one\n    there are two\n    Remove one\n× runs\n    it is gone\n    Start it\n\n\
             5 checks: 1 errors, 1 warnings, 1 skipped\n",
        );
        check(
            Form::Short,
            "‼ e: there are two\n× f: it is gone\n5 checks: 1 errors, 1 warnings, 1 skipped\n",
        );
    }

    #[test]
    fn json_has_stable_fields() {
        let json: serde_json::Value =
            serde_json::from_str(&render(&findings(), Form::Json)).expect("JSON");
        assert_eq!(json["errors"], 1);
        assert_eq!(
            json["checks"][4],
            json!({"category": "metrics", "id": "f", "title": "runs", "status": "error",
                   "message": "it is gone", "hint": "Start it"})
        );
    }
}
