//! One namespace with a workload and its VPA object, whose status says what a recommender would.

use anyhow::{Context as _, Result, bail, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, dry_run, eventually, target};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

/// Requests of the workload, and its recommendation.
const ASKED: (&str, &str) = ("100m", "100Mi");
pub(crate) const RECOMMENDED: (&str, &str) = ("296m", "380258472");

pub(crate) struct Fixture(Namespace);

e2e::deref_to_namespace!(Fixture, 0);

impl Fixture {
    pub(crate) async fn new(client: Client, prefix: &str) -> Result<Self> {
        Ok(Self(Namespace::new(client, prefix).await?))
    }

    /// A Deployment `web` without pods, and a VPA object of it with a recommendation.
    pub(crate) async fn workload(&self) -> Result<()> {
        let resources =
            json!({"requests": {"cpu": ASKED.0, "memory": ASKED.1}, "limits": {"cpu": "200m"}});
        self.0.deploy("web", 0, &resources, &json!({})).await?;
        self.autoscale("web", &json!({})).await?;
        self.recommend("web").await
    }

    async fn recommend(&self, name: &str) -> Result<()> {
        let target = json!({"cpu": RECOMMENDED.0, "memory": RECOMMENDED.1});
        let recommendation =
            json!({"containerRecommendations": [{"containerName": "app", "target": target}]});
        let status = json!({"observedGeneration": 1, "recommendation": recommendation});
        self.patch_status::<Vpa>(name, &status).await?;
        Ok(())
    }

    /// Waits until the webhook sizes pods of a kind that has nothing but a scale subresource.
    pub(crate) async fn await_patches_by_scale(&self) -> Result<()> {
        let [target, owners] = self.scaled("scaled", 1).await?;
        let target = json!({"targetRef": target});
        self.autoscale("scaled", &target).await?;
        self.recommend("scaled").await?;
        let mut pod = serde_json::to_value(self.pod_of_workload().await?)?;
        pod["metadata"]["labels"]["app"] = "scaled".into();
        pod["metadata"]["ownerReferences"] = owners;
        self.await_patch(&serde_json::from_value(pod)?).await
    }

    /// A VPA object of the Deployment `web`. `extra` goes into its spec.
    pub(crate) async fn autoscale(&self, name: &str, extra: &Value) -> kube::Result<Value> {
        let mut spec = json!({"targetRef": target("Deployment", "web")});
        json_patch::merge(&mut spec, extra);
        self.make::<Vpa>(name, spec).await
    }

    pub(crate) async fn scale(&self, replicas: usize) -> Result<Vec<Pod>> {
        let change = json!({"spec": {"replicas": replicas}});
        self.patch::<Deployment>("web", change).await?;
        eventually("the pods are there", async || {
            let pods = self.pods_of("web").await?;
            ensure!(pods.len() == replicas, "{} of {replicas}", pods.len());
            Ok(pods)
        })
        .await
    }

    /// Scales the Deployment until all pods are created with the recommended size. A busy machine
    /// may delay the webhook for a second; then pods are admitted unchanged, and another attempt is
    /// needed.
    pub(crate) async fn bears_resized(&self, replicas: usize) -> Result<()> {
        let mut outcome = Ok(());
        for _ in 0..3 {
            outcome = are_born_resized(&self.scale(replicas).await?);
            if outcome.is_ok() {
                break;
            }
            self.scale(0).await?;
        }
        outcome
    }

    /// A pod that claims to belong to the Deployment, through its replica set.
    pub(crate) async fn pod_of_workload(&self) -> Result<Pod> {
        let set = eventually("there is a replica set", async || {
            let sets = self.list::<ReplicaSet>().await?;
            sets.into_iter().next().context("not yet")
        })
        .await?;
        let (mut pod, owner) = (set["spec"]["template"].clone(), &set["metadata"]);
        pod["metadata"]["generateName"] = "web-".into();
        pod["metadata"]["namespace"] = self.namespace.as_str().into();
        pod["metadata"]["ownerReferences"] = json!([{
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner["name"], "uid": owner["uid"], "controller": true,
        }]);
        Ok(serde_json::from_value(pod)?)
    }

    /// Waits until a dry run of that pod comes back resized.
    pub(crate) async fn await_patches(&self) -> Result<()> {
        self.await_patch(&self.pod_of_workload().await?).await
    }

    async fn await_patch(&self, pod: &Pod) -> Result<()> {
        eventually("pods are patched", async || {
            let made = self.try_pod(pod).await?;
            ensure!(is_resized(&made), "{}", resources(&made));
            Ok(())
        })
        .await
    }

    pub(crate) async fn try_pod(&self, pod: &Pod) -> kube::Result<Pod> {
        self.typed::<Pod>().create(&dry_run(), pod).await
    }

    /// Objects with an error are refused with upstream's text, also those that would be filled in.
    pub(crate) async fn errors_are_refused(&self) -> Result<()> {
        let policy = json!({"updatePolicy": {"updateMode": "Auto", "minReplicas": 0}});
        self.is_refused(
            &policy,
            "spec.updatePolicy.minReplicas: Invalid value: 0: minReplicas has to be positive",
        )
        .await?;
        let bounds =
            json!({"containerName": "app", "minAllowed": {"cpu": "2"}, "maxAllowed": {"cpu": "1"}});
        let path = "spec.resourcePolicy.containerPolicies[0].maxAllowed[cpu]";
        let why = format!(
            "{path}: Invalid value: \"1\": max resource for cpu is lower than min of \"2\""
        );
        self.is_refused(
            &json!({"resourcePolicy": {"containerPolicies": [bounds]}}),
            &why,
        )
        .await
    }

    async fn is_refused(&self, extra: &Value, why: &str) -> Result<()> {
        let Err(kube::Error::Api(refusal)) = self.autoscale("wrong", extra).await else {
            bail!("it was not refused: {extra}");
        };
        let expected = "admission webhook \"vpa.k8s.io\" denied the request: VerticalPodAutoscaler.autoscaling.k8s.io \
                        \"wrong\" is invalid: ";
        assert_eq!(
            (refusal.message.as_str(), refusal.code),
            (format!("{expected}{why}").as_str(), 422)
        );
        Ok(())
    }
}

pub(crate) fn resources(pod: &Pod) -> Value {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| serde_json::to_value(&container.resources).unwrap_or_default())
        .collect()
}

/// The limit keeps its proportion to the request.
pub(crate) fn is_resized(pod: &Pod) -> bool {
    let requests = json!({"cpu": RECOMMENDED.0, "memory": RECOMMENDED.1});
    resources(pod) == json!([{"requests": requests, "limits": {"cpu": "592m"}}])
}

/// Checks that each pod was created with the recommended size and has the webhook's annotation.
fn are_born_resized(pods: &[Pod]) -> Result<()> {
    for pod in pods {
        ensure!(is_resized(pod), "{}", resources(pod));
        let updates = "Pod resources updated by web: container 0: memory: limit NOT set since originalLimit is nil or 0, \
                       cpu request, memory request, cpu limit";
        let annotation = |name| pod.annotations().get(name).map(String::as_str);
        assert_eq!(annotation("vpaUpdates"), Some(updates));
        assert_eq!(annotation("vpaObservedContainers"), Some("app"));
    }
    Ok(())
}
