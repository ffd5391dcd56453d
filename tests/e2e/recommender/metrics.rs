//! The leader's metrics about recommendations and their quality, which a standby does not export.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::scrape;
use e2e::{eventually, shared};
use serde_json::json;

use super::deployed::{leader, replicas};
use super::{CPU_OF_240M, deployment, first_container, shared_room};

const PATIENCE: Duration = Duration::from_mins(2);
const TARGET: &str =
    "kube_verticalpodautoscaler_status_recommendation_containerrecommendations_target";

/// The value of the series of a metric that has all these labels.
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
    fixture
        .autoscale(
            "shown",
            deployment("web"),
            &json!({"updatePolicy": {"updateMode": "Initial"}}),
        )
        .await?;
    fixture
        .object_when("shown", "the target is there", |object| {
            first_container(object)["target"]["cpu"] == CPU_OF_240M
        })
        .await?;
    let namespace = format!("namespace=\"{}\"", fixture.namespace);
    let of_object = [
        namespace.as_str(),
        "verticalpodautoscaler=\"shown\"",
        "target_kind=\"Deployment\"",
    ];
    let client = shared().await?.client().await?;
    eventually("the leader shows both", PATIENCE, async || {
        let text = scrape(&leader(&client).await?).await?;
        let cpu = value(
            &text,
            TARGET,
            &[&of_object[..], &["container=\"app\"", "unit=\"core\""]].concat(),
        );
        ensure!(cpu == Some(0.296), "{cpu:?}");
        let name = "vpa_quality_usage_recommendation_relative_diffs_count";
        let judged = value(&text, name, &["resource=\"cpu\"", "is_oom=\"false\""]);
        ensure!(judged.is_some_and(|samples| samples > 0.0), "{judged:?}");
        let changes = "vpa_quality_relative_recommendation_changes_count";
        value(&text, changes, &["resource=\"memory\""])
            .with_context(|| format!("{changes} in {text}"))
    })
    .await?;
    eventually("the stand-by shows nothing of them", PATIENCE, async || {
        let leader = leader(&client).await?;
        for replica in replicas(&client)
            .await?
            .into_iter()
            .filter(|replica| replica.pod != leader.pod)
        {
            let shown = value(&scrape(&replica).await?, TARGET, &of_object);
            ensure!(shown.is_none(), "{}: {shown:?}", replica.pod);
        }
        Ok(())
    })
    .await
}
