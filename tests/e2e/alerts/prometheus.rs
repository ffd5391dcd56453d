//! The sandbox's Prometheus: it scrapes the programs, evaluates the rules on a faster clock, and answers
//! queries.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::SYSTEM;
use e2e::repository;
use kube::{Client, Config};
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::rules::{RULE_FILE, parse};

/// Time between two scrapes.
const SCRAPE_INTERVAL: &str = "2s";
/// Time between two evaluations of the rules.
const EVALUATION_INTERVAL: &str = "1s";
/// Time for which the expression of an alert must hold, in place of minutes and hours.
const HOLD: &str = "2s";
/// A minute of an expression, in seconds.
const MINUTE: u32 = 6;

/// HTTP API of Prometheus.
pub(crate) struct Prometheus {
    client: Client,
}

impl Prometheus {
    /// Lets the Prometheus of a sandbox scrape the programs and evaluate the rules.
    pub(crate) async fn watch_programs(sandbox: &Sandbox) -> Result<Self> {
        let folder = sandbox.prometheus_files();
        fs::write(
            folder.join("rules-plimsoll.yaml"),
            faster_rules()?.to_string(),
        )?;
        fs::write(
            folder.join("scrape-programs.yaml"),
            scrape(sandbox).to_string(),
        )?;
        let url = sandbox.prometheus_url().context("there is a Prometheus")?;
        let mut config = Config::new(url.parse()?);
        config.root_cert = Some(Vec::new());
        config.root_cert_file = Some(sandbox.authority());
        let client = Client::try_from(config)?;
        let reload = http::Request::post("/-/reload").body(Vec::new())?;
        client.request_text(reload).await.context("reload")?;
        Ok(Self { client })
    }

    async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        let response: Value = self
            .client
            .request(request)
            .await
            .with_context(|| path.to_owned())?;
        Ok(response["data"].clone())
    }

    /// The number of series that a query returns.
    pub(crate) async fn count(&self, query: &str) -> Result<usize> {
        let data = self
            .get(&format!("/api/v1/query?query={}", encode(query)))
            .await?;
        Ok(data["result"].as_array().map_or(0, Vec::len))
    }

    /// Names of all metrics.
    pub(crate) async fn names(&self) -> Result<BTreeSet<String>> {
        let names = self.get("/api/v1/label/__name__/values").await?;
        Ok(serde_json::from_value(names)?)
    }

    /// Names of the alerts that fire, and the labels of all.
    pub(crate) async fn firing(&self) -> Result<BTreeSet<String>> {
        let data = self.get("/api/v1/alerts").await?;
        let alerts = data["alerts"].as_array().context("alerts")?.iter();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        Ok(firing
            .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
            .collect())
    }
}

/// Scrapes each port `prometheus` of the suite's pods, at the loopback address of its process.
fn scrape(sandbox: &Sandbox) -> Value {
    let relabelings = json!([
        {"action": "keep", "source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": "prometheus"},
        {"action": "keep", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "Running"},
        {"source_labels": ["__meta_kubernetes_pod_ip", "__meta_kubernetes_pod_container_port_number"],
         "separator": ":", "regex": r"\d+\.(.+)", "replacement": "127.$1", "target_label": "__address__"},
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": ["__meta_kubernetes_pod_name"], "target_label": "pod"},
    ]);
    json!({"scrape_configs": [{
        "job_name": "programs",
        "scrape_interval": SCRAPE_INTERVAL,
        "scrape_timeout": SCRAPE_INTERVAL,
        // As the PodMonitor of the chart.
        "honor_labels": true,
        "kubernetes_sd_configs": [{
            "role": "pod", "kubeconfig_file": sandbox.kubeconfig(), "namespaces": {"names": [SYSTEM]},
        }],
        "relabel_configs": relabelings,
    }]})
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

fn encode(query: &str) -> String {
    query.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() {
            text.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
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
