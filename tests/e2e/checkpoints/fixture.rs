//! One namespace of workloads, VPA objects and checkpoints.

use std::ops::Deref;

use anyhow::{Context as _, Result, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint as Checkpoint, object_name};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{Namespace, eventually, shared, target, usage, with, workload};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

pub(crate) struct Fixture(Namespace);

impl Deref for Fixture {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.0
    }
}

impl Fixture {
    pub(crate) async fn new(prefix: &str) -> Result<Self> {
        let client = shared().await?.client().await?;
        Ok(Self(Namespace::new(client, prefix).await?))
    }

    /// A Deployment with one container `app` whose pods use `cpu` and `memory`.
    pub(crate) async fn deploy(
        &self,
        name: &str,
        replicas: usize,
        cpu: &str,
        memory: &str,
    ) -> Result<()> {
        let deployment = workload(name, replicas, &json!({}), &usage(cpu, memory));
        self.create::<Deployment>(deployment).await?;
        Ok(())
    }

    /// A VPA object that points at the Deployment `web`. `extra` goes into its spec.
    pub(crate) async fn autoscale(&self, name: &str, extra: Value) -> Result<()> {
        let spec = with(json!({"targetRef": target("Deployment", "web")}), extra);
        self.create::<Vpa>(json!({"metadata": {"name": name}, "spec": spec}))
            .await?;
        Ok(())
    }

    /// A checkpoint that another recommender wrote.
    pub(crate) async fn store(&self, vpa: &str, container: &str, status: &Value) -> Result<()> {
        let name = object_name(vpa, container);
        let spec = json!({"vpaObjectName": vpa, "containerName": container});
        let object = json!({"metadata": {"name": name}, "spec": spec, "status": status});
        let created = self.create::<Checkpoint>(object).await;
        created.with_context(|| format!("create {name}")).map(drop)
    }

    pub(crate) async fn await_checkpoint(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        self.when::<Checkpoint>(name, what, |object| is_so(&object["status"]))
            .await
    }

    /// Waits until the names of all checkpoints, in order, are so.
    pub(crate) async fn await_checkpoints(
        &self,
        what: &str,
        is_so: impl Fn(&[&str]) -> bool,
    ) -> Result<()> {
        let checkpoints = self.api::<Checkpoint>();
        eventually(what, async || {
            let list = checkpoints.list_metadata(&ListParams::default()).await?;
            let names: Vec<String> = list.iter().map(ResourceExt::name_any).collect();
            let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
            names.sort_unstable();
            ensure!(is_so(&names), "there are {names:?}");
            Ok(())
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
        self.when::<Vpa>(name, "it is recommended", recommendation)
            .await
    }
}
