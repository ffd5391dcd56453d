//! Metrics of the recommender, one struct per controller. Names, labels and buckets are upstream's
//! where it has the same metric (`pkg/utils/metrics/recommender/recommender.go`).

mod caps;
mod checkpoints;
mod crane;
mod forecasts;
mod freshness;
#[cfg(test)]
mod golden;
mod history;
mod ingest;
mod objects;
mod policies;
mod publish;
mod quality;
mod recommendations;
mod source;
mod steps;

use prometheus::Registry;
use prometheus::core::Collector;
use tokio::sync::watch;
use view::View;

pub(crate) use checkpoints::CheckpointMetrics;
pub(crate) use crane::CraneMetrics;
pub(crate) use forecasts::ForecastMetrics;
use freshness::WatchFreshness;
pub(crate) use history::HistoryMetrics;
pub(crate) use ingest::IngestMetrics;
pub(crate) use policies::PolicyMetrics;
pub(crate) use publish::PublishMetrics;
use quality::Quality;
pub(crate) use quality::RecommendationChanges;
use recommendations::Recommendations;
use steps::StepLatency;
pub(crate) use steps::Steps;

/// The metrics of every controller. Clones share them.
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
    /// Sizing policies.
    pub(crate) policies: PolicyMetrics,
    /// Predictions.
    pub(crate) forecasts: ForecastMetrics,
}

impl Metrics {
    /// Adds the metrics to a registry. Every scrape reads the state of the watches from `views`.
    pub(crate) fn register(
        registry: &Registry,
        views: Vec<watch::Receiver<View>>,
    ) -> Result<Self, prometheus::Error> {
        let (steps, quality) = (StepLatency::new()?, Quality::new()?);
        let metrics = Self {
            ingest: IngestMetrics::new(steps.clone(), quality.clone())?,
            publish: PublishMetrics::new(steps.clone(), quality.clone())?,
            checkpoints: CheckpointMetrics::new(steps.clone())?,
            history: HistoryMetrics::new()?,
            policies: PolicyMetrics::new()?,
            forecasts: ForecastMetrics::new()?,
        };
        let mut collectors: Vec<Box<dyn Collector>> = vec![
            Box::new(steps.collector()),
            Box::new(metrics.checkpoints.clone()),
            Box::new(WatchFreshness::new(views)?),
        ];
        collectors.extend(metrics.ingest.collectors());
        collectors.extend(metrics.publish.collectors());
        collectors.extend(metrics.history.collectors());
        collectors.extend(metrics.policies.collectors());
        collectors.extend(quality.collectors());
        collectors.extend(metrics.forecasts.collectors());
        collectors
            .into_iter()
            .try_for_each(|collector| registry.register(collector))?;
        Ok(metrics)
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

    /// Adds Crane's metrics to the registry, with at most `limit` series.
    pub(crate) fn with_cranes(
        registry: &Registry,
        limit: usize,
    ) -> Result<CraneMetrics, prometheus::Error> {
        let metrics = CraneMetrics::new(limit)?;
        registry.register(Box::new(metrics.clone()))?;
        Ok(metrics)
    }
}
