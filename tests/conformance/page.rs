//! The page of the documentation with the results of whole runs: a section per kind of run.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use e2e::repository;
use k8s_openapi::jiff::Timestamp;

use crate::report::Report;

const PAGE: &str = "docs/conformance.md";

/// Replaces the section with this heading, or adds it.
pub(crate) fn write(title: &str, section: &str) -> Result<()> {
    let path = repository().join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| format!("read {PAGE}"))?;
    let page = with_section(&page, title, section);
    fs::write(&path, page).with_context(|| format!("write {PAGE}"))
}

/// The section of a run against this version of Kubernetes. `specs` says where the specs come from.
pub(crate) fn section(kubernetes: &str, specs: &str, report: &mut Report) -> String {
    let date = Timestamp::now().strftime("%Y-%m-%d").to_string();
    let (passed, ran) = report.sum();
    let mut lines = vec![
        format!(
            "{passed} of {ran} specs passed on {date}, on Kubernetes {kubernetes}; the specs are {specs}."
        ),
        String::new(),
        "| suite | specs | passed | time |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for counts in report.sorted() {
        let (suite, seconds) = (&counts.suite, counts.time.as_secs());
        lines.push(format!(
            "| {suite} | {} | {} | {seconds} s |",
            counts.ran, counts.passed
        ));
    }
    let others = report.sorted().iter().flat_map(|counts| &counts.others);
    let others: Vec<_> = others.map(|name| format!("* {name}")).collect();
    if !others.is_empty() {
        lines.extend([String::new(), "Did not pass:".to_owned(), String::new()]);
        lines.extend(others);
    }
    lines.join("\n")
}

/// The commit of a checkout, as the source of the specs.
pub(crate) fn commit(checkout: &Path) -> String {
    let git = Command::new("git")
        .arg("-C")
        .arg(checkout)
        .args(["log", "-1", "--format=%h of %cs", "--", "."])
        .output();
    let found = git.ok().filter(|output| output.status.success());
    let found = found.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    match found.filter(|text| !text.is_empty()) {
        Some(commit) => format!("those of commit {commit}"),
        None => "of a folder without history".to_owned(),
    }
}

/// A page with this section under this heading. All others stay, in the order of their headings.
fn with_section(page: &str, title: &str, section: &str) -> String {
    let mut parts = page.split("\n## ");
    let begin = parts.next().unwrap_or_default().trim_end();
    let mut sections: Vec<_> = parts
        .filter_map(|part| part.split_once('\n'))
        .filter(|(other, _)| *other != title)
        .collect();
    sections.push((title, section));
    sections.sort_unstable();
    let sections = sections
        .into_iter()
        .map(|(title, text)| format!("\n## {title}\n\n{}\n", text.trim()));
    format!("{begin}\n{}", sections.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_replaces_the_one_of_its_heading() {
        let page = "# Page\n\nWords.\n";
        let first = with_section(page, "b", "1 of 2");
        assert_eq!(first, "# Page\n\nWords.\n\n## b\n\n1 of 2\n");
        let both = with_section(&first, "a", "x");
        assert_eq!(both, "# Page\n\nWords.\n\n## a\n\nx\n\n## b\n\n1 of 2\n");
        let again = with_section(&both, "b", "2 of 2");
        assert_eq!(again, both.replace("1 of 2", "2 of 2"));
    }
}
