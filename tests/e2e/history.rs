//! A fresh recommender with `--storage=prometheus` knows what one would know that had run for eight
//! days.
//!
//! A real Prometheus holds eight days of a recorded trace as kubelet and kube-state-metrics would
//! have written them: five days of a pod that is gone, then three of the pod that runs. Prometheus
//! is down when the recommender starts. From the same store metrics are predicted.

mod lived_through;
mod predicted;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler;
use e2e::remote_write::{Labels, Receiver};
use e2e::{eventually, free_address, kubectl_in, program};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use sandbox::{Component, Sandbox};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use lived_through::{Minute, expected};
use predicted::Predictions;

const PATIENCE: Duration = Duration::from_mins(3);
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
    let (client, pod) = workload(&sandbox, folder.path()).await?;
    let trace = trace()?;
    write_history(&sandbox, &pod, &trace).await?;
    let predictions = Predictions::write(&sandbox, &client).await?;
    let autoscalers: Api<VerticalPodAutoscaler> = Api::namespaced(client, NAMESPACE);
    publish_earlier_recommendation(&autoscalers).await?;

    sandbox.stop(Component::Prometheus).await?;
    let (mut running, address) = recommender(&sandbox)?;
    predictions.await_unread().await?;
    eventually(
        "the recommender says that history is missing",
        PATIENCE,
        async || {
            let status = status(&autoscalers, "web").await?;
            let condition = condition(&status, "FetchingHistory").context("no condition")?;
            ensure!(
                condition["status"] == "True" && condition["reason"] == "WaitingForPrometheus",
                "{condition}"
            );
            ensure!(
                condition["message"]
                    .as_str()
                    .is_some_and(|text| text.contains("cannot be reached")),
                "{condition}"
            );
            ensure!(
                status["recommendation"]["containerRecommendations"][0]["target"]["cpu"] == "777m",
                "{status}"
            );
            let metrics = metrics(&address).await?;
            ensure!(
                metrics.contains("\nvpa_recommender_history_pending 1\n"),
                "{metrics}"
            );
            Ok(())
        },
    )
    .await?;

    sandbox.start(Component::Prometheus).await?;
    let status = eventually("history has come", PATIENCE, async || {
        let status = status(&autoscalers, "web").await?;
        ensure!(condition(&status, "FetchingHistory").is_none(), "{status}");
        Ok(status)
    })
    .await?;
    let lived_through = expected(&trace, TAKEOVER);
    compare(&status, lived_through)?;
    eventually("an event tells of it", PATIENCE, async || {
        let events = kubectl_in(
            &sandbox,
            &[
                "get",
                "events",
                "-n",
                NAMESPACE,
                "-o",
                "jsonpath={.items[*].reason}",
            ],
        )
        .await?;
        ensure!(events.contains("HistoryMissing"), "{events}");
        Ok(())
    })
    .await?;
    eventually("metrics tell of it", PATIENCE, async || {
        let metrics = metrics(&address).await?;
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
        PATIENCE,
        async || compare(&self::status(&autoscalers, "later").await?, lived_through),
    )
    .await?;

    predictions.await_rise().await?;
    predictions.await_young().await?;
    sandbox.stop(Component::Prometheus).await?;
    predictions.await_ageing().await?;
    sandbox.start(Component::Prometheus).await?;
    predictions.await_renewed().await?;
    running.kill().await?;
    let _another = recommender(&sandbox)?;
    predictions.await_longer_window().await?;
    sandbox.down().await
}

fn autoscaler(name: &str) -> Value {
    json!({
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "updatePolicy": {"updateMode": "Off"},
        },
    })
}

async fn kubectl_apply(sandbox: &Sandbox, folder: &Path, objects: &str) -> Result<()> {
    let file = folder.join("objects.yaml");
    fs::write(&file, objects)?;
    kubectl_in(
        sandbox,
        &[
            "apply",
            "--server-side",
            "-f",
            file.to_str().context("a path is text")?,
        ],
    )
    .await?;
    Ok(())
}

/// Creates the workload and its VPA; returns the name of its pod.
async fn workload(sandbox: &Sandbox, folder: &Path) -> Result<(Client, String)> {
    kubectl_apply(sandbox, folder, WORKLOAD).await?;
    kubectl_apply(sandbox, folder, &autoscaler("web").to_string()).await?;
    let client = sandbox.client().await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pod = eventually("the pod is there", PATIENCE, async || {
        let pods = pods.list(&ListParams::default()).await?.items;
        pods.first()
            .map(kube::ResourceExt::name_any)
            .context("no pod")
    });
    Ok((client, pod.await?))
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
    let url = sandbox
        .prometheus_url()
        .context("this sandbox has a Prometheus")?;
    let receiver = Receiver::new(&url, sandbox.authority())?;
    let (gone, live) = trace.split_at(TAKEOVER);
    for (pod, minutes) in [(GONE, gone), (pod, live)] {
        let labels = |metric| {
            Labels::from([
                ("__name__", metric),
                ("namespace", NAMESPACE),
                ("pod", pod),
                ("container", "app"),
            ])
        };
        let mut seconds = 0.0;
        let cpu = minutes.iter().map(|minute| {
            seconds += minute.millicores * 60.0 / 1000.0;
            (minute.second, seconds)
        });
        receiver
            .write(labels("container_cpu_usage_seconds_total"), cpu)
            .await?;
        let memory = minutes.iter().map(|minute| (minute.second, minute.bytes));
        receiver
            .write(labels("container_memory_working_set_bytes"), memory)
            .await?;
        let described = Labels::from([
            ("__name__", "kube_pod_labels"),
            ("namespace", NAMESPACE),
            ("pod", pod),
            ("label_app_kubernetes_io_name", "web"),
        ]);
        receiver
            .write(described, minutes.iter().map(|minute| (minute.second, 1.0)))
            .await?;
    }
    Ok(())
}

/// Metrics of an earlier recommender.
async fn publish_earlier_recommendation(autoscalers: &Api<VerticalPodAutoscaler>) -> Result<()> {
    let container = json!({"containerName": "app", "target": {"cpu": "777m", "memory": "777Mi"}});
    let status = json!({"status": {"recommendation": {"containerRecommendations": [container]}}});
    autoscalers
        .patch_status("web", &PatchParams::default(), &Patch::Merge(status))
        .await?;
    Ok(())
}

fn recommender(sandbox: &Sandbox) -> Result<(Child, String)> {
    let free = free_address()?;
    let log = fs::File::create(sandbox.logs_dir().join("recommender.log"))?;
    let child = Command::new(program("recommender")?)
        .arg(format!("--kubeconfig={}", sandbox.kubeconfig().display()))
        .arg(format!("--address={free}"))
        .args([
            "--storage=prometheus",
            "--history-resolution=2m",
            "--recommender-interval=10s",
        ])
        .args([
            "--prediction-read-interval=2s",
            "--prediction-update-frequency-duration=2s",
        ])
        .arg(format!(
            "--prometheus-address={}",
            sandbox
                .prometheus_url()
                .context("this sandbox has a Prometheus")?
        ))
        .arg(format!(
            "--prometheus-ca-file={}",
            sandbox.authority().display()
        ))
        .stderr(Stdio::from(log))
        .kill_on_drop(true)
        .spawn()
        .context("start the recommender")?;
    Ok((child, format!("http://{free}")))
}

async fn metrics(address: &str) -> Result<String> {
    let client = Client::try_from(kube::Config::new(address.parse()?))?;
    Ok(client
        .request_text(http::Request::get("/metrics").body(Vec::new())?)
        .await?)
}

async fn status(autoscalers: &Api<VerticalPodAutoscaler>, name: &str) -> Result<Value> {
    Ok(serde_json::to_value(autoscalers.get(name).await?.status)?)
}

fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// Within a bucket of the histogram: these grow by five per cent.
fn compare(status: &Value, (cores, bytes): (f64, f64)) -> Result<()> {
    let target = &status["recommendation"]["containerRecommendations"][0]["target"];
    for (resource, expected) in [("cpu", cores), ("memory", bytes)] {
        let found = number(
            target[resource]
                .as_str()
                .with_context(|| format!("no {resource} in {status}"))?,
        )?;
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
