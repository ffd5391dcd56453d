//! The queries of the dashboards, over what the programs did in this demonstration, and pictures of
//! their panels. Rules of prometheus-adapter and another provider of external metrics, which no step
//! needs, are used here. Grafana itself does not run here, so a page draws the panels from the same
//! files: queries, places, units, thresholds and legends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::dashboards::{Panel, dashboards, panels, queries};
use e2e::deployment::{Program, SYSTEM, all_ready, prometheus_variables, replicas, system};
use e2e::{Authority, Browser, Prometheus, apply, create, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use sandbox::Sandbox;
use serde_json::{Value, json};

/// Interval of rates: as long as between two updates of a panel in Grafana.
pub(crate) const RATE_INTERVAL: &str = "1m";
/// The other provider, one more adapter.
const OTHER: Program<'_> = Program {
    labels: "app.kubernetes.io/name=other-adapter",
    ..e2e::deployment::ADAPTER
};
/// A metric of a rule, and one that is forwarded to the other provider, which has no value of it.
const METRICS: [&str; 2] = ["sized_objects", "parcel_depth"];

/// Starts the other provider, and forwards to it what the adapter does not have.
pub(crate) async fn forward_metrics(sandbox: &Sandbox, client: &Client) -> Result<()> {
    let authority = Authority::new("other")?;
    let certificate = authority.issue(&format!("other-adapter.{SYSTEM}.svc"))?;
    let secrets: Api<Secret> = system(client).typed();
    create(&secrets, certificate.secret("other-adapter-tls")).await?;
    prometheus_variables(sandbox, &["ADAPTER"]).await?;
    apply(sandbox, "tests/e2e/adapter/other.yaml").await?;
    all_ready(client, OTHER.labels).await?;

    let other = replicas(client, OTHER).await?;
    let address = other.first().context("it has no replica")?.address;
    let upstream = json!({
        // A sandbox has no DNS names.
        "name": "other", "url": format!("https://{address}:6443"),
        "serverName": format!("other-adapter.{SYSTEM}.svc"), "caFile": "ca.crt",
    });
    let routes = json!({"upstreams": [upstream], "defaultUpstream": "other"}).to_string();
    let change = json!({"data": {"routes.yaml": routes, "ca.crt": authority.pem()}});
    system(client)
        .patch::<ConfigMap>("plimsoll-metric-routes", change)
        .await?;
    Ok(())
}

/// Waits until each query has returned data; returns a sentence.
pub(crate) async fn check(client: &Client, prometheus: &Prometheus) -> Result<String> {
    let mut pending = queries(RATE_INTERVAL)?;
    let all = pending.len();
    eventually("all panels have data", async || {
        for metric in METRICS {
            request_metric(client, metric).await?;
        }
        let mut left = Vec::new();
        for query in pending.drain(..) {
            if prometheus.count(&query.text).await? == 0 {
                left.push(query);
            }
        }
        pending = left;
        ensure!(pending.is_empty(), "no data: {pending:#?}");
        Ok(())
    })
    .await?;
    Ok(format!(
        "{all} queries of the {} Grafana dashboards in deploy/dashboards; each returns data of this run",
        dashboards()?.len()
    ))
}

/// Requests an external metric as an HPA does; the value does not matter.
async fn request_metric(client: &Client, name: &str) -> Result<()> {
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{SYSTEM}/{name}");
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).with_context(|| name.to_owned()),
    }
}

const PAGE: &str = include_str!("panels.html");
/// Place of the panels in the page.
const PANELS: &str = "/* panels */ []";
/// Time that a picture shows, and time between two of its points.
const RANGE: (Duration, Duration) = (Duration::from_secs(150), Duration::from_secs(2));
/// Width in pixels, and height of a unit of Grafana's grid.
const WIDTH: u32 = 1400;
const UNIT_HEIGHT: u64 = 34;

/// Writes one picture per dashboard into a folder, such as `panels-fleet.png`.
pub(crate) async fn write(browser: &Browser, prometheus: &Prometheus, folder: &Path) -> Result<()> {
    let mut dashboards: Vec<(String, Vec<Value>)> = Vec::new();
    for panel in panels(RATE_INTERVAL)? {
        let drawn = with_data(prometheus, &panel).await?;
        match dashboards.last_mut() {
            Some((title, drawn_before)) if *title == panel.dashboard => drawn_before.push(drawn),
            _ => dashboards.push((panel.dashboard, vec![drawn])),
        }
    }
    let pages = tempfile::tempdir()?;
    for (title, panels) in dashboards {
        let ends = panels.iter().filter_map(|panel| {
            let place = &panel["place"];
            Some(place["y"].as_u64()? + place["h"].as_u64()?)
        });
        let height = ends.max().context("a panel")? * UNIT_HEIGHT + 60;
        // A name of a workload must not end the script.
        let data = json!({"title": title, "panels": panels}).to_string();
        let page = PAGE.replace(PANELS, &data.replace('<', "\\u003c"));
        let name = title.rsplit('/').next().unwrap_or_default().trim();
        let name = name.to_lowercase().replace(' ', "-");
        let file = pages.path().join("panels.html");
        fs::write(&file, page)?;
        let url = format!("file://{}", file.display());
        let picture = folder.join(format!("panels-{name}.png"));
        let size = (WIDTH, u32::try_from(height)?);
        browser.screenshot(&url, size, &picture).await?;
    }
    Ok(())
}

async fn with_data(prometheus: &Prometheus, panel: &Panel) -> Result<Value> {
    let mut series = Vec::new();
    for query in &panel.queries {
        for one in prometheus.range(&query.text, RANGE.0, RANGE.1).await? {
            series.push(json!({
                "name": named(&query.legend, &one["metric"]),
                "labels": one["metric"],
                "points": one["values"],
            }));
        }
    }
    let Panel { definition, .. } = panel;
    Ok(json!({
        "title": definition["title"],
        "type": definition["type"],
        "place": definition["gridPos"],
        "defaults": definition["fieldConfig"]["defaults"],
        "series": series,
    }))
}

fn named(legend: &str, labels: &Value) -> String {
    let mut parts = legend.split("{{");
    let mut name = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (label, rest) = part.split_once("}}").unwrap_or((part, ""));
        name += labels[label.trim()].as_str().unwrap_or_default();
        name += rest;
    }
    name
}
