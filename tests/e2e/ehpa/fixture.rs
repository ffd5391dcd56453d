//! A namespace whose workloads EHPAs scale: the recommender reconciles these, the adapter serves
//! their metrics.

use std::ops::Deref;

use anyhow::Result;
use e2e::deployment::{RECOMMENDER, all_ready, deploy, system};
use e2e::{Turn, Turns, requests, usage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use sandbox::Sandbox;
use serde_json::{Value, json};

use crate::adapter::fixture::{self, Fixture};

static SANDBOX: Turns<Sandbox> = Turns::new();

pub(crate) struct EhpaFixture(Fixture);

impl Deref for EhpaFixture {
    type Target = Fixture;

    fn deref(&self) -> &Fixture {
        &self.0
    }
}

impl EhpaFixture {
    /// For a test that breaks something.
    pub(crate) async fn alone(prefix: &str) -> Result<Self> {
        Self::new(SANDBOX.alone(make).await?, prefix).await
    }

    /// For a test that changes nothing outside its namespace.
    pub(crate) async fn together(prefix: &str) -> Result<Self> {
        Self::new(SANDBOX.together(make).await?, prefix).await
    }

    async fn new(sandbox: Turn<Sandbox>, prefix: &str) -> Result<Self> {
        let fixture = Fixture::new(sandbox, prefix).await?;
        all_ready(&fixture.client, RECOMMENDER.labels).await?;
        Ok(Self(fixture))
    }

    /// A Deployment of this size whose pods request 100 millicores each and use `cpu`.
    pub(crate) async fn deploy(&self, name: &str, replicas: usize, cpu: &str) -> Result<()> {
        let (requests, usage) = (requests("100m", "10Mi"), usage(cpu, "10Mi"));
        self.0.deploy(name, replicas, &requests, &usage).await?;
        Ok(())
    }

    /// Applies one of the examples of Crane's documentation as users do.
    pub(crate) async fn apply_documented(&self, example: &str) -> Result<()> {
        let file = format!("tests/e2e/ehpa/documented/{example}.yaml");
        e2e::apply_with(&self.sandbox, &file, &["-n", &self.namespace]).await?;
        Ok(())
    }

    /// Waits until a Deployment has this number of replicas.
    pub(crate) async fn has_replicas(&self, name: &str, replicas: usize) -> Result<()> {
        let scaled = json!({"spec": {"replicas": replicas}});
        self.await_fields::<Deployment>(name, scaled)
            .await
            .map(drop)
    }

    /// Answer of the API server for an external metric of one of the Deployments.
    pub(crate) async fn external(
        &self,
        metric: &str,
        deployment: &str,
        identifier: &str,
    ) -> Result<Value> {
        let namespace = &self.namespace;
        let selector = format!(
            "targetKind%3DDeployment%2CtargetName%3D{deployment}%2CtargetNamespace%3D{namespace}%2CresourceIdentifier%3D{identifier}"
        );
        let path = format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}?labelSelector={selector}"
        );
        self.ask(&path).await
    }
}

/// Makes a sandbox with the adapter and the recommender in it.
async fn make() -> Result<Sandbox> {
    let sandbox = fixture::make("ehpa").await?;
    let authority = std::fs::read_to_string(sandbox.authority())?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prometheus"},
        "data": {"url": sandbox.prometheus_url(), "ca.crt": authority},
    });
    let client = sandbox.client().await?;
    let maps = system(&client).typed::<ConfigMap>();
    maps.patch("prometheus", &PatchParams::apply("e2e"), &Patch::Apply(map))
        .await?;
    deploy(&sandbox, "tests/e2e/ehpa/recommender", RECOMMENDER.labels).await?;
    Ok(sandbox)
}
