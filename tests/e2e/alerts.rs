//! The alerting rules of `deploy/alerts`.

mod cluster;
mod dashboards;
mod every_alert;
mod faults;
mod program_faults;
mod prometheus;
mod rules;
mod slow_readers;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use e2e::{promtool, repository};
use serde_json::Value;
use tokio::process::Command;

use rules::{Rule, parse, rules};

const RUNBOOKS: &str = "docs/alerts.md";
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

fn folder() -> PathBuf {
    repository().join("deploy/alerts")
}

async fn run_promtool(arguments: &[&str]) -> Result<String> {
    let output = Command::new(promtool().await?)
        .args(arguments)
        .current_dir(folder())
        .stdin(Stdio::null())
        .output()
        .await?;
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(
        output.status.success(),
        "promtool {arguments:?}: {}",
        text.concat()
    );
    Ok(text.concat())
}

#[tokio::test]
async fn promtool_finds_no_fault_and_all_unit_tests_pass() -> Result<()> {
    run_promtool(&[
        "check",
        "rules",
        "--lint=all",
        "--lint-fatal",
        "plimsoll.yaml",
    ])
    .await?;
    run_promtool(&["test", "rules", "tests.yaml"]).await?;
    Ok(())
}

/// The names of alerts with a unit test in which they fire, and with one in which they do not.
fn tested() -> Result<[BTreeSet<String>; 2]> {
    let tests = parse(&folder().join("tests.yaml"))?;
    let mut tested = [BTreeSet::new(), BTreeSet::new()];
    let tests = tests["tests"].as_array().context("tests")?;
    for case in tests
        .iter()
        .flat_map(|test| test["alert_rule_test"].as_array().into_iter().flatten())
    {
        let name = case["alertname"].as_str().context("a name")?;
        let expected = case["exp_alerts"].as_array().context("expected alerts")?;
        tested[usize::from(expected.is_empty())].insert(name.to_owned());
    }
    Ok(tested)
}

#[test]
fn every_aggregation_keeps_clusters_apart() -> Result<()> {
    for Rule {
        alert, expression, ..
    } in rules()?
    {
        for grouping in [" by (", " on ("] {
            for labels in expression.split(grouping).skip(1) {
                ensure!(labels.starts_with("cluster, "), "{alert}: {expression}");
            }
        }
    }
    Ok(())
}

#[test]
fn every_alert_has_both_cases() -> Result<()> {
    let names: BTreeSet<String> = rules()?.into_iter().map(|rule| rule.alert).collect();
    ensure!(!names.is_empty(), "there are no rules");
    let [firing, quiet] = tested()?;
    assert_eq!(firing, names, "each has a case in which it fires");
    assert_eq!(quiet, names, "each has a case in which it does not fire");
    Ok(())
}

#[test]
fn every_alert_has_a_runbook() -> Result<()> {
    let text = std::fs::read_to_string(repository().join(RUNBOOKS))?;
    let sections: BTreeSet<String> = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix("### ")?.to_owned()))
        .collect();
    let mut names = BTreeSet::new();
    for Rule {
        alert,
        annotations,
        severity,
        ..
    } in rules()?
    {
        let url = annotations["runbook_url"].as_str().unwrap_or_default();
        let ending = format!("{RUNBOOKS}#{}", alert.to_lowercase());
        ensure!(url.ends_with(&ending), "{alert}: {url}");
        for annotation in ["summary", "description"] {
            ensure!(
                annotations[annotation] != Value::Null,
                "{alert} has no {annotation}"
            );
        }
        ensure!(
            SEVERITIES.contains(&severity.as_str()),
            "{alert}: {severity}"
        );
        names.insert(alert);
    }
    assert_eq!(sections, names);
    for part in ["Meaning", "Effect", "Cause", "Remedy"] {
        let count = text.matches(&format!("* **{part}:** ")).count();
        assert_eq!(count, names.len(), "{part}");
    }
    Ok(())
}
