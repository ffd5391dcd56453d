//! Metrics from queries, by a rule file as prometheus-adapter has it: an autoscaler of requests per
//! second scales from series in a real Prometheus, and holds while that is gone.

use anyhow::{Context as _, Result, ensure};
use e2e::remote_write::Receiver;
use e2e::{eventually, target, until};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::{Node, Service};
use k8s_openapi::jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use sandbox::Component;
use serde_json::{Value, json};

use super::fixture::Fixture;

const WORKLOAD: &str = "nlp-hozon-nlu";
const AUTOSCALER: &str = "hpa-nlp-hozon-nlu";
const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";
const SERVICE: &str = "front";
const STEP: i64 = 10;
const GET: f64 = 20.0;
const POST: f64 = 5.0;

#[tokio::test]
async fn an_autoscaler_of_requests_scales_by_rules_and_holds_without_prometheus() -> Result<()> {
    let fixture = Fixture::alone("rules").await?;
    fixture.deploy(WORKLOAD, 1, &json!({}), &json!({})).await?;
    let metadata = json!({"name": SERVICE, "labels": {"app": SERVICE}});
    let service = json!({"metadata": metadata, "spec": {"ports": [{"port": 80}]}});
    fixture.create::<Service>(service).await?;
    let pod = pod(&fixture).await?;
    write(&fixture, &pod).await?;
    asked_as_kubectl_does(&fixture, &pod).await?;

    fixture.make::<Hpa>(AUTOSCALER, autoscaler()).await?;
    let replicas =
        async || anyhow::Ok(fixture.get::<Deployment>(WORKLOAD).await?["spec"]["replicas"].take());
    eventually("25 requests per second want 3 replicas", async || {
        let (replicas, conditions) = (replicas().await?, conditions(&fixture).await?);
        ensure!(replicas == 3, "{replicas} replicas: {conditions}");
        Ok(())
    })
    .await?;

    fixture.sandbox.stop(Component::Prometheus).await?;
    let held = eventually("the autoscaler says that there is no metric", async || {
        let conditions = conditions(&fixture).await?;
        ensure!(conditions.contains("FailedGetPodsMetric"), "{conditions}");
        ensure!(conditions.contains("Prometheus"), "{conditions}");
        replicas().await
    })
    .await;
    fixture.sandbox.start(Component::Prometheus).await?;
    assert_eq!(held?, 3, "no metric is no reason to scale");
    until(
        "the metric is back",
        async || conditions(&fixture).await,
        |conditions| conditions.contains("ValidMetricFound"),
    )
    .await?;
    assert_eq!(replicas().await?, 3);
    Ok(())
}

/// Values of pods, of a namespace, of nodes and of no object, with all kinds of selectors.
async fn asked_as_kubectl_does(fixture: &Fixture, pod: &str) -> Result<()> {
    let namespace = &fixture.namespace;
    let node = node(fixture).await?;
    for line in expected_values(namespace, pod, &node).lines() {
        let mut words = line.split_whitespace();
        let (path, value) = words.next().zip(words.next()).context("a path, a value")?;
        let name = words.next().unwrap_or_default();
        eventually(path, async || {
            let list = fixture.ask(path).await?;
            let items = list["items"].as_array().context("items")?;
            ensure!(items.len() == 1, "{list}");
            ensure!(items[0]["value"] == value, "{list}, expected {value}");
            let described = items[0]["describedObject"]["name"].as_str();
            ensure!(described.unwrap_or_default() == name, "{list}");
            Ok(())
        })
        .await?;
    }
    for (api, name) in [
        (CUSTOM, "pods/http_requests"),
        (CUSTOM, "nodes/operations"),
        (EXTERNAL, "queue_depth"),
    ] {
        let list = fixture.ask(api).await?;
        let mut resources = list["resources"].as_array().context("resources")?.iter();
        ensure!(resources.any(|it| it["name"] == name), "{list}");
    }
    let refused = format!(
        "{CUSTOM}/namespaces/{namespace}/pods/*/http_requests?labelSelector=app%3Dother no pods with the labels
         {CUSTOM}/namespaces/{namespace}/pods/x%22%7D%20or%20up/http_requests Prometheus has no values
         {EXTERNAL}/namespaces/{namespace}/queue_depth?labelSelector=queue%3Dc Prometheus has no values"
    );
    for line in refused.lines() {
        let (path, text) = line.trim().split_once(' ').context("a path, a text")?;
        let status = fixture.refused("GET", path).await?;
        let says_so = status.code == 404 && status.message.contains(text);
        ensure!(says_so, "{path}: {status:?}");
    }
    Ok(())
}

/// Paths with the value and the name of the one item that each returns.
fn expected_values(namespace: &str, pod: &str, node: &str) -> String {
    let (own, external) = (
        format!("{CUSTOM}/namespaces/{namespace}"),
        format!("{EXTERNAL}/namespaces/{namespace}"),
    );
    format!(
        "{own}/pods/%2A/http_requests?labelSelector=app%3Dnlp-hozon-nlu 25 {pod}
         {own}/pods/*/http_requests?labelSelector=app+in+%28nlp-hozon-nlu%2Cx%29 25 {pod}
         {own}/pods/*/http_requests?metricLabelSelector=method%3DGET 20 {pod}
         {own}/pods/{pod}/http_requests?metricLabelSelector=method+notin+%28GET%29 5 {pod}
         {own}/metrics/http_requests 25 {namespace}
         {CUSTOM}/nodes/{node}/operations 1500m {node}
         {CUSTOM}/nodes/*/operations 1500m {node}
         {CUSTOM}/nodes/*/operations?labelSelector=kubernetes.io%2Fhostname%3D{node} 1500m {node}
         {own}/services/*/http_requests?labelSelector=app%3D{SERVICE} 25 {SERVICE}
         {own}/nodes/{node}/operations 1500m {node}
         {external}/queue_depth?labelSelector=queue+in+%28a%2Cb%29 10500m
         {external}/queue_depth?labelSelector=queue%21%3Da 3"
    )
}

/// The autoscaler of a user of prometheus-adapter, in the version of today, without a pause before
/// it would scale down.
fn autoscaler() -> Value {
    let metric = json!({"metric": {"name": "http_requests"}, "target": {"type": "AverageValue", "averageValue": "10"}});
    json!({
        "minReplicas": 1,
        "maxReplicas": 6,
        "scaleTargetRef": target("Deployment", WORKLOAD),
        "metrics": [{"type": "Pods", "pods": metric}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    })
}

async fn conditions(fixture: &Fixture) -> Result<String> {
    let object = fixture.get::<Hpa>(AUTOSCALER).await?;
    Ok(object["status"]["conditions"].to_string())
}

async fn pod(fixture: &Fixture) -> Result<String> {
    eventually("the pod runs", async || {
        let pods = fixture.pods_of(WORKLOAD).await?;
        let pod = pods.first().context("no pod")?;
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
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
    let receiver = Receiver::of(&fixture.sandbox)?;
    let now = Timestamp::now().as_second();
    let seconds = || (now - 240..now + 540).step_by(STEP as usize);
    let namespace = fixture.namespace.as_str();
    for (method, per_second) in [("GET", GET), ("POST", POST)] {
        let labels = [
            ("method", method),
            ("namespace", namespace),
            ("pod", pod),
            ("service", SERVICE),
        ];
        let samples = seconds().map(|second| (second, (second - now + 1000) as f64 * per_second));
        receiver
            .write("http_requests_total", &labels, samples)
            .await?;
    }
    for (queue, depth) in [("a", 7.5), ("b", 3.0)] {
        let labels = [("namespace", namespace), ("queue", queue)];
        let samples = seconds().map(|second| (second, depth));
        receiver.write("queue_depth", &labels, samples).await?;
    }
    let labels = [("exported_node", &*node(fixture).await?)];
    let samples = seconds().map(|second| (second, 1.5));
    receiver.write("disk_operations", &labels, samples).await
}
