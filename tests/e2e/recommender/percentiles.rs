//! Percentiles and margin of one VPA object, next to another object of the same pods.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::target;
use serde_json::{Value, json};

use super::fixture::{Fixture, conditions, first_container};
use super::{CPU_OF_240M, MEMORY_OF_300MI, shared_room};

async fn annotated(fixture: &Fixture, name: &str, annotations: &Value) -> Result<()> {
    let metadata = json!({"name": name, "annotations": annotations});
    let spec = json!({
        "targetRef": target("Deployment", "web"), "recommenders": [{"name": "e2e"}],
        "updatePolicy": {"updateMode": "Off"},
    });
    fixture
        .create::<Vpa>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    Ok(())
}

#[tokio::test]
async fn percentiles_and_margin_are_set_per_object_and_a_wrong_one_is_reported() -> Result<()> {
    let fixture = shared_room().await?;
    let own = json!({
        "plimsoll.dev/sizing-margin-fraction": "0", "plimsoll.dev/sizing-cpu-percentile": "p50",
    });
    annotated(&fixture, "own-margin", &own).await?;
    let wrong = json!({"plimsoll.dev/sizing-cpu-percentile": "95"});
    annotated(&fixture, "wrong-percentile", &wrong).await?;

    // The ends of the buckets, without 15 %.
    let object = fixture.targets("own-margin", "cpu", "258m").await?;
    assert_eq!(first_container(&object)["target"]["memory"], "330659541");
    let object = fixture
        .targets("wrong-percentile", "cpu", CPU_OF_240M)
        .await?;
    assert_eq!(
        first_container(&object)["target"]["memory"],
        MEMORY_OF_300MI
    );
    let refused = conditions(&object)
        .into_iter()
        .find(|condition| condition[0] == "AnnotationRefused");
    let message = "plimsoll.dev/sizing-cpu-percentile has a value that cannot be used";
    ensure!(
        refused.is_some_and(|refused| refused[3].contains(message)),
        "{object}"
    );
    Ok(())
}
