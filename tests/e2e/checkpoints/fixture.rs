//! One namespace of workloads, VPA objects and checkpoints.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint, object_name};
use api::vpa::VerticalPodAutoscaler;
use e2e::{eventually, namespace, shared};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// metrics-server takes up to half a minute until it knows a new pod, on a busy machine longer.
pub(crate) const PATIENCE: Duration = Duration::from_mins(4);

/// One namespace.
pub(crate) struct Fixture {
    pub(crate) namespace: String,
    client: Client,
    autoscalers: Api<DynamicObject>,
    checkpoints: Api<DynamicObject>,
}

impl Fixture {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, prefix).await?;
        let autoscalers = loosely_typed::<VerticalPodAutoscaler>(&client, &namespace);
        let checkpoints = loosely_typed::<VerticalPodAutoscalerCheckpoint>(&client, &namespace);
        Ok(Self {
            namespace,
            client,
            autoscalers,
            checkpoints,
        })
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
        let template = json!({
            "metadata": {"labels": labels, "annotations": usage(cpu, memory)},
            "spec": {"containers": [{"name": "app", "image": "registry.example.com/app"}]},
        });
        let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
        let deployment = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
        self.deployments()
            .create(&PostParams::default(), &deployment)
            .await?;
        Ok(())
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        self.deployments()
            .patch(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Changes what the pods of a Deployment use.
    pub(crate) async fn use_from_now_on(
        &self,
        deployment: &str,
        cpu: &str,
        memory: &str,
    ) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let patch = Patch::Merge(json!({"metadata": {"annotations": usage(cpu, memory)}}));
        for pod in pods
            .list(&ListParams::default().labels(&format!("app={deployment}")))
            .await?
        {
            pods.patch(&pod.name_any(), &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// A VPA object that points at the Deployment `web`. `extra` goes into its spec.
    pub(crate) async fn autoscale(&self, name: &str, extra: &Value) -> Result<()> {
        let mut spec =
            json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
        if let (Some(spec), Some(extra)) = (spec.as_object_mut(), extra.as_object()) {
            spec.extend(extra.clone());
        }
        create::<VerticalPodAutoscaler>(&self.autoscalers, name, json!({"spec": spec})).await
    }

    pub(crate) async fn delete_autoscaler(&self, name: &str) -> Result<()> {
        self.autoscalers
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    /// A checkpoint that another recommender wrote.
    pub(crate) async fn store(
        &self,
        autoscaler: &str,
        container: &str,
        status: &Value,
    ) -> Result<()> {
        let spec = json!({"vpaObjectName": autoscaler, "containerName": container});
        let name = object_name(autoscaler, container);
        let content = json!({"spec": spec, "status": status});
        create::<VerticalPodAutoscalerCheckpoint>(&self.checkpoints, &name, content).await
    }

    pub(crate) async fn delete_checkpoint(&self, name: &str) -> Result<()> {
        self.checkpoints
            .delete(name, &DeleteParams::default())
            .await?;
        Ok(())
    }

    pub(crate) async fn checkpoint(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.checkpoints.get(name).await?)?)
    }

    pub(crate) async fn await_checkpoint(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("of {name}: {what}"), PATIENCE, async || {
            let checkpoint = self.checkpoint(name).await?;
            ensure!(is_so(&checkpoint["status"]), "{checkpoint}");
            Ok(checkpoint)
        })
        .await
    }

    /// Waits until the names of all checkpoints, in order, are so.
    pub(crate) async fn await_checkpoints(
        &self,
        what: &str,
        is_so: impl Fn(&[&str]) -> bool,
    ) -> Result<()> {
        eventually(what, PATIENCE, async || {
            let names: Vec<String> = self
                .checkpoints
                .list(&ListParams::default())
                .await?
                .iter()
                .map(ResourceExt::name_any)
                .collect();
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            ensure!(is_so(&names), "there are {names:?}");
            Ok(())
        })
        .await
    }

    pub(crate) async fn object(&self, name: &str) -> Result<Value> {
        Ok(serde_json::to_value(self.autoscalers.get(name).await?)?)
    }

    pub(crate) async fn await_object(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        eventually(&format!("of {name}: {what}"), PATIENCE, async || {
            let object = self.object(name).await?;
            ensure!(is_so(&object), "{}", object["status"]);
            Ok(object)
        })
        .await
    }

    /// Waits until the recommendations for the containers of an object are so.
    pub(crate) async fn await_recommendation(
        &self,
        name: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let recommendation =
            |object: &Value| is_so(&object["status"]["recommendation"]["containerRecommendations"]);
        self.await_object(name, "it is recommended", recommendation)
            .await
    }

    /// Takes the recommendation away, so that it can be seen to come back.
    pub(crate) async fn wipe_status(&self, name: &str) -> Result<()> {
        let patch = Patch::Merge(json!({"status": {"recommendation": null, "conditions": null}}));
        self.autoscalers
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}

fn usage(cpu: &str, memory: &str) -> Value {
    json!({"kwok.x-k8s.io/usage-cpu": cpu, "kwok.x-k8s.io/usage-memory": memory})
}

/// Loosely typed, so that objects of any shape can be made and seen.
fn loosely_typed<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

async fn create<K>(api: &Api<DynamicObject>, name: &str, mut object: Value) -> Result<()>
where
    K: Resource<DynamicType = ()>,
{
    object["apiVersion"] = json!(K::api_version(&()));
    object["kind"] = json!(K::kind(&()));
    object["metadata"] = json!({"name": name});
    api.create(&PostParams::default(), &serde_json::from_value(object)?)
        .await
        .with_context(|| format!("create {} {name}", K::kind(&())))?;
    Ok(())
}
