//! The rules in the sandbox's Prometheus, on a faster clock.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::{Prometheus, repository};
use sandbox::Sandbox;
use serde_json::Value;

use super::rules::{RULE_FILE, parse};

/// Time between two evaluations of the rules.
const EVALUATION_INTERVAL: &str = "1s";
/// Time for which the expression of an alert must hold, in place of minutes and hours.
const HOLD: &str = "2s";
/// A minute of an expression, in seconds.
const MINUTE: u32 = 6;

pub(crate) async fn watch_programs(sandbox: &Sandbox) -> Result<Prometheus> {
    let file = sandbox.prometheus_files().join("rules-plimsoll.yaml");
    fs::write(file, faster_rules()?.to_string())?;
    Prometheus::scrape_programs(sandbox).await
}

pub(crate) async fn firing(prometheus: &Prometheus) -> Result<BTreeSet<String>> {
    let data = prometheus.get("/api/v1/alerts").await?;
    let alerts = data["alerts"].as_array().context("alerts")?.iter();
    let firing = alerts.filter(|alert| alert["state"] == "firing");
    Ok(firing
        .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
        .collect())
}

/// The rules on a faster clock: alerts fire soon, a minute in an expression takes [`MINUTE`] seconds, and
/// limits in seconds are as much smaller. Nothing else is changed.
fn faster_rules() -> Result<Value> {
    let mut file = parse(&repository().join(RULE_FILE))?;
    for group in file["groups"].as_array_mut().context("groups")? {
        group["interval"] = EVALUATION_INTERVAL.into();
        for rule in group["rules"].as_array_mut().context("rules")? {
            rule["for"] = HOLD.into();
            let expression = rule["expr"].as_str().context("an expression")?;
            rule["expr"] = faster(expression).into();
        }
    }
    Ok(file)
}

fn faster(expression: &str) -> String {
    let mut text = replace_numbers(expression, "[", "m]", "s]", |minutes| minutes * MINUTE);
    for before in ["_seconds > ", "_seconds) > "] {
        text = replace_numbers(&text, before, "", "", |limit| limit * MINUTE / 60);
    }
    text
}

/// Replaces each number between two texts, and the second text.
fn replace_numbers(
    text: &str,
    before: &str,
    after: &str,
    new_after: &str,
    change: impl Fn(u32) -> u32,
) -> String {
    let mut parts = text.split(before);
    let mut changed = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        changed += before;
        match (number.parse().ok().map(&change), rest.strip_prefix(after)) {
            (Some(number), Some(rest)) => {
                changed.extend([&number.to_string(), new_after, rest]);
            }
            _ => changed += part,
        }
    }
    changed
}

#[test]
fn the_faster_clock_changes_times_only() -> Result<()> {
    for (expression, expected) in [
        ("rate(a[5m]) > 0", "rate(a[30s]) > 0"),
        ("last_over_time(a[1d]) > 5", "last_over_time(a[1d]) > 5"),
        ("a_seconds > 600", "a_seconds > 60"),
        ("min(a_seconds) > 300", "min(a_seconds) > 30"),
        ("a_seconds > 0", "a_seconds > 0"),
    ] {
        let found = faster(expression);
        ensure!(found == expected, "{expression}: {found}");
    }
    Ok(())
}
