//! Metrics of the recommender, one struct per task. Names, labels and buckets are upstream's where
//! it has the same metric (`pkg/utils/metrics/recommender/recommender.go`).

mod history;
mod ingest;
mod publish;
mod quality;
mod recommendations;
#[cfg(test)]
mod tests;

use api::vpa::UpdateMode;
use jiff::Timestamp;
use model::ContainerRecommendation;
use prometheus::{GaugeVec, IntCounterVec, Registry};
use runtime::StepLatency;
use runtime::metrics::register_on_scrape;
use tokio::sync::watch;
use vertical::recommender_state::Decision;
use view::{Freshness, Resource, View};

pub(crate) use history::{CheckpointMetrics, HistoryMetrics};
pub(crate) use ingest::IngestMetrics;
pub(crate) use publish::PublishMetrics;
pub(crate) use quality::RecommendationChanges;

use quality::Quality;
use recommendations::Recommendations;

runtime::metrics! {
    struct StepMetrics {
        steps: StepLatency { step } = "vpa_recommender_execution_latency_seconds",
            "Duration of the steps of the main loop, in seconds.";
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) ingest: IngestMetrics,
    pub(crate) publish: PublishMetrics,
    pub(crate) checkpoints: CheckpointMetrics,
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
        register_freshness(registry, views)?;
        Ok(Self {
            ingest: IngestMetrics::register(registry, steps.clone(), quality.clone())?,
            publish: PublishMetrics::register(registry, steps.clone(), quality)?,
            checkpoints: CheckpointMetrics::register(registry, steps)?,
            history: HistoryMetrics::register(registry)?,
        })
    }

    pub(crate) fn with_recommendations(
        mut self,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let recommendations = Recommendations::register(registry, recommendations::LIMIT)?;
        self.publish.show(recommendations);
        Ok(self)
    }
}

runtime::metrics! {
    struct WatchFreshness {
        synced: GaugeVec { resource } = "vpa_recommender_watch_synced",
            "1 if all objects were listed at least once, 0 if not.";
        stale: GaugeVec { resource } = "vpa_recommender_watch_stale_seconds",
            "Seconds since changes may have been missed; 0 while the watch is up.";
        errors: IntCounterVec { resource } = "vpa_recommender_watch_errors_total",
            "Lists and watches that failed.";
        rejected: IntCounterVec { resource } = "vpa_recommender_watch_rejected_objects_total",
            "Objects rejected because they cannot be parsed; their last valid state is kept.";
    }
}

fn register_freshness(
    registry: &Registry,
    views: Vec<watch::Receiver<View>>,
) -> Result<(), prometheus::Error> {
    let metrics = WatchFreshness::new()?;
    register_on_scrape(registry, metrics.collectors(), move || {
        let now = Timestamp::now();
        for view in &views {
            for (&resource, freshness) in &view.borrow().freshness {
                metrics.set(resource, freshness, now);
            }
        }
    })
}

impl WatchFreshness {
    fn set(&self, resource: Resource, freshness: &Freshness, now: Timestamp) {
        let labels = &[resource.name()];
        let synced = f64::from(u8::from(freshness.synced));
        self.synced.with_label_values(labels).set(synced);
        let stale = freshness.stale_since.map_or(0.0, |since| {
            now.duration_since(since).as_secs_f64().max(0.0)
        });
        self.stale.with_label_values(labels).set(stale);
        for (counter, total) in [
            (&self.errors, freshness.errors),
            (&self.rejected, freshness.rejected),
        ] {
            let counter = counter.with_label_values(labels);
            counter.inc_by(total.saturating_sub(counter.get()));
        }
    }
}

const BOOLEANS: [&str; 2] = ["false", "true"];

fn containers(decision: &Decision) -> impl Iterator<Item = &ContainerRecommendation> {
    let recommendation = decision.status.recommendation.iter();
    recommendation.flat_map(|recommendation| &recommendation.containers)
}

fn boolean(value: bool) -> &'static str {
    BOOLEANS[usize::from(value)]
}

fn update_mode(decision: &Decision) -> Option<UpdateMode> {
    let policy = decision.vpa.object.spec.update_policy.as_ref()?;
    policy.update_mode
}

fn mode(mode: UpdateMode) -> &'static str {
    match mode {
        UpdateMode::Off => "Off",
        UpdateMode::Initial => "Initial",
        UpdateMode::Recreate => "Recreate",
        UpdateMode::InPlaceOrRecreate => "InPlaceOrRecreate",
        UpdateMode::InPlace => "InPlace",
        UpdateMode::Auto => "Auto",
    }
}
