//! Findings as text and JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::Form;
use super::finding::{Finding, Status};
use crate::ci::{self, CiFinding, CiFormat, Level};
use crate::cluster::Answers;
use crate::output::printable;

pub(super) fn render(answers: &Answers<Vec<Finding>>, form: Form) -> String {
    match form {
        Form::Table => sections(answers, table),
        Form::Short => sections(answers, short),
        Form::Json => format!("{:#}\n", data(answers)),
        Form::Junit => ci::render("plimsoll check", &ci_findings(answers), CiFormat::Junit),
        Form::Sarif => ci::render("plimsoll check", &ci_findings(answers), CiFormat::Sarif),
    }
}

/// A section for each cluster, and their sum.
fn sections(answers: &Answers<Vec<Finding>>, section: fn(&[Finding]) -> String) -> String {
    if !answers.are_named {
        return answers.found.iter().map(|it| section(&it.1)).collect();
    }
    let mut text = String::new();
    for (cluster, findings) in &answers.found {
        let title = format!("cluster {}", printable(cluster));
        let line = "=".repeat(title.chars().count());
        let _ = writeln!(text, "{title}\n{line}\n\n{}", section(findings));
    }
    let found = answers.found.len();
    let asked = found + answers.failed.len();
    let sum = summary(answers.found.iter().flat_map(|it| &it.1));
    text + &format!("{found} of {asked} clusters, {sum}\n")
}

fn data(answers: &Answers<Vec<Finding>>) -> Value {
    let object = |findings: &[Finding]| {
        let [_, skipped, warnings, errors] = counts(findings);
        json!({"errors": errors, "warnings": warnings, "skipped": skipped, "checks": findings})
    };
    let found = answers.found.iter().map(|(cluster, findings)| {
        let mut data = object(findings);
        if answers.are_named {
            data["cluster"] = json!(cluster);
        }
        data
    });
    let mut clusters: Vec<Value> = found.collect();
    if !answers.are_named {
        return clusters.pop().unwrap_or_default();
    }
    let [_, skipped, warnings, errors] = counts(answers.found.iter().flat_map(|it| &it.1));
    let mut data = json!({
        "errors": errors, "warnings": warnings, "skipped": skipped, "clusters": clusters,
    });
    answers.add_left_out(&mut data);
    data
}

fn ci_findings(answers: &Answers<Vec<Finding>>) -> Vec<CiFinding> {
    let finding = |cluster: &str, finding: &Finding| {
        let category = finding.category;
        let (level, help) = match finding.status {
            Status::Ok => (Level::Passed, ""),
            Status::Skipped => (Level::Skipped, ""),
            Status::Warning => (Level::Warning, finding.hint.as_str()),
            Status::Error => (Level::Error, finding.hint.as_str()),
        };
        CiFinding {
            case: finding.id.clone(),
            rule: finding.id.clone(),
            description: finding.title.clone(),
            help: help.to_owned(),
            subject: if cluster.is_empty() {
                category.to_owned()
            } else {
                format!("{cluster}/{category}")
            },
            level,
            message: finding.message.clone(),
        }
    };
    let found = answers.found.iter();
    let found = found.flat_map(|(cluster, list)| list.iter().map(move |it| finding(cluster, it)));
    found.collect()
}

fn mark(status: Status) -> &'static str {
    match status {
        Status::Ok => "√",
        Status::Skipped => "-",
        Status::Warning => "‼",
        Status::Error => "×",
    }
}

pub(super) fn table(findings: &[Finding]) -> String {
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

fn summary<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> String {
    let counts @ [_, skipped, warnings, errors] = counts(findings);
    let total: usize = counts.iter().sum();
    format!("{total} checks: {errors} errors, {warnings} warnings, {skipped} skipped")
}

/// Numbers of findings by their status, in its order.
fn counts<'a>(findings: impl IntoIterator<Item = &'a Finding>) -> [usize; 4] {
    let mut counts = [0; 4];
    for finding in findings {
        counts[finding.status as usize] += 1;
    }
    counts
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

    fn answers(clusters: &[&str], failed: &[&str]) -> Answers<Vec<Finding>> {
        let found = clusters.iter();
        let failed = failed.iter();
        Answers {
            are_named: clusters != [""],
            found: found.map(|name| ((*name).to_owned(), findings())).collect(),
            failed: failed
                .map(|name| ((*name).to_owned(), anyhow::anyhow!("no route")))
                .collect(),
        }
    }

    fn check(form: Form, expected: &str) {
        assert_eq!(render(&answers(&[""], &[]), form), expected);
    }

    fn json(answers: &Answers<Vec<Finding>>) -> Value {
        serde_json::from_str(&render(answers, Form::Json)).expect("JSON")
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
        let json = json(&answers(&[""], &[]));
        assert_eq!(json["errors"], 1);
        assert_eq!(
            json["checks"][4],
            json!({"category": "metrics", "id": "f", "title": "runs", "status": "error",
                   "message": "it is gone", "hint": "Start it"})
        );
    }
    #[test]
    fn several_clusters_have_a_section_each_and_a_sum() {
        let answers = answers(&["a", "b"], &["c"]);
        let section =
            "‼ e: there are two\n× f: it is gone\n5 checks: 1 errors, 1 warnings, 1 skipped\n";
        let expected = format!(
            "cluster a\n=========\n\n{section}\ncluster b\n=========\n\n{section}\n\
             2 of 3 clusters, 10 checks: 2 errors, 2 warnings, 2 skipped\n"
        );
        assert_eq!(render(&answers, Form::Short), expected);
        let json = json(&answers);
        assert_eq!(json["errors"], 2);
        assert_eq!(json["clusters"][1]["cluster"], "b");
        assert_eq!(json["clusters"][1]["checks"][4]["id"], "f");
        assert_eq!(
            json["leftOut"],
            json!([{"cluster": "c", "error": "no route"}])
        );
        let junit = render(&answers, Form::Junit);
        let case = "<testcase classname=\"b/metrics\" name=\"f\"><failure type=\"error\" \
                    message=\"it is gone\">Start it</failure></testcase>";
        assert!(junit.contains(case), "{junit}");
        let sarif = render(&answers, Form::Sarif);
        let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
        let results = sarif["runs"][0]["results"].as_array().expect("results");
        let rules: Vec<&Value> = results.iter().map(|result| &result["ruleId"]).collect();
        assert_eq!(rules, ["e", "f", "e", "f"]);
    }
}
