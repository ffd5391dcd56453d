//! Metrics of the recommender, one struct per task. Names, labels and buckets are upstream's where
//! it has the same metric (`pkg/utils/metrics/recommender/recommender.go`).

mod backfill;
mod caps;
mod checkpoints;
mod computed;
#[cfg(test)]
mod golden;
mod ingest;
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
use watch_freshness::WatchFreshness;

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
        let steps = StepLatency::register(registry, "vpa_recommender_execution_latency_seconds")?;
        let quality = Quality::register(registry)?;
        registry.register(Box::new(WatchFreshness::new(views)?))?;
        Ok(Self {
            ingest: IngestMetrics::register(registry, steps.clone(), quality.clone())?,
            publish: PublishMetrics::register(registry, steps.clone(), quality)?,
            checkpoints: CheckpointMetrics::register(registry, steps)?,
            history: HistoryMetrics::register(registry)?,
        })
    }

    /// Adds the recommendations to the registry, with at most `limit` series.
    pub(crate) fn with_recommendations(
        mut self,
        registry: &Registry,
        limit: usize,
    ) -> Result<Self, prometheus::Error> {
        let recommendations = Recommendations::new(limit)?;
        registry.register(Box::new(recommendations.clone()))?;
        self.publish.show(recommendations);
        Ok(self)
    }
}
