//! Where usage comes from: the metrics API, or an adapter of external metrics.

use std::sync::Arc;
use std::time::Duration;

use sources::ContainerUsage;
use sources::external_metrics::{ExternalMetrics, Pass, PodQuestion};
use sources::metrics_api::MetricsApi;

use crate::state::State;

/// The source of usage. Clones share what it remembers.
#[derive(Clone)]
pub(crate) enum Usage {
    /// `metrics.k8s.io`: one answer for all pods.
    MetricsApi(MetricsApi),
    /// `external.metrics.k8s.io`: one request per pod and metric, for at most so long.
    External(ExternalMetrics, Duration),
}

/// What was read, and whether that is all.
pub(crate) struct Reading {
    /// Samples.
    pub(crate) usage: Arc<Vec<ContainerUsage>>,
    /// Whether the source told everything that it was asked for.
    pub(crate) is_complete: bool,
}

impl Usage {
    /// The pods that the source must be asked for one by one.
    pub(crate) fn pods(&self, state: &State) -> Vec<PodQuestion> {
        match self {
            Self::MetricsApi(_) => Vec::new(),
            Self::External(..) => state.usage_questions(),
        }
    }

    /// What the source says now. What it does not say is in the log.
    pub(crate) async fn read(&self, pods: Vec<PodQuestion>) -> Reading {
        match self {
            Self::MetricsApi(api) => match api.read().await {
                Ok(usage) => Reading { usage: Arc::new(usage), is_complete: true },
                Err(error) => {
                    tracing::warn!(%error, "no usage was read; recommendations stay as they are");
                    Reading { usage: Arc::default(), is_complete: false }
                }
            },
            Self::External(metrics, time) => {
                let Pass { usage, failed, left_out, problem } = metrics.read(pods, *time).await;
                if failed + left_out > 0 {
                    let error = problem.map(|problem| problem.to_string());
                    tracing::warn!(failed, left_out, error, "not all usage was read from external metrics");
                }
                Reading { usage: Arc::new(usage), is_complete: failed + left_out == 0 }
            }
        }
    }
}
