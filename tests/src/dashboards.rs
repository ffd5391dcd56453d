//! The dashboards of `deploy/dashboards`, and the queries of their panels.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::repository;

/// A query of a panel.
#[derive(Debug)]
pub struct Query {
    /// Dashboard and panel.
    pub panel: String,
    /// The query.
    pub text: String,
}

/// The files of all dashboards.
pub fn dashboards() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(repository().join("deploy/dashboards"))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

/// A dashboard.
pub fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// The queries of all panels. Variables of Grafana are replaced: the interval of rates, and others by
/// all values.
pub fn queries(rate_interval: &str) -> Result<Vec<Query>> {
    let mut queries = Vec::new();
    for path in dashboards()? {
        let dashboard = read(&path)?;
        let title = dashboard["title"].as_str().context("a title")?.to_owned();
        for panel in dashboard["panels"].as_array().context("panels")? {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let mut text = target["expr"].as_str().context("a query")?.to_owned();
                text = text.replace("$__rate_interval", rate_interval);
                for variable in dashboard["templating"]["list"]
                    .as_array()
                    .context("variables")?
                {
                    let name = variable["name"].as_str().context("a name")?;
                    text = text.replace(&format!("${name}"), ".*");
                }
                ensure!(!text.contains('$'), "{title}: {text}");
                let panel = format!("{title}: {}", panel["title"]);
                queries.push(Query { panel, text });
            }
        }
    }
    ensure!(!queries.is_empty(), "no queries");
    Ok(queries)
}
