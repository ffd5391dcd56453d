//! A cluster with the whole suite, workloads that give it work, and a Prometheus that watches it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{EXTENDER, SUITE, SYSTEM, deploy, prometheus_variables, replicas, system};
use e2e::remote_write::{DailyCpu, Receiver};
use e2e::scheduler::{Scheduler, with_extender};
use e2e::{
    Namespace, Prometheus, another_with_prometheus, apply, eventually, kubectl_in, requests,
    target, usage, with, workload,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::prometheus::{firing, watch_programs};

const DAY: i64 = 86_400;
/// Days of history of the scaled workloads.
const DAYS: i64 = 6;
/// The longest time for a request for a metric.
const ASKED_FOR: Duration = Duration::from_secs(1);
/// A scaled workload whose load has changed.
pub(crate) const CHANGED: &str = "changed";
/// Cores at most times, and for some hours of a day.
const LOW: f64 = 0.02;
const HIGH: f64 = 0.2;

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: Client,
    pub(crate) prometheus: Prometheus,
    pub(crate) own: Namespace,
    /// Names of the alerts that a fault caused.
    fired: Mutex<BTreeSet<String>>,
    _scheduler: Scheduler,
}

impl Cluster {
    /// Starts everything, without faults.
    pub(crate) async fn start() -> Result<Self> {
        let sandbox = another_with_prometheus("alerts").await?;
        let client = sandbox.client().await?;
        let prometheus = watch_programs(&sandbox).await?;
        prometheus_variables(&sandbox, &["RECOMMENDER", "ADAPTER"]).await?;
        let own = Namespace::new(client.clone(), "shop").await?;
        write_history(&sandbox, &own.namespace).await?;
        deploy(&sandbox, "tests/e2e/alerts", SUITE).await?;
        let extender = replicas(&client, EXTENDER).await?;
        let extender = extender.first().context("there is an extender")?;
        let configuration = with_extender(&sandbox, extender).await?;
        let scheduler = Scheduler::start(&sandbox, "load-aware", configuration)?;
        Ok(Self {
            sandbox,
            client,
            prometheus,
            own,
            fired: Mutex::default(),
            _scheduler: scheduler,
        })
    }

    /// Output of kubectl with all rights.
    pub(crate) async fn kubectl(&self, arguments: &str) -> Result<String> {
        kubectl_in(&self.sandbox, arguments).await
    }

    pub(crate) async fn apply(&self, file: &str) -> Result<()> {
        apply(&self.sandbox, &format!("tests/e2e/alerts/{file}"))
            .await
            .map(drop)
    }

    pub(crate) fn system(&self) -> Namespace {
        system(&self.client)
    }

    pub(crate) async fn create_workloads(&self) -> Result<()> {
        let recreate = json!({"updatePolicy": {"updateMode": "Recreate"}});
        sized(&self.own, "web", 6, &json!({}), &recreate).await?;
        let mut placed = workload(
            "placed",
            2,
            &requests("100m", "64Mi"),
            &usage("50m", "32Mi"),
        );
        placed["spec"]["template"]["spec"]["schedulerName"] = "load-aware".into();
        self.own.create::<Deployment>(placed).await?;
        self.scaled("checkout").await
    }

    /// A Deployment with an EHPA that predicts its CPU.
    pub(crate) async fn scaled(&self, name: &str) -> Result<()> {
        self.own
            .deploy(name, 2, &requests("100m", "64Mi"), &usage("40m", "32Mi"))
            .await?;
        let cpu = json!({"type": "Resource", "resource": {
            "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50},
        }});
        let algorithm = json!({
            "algorithmType": "dsp", "dsp": {"sampleInterval": "60s", "historyLength": "7d"},
        });
        let spec = json!({
            "scaleTargetRef": target("Deployment", name), "minReplicas": 2, "maxReplicas": 10,
            "scaleStrategy": "Auto", "metrics": [cpu],
            "prediction": {"predictionWindowSeconds": 3600, "predictionAlgorithm": algorithm},
        });
        let annotations = json!({"plimsoll.dev/forecast-window": "30m"});
        let metadata = json!({"name": name, "annotations": annotations});
        let ehpa = json!({"metadata": metadata, "spec": spec});
        self.own.create::<Ehpa>(ehpa).await?;
        Ok(())
    }

    /// Waits until these alerts have fired.
    pub(crate) async fn fire(&self, names: &[&str]) -> Result<()> {
        self.fire_while(names, async || Ok(())).await
    }

    /// The same, with something that goes on meanwhile.
    pub(crate) async fn fire_while(
        &self,
        names: &[&str],
        go_on: impl AsyncFn() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut missing: Vec<&str> = names.to_vec();
        let fired = eventually(&format!("{names:?} fire"), async || {
            go_on().await?;
            let firing = firing(&self.prometheus).await?;
            missing.retain(|name| {
                let fires = firing.contains(*name);
                if fires {
                    println!("{name} fires after {:.0?}", begun.elapsed());
                }
                !fires
            });
            ensure!(missing.is_empty(), "{missing:?} do not, {firing:?} do");
            Ok(())
        })
        .await;
        if fired.is_err() {
            println!("{}", self.programs().await?);
        }
        fired?;
        let mut fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        fired.extend(names.iter().map(ToString::to_string));
        Ok(())
    }

    /// For the report of a fault: the pods of the programs with their restarts, and the last warning of those
    /// that have a leader, of the sandbox and of etcd.
    async fn programs(&self) -> Result<String> {
        let columns = "NAME:.metadata.name,RESTARTS:.status.containerStatuses[0].restartCount,\
                       STATE:.status.containerStatuses[0].state";
        let list = format!("get pods -n {SYSTEM} --no-headers -o custom-columns={columns}");
        let pods = self.kubectl(&list).await?;
        let mut lines = Vec::new();
        let warning = |log: &str| {
            let is_warning = |line: &&str| {
                ["WARN", "ERROR", "\"warn\""]
                    .iter()
                    .any(|it| line.contains(it))
            };
            let newest = log.lines().rev().find(is_warning).unwrap_or("no warning");
            format!("  {newest:.300}")
        };
        for pod in pods.lines() {
            let name = pod.split_whitespace().next().unwrap_or_default();
            lines.push(format!("{pod:.300}"));
            if name.contains("recommender") || name.contains("updater") {
                let log = format!("logs -n {SYSTEM} {name} --tail=1000");
                lines.push(warning(&self.kubectl(&log).await.unwrap_or_default()));
            }
        }
        for program in ["supervisor", "etcd"] {
            let file = self.sandbox.logs_dir().join(format!("{program}.log"));
            lines.push(program.to_owned() + &warning(&fs::read_to_string(file)?));
        }
        Ok(lines.join("\n"))
    }

    /// Waits until these alerts do not fire.
    pub(crate) async fn clear(&self, names: &[&str]) -> Result<()> {
        eventually(&format!("{names:?} are cleared"), async || {
            let firing = firing(&self.prometheus).await?;
            let left: Vec<_> = names
                .iter()
                .filter(|name| firing.contains(**name))
                .collect();
            ensure!(left.is_empty(), "{left:?} fire");
            Ok(())
        })
        .await
    }

    /// Names of all alerts that a fault caused.
    pub(crate) fn fired(&self) -> BTreeSet<String> {
        let fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        fired.clone()
    }

    pub(crate) async fn quiet(&self) -> Result<()> {
        eventually("no alert fires", async || {
            let firing = firing(&self.prometheus).await?;
            ensure!(firing.is_empty(), "{firing:?} fire");
            Ok(())
        })
        .await
    }

    pub(crate) async fn ask_metric(&self, name: &str) -> Result<()> {
        let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{SYSTEM}/{name}");
        let request = http::Request::get(path).body(Vec::new())?;
        // The response does not matter, and the client would repeat the request after a 503.
        drop(timeout(ASKED_FOR, self.client.request_text(request)).await);
        Ok(())
    }
}

/// A Deployment whose pods use more than they request, with a VPA object. `template` is merged into the
/// template of its pods, `spec` into the specification of the VPA object.
pub(crate) async fn sized(
    namespace: &Namespace,
    name: &str,
    replicas: usize,
    template: &Value,
    spec: &Value,
) -> Result<()> {
    let small = requests("50m", "50Mi");
    let mut deployment = workload(name, replicas, &small, &usage("300m", "400Mi"));
    json_patch::merge(&mut deployment["spec"]["template"], template);
    namespace.create::<Deployment>(deployment).await?;
    let spec = with(
        json!({"targetRef": target("Deployment", name)}),
        spec.clone(),
    );
    namespace.make::<Vpa>(name, spec).await?;
    Ok(())
}

/// Days of a pod of each scaled workload. The load of [`CHANGED`] has risen each day but the last one.
async fn write_history(sandbox: &Sandbox, namespace: &str) -> Result<()> {
    let receiver = Receiver::of(sandbox)?;
    let now = Timestamp::now().as_second();
    let (begin, changed) = (now - DAYS * DAY, now - DAY - DAY / 8);
    for (name, from, to, high) in [
        ("checkout", begin, now, HIGH),
        (CHANGED, begin, changed, HIGH),
        (CHANGED, changed, now, LOW),
    ] {
        let pod = format!("{name}-6d5f9c7b8d-aaaaa");
        let cpu = DailyCpu {
            namespace,
            pod: &pod,
            container: "app",
            rise: now + 1200,
            busy: 6 * 3600,
            low: LOW,
            high,
        };
        receiver.write_daily_cpu(&cpu, from, to).await?;
    }
    Ok(())
}
