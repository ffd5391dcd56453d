//! CA and certificates of two adapter replicas are rotated under load through the API server: no
//! request fails.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{ADAPTER, Replica, replicas, scrape, system};
use e2e::{eventually, get_json, patch, while_asked};
use futures::future::try_join_all;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use super::fixture::{Fixture, refused};

const SECRET: &str = "plimsoll-adapter-certificates";
/// Together they ask fifty times a second.
const CLIENTS: usize = 10;
const INTERVAL: Duration = Duration::from_millis(200);
/// More than the API server has connections open for so few clients.
const AT_ONCE: usize = 40;

#[tokio::test]
async fn no_question_fails_while_authority_and_certificate_are_replaced() -> Result<()> {
    let fixture = Fixture::alone("rotation").await?;
    let secrets: Api<Secret> = system(&fixture.client).typed();
    let before = Pair::read(&secrets).await?;
    let replicas = replicas(&fixture.client, ADAPTER).await?;
    ensure!(replicas.len() == 2, "{replicas:?}");
    let ends = ends(&replicas).await?;

    let mut clients = Vec::new();
    for number in 0..CLIENTS {
        let client = fixture.sandbox.client().await?;
        let path = path(&fixture.namespace, number);
        clients.push(async move || question(&client, &path).await);
    }
    while_asked(INTERVAL, clients, async |asked| {
        asked.some_more().await?;
        // With an authority whose key is lost, no further certificate can be made: there has to be
        // another authority.
        let lost = json!({"data": {"caKey.pem": null}});
        patch(&secrets, SECRET, lost).await?;
        eventually("authority and certificate are replaced", async || {
            let now = Pair::read(&secrets).await?;
            ensure!(now.authority != before.authority, "the authority is not");
            let is_new = now.certificate != before.certificate;
            ensure!(is_new, "the certificate is not");
            Ok(())
        })
        .await?;
        eventually("both replicas show the new certificate", async || {
            let now = self::ends(&replicas).await?;
            let are_new = now.iter().zip(&ends).all(|(now, before)| now != before);
            ensure!(are_new, "{ends:?} {now:?}");
            Ok(())
        })
        .await?;
        asked.some_more().await?;
        // This many requests at the same time need new connections.
        try_join_all((0..AT_ONCE).map(|number| {
            let (client, path) = (fixture.client.clone(), path(&fixture.namespace, number));
            async move { question(&client, &path).await }
        }))
        .await?;
        Ok(())
    })
    .await?;

    let now = Pair::read(&secrets).await?;
    let services: Api<APIService> = Api::all(fixture.client.clone());
    let labels = ListParams::default().labels(ADAPTER.labels);
    let services = services.list(&labels).await?;
    ensure!(services.items.len() == 3);
    for service in services {
        let name = service.name_any();
        let bundle = service.spec.and_then(|spec| spec.ca_bundle);
        let bundle = String::from_utf8(bundle.context("no bundle")?.0)?;
        for (which, authority) in [("new", &now.authority), ("old", &before.authority)] {
            let has_it = bundle.contains(authority);
            ensure!(has_it, "{name} does not know the {which} authority");
        }
    }
    Ok(())
}

/// The first of the authorities and of the certificates in the Secret.
struct Pair {
    authority: String,
    certificate: String,
}

impl Pair {
    async fn read(secrets: &Api<Secret>) -> Result<Self> {
        let data = secrets.get(SECRET).await?.data.unwrap_or_default();
        let first = |name: &str| -> Result<String> {
            let ByteString(pem) = data.get(name).with_context(|| format!("no {name}"))?;
            let pem = String::from_utf8(pem.clone())?;
            let first = pem.split_inclusive("-----END CERTIFICATE-----").next();
            Ok(first.context("no certificate")?.to_owned())
        };
        Ok(Self {
            authority: first("caCert.pem")?,
            certificate: first("serverCert.pem")?,
        })
    }
}

/// Expiry of the certificate that each replica serves, by its own metric.
async fn ends(replicas: &[Replica]) -> Result<Vec<String>> {
    let mut ends = Vec::new();
    for replica in replicas {
        let metrics = scrape(replica).await?;
        let is_end = |line: &&str| {
            line.starts_with("plimsoll_adapter_certificate_end") && line.contains("\"server\"")
        };
        let end = metrics.lines().find(is_end);
        ends.push(end.context("no end")?.to_owned());
    }
    Ok(ends)
}

/// Half of the clients request a metric that exists, the others one that does not.
fn path(namespace: &str, number: usize) -> String {
    let api = "/apis/external.metrics.k8s.io/v1beta1";
    if number.is_multiple_of(2) {
        api.to_owned()
    } else {
        format!("{api}/namespaces/{namespace}/nothing")
    }
}

/// The adapter itself must answer, with what it has or with what it says where it has nothing.
async fn question(client: &Client, path: &str) -> Result<()> {
    if path.contains("/namespaces/") {
        let status = refused(client, "GET", path).await?;
        let is_unknown = status.message.contains("could not find the metric nothing");
        ensure!(status.code == 404 && is_unknown, "{status:?}");
        return Ok(());
    }
    let list = get_json(client, path).await?;
    ensure!(list["kind"] == "APIResourceList", "{list}");
    Ok(())
}
