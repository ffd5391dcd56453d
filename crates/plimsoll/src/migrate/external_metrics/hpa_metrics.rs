//! External metrics of HPAs, requested as the HPA controller does: those that had values before the
//! move of the API must have values after it.

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricIdentifier};
use kube::api::ListParams;
use kube::core::Selector;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::{Instant, timeout};

const MAX_METRICS: usize = 20;
const MAX_HPAS: u32 = 500;
/// Time after which no further metric is requested: those of one tenant may all be slow.
const MAX_TIME: Duration = Duration::from_secs(30);
/// Timeout of a request. A provider may ask a system of its own.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Paths of the external metrics that have values now.
pub(super) async fn with_values(client: &Client) -> anyhow::Result<Vec<String>> {
    let hpas: Api<HorizontalPodAutoscaler> = Api::all(client.clone());
    let params = ListParams::default().limit(MAX_HPAS);
    let hpas = hpas.list(&params).await.context("cannot list the HPAs")?;
    let mut paths: Vec<String> = hpas.items.iter().flat_map(paths).collect();
    paths.sort();
    paths.dedup();
    let (begin, mut found) = (Instant::now(), Vec::new());
    for path in paths {
        if found.len() == MAX_METRICS || begin.elapsed() > MAX_TIME {
            break;
        }
        if request(client, &path).await.is_ok() {
            found.push(path);
        }
    }
    Ok(found)
}

/// Fails unless each of these metrics has a value.
pub(super) async fn ensure_values(client: &Client, paths: &[String]) -> anyhow::Result<()> {
    for path in paths {
        let answer = request(client, path).await;
        answer.with_context(|| format!("no value of {path}"))?;
    }
    Ok(())
}

fn paths(hpa: &HorizontalPodAutoscaler) -> Vec<String> {
    let metrics = hpa.spec.metrics.iter().flatten();
    let external = metrics.filter_map(|metric| metric.external.as_ref());
    let paths = external.filter_map(|source| path(&hpa.namespace()?, &source.metric));
    paths.collect()
}

fn path(namespace: &str, metric: &MetricIdentifier) -> Option<String> {
    let selector = metric.selector.clone().unwrap_or_default();
    let selector = Selector::try_from(selector).ok()?.to_string();
    let query = form_urlencoded::Serializer::new(String::new())
        .append_pair("labelSelector", &selector)
        .finish();
    let (api, name) = (api::external_metrics::API_VERSION, &metric.name);
    Some(format!("/apis/{api}/namespaces/{namespace}/{name}?{query}"))
}

async fn request(client: &Client, path: &str) -> anyhow::Result<()> {
    let request = http::Request::get(path).body(Vec::new())?;
    let list: serde_json::Value = timeout(TIMEOUT, client.request(request)).await??;
    if list["items"].as_array().is_none_or(Vec::is_empty) {
        bail!("the list is empty");
    }
    Ok(())
}
