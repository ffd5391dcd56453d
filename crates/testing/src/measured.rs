//! Figures of benchmarks: latencies, and memory of this process.

use std::time::Duration;

/// Samples of latencies, unsorted.
#[derive(Debug, Default)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    pub fn add(&mut self, latency: Duration) {
        self.0.push(latency);
    }

    pub fn append(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// A percentile in milliseconds; NaN without samples.
    pub fn percentile_ms(&mut self, share: f64) -> f64 {
        let rank = (self.0.len().saturating_sub(1) as f64 * share) as usize;
        if rank >= self.0.len() {
            return f64::NAN;
        }
        let (_, latency, _) = self.0.select_nth_unstable(rank);
        latency.as_secs_f64() * 1e3
    }

    pub fn summary(&mut self) -> String {
        let [p50, p99, p999, max] = [0.5, 0.99, 0.999, 1.0].map(|share| self.percentile_ms(share));
        format!("p50 {p50:.3} ms, p99 {p99:.3} ms, p99.9 {p999:.3} ms, at most {max:.3} ms")
    }
}

impl FromIterator<Duration> for Latencies {
    fn from_iter<I: IntoIterator<Item = Duration>>(latencies: I) -> Self {
        Self(latencies.into_iter().collect())
    }
}

/// Resident memory of this process in bytes; `None` on other systems than Linux.
pub fn resident_bytes() -> Option<usize> {
    status_bytes("VmRSS:")
}

/// Peak resident memory of this process in bytes; `None` on other systems than Linux.
pub fn peak_bytes() -> Option<usize> {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<usize>().ok()? << 10)
}
