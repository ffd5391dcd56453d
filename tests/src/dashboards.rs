//! The dashboards of `deploy/dashboards`, and the queries of their panels.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::repository;

#[derive(Debug)]
pub struct Panel {
    pub dashboard: String,
    /// The panel as in the file.
    pub definition: Value,
    pub queries: Vec<Query>,
}

#[derive(Debug)]
pub struct Query {
    pub panel: String,
    pub text: String,
    /// Name of a series, with labels such as `{{instance}}`.
    pub legend: String,
}

pub fn dashboards() -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(repository().join("deploy/dashboards"))?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

pub fn read(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// All panels. Variables of Grafana in queries are replaced: the interval of rates, and others by all
/// values.
pub fn panels(rate_interval: &str) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    for path in dashboards()? {
        let dashboard = read(&path)?;
        let title = dashboard["title"].as_str().context("a title")?;
        let variables = dashboard["templating"]["list"].as_array();
        let variables = variables.context("variables")?;
        for panel in dashboard["panels"].as_array().context("panels")? {
            let mut queries = Vec::new();
            for target in panel["targets"].as_array().into_iter().flatten() {
                let mut text = target["expr"].as_str().context("a query")?.to_owned();
                text = text.replace("$__rate_interval", rate_interval);
                for variable in variables {
                    let name = variable["name"].as_str().context("a name")?;
                    text = text.replace(&format!("${name}"), ".*");
                }
                ensure!(!text.contains('$'), "{title}: {text}");
                queries.push(Query {
                    panel: format!("{title}: {}", panel["title"]),
                    text,
                    legend: target["legendFormat"]
                        .as_str()
                        .unwrap_or_default()
                        .to_owned(),
                });
            }
            panels.push(Panel {
                dashboard: title.to_owned(),
                definition: panel.clone(),
                queries,
            });
        }
    }
    Ok(panels)
}

pub fn queries(rate_interval: &str) -> Result<Vec<Query>> {
    let panels = panels(rate_interval)?.into_iter();
    let queries: Vec<Query> = panels.flat_map(|panel| panel.queries).collect();
    ensure!(!queries.is_empty(), "no queries");
    Ok(queries)
}
