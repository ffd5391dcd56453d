//! `crane_pod_cpu_usage`: a native HPA that scales by the predicted CPU of pods.

use anyhow::Result;
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::{condition, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use serde_json::{Value, json};

use super::ehpa_fixture::EhpaFixture;
use super::feed::LOAD;

const NAME: &str = "web";
const LABEL: &str = "autoscaling.crane.io/effective-hpa-uid";
/// Cores per pod, such that the predicted load needs four.
const PER_POD: f64 = 0.3 * LOAD;

#[tokio::test]
async fn an_hpa_scales_by_the_predicted_cpu_of_pods() -> Result<()> {
    let fixture = EhpaFixture::together("pod-cpu").await?;
    fixture.write_history().await?;
    fixture.deploy(NAME, 1, "20m").await?;
    fixture.make::<Hpa>(NAME, autoscaler()).await?;
    let has_none = |it: &Value| {
        let active = condition(&it["status"], "ScalingActive");
        let message = active.and_then(|active| active["message"].as_str());
        active.is_some_and(|active| active["reason"] == "FailedGetPodsMetric")
            && message.is_some_and(|it| it.contains("there is no TimeSeriesPrediction"))
    };
    fixture
        .when::<Hpa>(NAME, "nothing is predicted", has_none)
        .await?;
    fixture
        .when::<Deployment>(NAME, "it keeps its size", |it| it["spec"]["replicas"] == 1)
        .await?;

    let metadata = json!({"name": NAME, "labels": {LABEL: NAME}});
    let spec = prediction(&fixture.namespace);
    fixture
        .create::<Prediction>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    fixture
        .scaled(NAME, "the prediction needs four", |replicas| replicas == 4)
        .await?;
    let reads = |it: &Value| {
        let metric = &it["status"]["currentMetrics"][0]["pods"];
        let replicas = &it["status"]["currentReplicas"];
        metric["metric"]["name"] == "crane_pod_cpu_usage" && *replicas == 4
    };
    fixture
        .when::<Hpa>(NAME, "the shares of four pods are the same", reads)
        .await
        .map(drop)
}

/// The autoscaler of Crane's documentation, of pods with predicted CPU.
fn autoscaler() -> Value {
    let selector = json!({"matchLabels": {LABEL: NAME}});
    let metric = json!({
        "metric": {"name": "crane_pod_cpu_usage", "selector": selector},
        "target": {"type": "AverageValue", "averageValue": PER_POD.to_string()},
    });
    json!({
        "scaleTargetRef": target("Deployment", NAME),
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [{"type": "Pods", "pods": metric}],
    })
}

fn prediction(namespace: &str) -> Value {
    let expression = format!("sum(load{{namespace=\"{namespace}\"}})");
    json!({
        "predictionMetrics": [{
            "resourceIdentifier": "resource.cpu",
            "type": "ExpressionQuery",
            "expressionQuery": {"expression": expression},
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "5m", "historyLength": "7d"}},
        }],
        "targetRef": target("Deployment", NAME),
        "predictionWindowSeconds": 3600,
    })
}
