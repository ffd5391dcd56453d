//! Alerting rules and dashboards of the chart: those of the repository, unchanged.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::dashboards::dashboards;
use e2e::repository;
use serde_json::Value;

use super::rendered;
use e2e::deployment::SYSTEM;
use e2e::helm::Helm;

const PREFIX: &str = "plimsoll-dashboard-";

#[tokio::test]
async fn the_rules_of_the_chart_are_those_of_the_rule_file() -> Result<()> {
    let objects = rendered(&["metrics.prometheusRule.enabled=true"]).await?;
    let rule = &objects[&format!("\"PrometheusRule\" \"{SYSTEM}\" \"plimsoll\"")];
    let text = std::fs::read_to_string(repository().join("deploy/alerts/plimsoll.yaml"))?;
    let file: Value = serde_yaml_ng::from_str(&text)?;
    assert_eq!(rule["spec"], file);
    Ok(())
}

#[tokio::test]
async fn alerts_keep_clusters_apart_by_the_label_of_the_values() -> Result<()> {
    let helm = Helm::find().await?;
    let values = [
        "metrics.prometheusRule.enabled=true",
        "metrics.prometheusRule.clusterLabel=k8s_cluster",
    ];
    let rendered = helm.template(&values).await?;
    ensure!(!rendered.contains("(cluster, "), "{rendered}");
    let leader = "sum by (k8s_cluster, namespace, name) (leader_election_master_status";
    ensure!(rendered.contains(leader), "{rendered}");
    Ok(())
}

#[tokio::test]
async fn the_dashboards_of_the_chart_are_those_of_the_repository() -> Result<()> {
    let values = [
        "metrics.grafanaDashboards.enabled=true",
        "metrics.grafanaDashboards.folder=Scaling",
    ];
    let objects = rendered(&values).await?;
    let mut found = BTreeSet::new();
    for map in objects.values() {
        let metadata = &map["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        let Some(name) = name.strip_prefix(PREFIX) else {
            continue;
        };
        assert_eq!(metadata["labels"]["grafana_dashboard"], "1");
        assert_eq!(metadata["annotations"]["grafana_folder"], "Scaling");
        let file = format!("{name}.json");
        let text = map["data"][&file].as_str().context("a dashboard")?;
        let path = repository().join("deploy/dashboards").join(&file);
        ensure!(text == std::fs::read_to_string(path)?, "{file} differs");
        found.insert(file);
    }
    let files = dashboards()?.into_iter();
    let names = files.filter_map(|file| Some(file.file_name()?.to_str()?.to_owned()));
    assert_eq!(found, names.collect());
    Ok(())
}
