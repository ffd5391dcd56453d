//! A sandbox with the updater in it, workloads, and a webhook that lives as long as its Lease is
//! renewed.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{Replica, UPDATER, all_ready, deploy, leader, scrape, system, total};
use e2e::{
    AvailabilityWatch, Namespace, Turn, Turns, another, eventually, requests_in_effect, target,
    with, workload,
};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::sync::watch;

const DEPLOYMENT: &str = "plimsoll-updater";
const REPLICAS: i32 = 2;
const HEARTBEAT: &str = "vpa-admission-controller";
/// Well within the timeout of the Lease.
const BEAT: Duration = Duration::from_millis(500);
/// First requests of the pods, and the recommendation.
pub(crate) const SMALL: &str = "100m";
pub(crate) const LARGE: &str = "250m";
pub(crate) const BOUNDS: [&str; 2] = ["200m", "300m"];

static SANDBOX: Turns<Sandbox> = Turns::new();

/// The sandbox during the turn of a test, with a namespace of the test's own.
pub(crate) struct Fixture {
    pub(crate) sandbox: Turn<Sandbox>,
    pub(crate) own: Namespace,
}

/// Keeps the webhook alive as long as it is held.
pub(crate) struct Heart {
    beats: watch::Sender<bool>,
    beating: tokio::task::JoinHandle<Result<()>>,
}

e2e::deref_to_namespace!(Fixture, own);

impl Fixture {
    /// For a test that breaks something or measures a time.
    pub(crate) async fn alone(prefix: &str) -> Result<Self> {
        Self::new(SANDBOX.alone(make).await?, prefix).await
    }

    /// For a test that only needs the updater and a webhook that lives.
    pub(crate) async fn together(prefix: &str) -> Result<Self> {
        Self::new(SANDBOX.together(make).await?, prefix).await
    }

    async fn new(sandbox: Turn<Sandbox>, prefix: &str) -> Result<Self> {
        let client = sandbox.client().await?;
        all_ready(&client, UPDATER.labels).await?;
        let own = Namespace::new(client, prefix).await?;
        Ok(Self { sandbox, own })
    }

    pub(crate) async fn leader(&self) -> Result<Replica> {
        leader(&self.client, UPDATER).await
    }

    /// Restarts the updater with another `settlingTime`.
    pub(crate) async fn settle_for(&self, time: &str) -> Result<()> {
        let deployments: Api<Deployment> = system(&self.client).typed();
        let mut deployment = deployments.get(DEPLOYMENT).await?;
        let pod = deployment.spec.template.spec.as_mut();
        let containers = pod.context("it has a template")?.containers.iter_mut();
        for argument in containers.flat_map(|container| container.args.iter_mut().flatten()) {
            if argument.starts_with("--config={settlingTime:") {
                *argument = format!("--config={{settlingTime: {time}}}");
            }
        }
        deployment.metadata.managed_fields = None;
        let changed = deployments
            .replace(DEPLOYMENT, &PostParams::default(), &deployment)
            .await?;
        eventually("all replicas have the setting", async || {
            let status = deployments.get_status(DEPLOYMENT).await?.status;
            let status = status.unwrap_or_default();
            let is_observed = status.observed_generation >= changed.metadata.generation;
            let all = [
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
            ];
            ensure!(is_observed && all == [Some(REPLICAS); 3], "{status:?}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn serves(&self, lines: &[&str]) -> Result<()> {
        eventually(&format!("the leader serves {lines:?}"), async || {
            let metrics = scrape(&self.leader().await?).await?;
            let lacks = lines
                .iter()
                .find(|line| !metrics.lines().any(|it| it == **line));
            ensure!(lacks.is_none(), "{lacks:?} is not in {metrics}");
            Ok(())
        })
        .await
    }

    /// Sum of a counter over all replicas.
    pub(crate) async fn total(&self, metric: &str) -> Result<f64> {
        total(&self.client, UPDATER, metric).await
    }

    /// A `ReplicaSet` whose pods run with the small size; the next ones get the large one, as if the
    /// webhook had reviewed them. `annotations` are those of the pods.
    pub(crate) async fn workload(
        &self,
        name: &str,
        replicas: usize,
        annotations: &Value,
    ) -> Result<()> {
        let none = json!({});
        self.workload_with(name, replicas, annotations, &none).await
    }

    /// The same whose containers have these requests, too.
    pub(crate) async fn workload_with(
        &self,
        name: &str,
        replicas: usize,
        annotations: &Value,
        others: &Value,
    ) -> Result<()> {
        let set = |cpu: &str| {
            let requests = with(json!({"cpu": cpu}), others.clone());
            workload(name, replicas, &json!({"requests": requests}), annotations)
        };
        self.create::<ReplicaSet>(set(SMALL)).await?;
        self.when::<ReplicaSet>(name, "all pods are ready", |it| {
            it["status"]["readyReplicas"] == replicas
        })
        .await?;
        let mut set = set(LARGE);
        let template = &mut set["spec"]["template"];
        template["metadata"]["annotations"]["vpaObservedContainers"] = json!("app");
        let change = json!({"spec": {"template": template}});
        self.patch::<ReplicaSet>(name, change).await?;
        Ok(())
    }

    /// A VPA object with a recommendation of the large size, far from the small one.
    pub(crate) async fn autoscale(&self, name: &str, mode: &str) -> Result<()> {
        let policy = json!({"updateMode": mode});
        self.autoscale_with(name, &policy).await
    }

    /// The same with this update policy.
    pub(crate) async fn autoscale_with(&self, name: &str, policy: &Value) -> Result<()> {
        self.autoscale_within(name, policy, BOUNDS).await
    }

    /// The same with these bounds.
    pub(crate) async fn autoscale_within(
        &self,
        name: &str,
        update_policy: &Value,
        bounds: [&str; 2],
    ) -> Result<()> {
        let spec = json!({"updatePolicy": update_policy});
        self.autoscale_as(name, &json!({}), spec, bounds).await
    }

    /// The same with these annotations and this spec, which may have another target.
    pub(crate) async fn autoscale_as(
        &self,
        name: &str,
        annotations: &Value,
        spec: Value,
        [lower, upper]: [&str; 2],
    ) -> Result<()> {
        let spec = with(json!({"targetRef": target("ReplicaSet", name)}), spec);
        let metadata = json!({"name": name, "annotations": annotations});
        self.create::<Vpa>(json!({"metadata": metadata, "spec": spec}))
            .await?;
        let container = json!({
            "containerName": "app", "target": {"cpu": LARGE}, "lowerBound": {"cpu": lower}, "upperBound": {"cpu": upper},
            "uncappedTarget": {"cpu": LARGE},
        });
        Ok(self.write_recommendation(name, container).await?)
    }

    pub(crate) async fn protect(&self, name: &str, min_available: usize) -> Result<()> {
        let selector = json!({"matchLabels": {"app": name}});
        let spec = json!({"minAvailable": min_available, "selector": selector});
        self.make::<PodDisruptionBudget>(name, spec).await?;
        self.when::<PodDisruptionBudget>(name, "the budget is counted", |it| {
            it["status"]["expectedPods"].as_i64() > Some(0)
        })
        .await
        .map(drop)
    }

    pub(crate) async fn change_budget(&self, name: &str, min_available: usize) -> Result<()> {
        let change = json!({"spec": {"minAvailable": min_available}});
        self.patch::<PodDisruptionBudget>(name, change).await?;
        Ok(())
    }

    /// The pods of a workload that are not on their way out, with what they ask for in effect.
    pub(crate) async fn sizes(&self, workload: &str) -> Result<Vec<(String, String)>> {
        let pods = self.pods_of(workload).await?.into_iter();
        let live = pods.filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(live
            .map(|pod| (pod.uid().unwrap_or_default(), cpu(&pod).unwrap_or_default()))
            .collect())
    }

    /// The identifiers of these pods, in order.
    pub(crate) async fn uids(&self, workload: &str) -> Result<Vec<String>> {
        let sizes = self.sizes(workload).await?.into_iter();
        let mut uids: Vec<String> = sizes.map(|(uid, _)| uid).collect();
        uids.sort();
        Ok(uids)
    }

    /// Number of these pods that request this CPU.
    pub(crate) async fn count(&self, workload: &str, cpu: &str) -> Result<usize> {
        let sizes = self.sizes(workload).await?.into_iter();
        Ok(sizes.filter(|(_, found)| found == cpu).count())
    }

    /// Waits until all pods of a workload request the large size; returns their identifiers.
    pub(crate) async fn all_large(&self, workload: &str, replicas: usize) -> Result<Vec<String>> {
        eventually(&format!("{workload} has the new size"), async || {
            let sizes = self.sizes(workload).await?;
            let are_large = sizes.iter().all(|(_, cpu)| cpu == LARGE);
            ensure!(are_large && sizes.len() == replicas, "{sizes:?}");
            Ok(sizes.into_iter().map(|(uid, _)| uid).collect())
        })
        .await
    }

    /// The same; checks that this many of them were available at any time.
    pub(crate) async fn moved(
        &self,
        watching: &AvailabilityWatch,
        workload: &str,
        replicas: usize,
        at_least: usize,
    ) -> Result<()> {
        let uids = self.all_large(workload, replicas).await?;
        let fewest = watching.fewest(workload, &uids).await?;
        ensure!(fewest >= at_least, "{workload}: {fewest} were left");
        Ok(())
    }

    /// Waits for lines of `kubectl get events` in these columns that each have all of these words.
    pub(crate) async fn reported(&self, columns: &str, expected: &[&[&str]]) -> Result<()> {
        let namespace = &self.namespace;
        let get = format!("-n {namespace} get events --no-headers -o custom-columns={columns}");
        eventually("events tell of it", async || {
            let printed = e2e::kubectl_in(&self.sandbox, &get).await?;
            for words in expected {
                let has_all = |line: &str| words.iter().all(|word| line.contains(word));
                let is_there = printed.lines().any(has_all);
                ensure!(is_there, "{words:?} is not in\n{printed}");
            }
            Ok(())
        })
        .await
    }

    /// The webhook lives from now on.
    pub(crate) fn heart(&self) -> Heart {
        let leases: Api<Lease> = system(&self.client).typed();
        let (beats, mut stop) = watch::channel(true);
        let beating = tokio::spawn(async move {
            while *stop.borrow_and_update() {
                let now = Timestamp::now().to_string();
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": HEARTBEAT},
                    "spec": {"holderIdentity": "test", "renewTime": now.replace('Z', "000Z").get(..26).map(|text| format!("{text}Z"))},
                });
                // While the API server is away there is no beat.
                let (params, patch) = (PatchParams::apply("test").force(), Patch::Apply(lease));
                leases.patch(HEARTBEAT, &params, &patch).await.ok();
                tokio::time::timeout(BEAT, stop.changed()).await.ok();
            }
            Ok(())
        });
        Heart { beats, beating }
    }
}

async fn make() -> Result<Sandbox> {
    let sandbox = another("updater").await?;
    e2e::apply(&sandbox, "deploy/base/namespace.yaml").await?;
    deploy(&sandbox, "tests/e2e/updater", UPDATER.labels).await?;
    Ok(sandbox)
}

impl Heart {
    /// The webhook falls silent.
    pub(crate) async fn stop(self) -> Result<()> {
        self.beats.send_replace(false);
        self.beating.await?
    }
}

/// Effective requests of the pod's first container.
fn cpu(pod: &Pod) -> Option<String> {
    Some(requests_in_effect(pod)?.get("cpu")?.0.clone())
}
