//! `plimsoll explain` as a user runs it, with a disruption budget that blocks evictions.

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{
    Namespace, eventually, plimsoll, plimsoll_json, plimsoll_prints, requests, shared, target,
    usage, workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

const BLOCKED: &str = "the budget web of 2 pods allows 0 evictions now: 2 of 2 required pods";

/// Two pods that request 100m, a budget that keeps both, and a recommendation of 250m.
async fn blocked(own: &Namespace) -> Result<()> {
    let resources = json!({"requests": {"cpu": "100m"}});
    own.create::<ReplicaSet>(workload("web", 2, &resources, &json!({})))
        .await?;
    let ready = json!({"status": {"readyReplicas": 2}});
    own.await_fields::<ReplicaSet>("web", ready).await?;
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec = json!({"minAvailable": 2, "selector": selector});
    own.make::<PodDisruptionBudget>("web", spec).await?;
    let healthy = json!({"status": {"currentHealthy": 2}});
    own.await_fields::<PodDisruptionBudget>("web", healthy)
        .await?;
    let spec = json!({
        "targetRef": target("ReplicaSet", "web"),
        "updatePolicy": {"updateMode": "Recreate"},
        "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "250m"}}]},
    });
    own.make::<Vpa>("web", spec).await?;
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
    let explain = |subject: &str| format!("explain {subject} -n {}", own.namespace);
    let mut pods = own.pods_of("web").await?.into_iter();
    let pod = pods.next().and_then(|pod| pod.metadata.name);
    let pod = format!("pod/{}", pod.unwrap_or_default());
    for subject in ["vpa/web", "rs/web"] {
        let printed = plimsoll_prints(&kubeconfig, &explain(subject)).await?;
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
    let of_pod = plimsoll_json(&kubeconfig, &explain(&pod)).await?;
    ensure!(
        of_pod["vpa"] == "web" && of_pod["pods"]["total"] == 1,
        "{of_pod:#}"
    );

    let relaxed = json!({"spec": {"minAvailable": 1}});
    own.patch::<PodDisruptionBudget>("web", relaxed).await?;
    eventually("the budget allows an eviction", async || {
        let printed = plimsoll_json(&kubeconfig, &explain("vpa/web")).await?;
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
        ("deployment/web", "no VPA and no EHPA in namespace"),
        ("deployment/web", "targets deployment/web"),
        ("vpa/web", "\"web\" not found"),
        ("ehpa/web", "\"web\" not found"),
    ] {
        let explain = format!("explain {subject} -n {}", own.namespace);
        let output = plimsoll(&sandbox.kubeconfig(), &explain).await?;
        let error = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{subject}: {error}");
        ensure!(error.contains(expected), "{subject}: {error}");
    }
    Ok(())
}

fn owner(kind: [&str; 2], object: &Value) -> Value {
    let [api_version, kind] = kind;
    json!([{
        "apiVersion": api_version, "kind": kind, "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"], "controller": true,
    }])
}

fn condition([kind, status, reason, message]: [&str; 4]) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    })
}

/// Two pods that use twice their requests, an EHPA of at most two replicas, and its HPA, whose
/// status the control plane writes.
async fn scaled(own: &Namespace) -> Result<()> {
    let resources = requests("100m", "100Mi");
    own.deploy("web", 2, &resources, &usage("200m", "50Mi"))
        .await?;
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    let metrics = json!([{"type": "Resource", "resource": cpu}]);
    let algorithm = json!({
        "algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "3d"},
    });
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"), "minReplicas": 1, "maxReplicas": 2,
        "metrics": metrics, "prediction": {"predictionAlgorithm": &algorithm},
    });
    // No recommender has this name.
    let annotations = json!({"plimsoll.dev/recommender": "explain-test"});
    let ehpa = own
        .make_annotated::<Ehpa>("web", &annotations, spec)
        .await?;
    let kind = [
        "autoscaling.crane.io/v1alpha1",
        "EffectiveHorizontalPodAutoscaler",
    ];
    let metadata = json!({
        "name": "ehpa-web", "ownerReferences": owner(kind, &ehpa), "annotations": annotations,
    });
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"), "minReplicas": 1, "maxReplicas": 2,
        "metrics": metrics,
    });
    own.create::<Hpa>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    let metric = json!({
        "resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
        "algorithm": algorithm,
    });
    let spec = json!({
        "predictionMetrics": [metric], "predictionWindowSeconds": 3600,
        "targetRef": target("Deployment", "web"),
    });
    own.create::<Prediction>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    let in_five_minutes = Timestamp::now().as_second() + 300;
    let samples = json!([{"value": "0.4", "timestamp": in_five_minutes}]);
    let predicted = json!({
        "resourceIdentifier": "resource.cpu", "ready": true, "prediction": [{"samples": samples}],
    });
    let status = json!({"predictionMetrics": [predicted]});
    own.patch_status::<Prediction>("ehpa-web", &status).await?;
    let waits = "2 of 14 days \u{1b}[31m";
    let conditions = [
        [
            "Ready",
            "True",
            "EffectiveHorizontalPodAutoscalerReady",
            "ready",
        ],
        ["PredictionReady", "False", "HistoryPending", waits],
    ];
    let point = json!({"resource": "cpu", "averageRequest": "100m", "averageValue": "50m"});
    let status = json!({
        "prediction": {"method": "peak", "windowSeconds": 600}, "scalePoints": [point],
        "conditions": conditions.map(condition),
    });
    own.patch_status::<Ehpa>("web", &status).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_why_an_ehpa_does_not_change_the_replicas() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "explain").await?;
    scaled(&own).await?;
    let kubeconfig = sandbox.kubeconfig();
    let explain = |subject: &str| format!("explain {subject} -n {}", own.namespace);
    let reasons = |explanation: &Value| -> Vec<Value> {
        let waits = explanation["waits"].as_array().into_iter().flatten();
        waits.map(|wait| wait["reason"].clone()).collect()
    };
    eventually("the HPA asks for more than its maximum", async || {
        let printed = plimsoll_json(&kubeconfig, &explain("ehpa/web")).await?;
        let found = reasons(&printed);
        ensure!(found == ["NoPrediction", "MaxReplicas"], "{printed:#}");
        ensure!(printed["replicas"]["desired"] == 2, "{printed:#}");
        let predicted = &printed["metrics"][1]["predictedMaximum"];
        ensure!(*predicted == json!(0.4), "{printed:#}");
        let current = printed["metrics"][0]["current"].as_str();
        ensure!(
            current.is_some_and(|it| it.contains("per pod")),
            "{printed:#}"
        );
        Ok(())
    })
    .await?;
    for subject in ["deployment/web", "ehpa/web"] {
        let printed = plimsoll_prints(&kubeconfig, &explain(subject)).await?;
        for expected in [
            "the metrics ask for more than maxReplicas 2",
            "the HPA scales by observed metrics: HistoryPending: 2 of 14 days",
            "ehpa-web",
            "resource.cpu",
            "peak",
            "50m",
        ] {
            ensure!(
                printed.contains(expected),
                "{subject} {expected}: {printed}"
            );
        }
        ensure!(!printed.contains('\u{1b}'), "{subject}: {printed:?}");
    }
    let preview = json!({"spec": {"scaleStrategy": "Preview"}});
    own.patch::<Ehpa>("web", preview).await?;
    let printed = plimsoll_json(&kubeconfig, &explain("ehpa/web")).await?;
    ensure!(reasons(&printed)[0] == "DryRun", "{printed:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_names_the_policy_that_manages_a_vpa() -> Result<()> {
    let sandbox = shared().await?;
    let own = Namespace::new(sandbox.client().await?, "explain").await?;
    let spec = json!({"recommender": "explain-test", "sizing": {"caution": "high"}});
    let policy = own.make::<SizingPolicy>("team", spec).await?;
    let conflict = json!({
        "kind": "Deployment", "namespace": own.namespace, "name": "web", "by": "SizingPolicy/first",
    });
    let status = json!({
        "observedGeneration": 1, "selected": 1, "managed": 0, "conflicts": 0, "overridden": 1,
        "overriddenBy": [conflict],
        "conditions": [condition(["Overridden", "True", "Overridden", "1 workload"])],
    });
    own.patch_status::<SizingPolicy>("team", &status).await?;
    let metadata = json!({
        "name": "web", "ownerReferences": owner(["plimsoll.dev/v1alpha1", "SizingPolicy"], &policy),
        "annotations": {"plimsoll.dev/sizing-policy": "plimsoll", "plimsoll.dev/sizing-caution": "high"},
    });
    let spec = json!({
        "targetRef": target("Deployment", "web"), "recommenders": [{"name": "explain-test"}],
    });
    own.deploy("web", 0, &requests("100m", "100Mi"), &json!({}))
        .await?;
    own.create::<Vpa>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    let explain = format!("explain vpa/web -n {}", own.namespace);
    let kubeconfig = sandbox.kubeconfig();
    let printed = plimsoll_json(&kubeconfig, &explain).await?;
    let policy = &printed["policy"];
    ensure!(policy["name"] == "team", "{printed:#}");
    let settings = json!({"caution": "high", "policy": "plimsoll"});
    ensure!(policy["settings"] == settings, "{printed:#}");
    ensure!(
        policy["conditions"][0]["type"] == "Overridden",
        "{printed:#}"
    );
    let by = json!(["SizingPolicy/first"]);
    ensure!(policy["conflictsWith"] == by, "{printed:#}");

    let printed = plimsoll_prints(&kubeconfig, &explain).await?;
    for expected in [
        "SizingPolicy/team",
        "caution",
        "high",
        "condition Overridden",
    ] {
        ensure!(printed.contains(expected), "{expected}: {printed}");
    }
    Ok(())
}
