//! `plimsoll explain` as a user runs it, with a disruption budget that blocks evictions.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, eventually, plimsoll, plimsoll_prints, shared, target, workload};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

const BLOCKED: &str = "the budget web of 2 pods allows 0 evictions now: 2 of 2 required pods";

/// Two pods that request 100m, a budget that keeps both, and a recommendation of 250m.
async fn blocked(own: &Namespace) -> Result<()> {
    let resources = json!({"requests": {"cpu": "100m"}});
    own.create::<ReplicaSet>(workload("web", 2, &resources, &json!({})))
        .await?;
    own.when::<ReplicaSet>("web", "all pods are ready", |it| {
        it["status"]["readyReplicas"] == 2
    })
    .await?;
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"minAvailable": 2, "selector": selector});
    own.create::<PodDisruptionBudget>(json!({"metadata": {"name": "web"}, "spec": spec}))
        .await?;
    own.when::<PodDisruptionBudget>("web", "the budget is counted", |it| {
        it["status"]["currentHealthy"] == 2
    })
    .await?;
    let spec = json!({
        "targetRef": target("ReplicaSet", "web"),
        "updatePolicy": {"updateMode": "Recreate"},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "250m"}}]},
    });
    own.create::<Vpa>(json!({"metadata": {"name": "web"}, "spec": spec}))
        .await?;
    let container = json!({
        "containerName": "app", "target": {"cpu": "250m"}, "lowerBound": {"cpu": "200m"},
        "upperBound": {"cpu": "250m"}, "uncappedTarget": {"cpu": "400m"},
    });
    let condition = json!({
        "type": "RecommendationProvided", "status": "True", "message": "a \u{1b}[31mb",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    });
    let recommendation = json!({"containerRecommendations": [container]});
    let status = json!({"recommendation": recommendation, "conditions": [condition]});
    own.patch_status::<Vpa>("web", &status).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_budget_that_blocks_and_no_longer_once_it_allows() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "explain").await?;
    blocked(&own).await?;
    let kubeconfig = sandbox.kubeconfig();
    let explain = async |subject: &str, form: &str| {
        let arguments = ["explain", subject, "-n", &own.namespace, "-o", form];
        plimsoll_prints(&kubeconfig, &arguments).await
    };
    let mut pods = own.pods_of("web").await?.into_iter();
    let pod = pods.next().and_then(|pod| pod.metadata.name);
    let pod = format!("pod/{}", pod.unwrap_or_default());
    for subject in ["vpa/web", "rs/web"] {
        let printed = explain(subject, "text").await?;
        for expected in [
            BLOCKED,
            "maxAllowed 250m",
            "0 of 2",
            "app cpu 100m (target 250m)",
        ] {
            ensure!(printed.contains(expected), "{subject}: {printed}");
        }
        ensure!(!printed.contains('\u{1b}'), "{subject}: {printed:?}");
    }
    let of_pod: Value = serde_json::from_str(&explain(&pod, "json").await?)?;
    ensure!(
        of_pod["vpa"] == "web" && of_pod["pods"]["total"] == 1,
        "{of_pod:#}"
    );

    let relaxed = json!({"spec": {"minAvailable": 1}});
    own.patch::<PodDisruptionBudget>("web", relaxed).await?;
    eventually("the budget allows an eviction", async || {
        let printed: Value = serde_json::from_str(&explain("vpa/web", "json").await?)?;
        ensure!(printed["waits"] == json!([]), "{printed:#}");
        ensure!(printed["pods"]["withTarget"] == 0, "{printed:#}");
        Ok(())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_that_no_vpa_targets_a_workload() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "explain").await?;
    for (subject, expected) in [
        ("deployment/web", "targets deployment/web"),
        ("vpa/web", "\"web\" not found"),
    ] {
        let arguments = ["explain", subject, "-n", &own.namespace];
        let output = plimsoll(&sandbox.kubeconfig(), &arguments).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{subject}: {error}");
        ensure!(error.contains(expected), "{subject}: {error}");
    }
    Ok(())
}
