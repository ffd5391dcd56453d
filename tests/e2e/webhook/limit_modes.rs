//! Limit modes of a VPA object, and the limits with which the API server creates its pods.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::eventually;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::fixture::{Fixture, resources};

/// Creates a pod with each mode, by a dry run that passes all admission. The workload has a limit of
/// CPU and none of memory; 296m and 380258472 bytes are recommended.
pub(super) async fn pods_are_created_with_each_mode(fixture: &Fixture) -> Result<()> {
    for (mode, limits, text) in [
        (
            "equal",
            json!({"cpu": "296m", "memory": "380258472"}),
            Some("app: cpu=296m, memory=380258472"),
        ),
        ("none", json!(null), Some("app: cpu=none")),
        (
            "cpu=request-plus:50%,memory=request-plus:19741528",
            json!({"cpu": "444m", "memory": "400M"}),
            Some("app: cpu=444m, memory=400M"),
        ),
        ("proportional", json!({"cpu": "592m"}), None),
    ] {
        annotate(fixture, Some(mode)).await?;
        let pod = fixture.pod_of_workload().await?;
        eventually(&format!("pods have the limits of {mode}"), async || {
            let made = fixture.try_pod(&pod).await?;
            ensure!(
                resources(&made)[0]["limits"] == limits,
                "{}",
                resources(&made)
            );
            ensure!(limits_of(&made) == text, "{:?}", made.annotations());
            Ok(())
        })
        .await?;
    }
    annotate(fixture, None).await
}

async fn annotate(fixture: &Fixture, mode: Option<&str>) -> Result<()> {
    let annotations = json!({"plimsoll.dev/limit-mode": mode});
    let change: Value = json!({"metadata": {"annotations": annotations}});
    fixture.patch::<Vpa>("web", change).await?;
    Ok(())
}

fn limits_of(pod: &Pod) -> Option<&str> {
    pod.annotations()
        .get("plimsoll.dev/limits")
        .map(String::as_str)
}
