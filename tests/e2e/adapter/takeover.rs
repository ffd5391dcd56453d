//! `plimsoll migrate adopt` and `release` of `external.metrics.k8s.io` under load, and meanwhile a new CA
//! of the other provider: no request for its metrics fails.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{
    ADAPTER, Program, SYSTEM, all_ready, replicas, scrape, system, total, warns_of_expiry,
};
use e2e::remote_write::Receiver;
use e2e::{
    Authority, Issued, Namespace, eventually, get_json, patch, plimsoll_prints, target, until,
    while_asked,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::fixture::{Fixture, available};

const EXTERNAL: &str = "v1beta1.external.metrics.k8s.io";
const OTHER: Program<'_> = Program {
    labels: "app.kubernetes.io/name=other-adapter",
    port: ADAPTER.port,
};
const ANSWERED: &str =
    r#"plimsoll_adapter_route_requests_total{outcome="answered",route="default",upstream="other"}"#;
const FOREIGN_CHANGES: &str = "plimsoll_adapter_apiservice_external_changes_total";
/// Together they ask twenty times a second.
const CLIENTS: usize = 4;
const INTERVAL: Duration = Duration::from_millis(200);

#[tokio::test]
async fn another_provider_is_taken_over_and_given_back_without_a_question_that_fails() -> Result<()>
{
    let fixture = Fixture::alone("takeover").await?;
    let takeover = Takeover::new(&fixture)?;
    let result = takeover.run().await;
    // Others use this sandbox, too.
    takeover.forget_route().await?;
    let annotation = json!({"metadata": {"annotations": {"meta.helm.sh/release-name": null}}});
    patch(&takeover.services, EXTERNAL, annotation).await?;
    let file = "deploy/components/external-metrics-api/api-services.yaml";
    e2e::apply_with(&fixture.sandbox, file, &["--force-conflicts"]).await?;
    let delete = format!("-n {SYSTEM} delete deployment other-adapter --ignore-not-found");
    fixture.kubectl(&delete).await?;
    available(&fixture.client).await?;
    result
}

/// The namespace and the Secret in which KEDA has its CA.
const KEDA: &str = "keda";
const CA_SECRET: &str = "kedaorg-certs";

struct Takeover<'a> {
    fixture: &'a Fixture,
    services: Api<APIService>,
    other: Identity,
}

/// The other provider's CA, and what it has signed.
struct Identity {
    authority: Authority,
    issued: Issued,
}

impl Identity {
    fn new() -> Result<Self> {
        let authority = Authority::new("other")?;
        let issued = authority.issue_expiring(&server_name())?;
        Ok(Self { authority, issued })
    }
}

fn server_name() -> String {
    format!("other-adapter.{SYSTEM}.svc")
}

impl<'a> Takeover<'a> {
    fn new(fixture: &'a Fixture) -> Result<Self> {
        Ok(Self {
            fixture,
            services: Api::all(fixture.client.clone()),
            other: Identity::new()?,
        })
    }

    async fn run(&self) -> Result<()> {
        self.start_the_other_provider().await?;
        let before = self.foreign_changes().await?;
        self.lead_to_the_other_provider().await?;
        self.noticed(before).await?;
        let path = self.path();
        eventually("the other provider answers", async || {
            question(&self.fixture.client, &path).await
        })
        .await?;
        let old = self.services.get(EXTERNAL).await?;

        self.refused("has no route to plimsoll-system/other-adapter")
            .await?;
        self.write_route(1).await?;
        self.refused("it belongs to the Helm release other").await?;
        self.scale_by_the_other_provider().await?;
        let error = self.command("adopt --force").await.err();
        let error = error.context("it was moved although the route does not work")?;
        let expected = "points at plimsoll-system/other-adapter again, because the adapter did not get the metrics of HPAs";
        ensure!(format!("{error:#}").contains(expected), "{error:#}");
        let now = self.services.get(EXTERNAL).await?;
        ensure!(now.spec == old.spec, "it was changed all the same");
        self.write_route(6443).await?;

        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let (client, path) = (self.fixture.sandbox.client().await?, path.as_str());
            clients.push(async move || question(&client, path).await);
        }
        while_asked(INTERVAL, clients, async |asked| {
            asked.some_more().await?;
            let printed = self.command("adopt --force").await?;
            let has_values = printed.contains("1 metrics of HPAs have values");
            ensure!(has_values, "{printed}");
            ensure!(self.leads_to().await? == "plimsoll-adapter");
            asked.some_more().await?;
            // The other provider was asked by way of the adapter.
            ensure!(self.routed().await? > 0.0);
            self.replace_ca(&Identity::new()?).await?;
            asked.some_more().await?;
            self.replace_ca(&self.other).await?;
            self.command("release").await?;
            asked.some_more().await
        })
        .await?;

        let now = self.services.get(EXTERNAL).await?;
        assert_eq!(now.spec, old.spec);
        assert_eq!(now.metadata.annotations, old.metadata.annotations);
        Ok(())
    }

    fn path(&self) -> String {
        format!(
            "/apis/external.metrics.k8s.io/v1beta1/namespaces/{}/parcel_depth",
            self.fixture.namespace
        )
    }

    async fn start_the_other_provider(&self) -> Result<()> {
        let receiver = Receiver::of(&self.fixture.sandbox)?;
        let now = Timestamp::now().as_second();
        let samples = (now - 240..now + 540).step_by(10);
        let labels = [("namespace", self.fixture.namespace.as_str())];
        receiver
            .write("parcel_depth", &labels, samples.map(|second| (second, 7.0)))
            .await?;

        let rights = "deploy/components/keda-certificates/rbac.yaml";
        for file in ["tests/e2e/adapter/other.yaml", rights] {
            e2e::apply(&self.fixture.sandbox, file).await?;
        }
        self.write_certificates(&self.other).await?;
        all_ready(&self.fixture.client, OTHER.labels).await?;
        warns_of_expiry(&self.fixture.client, "other-adapter-").await
    }

    /// Writes the Secret of the other provider, and that from which the adapter reads its CA.
    async fn write_certificates(&self, identity: &Identity) -> Result<()> {
        let Identity { authority, issued } = identity;
        let ca = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": CA_SECRET},
            "stringData": {"ca.crt": authority.pem()},
        });
        let name = "other-adapter-tls";
        let params = PatchParams::apply("e2e").force();
        for (namespace, name, secret) in
            [(SYSTEM, name, issued.secret(name)), (KEDA, CA_SECRET, ca)]
        {
            let secrets: Api<Secret> = Api::namespaced(self.fixture.client.clone(), namespace);
            secrets.patch(name, &params, &Patch::Apply(secret)).await?;
        }
        Ok(())
    }

    /// Replaces CA and certificate of the other provider, and waits until both programs use them.
    async fn replace_ca(&self, identity: &Identity) -> Result<()> {
        self.write_certificates(identity).await?;
        let other = replicas(&self.fixture.client, OTHER).await?;
        let address = other.first().context("it runs")?.address;
        let mut config = Config::new(format!("https://{address}:6443").parse()?);
        config.root_cert = Some(vec![identity.authority.der().to_vec()]);
        config.tls_server_name = Some(server_name());
        let client = Client::try_from(config)?;
        eventually("the other provider has its new certificate", async || {
            let request = http::Request::get("/").body(Vec::new())?;
            match client.request::<Value>(request).await {
                // It knows no such caller.
                Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
                Err(error) => Err(error.into()),
            }
        })
        .await?;
        let before = self.routed().await?;
        until(
            "it is asked with the new certificate",
            async || self.routed().await,
            |now| *now > before + 1.0,
        )
        .await
    }

    /// Installs another provider, as Helm does.
    async fn lead_to_the_other_provider(&self) -> Result<()> {
        let change = json!({
            "metadata": {"annotations": {"meta.helm.sh/release-name": "other"}},
            "spec": {"service": {"name": "other-adapter"}, "caBundle": ByteString(self.other.authority.pem().into_bytes())},
        });
        patch(&self.services, EXTERNAL, change).await?;
        Ok(())
    }

    async fn scale_by_the_other_provider(&self) -> Result<()> {
        let metric = json!({"type": "External", "external": {
            "metric": {"name": "parcel_depth"}, "target": {"type": "Value", "value": "10"},
        }});
        let spec = json!({
            "scaleTargetRef": target("Deployment", "parcels"), "maxReplicas": 2, "metrics": [metric],
        });
        self.fixture
            .make::<HorizontalPodAutoscaler>("parcels", spec)
            .await?;
        Ok(())
    }

    /// Forwards to the other provider the metrics that no other source has. There are no DNS names
    /// of Services on this machine.
    async fn write_route(&self, port: u16) -> Result<()> {
        let other = replicas(&self.fixture.client, OTHER).await?;
        let address = other.first().context("it runs")?.address;
        let upstream = json!({
            "name": "other", "url": format!("https://{address}:{port}"), "serverName": server_name(),
            "caFrom": {"secret": {"namespace": KEDA, "name": CA_SECRET}},
        });
        let file = json!({"upstreams": [upstream], "defaultUpstream": "other"}).to_string();
        self.write_routes(json!({"routes.yaml": file})).await
    }

    async fn write_routes(&self, data: Value) -> Result<()> {
        let (name, change) = ("plimsoll-metric-routes", json!({"data": data}));
        system(&self.fixture.client)
            .patch::<ConfigMap>(name, change)
            .await?;
        Ok(())
    }

    /// Nothing is left to others any more.
    async fn forget_route(&self) -> Result<()> {
        self.write_routes(json!({"routes.yaml": "upstreams: []"}))
            .await?;
        eventually("no replica knows the other provider", async || {
            for replica in replicas(&self.fixture.client, ADAPTER).await? {
                let metrics = scrape(&replica).await?;
                let knows_it = metrics.contains("plimsoll_adapter_upstream_circuit_open{");
                ensure!(!knows_it, "{} does", replica.pod);
            }
            Ok(())
        })
        .await
    }

    async fn command(&self, arguments: &str) -> Result<String> {
        let arguments = format!("migrate {arguments}");
        plimsoll_prints(&self.fixture.sandbox.kubeconfig(), &arguments).await
    }

    async fn refused(&self, expected: &str) -> Result<()> {
        let Err(error) = self.command("adopt").await else {
            anyhow::bail!("not refused: {expected}")
        };
        let is_expected = error.to_string().contains(expected);
        ensure!(is_expected, "{error}\ninstead of {expected}");
        Ok(())
    }

    async fn leads_to(&self) -> Result<String> {
        let spec = self.services.get(EXTERNAL).await?.spec;
        let name = spec.and_then(|spec| spec.service?.name);
        name.context("a Service")
    }

    /// Number of requests of all replicas that the other provider has answered.
    async fn routed(&self) -> Result<f64> {
        let mut sum = 0.0;
        for replica in replicas(&self.fixture.client, ADAPTER).await? {
            let metrics = scrape(&replica).await?;
            sum += e2e::deployment::sum(&metrics, ANSWERED).unwrap_or_default();
        }
        Ok(sum)
    }

    async fn foreign_changes(&self) -> Result<f64> {
        total(&self.fixture.client, ADAPTER, FOREIGN_CHANGES).await
    }

    async fn noticed(&self, before: f64) -> Result<()> {
        let events = Namespace::of(self.fixture.client.clone(), "default");
        eventually(
            "the adapters report that another owner has changed it",
            async || {
                let now = self.foreign_changes().await?;
                ensure!(now > before, "{FOREIGN_CHANGES} is {now}");
                let events = events.list::<Event>().await?;
                let event = events.iter().find(|event| {
                    event["regarding"]["name"] == EXTERNAL
                        && event["reason"] == "ExternallyModified"
                });
                let note = &event.context("there is no event")?["note"];
                let expected = "it points at the Service plimsoll-system/other-adapter";
                ensure!(note == expected, "{note}");
                Ok(())
            },
        )
        .await
    }
}

async fn question(client: &Client, path: &str) -> Result<()> {
    let list = get_json(client, path).await?;
    ensure!(list["items"][0]["value"] == "7", "{list}");
    Ok(())
}
