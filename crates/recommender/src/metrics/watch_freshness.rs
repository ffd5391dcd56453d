//! Freshness of the watches, read from their views at every scrape.

use jiff::Timestamp;
use prometheus::core::{Collector, Desc};
use prometheus::{GaugeVec, IntCounterVec, Opts, proto::MetricFamily};
use tokio::sync::watch;
use view::{Freshness, Resource, View};

/// Four families by resource: synced, stale seconds, errors and rejected objects.
#[derive(Debug)]
pub(super) struct WatchFreshness {
    views: Vec<watch::Receiver<View>>,
    synced: GaugeVec,
    stale: GaugeVec,
    errors: IntCounterVec,
    rejected: IntCounterVec,
}

impl WatchFreshness {
    pub(super) fn new(views: Vec<watch::Receiver<View>>) -> Result<Self, prometheus::Error> {
        let labels = &["resource"];
        let gauge = |name, help| GaugeVec::new(Opts::new(name, help), labels);
        let counter = |name, help| IntCounterVec::new(Opts::new(name, help), labels);
        Ok(Self {
            views,
            synced: gauge(
                "vpa_recommender_watch_synced",
                "1 if all objects were listed at least once, 0 if not.",
            )?,
            stale: gauge(
                "vpa_recommender_watch_stale_seconds",
                "Seconds since changes may have been missed; 0 while the watch is up.",
            )?,
            errors: counter(
                "vpa_recommender_watch_errors_total",
                "Lists and watches that failed.",
            )?,
            rejected: counter(
                "vpa_recommender_watch_rejected_objects_total",
                "Objects rejected because they cannot be parsed; their last valid state is kept.",
            )?,
        })
    }

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

impl Collector for WatchFreshness {
    fn desc(&self) -> Vec<&Desc> {
        [
            self.synced.desc(),
            self.stale.desc(),
            self.errors.desc(),
            self.rejected.desc(),
        ]
        .concat()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Timestamp::now();
        for view in &self.views {
            for (resource, freshness) in view.borrow().freshness() {
                self.set(resource, freshness, now);
            }
        }
        [
            self.synced.collect(),
            self.stale.collect(),
            self.errors.collect(),
            self.rejected.collect(),
        ]
        .concat()
    }
}
