//! The sandbox's Prometheus as a user has it: it scrapes the programs of the suite and answers queries.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Config};
use sandbox::Sandbox;
use serde_json::{Value, json};

use crate::deployment::SYSTEM;
use crate::get_json;

/// Time between two scrapes.
const SCRAPE_INTERVAL: &str = "2s";

#[derive(Clone)]
pub struct Prometheus {
    client: Client,
}

impl Prometheus {
    /// Lets the Prometheus of a sandbox scrape the programs, and read rules that are in its folder.
    pub async fn scrape_programs(sandbox: &Sandbox) -> Result<Self> {
        let file = sandbox.prometheus_files().join("scrape-programs.yaml");
        fs::write(&file, scrape(sandbox).to_string())
            .with_context(|| file.display().to_string())?;
        let client = client(sandbox)?;
        let reload = http::Request::post("/-/reload").body(Vec::new())?;
        client.request_text(reload).await.context("reload")?;
        Ok(Self { client })
    }

    /// The data of the answer to a GET request.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(get_json(&self.client, path).await?["data"].take())
    }

    /// The number of series that a query returns.
    pub async fn count(&self, query: &str) -> Result<usize> {
        let data = self
            .get(&format!("/api/v1/query?query={}", encode(query)))
            .await?;
        Ok(data["result"].as_array().map_or(0, Vec::len))
    }

    /// The series that a query returns for each step of a time, until now.
    pub async fn range(&self, query: &str, last: Duration, step: Duration) -> Result<Vec<Value>> {
        let now = Timestamp::now();
        let path = format!(
            "/api/v1/query_range?query={}&start={}&end={}&step={}",
            encode(query),
            (now - last).as_second(),
            now.as_second(),
            step.as_secs()
        );
        let data = self.get(&path).await?;
        let series = data["result"].as_array();
        Ok(series.cloned().unwrap_or_default())
    }

    pub async fn names(&self) -> Result<BTreeSet<String>> {
        let names = self.get("/api/v1/label/__name__/values").await?;
        Ok(serde_json::from_value(names)?)
    }
}

pub(crate) fn client(sandbox: &Sandbox) -> Result<Client> {
    let url = sandbox.prometheus_url().context("there is a Prometheus")?;
    let mut config = Config::new(url.parse()?);
    config.root_cert = Some(Vec::new());
    config.root_cert_file = Some(sandbox.authority());
    Ok(Client::try_from(config)?)
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
