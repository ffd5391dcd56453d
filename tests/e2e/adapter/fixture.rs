//! A sandbox with Prometheus and two replicas of the adapter in it, which one test after the other
//! has to itself.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::deploy_these;
use e2e::{another_with_prometheus, eventually, feed_certificates, namespace};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::core::Status;
use kube::{Api, Client};
use sandbox::Sandbox;
use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

/// Everything comes to pass within this time, also on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(3);
/// The labels of the adapter's pods.
pub(crate) const ADAPTER: &str = "app.kubernetes.io/name=adapter";
/// The versions that the adapter answers.
pub(crate) const APIS: [&str; 3] = [
    "custom.metrics.k8s.io/v1beta2",
    "custom.metrics.k8s.io/v1beta1",
    "external.metrics.k8s.io/v1beta1",
];

/// The sandbox while it is one test's turn, with a namespace of the test's own.
pub(crate) struct Fixture {
    own: MutexGuard<'static, Option<Sandbox>>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Fixture {
    pub(crate) async fn take(prefix: &str) -> Result<Self> {
        static OWN: Mutex<Option<Sandbox>> = Mutex::const_new(None);
        let mut own = OWN.lock().await;
        if own.is_none() {
            let sandbox = another_with_prometheus("adapter").await?;
            e2e::apply(&sandbox, "deploy/base/namespace.yaml").await?;
            let url = sandbox
                .prometheus_url()
                .context("this sandbox has a Prometheus")?;
            let url = format!("--from-literal=PLIMSOLL_ADAPTER_PROMETHEUS_URL={url}");
            let authority = format!(
                "--from-literal=PLIMSOLL_ADAPTER_PROMETHEUS_CA_FILE={}",
                sandbox.authority().display()
            );
            let make = [
                "create",
                "configmap",
                "prometheus",
                "-n",
                "plimsoll-system",
                &url,
                &authority,
            ];
            e2e::kubectl_in(&sandbox, &make).await?;
            feed_certificates(&sandbox.client().await?).await?;
            deploy_these(&sandbox, "tests/e2e/adapter", ADAPTER).await?;
            *own = Some(sandbox);
        }
        let client = own.as_ref().context("just made")?.client().await?;
        available(&client).await?;
        let namespace = namespace(&client, prefix).await?;
        Ok(Self {
            own,
            client,
            namespace,
        })
    }

    pub(crate) fn sandbox(&self) -> Result<&Sandbox> {
        self.own.as_ref().context("it was made with the first turn")
    }

    /// Output of kubectl with all rights.
    pub(crate) async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        e2e::kubectl_in(self.sandbox()?, arguments).await
    }

    /// Asks the API server for a path, with all rights.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let request = http::Request::get(path).body(Vec::new())?;
        self.client
            .request(request)
            .await
            .with_context(|| format!("GET {path}"))
    }

    /// The same for a request that must be refused; returns the Status with the reason.
    pub(crate) async fn refused(&self, method: &str, path: &str) -> Result<Box<Status>> {
        refused(&self.client, method, path).await
    }
}

/// Sends a request as `client` that must be refused; returns the Status with the reason.
pub(crate) async fn refused(client: &Client, method: &str, path: &str) -> Result<Box<Status>> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .body(Vec::new())?;
    match client.request::<Value>(request).await {
        Ok(answer) => anyhow::bail!("{method} {path}: {answer}"),
        Err(kube::Error::Api(status)) => Ok(status),
        Err(error) => Err(error).with_context(|| format!("{method} {path}")),
    }
}

/// Waits until the API server finds all three versions well.
pub(crate) async fn available(client: &Client) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    eventually(
        "the API server finds the adapter well",
        PATIENCE,
        async || {
            for api in APIS {
                let (group, version) = api.split_once('/').context("a group and a version")?;
                let service = services.get(&format!("{version}.{group}")).await?;
                let conditions = service
                    .status
                    .and_then(|status| status.conditions)
                    .unwrap_or_default();
                let available = conditions
                    .iter()
                    .find(|condition| condition.type_ == "Available")
                    .context("no condition")?;
                ensure!(
                    available.status == "True",
                    "{api}: {:?} {:?}",
                    available.reason,
                    available.message
                );
            }
            Ok(())
        },
    )
    .await
}
