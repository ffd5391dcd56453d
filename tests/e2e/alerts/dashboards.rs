//! The panels of the dashboards of `deploy/dashboards`.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::dashboards::{Query, dashboards, queries, read};
use serde_json::{Value, json};

use super::run_promtool;

const DATA_SOURCE: &str = "${datasource}";

#[test]
fn every_panel_says_what_it_shows() -> Result<()> {
    let mut uids = BTreeSet::new();
    for path in dashboards()? {
        let dashboard = read(&path)?;
        let name = path.file_stem().context("a name")?.to_string_lossy();
        assert_eq!(dashboard["uid"], format!("plimsoll-{name}"));
        ensure!(uids.insert(dashboard["uid"].to_string()), "{name}");
        let variables = &dashboard["templating"]["list"];
        assert_eq!(variables[0]["name"], "datasource", "{name}");
        // One of several clusters in a store is selected by its label.
        assert_eq!(variables[1]["type"], "adhoc", "{name}");
        assert_eq!(variables[1]["datasource"]["uid"], DATA_SOURCE, "{name}");
        let mut ids = BTreeSet::new();
        for panel in dashboard["panels"].as_array().context("panels")? {
            let of_panel = format!("{name}: {panel}");
            ensure!(ids.insert(panel["id"].to_string()), "{of_panel}");
            ensure!(
                panel["title"].as_str().is_some_and(|it| !it.is_empty()),
                "{of_panel}"
            );
            if panel["type"] == "row" {
                continue;
            }
            ensure!(
                panel["description"]
                    .as_str()
                    .is_some_and(|it| !it.is_empty()),
                "{of_panel}"
            );
            ensure!(
                panel["fieldConfig"]["defaults"]["unit"].is_string(),
                "{of_panel}"
            );
            let targets = panel["targets"].as_array().context("targets")?;
            ensure!(!targets.is_empty(), "{of_panel}");
            for user in targets.iter().chain([panel]) {
                assert_eq!(user["datasource"]["uid"], DATA_SOURCE, "{of_panel}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn every_query_parses() -> Result<()> {
    let rules = queries("1m")?.into_iter().enumerate();
    let rules: Vec<Value> = rules
        .map(|(number, Query { panel, text, .. })| {
            json!({"record": format!("query:{number}"), "expr": text, "labels": {"panel": panel}})
        })
        .collect();
    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    let groups = json!({"groups": [{"name": "queries", "rules": rules}]});
    std::fs::write(file.path(), groups.to_string())?;
    let path = file.path().to_str().context("the path is text")?;
    run_promtool(&["check", "rules", "--lint=none", path])
        .await
        .map(drop)
}
