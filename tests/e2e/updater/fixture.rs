//! A sandbox with the updater in it, workloads, and a webhook that lives as long as its Lease is
//! renewed.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler;
use e2e::deployed::{Replica, UPDATER, UPDATER_PORT, all_ready, deploy_these, leader_with, total};
use e2e::{another, eventually, namespace};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard, watch};

pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
const SYSTEM: &str = "plimsoll-system";
const DEPLOYMENT: &str = "plimsoll-updater";
/// Of the updater.
const REPLICAS: i32 = 2;
const HEARTBEAT: &str = "vpa-admission-controller";
/// Well within the timeout of the Lease.
const BEAT: Duration = Duration::from_millis(500);
/// First requests of the pods, and the recommendation.
pub(crate) const SMALL: &str = "100m";
pub(crate) const LARGE: &str = "250m";

/// The sandbox while it is one test's turn, with a namespace of the test's own.
pub(crate) struct Fixture {
    own: MutexGuard<'static, Option<Own>>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) pods: Api<Pod>,
}

struct Own {
    sandbox: Sandbox,
}

/// Keeps the webhook alive as long as it is held.
pub(crate) struct Heart {
    beats: watch::Sender<bool>,
    beating: tokio::task::JoinHandle<Result<()>>,
}

impl Fixture {
    pub(crate) async fn take(prefix: &str) -> Result<Self> {
        static OWN: Mutex<Option<Own>> = Mutex::const_new(None);
        let mut own = OWN.lock().await;
        if own.is_none() {
            let sandbox = another("updater").await?;
            e2e::apply(&sandbox, "deploy/base/namespace.yaml").await?;
            deploy_these(&sandbox, "tests/e2e/updater", UPDATER).await?;
            *own = Some(Own { sandbox });
        }
        let client = own.as_ref().context("just made")?.sandbox.client().await?;
        all_ready(&client, UPDATER).await?;
        let namespace = namespace(&client, prefix).await?;
        let pods = Api::namespaced(client.clone(), &namespace);
        Ok(Self {
            own,
            client,
            namespace,
            pods,
        })
    }

    pub(crate) fn sandbox(&self) -> Result<&Sandbox> {
        Ok(&self
            .own
            .as_ref()
            .context("it was made with the first turn")?
            .sandbox)
    }

    pub(crate) async fn leader(&self) -> Result<Replica> {
        leader_with(&self.client, UPDATER, UPDATER_PORT).await
    }

    /// Restarts the updater with another `--settling-time`.
    pub(crate) async fn settle_for(&self, time: &str) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SYSTEM);
        let mut deployment = deployments.get(DEPLOYMENT).await?;
        let spec = deployment
            .spec
            .template
            .spec
            .as_mut()
            .context("it has a template")?;
        for argument in spec
            .containers
            .iter_mut()
            .flat_map(|container| container.args.iter_mut().flatten())
        {
            if argument.starts_with("--settling-time=") {
                *argument = format!("--settling-time={time}");
            }
        }
        deployment.metadata.managed_fields = None;
        let changed = deployments
            .replace(DEPLOYMENT, &PostParams::default(), &deployment)
            .await?;
        eventually("all replicas have the flag", PATIENCE, async || {
            let status = deployments
                .get_status(DEPLOYMENT)
                .await?
                .status
                .unwrap_or_default();
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

    /// Sum of a counter over all replicas.
    pub(crate) async fn total(&self, metric: &str) -> Result<f64> {
        total(&self.client, UPDATER, UPDATER_PORT, metric).await
    }

    /// A `ReplicaSet` whose pods run with the small size; the next ones get the large one. `extra`
    /// goes into the annotations of the pods.
    pub(crate) async fn workload(
        &self,
        name: &str,
        replicas: usize,
        annotations: &Value,
    ) -> Result<()> {
        let template = |cpu: &str| {
            json!({
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {"containers": [{
                    "name": "app", "image": "registry.example.com/app", "resources": {"requests": {"cpu": cpu}},
                }]},
            })
        };
        let object = json!({
            "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template(SMALL)},
        });
        let sets: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        sets.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        eventually("all pods are ready", PATIENCE, async || {
            let status = sets.get_status(name).await?.status.unwrap_or_default();
            ensure!(
                status.ready_replicas == Some(i32::try_from(replicas)?),
                "{status:?}"
            );
            Ok(())
        })
        .await?;
        let change = json!({"spec": {"template": template(LARGE)}});
        sets.patch(name, &PatchParams::default(), &Patch::Strategic(change))
            .await?;
        Ok(())
    }

    /// A VPA object with a recommendation of the large size, far from the small one.
    pub(crate) async fn autoscale(&self, name: &str, update_policy: &Value) -> Result<()> {
        self.autoscale_within(name, update_policy, ["200m", "300m"])
            .await
    }

    /// The same with these bounds.
    pub(crate) async fn autoscale_within(
        &self,
        name: &str,
        update_policy: &Value,
        [lower, upper]: [&str; 2],
    ) -> Result<()> {
        let objects: Api<VerticalPodAutoscaler> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name},
                "updatePolicy": update_policy,
            },
        });
        objects
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        let container = json!({
            "containerName": "app", "target": {"cpu": LARGE}, "lowerBound": {"cpu": lower}, "upperBound": {"cpu": upper},
            "uncappedTarget": {"cpu": LARGE},
        });
        let status = json!({"status": {"recommendation": {"containerRecommendations": [container]}, "conditions": []}});
        objects
            .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// A budget for a workload.
    pub(crate) async fn protect(&self, name: &str, min_available: usize) -> Result<()> {
        let budgets: Api<PodDisruptionBudget> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let spec =
            json!({"minAvailable": min_available, "selector": {"matchLabels": {"app": name}}});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        budgets
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        eventually("the budget is counted", PATIENCE, async || {
            let status = budgets.get(name).await?.status.unwrap_or_default();
            ensure!(status.expected_pods.unwrap_or(0) > 0, "{status:?}");
            Ok(())
        })
        .await
    }

    /// Another minimum for a budget.
    pub(crate) async fn change_budget(&self, name: &str, min_available: usize) -> Result<()> {
        let budgets: Api<PodDisruptionBudget> =
            Api::namespaced(self.client.clone(), &self.namespace);
        let change = json!({"spec": {"minAvailable": min_available}});
        budgets
            .patch(name, &PatchParams::default(), &Patch::Merge(change))
            .await?;
        Ok(())
    }

    /// The pods of a workload that are not on their way out, with what they ask for in effect.
    pub(crate) async fn sizes(&self, workload: &str) -> Result<Vec<(String, String)>> {
        let list = self
            .pods
            .list(&ListParams::default().labels(&format!("app={workload}")))
            .await?;
        let live = list
            .items
            .into_iter()
            .filter(|pod| pod.metadata.deletion_timestamp.is_none());
        Ok(live
            .map(|pod| (pod.uid().unwrap_or_default(), cpu(&pod).unwrap_or_default()))
            .collect())
    }

    /// Waits until all pods of a workload request the large size; returns their identifiers.
    pub(crate) async fn all_large(&self, workload: &str, replicas: usize) -> Result<Vec<String>> {
        eventually(
            &format!("all pods of {workload} have the new size"),
            PATIENCE,
            async || {
                let sizes = self.sizes(workload).await?;
                let large = sizes.iter().filter(|(_, cpu)| cpu == LARGE).count();
                ensure!(
                    large == replicas && sizes.len() == replicas,
                    "{large} of {}: {sizes:?}",
                    sizes.len()
                );
                Ok(sizes.into_iter().map(|(uid, _)| uid).collect())
            },
        )
        .await
    }

    /// The webhook lives from now on.
    pub(crate) fn heart(&self) -> Heart {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), SYSTEM);
        let (beats, mut stop) = watch::channel(true);
        let beating = tokio::spawn(async move {
            while *stop.borrow_and_update() {
                let now = Timestamp::now().to_string();
                let lease = json!({
                    "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": HEARTBEAT},
                    "spec": {"holderIdentity": "test", "renewTime": now.replace('Z', "000Z").get(..26).map(|text| format!("{text}Z"))},
                });
                // While the API server is away there is no beat.
                leases
                    .patch(
                        HEARTBEAT,
                        &PatchParams::apply("test").force(),
                        &Patch::Apply(lease),
                    )
                    .await
                    .ok();
                tokio::time::timeout(BEAT, stop.changed()).await.ok();
            }
            Ok(())
        });
        Heart { beats, beating }
    }
}

impl Heart {
    /// The webhook falls silent.
    pub(crate) async fn stop(self) -> Result<()> {
        self.beats.send_replace(false);
        self.beating.await?
    }
}

/// Effective requests of the pod's first container.
pub(crate) fn cpu(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    Some(
        status
            .resources
            .as_ref()?
            .requests
            .as_ref()?
            .get("cpu")?
            .0
            .clone(),
    )
}
