//! Sandboxes with Prometheus and two replicas of the adapter: one for the adapter itself, and one
//! with the recommender. Tests that break something have theirs alone.

use anyhow::{Context as _, Result};
use e2e::deployment::{ADAPTER, deploy, prometheus_variables};
use e2e::{Namespace, Turn, Turns, another_with_prometheus, get_json, is_true};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Client;
use kube::core::Status;
use sandbox::Sandbox;
use serde_json::Value;

/// The versions that the adapter answers.
pub(crate) const APIS: [&str; 3] = [
    "custom.metrics.k8s.io/v1beta2",
    "custom.metrics.k8s.io/v1beta1",
    "external.metrics.k8s.io/v1beta1",
];

static SANDBOX: Turns<Sandbox> = Turns::new();

/// The sandbox during the turn of a test, with a namespace of the test's own.
pub(crate) struct Fixture {
    pub(crate) sandbox: Turn<Sandbox>,
    own: Namespace,
}

e2e::deref_to_namespace!(Fixture, own);

impl Fixture {
    /// For a test that changes something that others need.
    pub(crate) async fn alone(prefix: &str) -> Result<Self> {
        Self::new(SANDBOX.alone(async || make("adapter").await).await?, prefix).await
    }

    /// For a test that only asks.
    pub(crate) async fn together(prefix: &str) -> Result<Self> {
        let sandbox = SANDBOX.together(async || make("adapter").await).await?;
        Self::new(sandbox, prefix).await
    }

    /// A namespace in this sandbox, once the adapter is available.
    pub(crate) async fn new(sandbox: Turn<Sandbox>, prefix: &str) -> Result<Self> {
        let client = sandbox.client().await?;
        available(&client).await?;
        let own = Namespace::new(client, prefix).await?;
        Ok(Self { sandbox, own })
    }

    /// Output of kubectl with all rights.
    pub(crate) async fn kubectl(&self, arguments: &str) -> Result<String> {
        e2e::kubectl_in(&self.sandbox, arguments).await
    }

    /// Asks the API server for a path, with all rights.
    pub(crate) async fn ask(&self, path: &str) -> Result<Value> {
        get_json(&self.client, path).await
    }

    /// The same for a request that must be refused; returns the Status with the reason.
    pub(crate) async fn refused(&self, method: &str, path: &str) -> Result<Box<Status>> {
        refused(&self.client, method, path).await
    }
}

pub(crate) async fn make(purpose: &str) -> Result<Sandbox> {
    let sandbox = another_with_prometheus(purpose).await?;
    prometheus_variables(&sandbox, &["ADAPTER"]).await?;
    deploy(&sandbox, "tests/e2e/adapter", ADAPTER.labels).await?;
    Ok(sandbox)
}

/// Sends a request as `client` that must be refused; returns the Status with the reason.
pub(crate) async fn refused(client: &Client, method: &str, path: &str) -> Result<Box<Status>> {
    let request = http::Request::builder().method(method).uri(path);
    match client.request::<Value>(request.body(Vec::new())?).await {
        Ok(answer) => anyhow::bail!("{method} {path}: {answer}"),
        Err(kube::Error::Api(status)) => Ok(status),
        Err(error) => Err(error).with_context(|| format!("{method} {path}")),
    }
}

/// Waits until the API server finds all three versions well.
pub(crate) async fn available(client: &Client) -> Result<()> {
    let services = Namespace::cluster(client.clone());
    for api in APIS {
        let (group, version) = api.split_once('/').context("a group and a version")?;
        let name = format!("{version}.{group}");
        let is_available = |service: &Value| is_true(&service["status"], "Available");
        services
            .when::<APIService>(&name, "it is available", is_available)
            .await?;
    }
    Ok(())
}
