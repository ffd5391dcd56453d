//! Lists of `metrics.k8s.io`, item by item: one that cannot be read takes away no other.

use std::time::Duration;

use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Error};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use super::MetricsApiError;

pub(crate) const PATH: &str = "/apis/metrics.k8s.io/v1beta1";
/// Maximum time of one request.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct List<K> {
    items: Vec<Item<K>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Item<K> {
    Readable(K),
    Unreadable(IgnoredAny),
}

/// The objects at a path that can be read. A list with more than `most` items is an error.
pub(crate) async fn list<K: DeserializeOwned>(
    client: &Client,
    path: &str,
    most: usize,
) -> Result<Vec<K>, MetricsApiError> {
    let request = Request::new(path).list(&ListParams::default());
    let request = request.map_err(Error::BuildRequest)?;
    let answer = timeout(ANSWER_TIMEOUT, client.request::<List<K>>(request)).await;
    let items = answer
        .map_err(|_| MetricsApiError::Timeout(ANSWER_TIMEOUT))??
        .items;
    let count = items.len();
    if count > most {
        return Err(MetricsApiError::TooMany { items: count, most });
    }
    let readable = items.into_iter().filter_map(|item| match item {
        Item::Readable(object) => Some(object),
        Item::Unreadable(_) => None,
    });
    let readable: Vec<K> = readable.collect();
    let unreadable = count - readable.len();
    if unreadable > 0 {
        tracing::warn!(
            path,
            unreadable,
            "the metrics API's answer has items that cannot be read"
        );
    }
    Ok(readable)
}

#[cfg(test)]
mod tests {
    use api::pod_metrics::PodMetrics;
    use axum::routing::get;
    use serde_json::{Value, json};

    use super::*;

    async fn answered(items: &[Value]) -> Result<Vec<PodMetrics>, MetricsApiError> {
        let body = json!({"metadata": {}, "items": items}).to_string();
        let path = "/apis/metrics.k8s.io/v1beta1/pods";
        let router = axum::Router::new().route(path, get(async || body));
        list(&Client::new(router, "suite"), path, 1000).await
    }

    #[tokio::test]
    async fn an_item_that_cannot_be_read_takes_away_no_other() {
        let pod = |number: usize| {
            let timestamp = if number == 500 {
                "yesterday"
            } else {
                "2026-01-01T00:00:30Z"
            };
            json!({"metadata": {"namespace": "shop", "name": number.to_string()}, "timestamp": timestamp})
        };
        let mut items: Vec<_> = (0..1000).map(pod).collect();
        assert_eq!(answered(&items).await.expect("a list").len(), 999);
        items.push(json!(null));
        let error = answered(&items).await.expect_err("too many");
        assert!(error.to_string().contains("1001 items"), "{error}");
    }
}
