//! Samples of latencies.

use std::time::Duration;

/// The samples, unsorted.
#[derive(Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub(crate) fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// A percentile in milliseconds; NaN without samples.
    pub(crate) fn percentile_ms(&mut self, share: f64) -> f64 {
        let rank = (self.0.len().saturating_sub(1) as f64 * share) as usize;
        if rank >= self.0.len() {
            return f64::NAN;
        }
        let (_, latency, _) = self.0.select_nth_unstable(rank);
        latency.as_secs_f64() * 1e3
    }

    pub(crate) fn summary(&mut self) -> String {
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|share| self.percentile_ms(share));
        format!("p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, at most {max:.3} ms")
    }
}
