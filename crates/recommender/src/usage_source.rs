//! Source of usage: the metrics API, or an adapter of external metrics.

use std::sync::Arc;
use std::time::Duration;

use runtime::client::is_too_long;
use sources::ContainerUsage;
use sources::error_chain::with_causes;
use sources::external_metrics::{ExternalMetrics, PodQuery};
use sources::metrics_api::{MetricsApi, MetricsApiError};
use vertical::recommender_state::RecommenderState;

#[derive(Clone)]
pub(crate) enum Usage {
    /// `metrics.k8s.io`, with one response for all pods.
    MetricsApi(MetricsApi),
    /// `external.metrics.k8s.io`, with one request per pod and metric, within a maximum time.
    External(ExternalMetrics, Duration),
}

pub(crate) struct Reading {
    pub(crate) usage: Arc<Vec<ContainerUsage>>,
    /// Whether all requests were answered.
    pub(crate) is_complete: bool,
}

impl Reading {
    fn new(usage: Vec<ContainerUsage>, is_complete: bool) -> Self {
        Self {
            usage: Arc::new(usage),
            is_complete,
        }
    }
}

impl Usage {
    /// The pods to query one by one; empty for the metrics API.
    pub(crate) fn pods(&self, state: &RecommenderState) -> Vec<PodQuery> {
        match self {
            Self::MetricsApi(_) => Vec::new(),
            Self::External(..) => state
                .measurable_pods()
                .map(|(pod, selector)| PodQuery::new(&pod.namespace, &pod.name, selector))
                .collect(),
        }
    }

    /// Reads the current usage. Failures are logged.
    pub(crate) async fn read(&self, pods: Vec<PodQuery>) -> Reading {
        match self {
            Self::MetricsApi(api) => match api.read().await {
                Ok(usage) => Reading::new(usage, true),
                Err(error) => {
                    let (remedy, error) = (remedy(&error), with_causes(&error));
                    tracing::warn!(%error, remedy, "cannot read usage; recommendations stay as they are");
                    Reading::new(Vec::new(), false)
                }
            },
            Self::External(metrics, time) => {
                let read = metrics.read(pods, *time).await;
                let (failed, skipped) = (read.failed, read.skipped);
                if failed + skipped > 0 {
                    let error = read.problem.map(|problem| with_causes(&problem));
                    tracing::warn!(
                        failed,
                        skipped,
                        error,
                        "cannot read all usage from external metrics"
                    );
                }
                Reading::new(read.usage, failed + skipped == 0)
            }
        }
    }
}

/// The remedy for a response that is too long. The metrics API has no pages.
fn remedy(error: &MetricsApiError) -> Option<&'static str> {
    is_too_long(error)
        .then_some("run a recommender per namespace with --vpa-object-namespace, or use --use-external-metrics")
}

#[cfg(test)]
mod tests {
    use kube::Client;
    use runtime::client::TooLong;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_too_long_names_the_bound_and_the_remedy() {
        let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(TooLong)
        });
        let error = MetricsApi::new(Client::new(service, "suite"), None)
            .read()
            .await
            .expect_err("too long");
        let text = error.to_string();
        assert!(text.contains("longer than 128 MiB"), "{text}");
        assert!(remedy(&error).is_some_and(|remedy| remedy.contains("--vpa-object-namespace")));
        assert_eq!(
            remedy(&MetricsApiError::Unavailable("down".to_owned())),
            None
        );
    }
}
