//! Durations of the steps of a control loop, in upstream's buckets.

use std::time::{Duration, Instant};

use prometheus::HistogramVec;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use crate::metrics::{Family, Metric};

/// Upstream's exponential buckets, in seconds.
const BUCKETS: [f64; 23] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0, 300.0,
];

/// Histogram of step durations, by step. Clones share it.
#[derive(Debug, Clone)]
pub struct StepLatency(HistogramVec);

impl StepLatency {
    /// Records the duration of a step outside a round.
    pub fn observe(&self, step: &str, duration: Duration) {
        self.0
            .with_label_values(&[step])
            .observe(duration.as_secs_f64());
    }

    pub fn start(&self) -> Steps {
        let now = Instant::now();
        Steps {
            latency: self.clone(),
            started: now,
            last: now,
        }
    }
}

impl Metric for StepLatency {
    fn of(family: &Family) -> Result<Self, prometheus::Error> {
        HistogramVec::of(&Family {
            name: family.name.clone(),
            buckets: &[&BUCKETS],
            ..*family
        })
        .map(Self)
    }
}

impl Collector for StepLatency {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}

/// One round of the main loop. A step begins at the end of the last; dropping records the total.
#[derive(Debug)]
pub struct Steps {
    latency: StepLatency,
    started: Instant,
    last: Instant,
}

impl Steps {
    pub fn done(&mut self, step: &str) {
        let now = Instant::now();
        self.latency.observe(step, now.duration_since(self.last));
        self.last = now;
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.latency.observe("total", self.started.elapsed());
    }
}
