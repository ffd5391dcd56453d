//! Current usage of all containers from `metrics.k8s.io/v1beta1`. metrics-server is the usual
//! provider of that API.
//!
//! One list of `PodMetrics` gives one sample per container, with the provider's timestamp. CPU is
//! rounded up to millicores, memory to bytes. Source: upstream
//! `recommender/input/metrics/metrics_client.go`.

use std::sync::Arc;
use std::time::Duration;

use api::pod_metrics::PodMetrics;
use kube::api::ListParams;
use kube::core::Request;
use kube::{Client, Error};
use model::{ContainerRef, Cpu, Memory, Sample};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::time::timeout;

use crate::ContainerUsage;

pub(crate) const PATH: &str = "/apis/metrics.k8s.io/v1beta1";
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of pods in one response, far above the size of a cluster.
const MAX_PODS: usize = 500_000;

/// Failed read; there are no new samples, and known ones stay.
#[derive(Debug, thiserror::Error)]
pub enum MetricsApiError {
    #[error("the metrics API did not answer within {0:?}")]
    Timeout(Duration),
    /// The API has no provider, or its provider is down.
    #[error("the metrics API is not available: {0}")]
    Unavailable(String),
    #[error("reading metrics is not allowed: {0}")]
    Forbidden(String),
    #[error("the metrics API's answer cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The response has more items than a cluster can have.
    #[error("the metrics API's answer holds {items} items, more than {most}")]
    TooMany { items: usize, most: usize },
    #[error("reading metrics failed: {0}")]
    Request(#[source] Error),
}

impl From<Error> for MetricsApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::SerdeError(error) => Self::Malformed(error),
            Error::Api(status) => match status.code {
                401 | 403 => Self::Forbidden(status.message.clone()),
                404 | 503 => Self::Unavailable(status.message.clone()),
                _ => Self::Request(Error::Api(status)),
            },
            other => Self::Request(other),
        }
    }
}

/// Metrics API of a cluster. The client limits the size of responses.
#[derive(Clone)]
pub struct MetricsApi {
    client: Client,
    path: String,
    /// Whether a namespace is selected.
    is_wanted: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

impl MetricsApi {
    /// Pods of one namespace, or of all.
    pub fn new(client: Client, namespace: Option<&str>) -> Self {
        let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}"));
        Self {
            client,
            path: format!("{PATH}{}/pods", namespace.unwrap_or_default()),
            is_wanted: Arc::new(|_| true),
        }
    }

    /// Restricts the result to selected namespaces. The API cannot query several namespaces.
    #[must_use]
    pub fn only(self, is_wanted: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_wanted: Arc::new(is_wanted),
            ..self
        }
    }

    pub async fn read(&self) -> Result<Vec<ContainerUsage>, MetricsApiError> {
        let pods = list(&self.client, &self.path, MAX_PODS).await?;
        Ok(usage_in(pods, &*self.is_wanted))
    }
}

/// The samples of the pods in selected namespaces.
fn usage_in(pods: Vec<PodMetrics>, is_wanted: impl Fn(&str) -> bool) -> Vec<ContainerUsage> {
    let is_wanted =
        |pod: &PodMetrics| is_wanted(pod.metadata.namespace.as_deref().unwrap_or_default());
    pods.into_iter().filter(is_wanted).flat_map(usage).collect()
}

/// The samples of one pod. A container without usage gives none.
fn usage(pod: PodMetrics) -> impl Iterator<Item = ContainerUsage> {
    let PodMetrics {
        metadata,
        timestamp,
        containers,
        ..
    } = pod;
    let namespace = metadata.namespace.unwrap_or_default();
    let name = metadata.name.unwrap_or_default();
    containers.into_iter().filter_map(move |container| {
        let cpu = container.usage.cpu.as_ref().map(Cpu::from);
        let memory = container.usage.memory.as_ref().map(Memory::from);
        (cpu.is_some() || memory.is_some()).then(|| ContainerUsage {
            container: ContainerRef {
                namespace: namespace.clone(),
                pod: name.clone(),
                container: container.name,
            },
            sample: Sample {
                at: timestamp.0,
                cpu,
                memory,
            },
        })
    })
}

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

/// The objects at a path that can be read: one that cannot takes away no other. A list with more
/// than `most` items is an error.
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
    use axum::routing::get;
    use kube::core::Status;
    use serde_json::{Value, json};

    use super::*;

    /// Name, millicores and bytes of each sample.
    type Expected<'a> = &'a [(&'a str, Option<i64>, Option<i64>)];

    fn check(containers: &Value, expected: Expected) {
        let pod = json!({
            "metadata": {"namespace": "shop", "name": "web-1"},
            "timestamp": "2026-01-01T00:00:30Z",
            "window": "10s",
            "containers": containers,
        });
        let samples: Vec<_> = usage(serde_json::from_value(pod).expect("pod metrics")).collect();
        for ContainerUsage { container, sample } in &samples {
            assert_eq!([&container.namespace, &container.pod], ["shop", "web-1"]);
            assert_eq!(sample.at.to_string(), "2026-01-01T00:00:30Z");
        }
        let values = samples.iter().map(|usage| {
            let Sample { cpu, memory, .. } = usage.sample;
            let (cpu, memory) = (cpu.map(Cpu::millicores), memory.map(Memory::bytes));
            (usage.container.container.as_str(), cpu, memory)
        });
        assert_eq!(values.collect::<Vec<_>>(), expected, "{containers}");
    }

    #[test]
    fn amounts_are_rounded_up_and_a_missing_resource_is_no_zero() {
        for (usage, cpu, memory) in [
            (
                json!({"cpu": "249999999n", "memory": "300Mi"}),
                Some(250),
                Some(300 << 20),
            ),
            (json!({"cpu": "1"}), Some(1000), None),
            (json!({"memory": "1Ki"}), None, Some(1024)),
            (json!({"cpu": "x", "memory": "1Ki"}), None, Some(1024)),
            (json!({"cpu": "0", "memory": "0"}), Some(0), Some(0)),
        ] {
            let containers = json!([{"name": "web", "usage": usage}]);
            check(&containers, &[("web", cpu, memory)]);
        }
    }

    #[tokio::test]
    async fn metrics_are_asked_for_by_namespace() {
        let client = Client::new(axum::Router::new(), "suite");
        for (namespace, expected) in [
            (None, "/apis/metrics.k8s.io/v1beta1/pods"),
            (
                Some("shop"),
                "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods",
            ),
        ] {
            assert_eq!(MetricsApi::new(client.clone(), namespace).path, expected);
        }
    }

    #[test]
    fn usage_in_other_namespaces_is_left_out() {
        let pod = |namespace: &str| {
            let containers = json!([{"name": "web", "usage": {"cpu": "1"}}]);
            let metadata = json!({"namespace": namespace, "name": "web-1"});
            let pod = json!({
                "metadata": metadata, "timestamp": "2026-01-01T00:00:30Z", "window": "10s", "containers": containers,
            });
            serde_json::from_value(pod).expect("pod metrics")
        };
        let samples = usage_in(vec![pod("shop"), pod("mail")], |namespace| {
            namespace == "mail"
        });
        let namespaces = samples.iter().map(|sample| &*sample.container.namespace);
        assert_eq!(namespaces.collect::<Vec<_>>(), ["mail"]);
    }

    #[test]
    fn a_container_without_usage_gives_no_sample() {
        let containers = json!([{"name": "web", "usage": {}}, {"name": "proxy"}]);
        check(&containers, &[]);
        check(&json!([]), &[]);
    }

    fn check_error(code: u16, expected: &str) {
        let status = Status::failure("the reason", "Reason")
            .with_code(code)
            .boxed();
        let error = MetricsApiError::from(Error::Api(status)).to_string();
        assert!(error.starts_with(expected), "{code}: {error}");
    }

    #[test]
    fn answers_without_metrics_say_why() {
        check_error(503, "the metrics API is not available: the reason");
        check_error(404, "the metrics API is not available: the reason");
        check_error(403, "reading metrics is not allowed: the reason");
        check_error(500, "reading metrics failed: ");
    }

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
