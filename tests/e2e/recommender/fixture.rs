//! One namespace of workloads and VPA objects, and what the recommender makes of them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler;
use e2e::{eventually, namespace};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};

/// metrics-server takes up to half a minute until it knows a new pod, on a busy machine longer.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// One namespace.
pub(crate) struct Fixture {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    autoscalers: Api<VerticalPodAutoscaler>,
}

impl Fixture {
    pub(crate) async fn new(client: Client, prefix: &str) -> Result<Self> {
        let namespace = namespace(&client, prefix).await?;
        Ok(Self::of(client, &namespace))
    }

    /// A namespace that is there already.
    pub(crate) fn of(client: Client, namespace: &str) -> Self {
        let autoscalers = Api::namespaced(client.clone(), namespace);
        Self {
            client,
            namespace: namespace.to_owned(),
            autoscalers,
        }
    }

    /// A Deployment with one container `app` whose pods use `cpu` and `memory`.
    pub(crate) async fn deploy(
        &self,
        name: &str,
        replicas: u32,
        cpu: &str,
        memory: &str,
    ) -> Result<()> {
        let labels = json!({"app": name});
        let usage = json!({"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory});
        let container = json!({
            "name": "app",
            "image": "registry.example.com/app",
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        });
        let deployment = json!({
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels, "annotations": usage},
                    "spec": {"containers": [container]},
                },
            },
        });
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), &self.namespace);
        deployments
            .create(&PostParams::default(), &serde_json::from_value(deployment)?)
            .await?;
        Ok(())
    }

    /// A VPA object for the recommender of these tests. `extra` goes into its spec.
    pub(crate) async fn autoscale(
        &self,
        name: &str,
        target: (&str, &str, &str),
        extra: &Value,
    ) -> Result<()> {
        let (api_version, kind, target) = target;
        let mut spec = json!({
            "targetRef": {"apiVersion": api_version, "kind": kind, "name": target},
            "recommenders": [{"name": "e2e"}],
        });
        if let (Some(spec), Some(extra)) = (spec.as_object_mut(), extra.as_object()) {
            spec.extend(extra.clone());
        }
        // Loosely typed, so that objects of any shape can be made.
        let kind = ApiResource::erase::<VerticalPodAutoscaler>(&());
        let object = json!({
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "labels": {"target": target}},
            "spec": spec,
        });
        let objects: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &self.namespace, &kind);
        objects
            .create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    pub(crate) async fn change_autoscaler(&self, name: &str, spec: &Value) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": spec}));
        self.autoscalers
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Changes what the pods of a Deployment use.
    pub(crate) async fn annotate_pods(&self, deployment: &str, annotations: &Value) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for pod in pods
            .list(&ListParams::default().labels(&format!("app={deployment}")))
            .await?
        {
            let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
            pods.patch(&pod.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Writes the event that a kubelet writes when it evicts a pod of a Deployment because memory
    /// is short.
    pub(crate) async fn report_eviction(
        &self,
        deployment: &str,
        containers: &str,
        usage: &str,
    ) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let list = pods
            .list(&ListParams::default().labels(&format!("app={deployment}")))
            .await?;
        let pod = list.items.first().context("it has a pod")?.name_any();
        let annotations = json!({"offending_containers": containers, "offending_containers_usage": usage, "starved_resource": "memory"});
        let event = json!({
            "metadata": {"generateName": format!("{pod}."), "annotations": annotations},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": pod},
            "reason": "Evicted",
            "type": "Warning",
            "message": "The node was low on resource: memory.",
        });
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.namespace);
        events
            .create(&PostParams::default(), &serde_json::from_value(event)?)
            .await?;
        Ok(())
    }

    /// The name of the `ReplicaSet` that a Deployment made.
    pub(crate) async fn child_of(&self, deployment: &str) -> Result<String> {
        let children: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        eventually("the Deployment has a ReplicaSet", PATIENCE, async || {
            let list = children
                .list(&ListParams::default().labels(&format!("app={deployment}")))
                .await?;
            Ok(list.items.first().context("none yet")?.name_any())
        })
        .await
    }

    /// The object as JSON.
    pub(crate) async fn object(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.autoscalers.get(name).await?)?)
    }

    /// Number of objects for `target` whose first container has this CPU target.
    pub(crate) async fn count_with_target(&self, target: &str, cpu: &str) -> Result<usize> {
        let mut count = 0;
        for object in self.autoscalers.list(&of_target(target)).await? {
            let object = serde_json::to_value(object)?;
            count += usize::from(first_container(&object)["target"]["cpu"] == cpu);
        }
        Ok(count)
    }

    /// Deletes the objects that point at `target`.
    pub(crate) async fn delete_autoscalers_of(&self, target: &str) -> Result<()> {
        self.autoscalers
            .delete_collection(&DeleteParams::default(), &of_target(target))
            .await?;
        Ok(())
    }

    /// The object once `is_so` accepts it.
    pub(crate) async fn object_when(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(what, PATIENCE, async || {
            let object = self.object(name).await?;
            ensure!(is_so(&object), "{name}: {:#}", object["status"]);
            Ok(object)
        })
        .await
    }

    /// The object once its first container has this target.
    pub(crate) async fn object_with_target(
        &self,
        name: &str,
        resource: &str,
        amount: &str,
    ) -> Result<Value> {
        let what = format!("the {resource} target is {amount}");
        self.object_when(name, &what, |object| {
            first_container(object)["target"][resource] == amount
        })
        .await
    }

    /// Waits until the conditions are these: type, status, reason and message.
    pub(crate) async fn await_conditions(&self, name: &str, expected: &[[&str; 4]]) -> Result<()> {
        let what = format!("the conditions of {name} are {expected:?}");
        self.object_when(name, &what, |object| conditions(object) == expected)
            .await
            .map(drop)
    }
}

fn of_target(target: &str) -> ListParams {
    ListParams::default().labels(&format!("target={target}"))
}

/// The recommendation for the first container.
pub(crate) fn first_container(object: &Value) -> &Value {
    &object["status"]["recommendation"]["containerRecommendations"][0]
}

/// Type, status, reason and message of every condition.
pub(crate) fn conditions(object: &Value) -> Vec<[&str; 4]> {
    let list = object["status"]["conditions"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    list.iter()
        .map(|condition| {
            ["type", "status", "reason", "message"]
                .map(|field| condition[field].as_str().unwrap_or(""))
        })
        .collect()
}
