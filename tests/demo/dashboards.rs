//! The queries of the dashboards, over what the programs did in this demonstration. Rules of
//! prometheus-adapter and another provider of external metrics, which no step needs, are used here.

use anyhow::{Context as _, Result, ensure};
use e2e::dashboards::{dashboards, queries};
use e2e::deployment::{Program, SYSTEM, all_ready, prometheus_variables, replicas, system};
use e2e::{Authority, Prometheus, apply, create, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use sandbox::Sandbox;
use serde_json::json;

/// Interval of rates: as long as between two updates of a panel in Grafana.
pub(crate) const RATE_INTERVAL: &str = "1m";
/// The other provider, one more adapter.
const OTHER: Program<'_> = Program {
    labels: "app.kubernetes.io/name=other-adapter",
    ..e2e::deployment::ADAPTER
};
/// A metric of a rule, and one that is forwarded to the other provider, which has no value of it.
const METRICS: [&str; 2] = ["sized_objects", "parcel_depth"];

/// Starts the other provider, and forwards to it what the adapter does not have.
pub(crate) async fn forward_metrics(sandbox: &Sandbox, client: &Client) -> Result<()> {
    let authority = Authority::new("other")?;
    let certificate = authority.issue(&format!("other-adapter.{SYSTEM}.svc"))?;
    let secrets: Api<Secret> = system(client).typed();
    create(&secrets, certificate.secret("other-adapter-tls")).await?;
    let variables = [
        "PLIMSOLL_ADAPTER_PROMETHEUS_ADDRESS",
        "PLIMSOLL_ADAPTER_PROMETHEUS_CA_FILE",
    ];
    prometheus_variables(sandbox, &[variables]).await?;
    apply(sandbox, "tests/e2e/adapter/other.yaml").await?;
    all_ready(client, OTHER.labels).await?;

    let other = replicas(client, OTHER).await?;
    let address = other.first().context("it has no replica")?.address;
    let upstream = json!({
        // A sandbox has no DNS names.
        "name": "other", "url": format!("https://{address}:6443"),
        "serverName": format!("other-adapter.{SYSTEM}.svc"), "caFile": "ca.crt",
    });
    let routes = json!({"upstreams": [upstream], "defaultUpstream": "other"}).to_string();
    let change = json!({"data": {"routes.yaml": routes, "ca.crt": authority.pem()}});
    system(client)
        .patch::<ConfigMap>("plimsoll-metric-routes", change)
        .await?;
    Ok(())
}

/// Waits until each query has returned data; returns a sentence.
pub(crate) async fn check(client: &Client, prometheus: &Prometheus) -> Result<String> {
    let mut pending = queries(RATE_INTERVAL)?;
    let all = pending.len();
    eventually("all panels have data", async || {
        for metric in METRICS {
            request_metric(client, metric).await?;
        }
        let mut left = Vec::new();
        for query in pending.drain(..) {
            if prometheus.count(&query.text).await? == 0 {
                left.push(query);
            }
        }
        pending = left;
        ensure!(pending.is_empty(), "no data: {pending:#?}");
        Ok(())
    })
    .await?;
    Ok(format!(
        "{all} queries of the {} Grafana dashboards in deploy/dashboards; each returns data of this run",
        dashboards()?.len()
    ))
}

/// Requests an external metric as an HPA does; the value does not matter.
async fn request_metric(client: &Client, name: &str) -> Result<()> {
    let path = format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{SYSTEM}/{name}");
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request_text(request).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop).with_context(|| name.to_owned()),
    }
}
