//! Metrics from queries, by a rule file as prometheus-adapter has it: an autoscaler of requests per
//! second scales from series in a real Prometheus, and holds while that is gone.

use anyhow::{Context as _, Result, ensure};
use e2e::eventually;
use e2e::remote_write::{Labels, Receiver};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::{Value, json};
use std::time::Duration;

use super::fixture::Fixture;

/// The autoscaler looks every 15 seconds, on a machine that may be busy.
const PATIENCE: Duration = Duration::from_mins(3);
const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const STEP: i64 = 10;
const GET: f64 = 20.0;
const POST: f64 = 5.0;

#[tokio::test]
async fn an_autoscaler_of_requests_scales_by_rules_and_holds_without_prometheus() -> Result<()> {
    let fixture = Fixture::take("rules").await?;
    let deployments: Api<Deployment> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    let autoscalers: Api<HorizontalPodAutoscaler> =
        Api::namespaced(fixture.client.clone(), &fixture.namespace);
    deployments
        .create(&PostParams::default(), &deployment()?)
        .await?;
    let pod = pod(&fixture).await?;
    write(&fixture, &pod).await?;
    asked_as_kubectl_does(&fixture, &pod).await?;

    autoscalers
        .create(&PostParams::default(), &autoscaler()?)
        .await?;
    let replicas = async || -> Result<i32> {
        let spec = deployments.get("nlp-hozon-nlu").await?.spec;
        spec.replicas.context("replicas")
    };
    eventually(
        "25 requests per second want 3 replicas for 10 each",
        PATIENCE,
        async || {
            let replicas = replicas().await?;
            ensure!(
                replicas == 3,
                "{replicas} replicas: {}",
                conditions(&autoscalers).await?
            );
            Ok(())
        },
    )
    .await?;

    fixture.sandbox()?.stop(Component::Prometheus).await?;
    let held = eventually(
        "the autoscaler says that there is no metric",
        PATIENCE,
        async || {
            let conditions = conditions(&autoscalers).await?;
            ensure!(conditions.contains("FailedGetPodsMetric"), "{conditions}");
            ensure!(conditions.contains("Prometheus"), "{conditions}");
            replicas().await
        },
    )
    .await;
    fixture.sandbox()?.start(Component::Prometheus).await?;
    assert_eq!(held?, 3, "no metric is no reason to scale");
    eventually("the metric is back", PATIENCE, async || {
        let conditions = conditions(&autoscalers).await?;
        ensure!(conditions.contains("ValidMetricFound"), "{conditions}");
        Ok(())
    })
    .await?;
    assert_eq!(replicas().await?, 3);
    Ok(())
}

/// Values of pods, of a namespace, of nodes and of no object, with all kinds of selectors.
async fn asked_as_kubectl_does(fixture: &Fixture, pod: &str) -> Result<()> {
    let namespace = &fixture.namespace;
    let node = node(fixture).await?;
    for (path, name, value) in expected_values(namespace, pod, &node) {
        eventually(&path, PATIENCE, async || {
            let list = fixture.get(&path).await?;
            let items = list["items"].as_array().context("items")?;
            ensure!(items.len() == 1, "{list}");
            ensure!(items[0]["value"] == value, "{list}, expected {value}");
            ensure!(
                items[0]["describedObject"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    == name,
                "{list}"
            );
            Ok(())
        })
        .await?;
    }
    for (api, name) in [
        (CUSTOM, "pods/http_requests"),
        (CUSTOM, "nodes/operations"),
        (EXTERNAL, "queue_depth"),
    ] {
        let list = fixture.get(api).await?;
        ensure!(
            list["resources"]
                .as_array()
                .context("resources")?
                .iter()
                .any(|it| it["name"] == name),
            "{list}"
        );
    }
    for (path, text) in [
        (
            format!(
                "{CUSTOM}/namespaces/{namespace}/pods/*/http_requests?labelSelector=app%3Dother"
            ),
            "no pods with the labels",
        ),
        (
            format!("{CUSTOM}/namespaces/{namespace}/pods/x%22%7D%20or%20up/http_requests"),
            "Prometheus has no values",
        ),
        (
            format!("{EXTERNAL}/namespaces/{namespace}/queue_depth?labelSelector=queue%3Dc"),
            "Prometheus has no values",
        ),
    ] {
        let status = fixture.refused("GET", &path).await?;
        ensure!(
            status.code == 404 && status.message.contains(text),
            "{path}: {status:?}"
        );
    }
    Ok(())
}

/// Paths with the name and the value of the one item that each returns.
fn expected_values<'a>(
    namespace: &'a str,
    pod: &'a str,
    node: &'a str,
) -> [(String, &'a str, &'static str); 10] {
    [
        (
            format!(
                "{CUSTOM}/namespaces/{namespace}/pods/%2A/http_requests?labelSelector=app%3Dnlp-hozon-nlu"
            ),
            pod,
            "25",
        ),
        (
            format!(
                "{CUSTOM}/namespaces/{namespace}/pods/*/http_requests?labelSelector=app+in+%28nlp-hozon-nlu%2Cx%29"
            ),
            pod,
            "25",
        ),
        (
            format!(
                "{CUSTOM}/namespaces/{namespace}/pods/*/http_requests?metricLabelSelector=method%3DGET"
            ),
            pod,
            "20",
        ),
        (
            format!(
                "{CUSTOM}/namespaces/{namespace}/pods/{pod}/http_requests?metricLabelSelector=method+notin+%28GET%29"
            ),
            pod,
            "5",
        ),
        (
            format!("{CUSTOM}/namespaces/{namespace}/metrics/http_requests"),
            namespace,
            "25",
        ),
        (format!("{CUSTOM}/nodes/{node}/operations"), node, "1500m"),
        (format!("{CUSTOM}/nodes/*/operations"), node, "1500m"),
        (
            format!("{CUSTOM}/namespaces/{namespace}/nodes/{node}/operations"),
            node,
            "1500m",
        ),
        (
            format!(
                "{EXTERNAL}/namespaces/{namespace}/queue_depth?labelSelector=queue+in+%28a%2Cb%29"
            ),
            "",
            "10500m",
        ),
        (
            format!("{EXTERNAL}/namespaces/{namespace}/queue_depth?labelSelector=queue%21%3Da"),
            "",
            "3",
        ),
    ]
}

/// The Deployment that the autoscaler names.
fn deployment() -> Result<Deployment> {
    let labels = json!({"app": "nlp-hozon-nlu"});
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "nlp-hozon-nlu"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "nlu", "image": "example.com/nlp/nlu:1"}]},
            },
        },
    }))?)
}

/// The autoscaler of a user of prometheus-adapter, in the version of today, without a pause before
/// it would scale down.
fn autoscaler() -> Result<HorizontalPodAutoscaler> {
    Ok(serde_json::from_value(json!({
        "metadata": {"name": "hpa-nlp-hozon-nlu"},
        "spec": {
            "minReplicas": 1,
            "maxReplicas": 6,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "nlp-hozon-nlu"},
            "metrics": [{
                "type": "Pods",
                "pods": {
                    "metric": {"name": "http_requests"},
                    "target": {"type": "AverageValue", "averageValue": "10"},
                },
            }],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }))?)
}

async fn conditions(autoscalers: &Api<HorizontalPodAutoscaler>) -> Result<String> {
    let status = autoscalers.get("hpa-nlp-hozon-nlu").await?.status;
    Ok(serde_json::to_value(status)?
        .get("conditions")
        .map(Value::to_string)
        .unwrap_or_default())
}

/// The name of the only pod.
async fn pod(fixture: &Fixture) -> Result<String> {
    let pods: Api<Pod> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    eventually("the pod runs", PATIENCE, async || {
        let pods = pods.list(&ListParams::default()).await?.items;
        let pod = pods.first().context("no pod")?;
        let phase = pod
            .status
            .as_ref()
            .and_then(|status| status.phase.as_deref());
        ensure!(phase == Some("Running"), "{phase:?}");
        Ok(pod.name_any())
    })
    .await
}

async fn node(fixture: &Fixture) -> Result<String> {
    let nodes: Api<Node> = Api::all(fixture.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?.items;
    Ok(nodes.first().context("a node")?.name_any())
}

/// Writes series from some minutes ago to some minutes ahead, so that rates stay what they are.
async fn write(fixture: &Fixture, pod: &str) -> Result<()> {
    let sandbox = fixture.sandbox()?;
    let url = sandbox
        .prometheus_url()
        .context("this sandbox has a Prometheus")?;
    let receiver = Receiver::new(&url, sandbox.authority())?;
    let now = Timestamp::now().as_second();
    let seconds = || (now - 240..now + 540).step_by(STEP as usize);
    let namespace = fixture.namespace.as_str();
    for (method, per_second) in [("GET", GET), ("POST", POST)] {
        let labels = Labels::from([
            ("__name__", "http_requests_total"),
            ("method", method),
            ("namespace", namespace),
            ("pod", pod),
        ]);
        let samples = seconds().map(|second| (second, (second - now + 1000) as f64 * per_second));
        receiver.write(labels, samples).await?;
    }
    for (queue, depth) in [("a", 7.5), ("b", 3.0)] {
        let labels = Labels::from([
            ("__name__", "queue_depth"),
            ("namespace", namespace),
            ("queue", queue),
        ]);
        receiver
            .write(labels, seconds().map(|second| (second, depth)))
            .await?;
    }
    let node = node(fixture).await?;
    let labels = Labels::from([
        ("__name__", "disk_operations"),
        ("exported_node", node.as_str()),
    ]);
    receiver
        .write(labels, seconds().map(|second| (second, 1.5)))
        .await
}
