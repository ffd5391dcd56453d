//! A fresh recommender with `--storage=prometheus` knows what one would know that had run for eight
//! days.
//!
//! A real Prometheus holds eight days of a recorded trace as kubelet and kube-state-metrics would
//! have written them: five days of a pod that is gone, then three of the pod that runs. Prometheus
//! is down when the recommender starts. From the same store metrics are predicted.

mod methods;
mod predicted;
mod reference_target;

use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::scrape_at;
use e2e::process::command;
use e2e::remote_write::Receiver;
use e2e::{Namespace, apply, condition, eventually, free_address, object_of, target};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use sandbox::{Component, Sandbox};
use serde_json::{Value, json};
use tokio::process::Child;

use methods::Methods;
use predicted::Predictions;
use reference_target::{Minute, expected};

const MINUTES: usize = 8 * 24 * 60;
/// Time at which the running pod replaced the previous one.
const TAKEOVER: usize = 5 * 24 * 60;
const NAMESPACE: &str = "shop";
const GONE: &str = "web-6d5f-aaaaa";
const WORKLOAD: &str = "
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web, namespace: shop }
spec:
  selector: { matchLabels: { app.kubernetes.io/name: web } }
  template:
    metadata:
      labels: { app.kubernetes.io/name: web }
      annotations: { kwok.x-k8s.io/usage-cpu: 10m, kwok.x-k8s.io/usage-memory: 10Mi }
    spec:
      containers: [{ name: app, image: example.com/shop/web:1 }]
";

#[tokio::test(flavor = "multi_thread")]
async fn history_comes_from_prometheus_also_when_that_is_down_at_first() -> Result<()> {
    let sandbox = e2e::another_with_prometheus("history").await?;
    let folder = tempfile::tempdir()?;
    let shop = Namespace::of(sandbox.client().await?, NAMESPACE);
    let pod = workload(&sandbox, &shop, folder.path()).await?;
    let trace = trace()?;
    write_history(&sandbox, &pod, &trace).await?;
    let predictions = Predictions::write(&sandbox, &shop.client).await?;
    publish_earlier_recommendation(&shop).await?;

    sandbox.stop(Component::Prometheus).await?;
    let (running, address) = recommender(&sandbox)?;
    predictions.await_unread().await?;
    eventually("the recommender says that history is missing", async || {
        let status = status(&shop, "web").await?;
        let condition = condition(&status, "FetchingHistory").context("no condition")?;
        ensure!(
            condition["status"] == "True" && condition["reason"] == "WaitingForPrometheus",
            "{condition}"
        );
        let message = condition["message"].as_str().unwrap_or_default();
        ensure!(message.contains("cannot be reached"), "{condition}");
        ensure!(
            status["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "777m",
            "{status}"
        );
        let metrics = scrape_at(address).await?;
        ensure!(
            metrics.contains("\nvpa_recommender_history_pending 1\n"),
            "{metrics}"
        );
        Ok(())
    })
    .await?;

    sandbox.start(Component::Prometheus).await?;
    let status = eventually("history has come", async || {
        let status = status(&shop, "web").await?;
        ensure!(condition(&status, "FetchingHistory").is_none(), "{status}");
        Ok(status)
    })
    .await?;
    let lived_through = expected(&trace, TAKEOVER);
    compare(&status, lived_through)?;
    eventually("an event tells of it", async || {
        let events = shop.list::<Event>().await?;
        let mut reasons = events.iter().map(|event| &event["reason"]);
        ensure!(reasons.any(|reason| reason == "HistoryMissing"), "none");
        Ok(())
    })
    .await?;
    eventually("metrics tell of it", async || {
        let metrics = scrape_at(address).await?;
        for line in [
            "\nvpa_recommender_history_pending 0\n",
            r#"api_requests_count{code="200",method="get"}"#,
        ] {
            ensure!(metrics.contains(line), "{line} in {metrics}");
        }
        Ok(())
    })
    .await?;

    kubectl_apply(&sandbox, folder.path(), &autoscaler("later").to_string()).await?;
    eventually(
        "an object that comes later has the same history",
        async || compare(&self::status(&shop, "later").await?, lived_through),
    )
    .await?;

    let methods = Methods::create(&sandbox, &shop.client).await?;
    methods.await_rebuilt().await?;

    predictions.await_rise().await?;
    predictions.await_young().await?;
    sandbox.stop(Component::Prometheus).await?;
    predictions.await_ageing().await?;
    sandbox.start(Component::Prometheus).await?;
    predictions.await_renewed().await?;
    methods.await_restarted(&sandbox, running).await?;
    let _another = recommender(&sandbox)?;
    predictions.await_longer_window().await?;
    sandbox.down().await
}

fn autoscaler(name: &str) -> Value {
    object_of::<Vpa>(json!({
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"targetRef": target("Deployment", "web"), "updatePolicy": {"updateMode": "Off"}},
    }))
}

async fn kubectl_apply(sandbox: &Sandbox, folder: &Path, objects: &str) -> Result<()> {
    let file = folder.join("objects.yaml");
    fs::write(&file, objects)?;
    let file = file.to_str().context("a path is text")?;
    apply(sandbox, file).await.map(drop)
}

/// Creates the workload and its VPA; returns the name of its pod.
async fn workload(sandbox: &Sandbox, shop: &Namespace, folder: &Path) -> Result<String> {
    kubectl_apply(sandbox, folder, WORKLOAD).await?;
    kubectl_apply(sandbox, folder, &autoscaler("web").to_string()).await?;
    eventually("the pod is there", async || {
        let pods = shop.list::<Pod>().await?;
        let name = pods.first().context("no pod")?["metadata"]["name"].as_str();
        Ok(name.context("a name")?.to_owned())
    })
    .await
}

/// A recorded day, over and over.
fn trace() -> Result<Vec<Minute>> {
    let text = fs::read_to_string(e2e::repository().join("tests/fixtures/traces/web.csv"))?;
    let day: Vec<Minute> = text
        .lines()
        .skip(1)
        .map(Minute::parse)
        .collect::<Result<_>>()?;
    let start = Timestamp::now().as_second() / 60 * 60 - MINUTES as i64 * 60;
    let minutes = day.iter().cycle().take(MINUTES).enumerate();
    Ok(minutes
        .map(|(index, minute)| Minute {
            second: start + index as i64 * 60,
            ..*minute
        })
        .collect())
}

async fn write_history(sandbox: &Sandbox, pod: &str, trace: &[Minute]) -> Result<()> {
    let receiver = Receiver::of(sandbox)?;
    let (gone, live) = trace.split_at(TAKEOVER);
    for (pod, minutes) in [(GONE, gone), (pod, live)] {
        let of_pod = [("namespace", NAMESPACE), ("pod", pod)];
        let labels = [of_pod[0], of_pod[1], ("container", "app")];
        let mut seconds = 0.0;
        let cpu = minutes.iter().map(|minute| {
            seconds += minute.millicores * 60.0 / 1000.0;
            (minute.second, seconds)
        });
        receiver
            .write("container_cpu_usage_seconds_total", &labels, cpu)
            .await?;
        let memory = minutes.iter().map(|minute| (minute.second, minute.bytes));
        receiver
            .write("container_memory_working_set_bytes", &labels, memory)
            .await?;
        let labels = [
            of_pod[0],
            of_pod[1],
            ("label_app_kubernetes_io_name", "web"),
        ];
        let ones = minutes.iter().map(|minute| (minute.second, 1.0));
        receiver.write("kube_pod_labels", &labels, ones).await?;
    }
    Ok(())
}

/// Metrics of an earlier recommender.
async fn publish_earlier_recommendation(shop: &Namespace) -> Result<()> {
    let container = json!({"containerName": "app", "target": {"cpu": "777m", "memory": "777Mi"}});
    let status = json!({"recommendation": {"containerRecommendations": [container]}});
    shop.patch_status::<Vpa>("web", &status).await?;
    Ok(())
}

fn recommender(sandbox: &Sandbox) -> Result<(Child, SocketAddr)> {
    let address = free_address()?;
    let url = sandbox.prometheus_url().context("there is a Prometheus")?;
    let log = sandbox.logs_dir().join("recommender.log");
    let child = command("recommender", &sandbox.kubeconfig(), &log)?
        .arg(format!("--address={address}"))
        .args(["--storage=prometheus", "--history-resolution=2m"])
        .arg("--recommender-interval=10s")
        .arg("--config={predictions: {readInterval: 2s}}")
        .arg("--prediction-update-frequency-duration=2s")
        .arg(format!("--prometheus-address={url}"))
        .arg("--prometheus-ca-file")
        .arg(sandbox.authority())
        .spawn()
        .context("start the recommender")?;
    Ok((child, address))
}

async fn status(shop: &Namespace, name: &str) -> Result<Value> {
    Ok(shop.get::<Vpa>(name).await?["status"].take())
}

/// Within a bucket of the histogram: these grow by five per cent.
fn compare(status: &Value, (cores, bytes): (f64, f64)) -> Result<()> {
    let target = &status["recommendation"]["containerRecommendations"][0]["target"];
    for (resource, expected) in [("cpu", cores), ("memory", bytes)] {
        let text = target[resource].as_str();
        let found = number(text.with_context(|| format!("no {resource} in {status}"))?)?;
        let ratio = found / expected;
        ensure!(
            (0.94..1.06).contains(&ratio),
            "{resource} is {found}, expected {expected}: {status}"
        );
    }
    Ok(())
}

/// A quantity as the recommender writes it.
fn number(quantity: &str) -> Result<f64> {
    let digits = quantity.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let factor = match &quantity[digits.len()..] {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        suffix => anyhow::bail!("unexpected suffix {suffix:?}"),
    };
    Ok(digits.parse::<f64>()? * factor)
}
