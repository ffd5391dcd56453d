//! The leader's metrics about recommendations and their quality, which a standby does not export.

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{RECOMMENDER, leader, replicas, scrape};
use e2e::eventually;
use serde_json::json;

use super::{CPU_OF_240M, shared_room};

const TARGET: &str =
    "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_target";

fn value(text: &str, name: &str, labels: &[&str]) -> Option<f64> {
    let mut series = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")));
    let line = series.find(|line| labels.iter().all(|label| line.contains(label)))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn the_leader_shows_recommendations_and_how_good_they_are() -> Result<()> {
    let fixture = shared_room().await?;
    let initial = json!({"updatePolicy": {"updateMode": "Initial"}});
    fixture.autoscale_with("shown", "web", initial).await?;
    fixture.targets("shown", "cpu", CPU_OF_240M).await?;
    let namespace = format!("namespace=\"{}\"", fixture.namespace);
    let of_object = [
        namespace.as_str(),
        "verticalpodautoscaler=\"shown\"",
        "target_kind=\"Deployment\"",
    ];
    let client = &fixture.client;
    eventually("the leader shows both", async || {
        let text = scrape(&leader(client, RECOMMENDER).await?).await?;
        let of_cpu = [&of_object[..], &["container=\"app\"", "unit=\"core\""]].concat();
        let cpu = value(&text, TARGET, &of_cpu);
        ensure!(cpu == Some(0.296), "{cpu:?}");
        let name = "vpa_quality_usage_recommendation_relative_diffs_count";
        let judged = value(&text, name, &["resource=\"cpu\"", "is_oom=\"false\""]);
        ensure!(judged.is_some_and(|samples| samples > 0.0), "{judged:?}");
        let changes = "vpa_quality_relative_recommendation_changes_count";
        value(&text, changes, &["resource=\"memory\""])
            .with_context(|| format!("{changes} in {text}"))
    })
    .await?;
    eventually("the stand-by shows nothing of them", async || {
        let leader = leader(client, RECOMMENDER).await?;
        let all = replicas(client, RECOMMENDER).await?.into_iter();
        for replica in all.filter(|replica| replica.pod != leader.pod) {
            let shown = value(&scrape(&replica).await?, TARGET, &of_object);
            ensure!(shown.is_none(), "{}: {shown:?}", replica.pod);
        }
        Ok(())
    })
    .await
}
