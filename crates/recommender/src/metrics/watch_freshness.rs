//! Freshness of the watches, read from their views at every scrape.

use jiff::Timestamp;
use prometheus::{GaugeVec, IntCounterVec, Registry};
use runtime::metrics::register_on_scrape;
use tokio::sync::watch;
use view::{Freshness, Resource, View};

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

/// Registers the freshness of all resources of the views.
pub(super) fn register(
    registry: &Registry,
    views: Vec<watch::Receiver<View>>,
) -> Result<(), prometheus::Error> {
    let metrics = WatchFreshness::new()?;
    register_on_scrape(registry, metrics.collectors(), move || {
        let now = Timestamp::now();
        for view in &views {
            for (resource, freshness) in &view.borrow().freshness {
                metrics.set(*resource, freshness, now);
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
