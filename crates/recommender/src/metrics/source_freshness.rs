//! Staleness of the source of usage, computed at every scrape.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use prometheus::{Gauge, Registry};
use runtime::metrics::register_on_scrape;

runtime::metrics! {
    struct Row {
        stale: Gauge = "vpa_recommender_metrics_source_stale_seconds",
            "Seconds since the source of usage last responded; 0 while it responds. Recommendations are frozen meanwhile.";
    }
}

/// Seconds since the last successful answer; 0 while the last answer was successful. Before the
/// first answer it counts from the start.
#[derive(Debug, Clone)]
pub(super) struct SourceFreshness(Arc<Mutex<State>>);

#[derive(Debug, Clone, Copy)]
struct State {
    last_good: Instant,
    is_good: bool,
}

impl SourceFreshness {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            last_good: Instant::now(),
            is_good: false,
        })))
    }

    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let source = Self::new();
        let (row, state) = (Row::new()?, source.clone());
        register_on_scrape(registry, row.collectors(), move || {
            row.stale.set(state.stale_seconds(Instant::now()));
        })?;
        Ok(source)
    }

    /// Records an answer or a failure at `now`.
    pub(super) fn read(&self, succeeded: bool, now: Instant) {
        let mut state = self.0.lock();
        state.is_good = succeeded;
        if succeeded {
            state.last_good = now;
        }
    }

    fn stale_seconds(&self, now: Instant) -> f64 {
        let state = *self.0.lock();
        if state.is_good {
            0.0
        } else {
            now.saturating_duration_since(state.last_good).as_secs_f64()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn staleness_counts_from_the_last_good_answer() {
        let source = SourceFreshness::new();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let check = |second, expected: f64| {
            assert!((source.stale_seconds(after(second)) - expected).abs() < 1e-9);
        };
        source.read(true, after(10));
        check(50, 0.0);
        source.read(false, after(60));
        source.read(false, after(70));
        check(75, 65.0);
        source.read(true, after(80));
        check(90, 0.0);
    }

    #[test]
    fn a_source_that_never_answered_is_stale() {
        let source = SourceFreshness::new();
        assert!(source.stale_seconds(Instant::now() + Duration::from_secs(5)) >= 5.0);
    }
}
