//! The recommender, workloads of one pod each with a VPA object of the same name, and kills of
//! their containers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::{CONFIG_UNSUPPORTED, VerticalPodAutoscaler};
use e2e::{apply, deployed, eventually, feed_certificates, namespace, oom_kill, shared};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use model::{Memory, Quantity};
use rustls::ClientConfig;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};

/// For what is not measured.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// Requests to the API server at the same time.
const CONCURRENCY: usize = 32;

/// The fixture, locked by one test.
pub(crate) struct Fixture {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// For the feed.
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) pods: Api<Pod>,
    _turn: MutexGuard<'static, Option<Arc<ClientConfig>>>,
}

impl Fixture {
    /// A namespace of this test's own. Tests take turns.
    pub(crate) async fn take(prefix: &str) -> Result<Self> {
        static DEPLOYED: Mutex<Option<Arc<ClientConfig>>> = Mutex::const_new(None);
        let mut turn = DEPLOYED.lock().await;
        let client = shared().await?.client().await?;
        if turn.is_none() {
            *turn = Some(deploy(&client).await?);
        }
        let tls = turn.clone().context("just made")?;
        let namespace = namespace(&client, prefix).await?;
        let pods = Api::namespaced(client.clone(), &namespace);
        Ok(Self {
            client,
            namespace,
            tls,
            pods,
            _turn: turn,
        })
    }

    /// Creates workloads with this memory request, and waits until each has a recommendation.
    pub(crate) async fn populate(&self, names: &[String], requested_mib: u64) -> Result<()> {
        self.populate_with(names, requested_mib, &unmoved()).await
    }

    /// The same, with an update policy.
    pub(crate) async fn populate_with(
        &self,
        names: &[String],
        requested_mib: u64,
        policy: &Value,
    ) -> Result<()> {
        let make = stream::iter(names).map(|name| self.make(name, requested_mib, policy));
        make.buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        let objects = self.objects();
        eventually(
            "each object has a recommendation and each pod runs",
            PATIENCE,
            async || {
                let list = objects.list(&ListParams::default()).await?;
                let is_one = |object: &&VerticalPodAutoscaler| names.contains(&object.name_any());
                let provided = list
                    .iter()
                    .filter(is_one)
                    .filter(|object| memory_target(object).is_some())
                    .count();
                let pods = self.pods.list(&ListParams::default()).await?;
                let is_one = |pod: &&Pod| {
                    pod.labels()
                        .get("app")
                        .is_some_and(|app| names.contains(app))
                };
                let running = pods.iter().filter(is_one).filter(|pod| runs(pod)).count();
                ensure!(
                    provided == names.len() && running == names.len(),
                    "{provided} have one, {running} run"
                );
                Ok(())
            },
        )
        .await
    }

    async fn make(&self, name: &str, requested_mib: u64, policy: &Value) -> Result<()> {
        self.make_set(name, 1, requested_mib).await?;
        self.autoscale(name, name, policy).await
    }

    async fn make_set(&self, name: &str, replicas: u32, requested_mib: u64) -> Result<()> {
        let labels = json!({"app": name});
        let container = json!({
            "name": "app",
            "image": "registry.example.com/app",
            "resources": requests(requested_mib),
        });
        let replica_set = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": {"sandbox.plimsoll.dev/back-off": "100ms"}},
                    "spec": {"containers": [container]},
                },
            },
        });
        let replica_sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        replica_sets
            .create(
                &PostParams::default(),
                &serde_json::from_value(replica_set)?,
            )
            .await?;
        Ok(())
    }

    async fn autoscale(&self, name: &str, target: &str, policy: &Value) -> Result<()> {
        let autoscaler = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": target},
                "recommenders": [{"name": "e2e"}],
                "updatePolicy": policy,
            },
        });
        self.objects()
            .create(&PostParams::default(), &serde_json::from_value(autoscaler)?)
            .await?;
        Ok(())
    }

    /// Creates `count` VPA objects before their workload, so that all of their statuses change at
    /// once.
    pub(crate) async fn crowd(&self, count: usize) -> Result<()> {
        let names: Vec<String> = (0..count).map(|number| format!("crowd-{number}")).collect();
        let policy = unmoved();
        let make = stream::iter(&names).map(|name| self.autoscale(name, "late", &policy));
        make.buffer_unordered(CONCURRENCY)
            .try_collect::<Vec<()>>()
            .await?;
        eventually(
            "each object says that its workload is not there",
            PATIENCE,
            async || {
                let unsupported = self.unsupported().await?;
                ensure!(unsupported == count, "{unsupported} of {count} do");
                Ok(())
            },
        )
        .await?;
        self.make_set("late", 0, 100).await?;
        eventually("their statuses begin to change", PATIENCE, async || {
            ensure!(self.unsupported().await? < count, "not one has changed");
            Ok(())
        })
        .await
    }

    /// Number of objects whose status says that their workload is missing.
    pub(crate) async fn unsupported(&self) -> Result<usize> {
        let says_so = |object: &VerticalPodAutoscaler| {
            let conditions = object.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|condition| condition.kind == CONFIG_UNSUPPORTED)
        };
        Ok(self
            .objects()
            .list(&ListParams::default())
            .await?
            .iter()
            .filter(|object| says_so(object))
            .count())
    }

    fn objects(&self) -> Api<VerticalPodAutoscaler> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// The pod of a workload, once its container runs.
    pub(crate) async fn running(&self, workload: &str) -> Result<Pod> {
        let of_workload = ListParams::default().labels(&format!("app={workload}"));
        eventually("the container runs", PATIENCE, async || {
            let pod = self
                .pods
                .list(&of_workload)
                .await?
                .items
                .into_iter()
                .next()
                .context("no pod yet")?;
            ensure!(runs(&pod), "{:?}", pod.status);
            Ok(pod)
        })
        .await
    }

    /// All pods.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self.pods.list(&ListParams::default()).await?.items)
    }

    /// The pod of a workload, once it asks for what is recommended.
    pub(crate) async fn settled(&self, workload: &str) -> Result<()> {
        eventually(
            "the pod asks for what is recommended",
            PATIENCE,
            async || {
                let target =
                    memory_target(&self.objects().get(workload).await?).context("no target")?;
                let pod = self.running(workload).await?;
                let requests =
                    container(&pod).and_then(|status| status.resources.as_ref()?.requests.clone());
                let memory: Quantity = requests
                    .as_ref()
                    .and_then(|list| list.get("memory"))
                    .context("none")?
                    .0
                    .parse()?;
                let asks = Memory::from(&memory).bytes();
                ensure!(asks == target, "it asks for {asks} and not for {target}");
                Ok(())
            },
        )
        .await
    }

    /// Ends the pod's container with what it has in its request.
    pub(crate) async fn kill_as_it_is(&self, pod: &Pod) -> Result<()> {
        let resources = container(pod)
            .and_then(|status| status.resources.as_ref())
            .context("it has a size")?;
        oom_kill(&self.pods, pod, &serde_json::to_value(resources)?).await
    }

    /// Reports an OOM kill of the pod's container as a kubelet does, with this memory request.
    pub(crate) async fn kill(&self, pod: &Pod, requested_mib: u64) -> Result<()> {
        oom_kill(&self.pods, pod, &requests(requested_mib)).await
    }
}

/// Of objects whose pods stay as they are, also while another test's updater and webhook run.
fn unmoved() -> Value {
    json!({"updateMode": "Off"})
}

fn requests(mib: u64) -> Value {
    json!({"requests": {"memory": format!("{mib}Mi")}})
}

/// Sends a signal to a process of the recommender.
pub(crate) fn signal(process: u32, signal: &str) -> Result<()> {
    let status = std::process::Command::new("kill")
        .args([signal, &process.to_string()])
        .status()?;
    ensure!(status.success(), "kill {signal} {process}");
    Ok(())
}

/// Deploys the recommender with its feed; returns the TLS configuration of a reader.
async fn deploy(client: &Client) -> Result<Arc<ClientConfig>> {
    apply(shared().await?, "deploy/base/namespace.yaml").await?;
    let tls = feed_certificates(client).await?;
    deployed::deploy(shared().await?, "tests/kills").await?;
    Ok(tls)
}

fn container(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}

fn runs(pod: &Pod) -> bool {
    let state = container(pod).and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.running.is_some())
}

/// The memory that the object asks for, in bytes.
pub(crate) fn memory_target(object: &VerticalPodAutoscaler) -> Option<i64> {
    let recommendation = object.status.as_ref()?.recommendation.as_ref()?;
    Some(
        recommendation
            .container_recommendations
            .first()?
            .target
            .memory()?
            .bytes(),
    )
}
