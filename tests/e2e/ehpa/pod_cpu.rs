//! `crane_pod_cpu_usage`: a native HPA that scales by the predicted CPU of pods.

use anyhow::Result;
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::{condition, message_of, target};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use serde_json::{Value, json};

use super::feed::{LOAD, predicted};
use super::fixture::EhpaFixture;

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
        let message = message_of(&it["status"], "ScalingActive");
        active.is_some_and(|active| active["reason"] == "FailedGetPodsMetric")
            && message.contains("there is no TimeSeriesPrediction")
    };
    fixture
        .when::<Hpa>(NAME, "nothing is predicted", has_none)
        .await?;
    fixture.has_replicas(NAME, 1).await?;

    let metadata = json!({"name": NAME, "labels": {LABEL: NAME}});
    let expression = format!("sum(load{{namespace=\"{}\"}})", fixture.namespace);
    let spec = predicted("resource.cpu", &expression);
    fixture
        .create::<Prediction>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    // The prediction needs four, and the shares of four pods are the same.
    fixture.has_replicas(NAME, 4).await?;
    let pods = json!({"metric": {"name": "crane_pod_cpu_usage"}});
    let status = json!({"currentReplicas": 4, "currentMetrics": [{"pods": pods}]});
    fixture
        .await_fields::<Hpa>(NAME, json!({"status": status}))
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
