//! Pictures of the dashboards' panels with the data of this run. Grafana itself does not run here, so a
//! page draws them from the same files: queries, places, units, thresholds and legends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::dashboards::{Panel, panels};
use e2e::{Browser, Prometheus};
use serde_json::{Value, json};

use crate::dashboards::RATE_INTERVAL;

/// The page, without its panels.
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

/// The data of a panel that the page needs.
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

/// A legend with the values of labels in place of `{{label}}`.
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
