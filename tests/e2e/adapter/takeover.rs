//! `external.metrics.k8s.io` is taken over from another provider and given back, and all the while
//! every question for a metric of that one has its answer.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployed::{all_ready, metric, replicas_of, scrape};
use e2e::{Authority, Issued, eventually, while_asked};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::{APIService, APIServiceSpec};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::process::Command;

use super::fixture::{ADAPTER, Fixture, PATIENCE, available};
use e2e::remote_write::{Labels, Receiver};

const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
const SYSTEM: &str = "plimsoll-system";
const OTHER: &str = "app.kubernetes.io/name=other-adapter";
const METRICS_PORT: u16 = 8945;
const FOREIGN_CHANGES: &str = "plimsoll_adapter_apiservice_external_changes_total";
/// Together they ask twenty times a second.
const CLIENTS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn another_provider_is_taken_over_and_given_back_without_a_question_that_fails() -> Result<()>
{
    let fixture = Fixture::take("takeover").await?;
    let takeover = Takeover::new(&fixture)?;
    let result = takeover.run().await;
    // Others use this sandbox, too.
    takeover.forget_route().await?;
    let annotation = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": null}}});
    takeover
        .services
        .patch(EXTERNAL, &PatchParams::default(), &Patch::Merge(annotation))
        .await?;
    let file = e2e::repository().join("deploy/base/adapter/api-services.yaml");
    let file = file.to_str().context("the repository's path is text")?;
    fixture
        .kubectl(&["apply", "--server-side", "--force-conflicts", "-f", file])
        .await?;
    fixture
        .kubectl(&[
            "delete",
            "deployment",
            "other-adapter",
            "-n",
            SYSTEM,
            "--ignore-not-found",
        ])
        .await?;
    available(&fixture.client).await?;
    result
}

struct Takeover<'a> {
    fixture: &'a Fixture,
    services: Api<APIService>,
    /// Of the other provider.
    authority: String,
    issued: Issued,
}

impl<'a> Takeover<'a> {
    fn new(fixture: &'a Fixture) -> Result<Self> {
        let authority = Authority::new("other")?;
        let issued = authority.issue(&format!("other-adapter.{SYSTEM}.svc"))?;
        Ok(Self {
            fixture,
            services: Api::all(fixture.client.clone()),
            authority: authority.pem(),
            issued,
        })
    }

    async fn run(&self) -> Result<()> {
        self.start_the_other_provider().await?;
        let before = self.foreign_changes().await?;
        self.lead_to_the_other_provider().await?;
        self.noticed(before).await?;
        let path = self.path();
        eventually("the other provider answers", PATIENCE, async || {
            question(&self.fixture.client, &path).await
        })
        .await?;
        let old = self.services.get(EXTERNAL).await?;

        self.refused("has no route to plimsoll-system/other-adapter")
            .await?;
        self.write_route().await?;
        self.refused("it belongs to the Helm release other").await?;
        ensure!(
            self.services.get(EXTERNAL).await?.spec == old.spec,
            "it was changed all the same"
        );

        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let (client, path) = (self.fixture.sandbox()?.client().await?, path.as_str());
            clients.push(async move || question(&client, path).await);
        }
        while_asked(INTERVAL, clients, async |asked| {
            asked.some_more().await?;
            self.command(&["adopt", "--force"]).await?;
            ensure!(self.leads_to().await? == "plimsoll-adapter");
            asked.some_more().await?;
            let routed = self.routed().await?;
            ensure!(
                routed > 0.0,
                "the other provider was not asked by way of the adapter"
            );
            self.command(&["release"]).await?;
            asked.some_more().await
        })
        .await?;

        let now = self.services.get(EXTERNAL).await?;
        assert_eq!(
            (now.spec, now.metadata.annotations),
            (old.spec, old.metadata.annotations)
        );
        Ok(())
    }

    fn path(&self) -> String {
        format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/parcel_depth",
            self.fixture.namespace
        )
    }

    async fn start_the_other_provider(&self) -> Result<()> {
        let sandbox = self.fixture.sandbox()?;
        let receiver = Receiver::new(
            &sandbox.prometheus_url().context("a Prometheus")?,
            sandbox.authority(),
        )?;
        let now = Timestamp::now().as_second();
        let labels = Labels::from([
            ("__name__", "parcel_depth"),
            ("namespace", self.fixture.namespace.as_str()),
        ]);
        receiver
            .write(
                labels,
                (now - 240..now + 540)
                    .step_by(10)
                    .map(|second| (second, 7.0)),
            )
            .await?;

        let secrets: Api<Secret> = Api::namespaced(self.fixture.client.clone(), SYSTEM);
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "other-adapter-tls"},
            "stringData": {"tls.crt": self.issued.certificate.pem(), "tls.key": self.issued.key.serialize_pem()},
        });
        secrets
            .patch(
                "other-adapter-tls",
                &PatchParams::apply("e2e").force(),
                &Patch::Apply(secret),
            )
            .await?;
        e2e::apply(sandbox, "tests/e2e/adapter/other.yaml").await?;
        all_ready(&self.fixture.client, OTHER).await
    }

    /// Installs another provider, as Helm does.
    async fn lead_to_the_other_provider(&self) -> Result<()> {
        let patch = json!({
            "metadata": {"annotations": {"meta.helm.sh/release-name": "other"}},
            "spec": {"service": {"name": "other-adapter"}, "caBundle": ByteString(self.authority.as_bytes().to_vec())},
        });
        self.services
            .patch(EXTERNAL, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        Ok(())
    }

    /// Forwards to the other provider the metrics that no other source has. There are no DNS names
    /// of Services on this machine.
    async fn write_route(&self) -> Result<()> {
        let other = replicas_of(&self.fixture.client, OTHER, METRICS_PORT).await?;
        let address = other.first().context("it runs")?.address();
        let upstream = json!({
            "name": "other", "url": format!("https://{address}:6443"), "caFile": "other.crt",
            "serverName": format!("other-adapter.{SYSTEM}.svc"),
        });
        let file = json!({"upstreams": [upstream], "defaultUpstream": "other"}).to_string();
        let maps: Api<ConfigMap> = Api::namespaced(self.fixture.client.clone(), SYSTEM);
        let patch = json!({"data": {"routes.yaml": file, "other.crt": self.authority}});
        maps.patch(
            "plimsoll-metric-routes",
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await?;
        Ok(())
    }

    /// Nothing is left to others any more.
    async fn forget_route(&self) -> Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.fixture.client.clone(), SYSTEM);
        let patch = json!({"data": {"routes.yaml": "upstreams: []", "other.crt": null}});
        maps.patch(
            "plimsoll-metric-routes",
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await?;
        eventually(
            "no replica knows the other provider",
            PATIENCE,
            async || {
                for replica in replicas_of(&self.fixture.client, ADAPTER, METRICS_PORT).await? {
                    let metrics = scrape(&replica).await?;
                    ensure!(
                        !metrics.contains("plimsoll_adapter_upstream_circuit_open{"),
                        "{} does",
                        replica.pod
                    );
                }
                Ok(())
            },
        )
        .await
    }

    /// Output of the adapter's program, or its error.
    async fn command(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(e2e::program("adapter")?)
            .args(arguments)
            .env("KUBECONFIG", self.fixture.sandbox()?.kubeconfig())
            .output()
            .await?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "adapter {}: {errors}",
            arguments.join(" ")
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    async fn refused(&self, expected: &str) -> Result<()> {
        let Err(error) = self.command(&["adopt"]).await else {
            anyhow::bail!("not refused: {expected}")
        };
        ensure!(
            error.to_string().contains(expected),
            "{error}\ninstead of {expected}"
        );
        Ok(())
    }

    async fn leads_to(&self) -> Result<String> {
        let APIServiceSpec { service, .. } =
            self.services.get(EXTERNAL).await?.spec.context("a spec")?;
        service
            .and_then(|service| service.name)
            .context("a Service")
    }

    /// Number of requests of all replicas to the other provider.
    async fn routed(&self) -> Result<f64> {
        let mut sum = 0.0;
        for replica in replicas_of(&self.fixture.client, ADAPTER, METRICS_PORT).await? {
            let metrics = scrape(&replica).await?;
            if metrics.contains("plimsoll_adapter_route_requests_total{outcome=\"answered\"") {
                sum += metric(&replica, "plimsoll_adapter_route_requests_total").await?;
            }
        }
        Ok(sum)
    }

    async fn foreign_changes(&self) -> Result<f64> {
        let mut sum = 0.0;
        for replica in replicas_of(&self.fixture.client, ADAPTER, METRICS_PORT).await? {
            sum += metric(&replica, FOREIGN_CHANGES).await.unwrap_or(0.0);
        }
        Ok(sum)
    }

    /// The adapters report that another owner has changed the object.
    async fn noticed(&self, before: f64) -> Result<()> {
        let events: Api<Event> = Api::namespaced(self.fixture.client.clone(), "default");
        eventually(
            "the adapters report that another owner has changed the object",
            PATIENCE,
            async || {
                let now = self.foreign_changes().await?;
                ensure!(now > before, "{FOREIGN_CHANGES} is {now}");
                let events = events.list(&ListParams::default()).await?.items;
                let about = |event: &&Event| {
                    let regarding = event
                        .regarding
                        .as_ref()
                        .and_then(|regarding| regarding.name.as_deref());
                    regarding == Some(EXTERNAL)
                        && event.reason.as_deref() == Some("ExternallyModified")
                };
                let event = events.iter().find(about).context("there is no event")?;
                let note = event.note.as_deref().unwrap_or_default();
                ensure!(
                    note == "it leads to the Service plimsoll-system/other-adapter",
                    "{note}"
                );
                Ok(())
            },
        )
        .await
    }
}

async fn question(client: &Client, path: &str) -> Result<()> {
    let list: Value = client
        .request(http::Request::get(path).body(Vec::new())?)
        .await?;
    ensure!(list["items"][0]["value"] == "7", "{list}");
    Ok(())
}
