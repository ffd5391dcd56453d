//! Histories of our, Crane's and Autopilot's sizing methods: rebuilt from Prometheus, then kept by a
//! restart with checkpoints.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{SIZING_HISTORY, VerticalPodAutoscalerCheckpoint as Checkpoint};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::process::command;
use e2e::remote_write::Receiver;
use e2e::{Namespace, condition, eventually, free_address, target, usage};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use model::{Cpu, Memory};
use sandbox::Sandbox;
use serde_json::{Value, json};
use sizing::{MethodHistory, MethodSettings, Observation};

use super::number;

const METHODS: [&str; 4] = ["crane", "autopilot-window", "autopilot-ml", "plimsoll"];
const POLICY: &str = "plimsoll.dev/sizing-policy";
const MINIMUM_HISTORY: &str = "plimsoll.dev/sizing-minimum-history";
const MINUTES: i64 = 3 * 1440;
const MIB: i64 = 1 << 20;

/// VPA objects of one Deployment, one per method.
pub(crate) struct Methods {
    namespace: Namespace,
    /// Time of the first sample, in seconds.
    start: i64,
}

/// Millicores and bytes: half a day of much usage, half a day of less, and little at the end.
fn used(minute: i64) -> (i64, i64) {
    if minute >= MINUTES - 30 {
        (140, 150 * MIB)
    } else if (MINUTES - minute) % 1440 < 720 {
        (740, 900 * MIB)
    } else {
        (340, 450 * MIB)
    }
}

fn annotations(method: &str) -> Value {
    json!({POLICY: method, MINIMUM_HISTORY: "0s"})
}

/// The recommendation of a method's code for a history with a sample every two minutes.
fn expected(method: &str, start: i64) -> Result<(i64, i64)> {
    let settings = MethodSettings::from_annotations([(POLICY, method)])?.context("a method")?;
    let at = |minute: i64| Timestamp::from_second(start + minute * 60).map(Into::into);
    let mut history = MethodHistory::new(&settings, at(0)?);
    for minute in (0..MINUTES).step_by(2) {
        let (millicores, bytes) = used(minute);
        let seen = Observation::Usage {
            cpu: Some(Cpu::from_millicores(millicores)),
            memory: Some(Memory::from_bytes(bytes)),
        };
        history.observe(&settings, 1, seen, at(minute)?);
    }
    let amounts = history.recommend(&settings).context("a recommendation")?;
    Ok((amounts.cpu.millicores(), amounts.memory.bytes()))
}

impl Methods {
    /// Creates the workload, its history and the VPA objects. `later` chooses its method after its
    /// usual history was fetched.
    pub(crate) async fn create(sandbox: &Sandbox, client: &Client) -> Result<Self> {
        let namespace = Namespace::new(client.clone(), "methods").await?;
        namespace
            .deploy("web", 1, &json!({}), &usage("10m", "10Mi"))
            .await?;
        let pod = eventually("the pod is there", async || {
            let pods = namespace.pods_of("web").await?;
            let name = pods.first().context("no pod")?.metadata.name.clone();
            name.context("a name")
        })
        .await?;
        let start = Timestamp::now().as_second() / 60 * 60 - MINUTES * 60;
        let methods = Self { namespace, start };
        methods.write_history(sandbox, &pod).await?;
        methods.autoscale("later", &json!({})).await?;
        for method in METHODS {
            methods.autoscale(method, &annotations(method)).await?;
        }
        Ok(methods)
    }

    async fn write_history(&self, sandbox: &Sandbox, pod: &str) -> Result<()> {
        let receiver = Receiver::of(sandbox)?;
        let namespace = ("namespace", self.namespace.namespace.as_str());
        let labels = [namespace, ("pod", pod), ("container", "app")];
        let second = |minute: i64| self.start + minute * 60;
        let mut seconds = 0.0;
        let cpu = (0..MINUTES).map(|minute| {
            seconds += used(minute).0 as f64 * 60.0 / 1000.0;
            (second(minute), seconds)
        });
        let name = "container_cpu_usage_seconds_total";
        receiver.write(name, &labels, cpu).await?;
        let memory = (0..MINUTES).map(|minute| (second(minute), used(minute).1 as f64));
        let name = "container_memory_working_set_bytes";
        receiver.write(name, &labels, memory).await
    }

    async fn autoscale(&self, name: &str, annotations: &Value) -> Result<()> {
        let metadata = json!({"name": name, "annotations": annotations});
        let update = json!({"updateMode": "Off"});
        let spec = json!({"targetRef": target("Deployment", "web"), "updatePolicy": update});
        let object = json!({"metadata": metadata, "spec": spec});
        self.namespace.create::<Vpa>(object).await?;
        Ok(())
    }

    /// The recommendation before limits of an object whose history is complete.
    async fn uncapped(&self, name: &str) -> Result<Value> {
        let status = self.namespace.get::<Vpa>(name).await?["status"].take();
        ensure!(condition(&status, "FetchingHistory").is_none(), "{status}");
        let uncapped = &status["recommendation"]["containerRecommendations"][0]["uncappedTarget"];
        ensure!(uncapped.is_object(), "{name}: {status}");
        Ok(uncapped.clone())
    }

    async fn await_expected(&self, name: &str, method: &str) -> Result<()> {
        let (millicores, bytes) = expected(method, self.start)?;
        eventually(
            "the recommendation is that of the method's code",
            async || {
                let uncapped = self.uncapped(name).await?;
                let amount =
                    |resource: &str| number(uncapped[resource].as_str().context("an amount")?);
                let found = (
                    (amount("cpu")? * 1000.0).round() as i64,
                    amount("memory")?.round() as i64,
                );
                // CPU is a rate: after a change of usage, one sample lies between the two values, and
                // only plimsoll depends on the order of single samples.
                let is_cpu_expected = found.0 == millicores || method == "plimsoll";
                let is_expected = is_cpu_expected && found.1 == bytes;
                ensure!(
                    is_expected,
                    "{name}: {found:?}, not {millicores}m and {bytes}"
                );
                Ok(())
            },
        )
        .await
    }

    /// Every object has the recommendation that its method's code has for the stored samples.
    pub(crate) async fn await_rebuilt(&self) -> Result<()> {
        for method in METHODS {
            self.await_expected(method, method).await?;
        }
        eventually("the usual history has come", async || {
            self.uncapped("later").await
        })
        .await?;
        let later = json!({"metadata": {"annotations": annotations("autopilot-window")}});
        self.namespace.patch::<Vpa>("later", later).await?;
        self.await_expected("later", "autopilot-window").await
    }

    /// Waits until every history is stored.
    async fn await_stored(&self) -> Result<()> {
        eventually("the histories are stored", async || {
            let stored = self.namespace.list::<Checkpoint>().await?;
            let histories = stored
                .iter()
                .filter(|stored| stored["metadata"]["annotations"][SIZING_HISTORY].is_string());
            let count = histories.count();
            ensure!(count == METHODS.len() + 1, "{count} histories are stored");
            Ok(())
        })
        .await
    }

    async fn all_uncapped(&self) -> Result<BTreeMap<&str, Value>> {
        let mut all = BTreeMap::new();
        for name in METHODS.into_iter().chain(["later"]) {
            all.insert(name, self.uncapped(name).await?);
        }
        Ok(all)
    }

    /// Kills the recommender, takes the recommendations away and starts another one that reads
    /// checkpoints only: it recommends the same, to the last digit.
    pub(crate) async fn await_restarted(
        &self,
        sandbox: &Sandbox,
        mut running: tokio::process::Child,
    ) -> Result<()> {
        self.await_stored().await?;
        let before = self.all_uncapped().await?;
        running.kill().await?;
        let wiped = json!({"recommendation": null, "conditions": null});
        for name in before.keys() {
            self.namespace.patch_status::<Vpa>(name, &wiped).await?;
        }
        let log = sandbox.logs_dir().join("recommender-restarted.log");
        let mut restarted = command("recommender", &sandbox.kubeconfig(), &log)?
            .arg(format!("--address={}", free_address()?))
            .arg("--recommender-interval=10s")
            .spawn()
            .context("start the recommender")?;
        let after = eventually("it recommends again", async || self.all_uncapped().await).await?;
        assert_eq!(after, before);
        restarted.kill().await?;
        Ok(())
    }
}
