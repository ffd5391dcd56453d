//! Metrics of the recommender, one struct per task. Names, labels and buckets are upstream's where
//! it has the same metric (`pkg/utils/metrics/recommender/recommender.go`).

mod backfill;
mod checkpoints;
#[cfg(test)]
mod golden;
mod ingest;
mod node_groups;
mod objects;
mod publish;
mod quality;
mod recommendations;
mod source_freshness;
mod watch_freshness;

use prometheus::Registry;
use tokio::sync::watch;
use view::View;

pub(crate) use backfill::HistoryMetrics;
pub(crate) use checkpoints::CheckpointMetrics;
pub(crate) use ingest::IngestMetrics;
pub(crate) use publish::PublishMetrics;
pub(crate) use quality::RecommendationChanges;

use quality::Quality;
use recommendations::Recommendations;
use runtime::StepLatency;

runtime::metrics! {
    struct StepMetrics {
        steps: StepLatency { step } = "vpa_recommender_execution_latency_seconds",
            "Duration of the steps of the main loop, in seconds.";
    }
}

/// The metrics of every task. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    /// Samples, OOM kills and the histories that they become.
    pub(crate) ingest: IngestMetrics,
    /// Recommendations that are computed and written.
    pub(crate) publish: PublishMetrics,
    /// Checkpoints.
    pub(crate) checkpoints: CheckpointMetrics,
    /// History that is fetched from Prometheus.
    pub(crate) history: HistoryMetrics,
}

impl Metrics {
    /// Adds the metrics to a registry. Every scrape reads the state of the watches from `views`.
    pub(crate) fn register(
        registry: &Registry,
        views: Vec<watch::Receiver<View>>,
    ) -> Result<Self, prometheus::Error> {
        let steps = StepMetrics::register(registry)?.steps;
        let quality = Quality::register(registry)?;
        watch_freshness::register(registry, views)?;
        Ok(Self {
            ingest: IngestMetrics::register(registry, steps.clone(), quality.clone())?,
            publish: PublishMetrics::register(registry, steps.clone(), quality)?,
            checkpoints: CheckpointMetrics::register(registry, steps)?,
            history: HistoryMetrics::register(registry)?,
        })
    }

    /// Adds the recommendations to the registry.
    pub(crate) fn with_recommendations(
        mut self,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let recommendations = Recommendations::register(registry, recommendations::LIMIT)?;
        self.publish.show(recommendations);
        Ok(self)
    }
}
