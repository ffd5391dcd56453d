//! The recommender, workloads of one pod each with a VPA object of the same name, and kills of
//! their containers.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::vpa::{CONFIG_UNSUPPORTED, VerticalPodAutoscaler as Vpa};
use e2e::deployment::{self, RECOMMENDER};
use e2e::{
    Namespace, Turn, Turns, container, eventually, feed_tls, in_parallel, oom_kill,
    requests_in_effect, shared, target, until, workload,
};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use model::{Memory, Quantity};
use rustls::ClientConfig;
use serde_json::{Value, json};

/// Requests to the API server at the same time.
const CONCURRENCY: usize = 32;

/// The fixture, locked by one test.
pub(crate) struct Fixture {
    own: Namespace,
    pub(crate) tls: Turn<Arc<ClientConfig>>,
}

e2e::deref_to_namespace!(Fixture, own);

impl Fixture {
    /// A namespace of this test's own. Tests take turns.
    pub(crate) async fn take(prefix: &str) -> Result<Self> {
        static DEPLOYED: Turns<Arc<ClientConfig>> = Turns::new();
        let tls = DEPLOYED.alone(deploy).await?;
        let client = shared().await?.client().await?;
        let own = Namespace::new(client, prefix).await?;
        Ok(Self { own, tls })
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
        let make = names
            .iter()
            .map(|name| self.make(name, requested_mib, policy));
        in_parallel(CONCURRENCY, make).await?;
        eventually("each has a recommendation and runs", async || {
            let list = self.objects().list(&ListParams::default()).await?;
            let own = list.iter().filter(|it| names.contains(&it.name_any()));
            let provided = own.filter_map(memory_target).count();
            let is_own = |pod: &&Pod| {
                let app = pod.labels().get("app");
                app.is_some_and(|app| names.contains(app))
            };
            let pods = self.pods().await?;
            let running = pods.iter().filter(is_own).filter(|pod| runs(pod)).count();
            ensure!(
                provided == names.len() && running == names.len(),
                "{provided} have one, {running} run"
            );
            Ok(())
        })
        .await
    }

    async fn make(&self, name: &str, requested_mib: u64, policy: &Value) -> Result<()> {
        self.make_set(name, 1, requested_mib).await?;
        self.autoscale(name, name, policy).await
    }

    async fn make_set(&self, name: &str, replicas: usize, requested_mib: u64) -> Result<()> {
        let quick = json!({"sandbox.plimsoll.dev/back-off": "100ms"});
        let set = workload(name, replicas, &requests(requested_mib), &quick);
        self.create::<ReplicaSet>(set).await?;
        Ok(())
    }

    async fn autoscale(&self, name: &str, workload: &str, policy: &Value) -> Result<()> {
        let spec = json!({
            "targetRef": target("ReplicaSet", workload),
            "recommenders": [{"name": "e2e"}],
            "updatePolicy": policy,
        });
        self.own.make::<Vpa>(name, spec).await?;
        Ok(())
    }

    /// Creates `count` VPA objects before their workload, so that all of their statuses change at
    /// once.
    pub(crate) async fn crowd(&self, count: usize) -> Result<()> {
        let names: Vec<String> = (0..count).map(|number| format!("crowd-{number}")).collect();
        let policy = unmoved();
        let make = names
            .iter()
            .map(|name| self.autoscale(name, "late", &policy));
        in_parallel(CONCURRENCY, make).await?;
        until(
            "each object says that its workload is not there",
            async || self.unsupported().await,
            |unsupported| *unsupported == count,
        )
        .await?;
        self.make_set("late", 0, 100).await?;
        eventually("their statuses begin to change", async || {
            ensure!(self.unsupported().await? < count, "not one has changed");
            Ok(())
        })
        .await
    }

    /// Number of objects whose status says that their workload is missing.
    pub(crate) async fn unsupported(&self) -> Result<usize> {
        let says_so = |object: &&Vpa| {
            let status = object.status.iter();
            let mut conditions = status.flat_map(|status| &status.conditions);
            conditions.any(|condition| condition.kind == CONFIG_UNSUPPORTED)
        };
        let list = self.objects().list(&ListParams::default()).await?;
        Ok(list.iter().filter(says_so).count())
    }

    fn objects(&self) -> Api<Vpa> {
        self.typed()
    }

    pub(crate) async fn running(&self, workload: &str) -> Result<Pod> {
        eventually("the container runs", async || {
            let pods = self.pods_of(workload).await?;
            let pod = pods.into_iter().next().context("no pod yet")?;
            ensure!(runs(&pod), "{:?}", pod.status);
            Ok(pod)
        })
        .await
    }

    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        Ok(self.typed().list(&ListParams::default()).await?.items)
    }

    /// Waits until the pod of a workload asks for what is recommended.
    pub(crate) async fn settled(&self, workload: &str) -> Result<()> {
        eventually("the pod asks for what is recommended", async || {
            let target = memory_target(&self.objects().get(workload).await?);
            let target = target.context("no target")?;
            let asks = memory_in_effect(&self.running(workload).await?).context("none")?;
            ensure!(asks == target, "it asks for {asks} and not for {target}");
            Ok(())
        })
        .await
    }

    /// The pod of a workload, once it has this memory request in effect.
    pub(crate) async fn resized(&self, workload: &str, mib: u64) -> Result<Pod> {
        let pod = self.running(workload).await?;
        let container = json!({"name": "app", "resources": requests(mib)});
        let resize = Patch::Strategic(json!({"spec": {"containers": [container]}}));
        let (pods, params) = (self.typed::<Pod>(), PatchParams::default());
        pods.patch_subresource("resize", &pod.name_any(), &params, &resize)
            .await?;
        eventually("the resize is in effect", async || {
            let pod = self.running(workload).await?;
            let has = memory_in_effect(&pod).context("it has a size")?;
            ensure!(has == i64::try_from(mib << 20)?, "it has {has}");
            Ok(pod)
        })
        .await
    }

    /// Reports an OOM kill of the pod's container as a kubelet does.
    pub(crate) async fn kill(&self, pod: &Pod) -> Result<()> {
        let resources = container(pod).and_then(|status| status.resources.as_ref());
        let resources = serde_json::to_value(resources.context("it has a size")?)?;
        oom_kill(&self.typed(), pod, &resources).await
    }
}

/// Of objects whose pods stay as they are, also while another test's updater and webhook run.
fn unmoved() -> Value {
    json!({"updateMode": "Off"})
}

fn requests(mib: u64) -> Value {
    json!({"requests": {"memory": format!("{mib}Mi")}})
}

/// Deploys the recommender with its feed; returns the TLS configuration of a reader.
async fn deploy() -> Result<Arc<ClientConfig>> {
    let sandbox = shared().await?;
    deployment::deploy(sandbox, "tests/oom_kills", RECOMMENDER.labels).await?;
    feed_tls(&sandbox.client().await?).await
}

fn runs(pod: &Pod) -> bool {
    let state = container(pod).and_then(|status| status.state.as_ref());
    state.is_some_and(|state| state.running.is_some())
}

/// The memory that the object asks for, in bytes.
pub(crate) fn memory_target(object: &Vpa) -> Option<i64> {
    let recommendation = object.status.as_ref()?.recommendation.as_ref()?;
    let container = recommendation.containers.first()?;
    Some(container.target.memory()?.bytes())
}

/// The memory that the pod's container has, as its kubelet reports it, in bytes.
pub(crate) fn memory_in_effect(pod: &Pod) -> Option<i64> {
    let memory: Quantity = requests_in_effect(pod)?.get("memory")?.0.parse().ok()?;
    Some(Memory::from(&memory).bytes())
}
