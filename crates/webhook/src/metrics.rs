//! What is measured about reviews. Names, labels and buckets are upstream's (`pkg/utils/metrics/admission/admission.go`).

use std::time::{Duration, Instant};

use prometheus::{HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry};

use crate::decide::{Answer, Outcome, Subject};

const LATENCY_BUCKETS: [f64; 17] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0];
const STEP_BUCKETS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 120.0,
    150.0, 240.0,
];

/// With which names begin.
pub(crate) const PREFIX: &str = "vpa_admission_controller";

/// All metrics of the webhook. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    pods: IntCounterVec,
    latency: HistogramVec,
    steps: HistogramVec,
    shed: IntCounter,
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let histogram = |name, help, buckets: &[f64], labels: &[&str]| {
            HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)
        };
        let metrics = Self {
            pods: IntCounterVec::new(
                Opts::new("vpa_admission_controller_admission_pods_total", "Pods, by whether they were changed."),
                &["applied"],
            )?,
            latency: histogram(
                "vpa_admission_controller_admission_latency_seconds",
                "Time spent on a review, by what became of it and what it was about.",
                &LATENCY_BUCKETS,
                &["status", "resource"],
            )?,
            steps: histogram(
                "vpa_admission_controller_execution_latency_seconds",
                "Time spent in each part of a review.",
                &STEP_BUCKETS,
                &["step"],
            )?,
            shed: IntCounter::new(
                "vpa_admission_controller_shed_reviews_total",
                "Reviews admitted as they were, because there was too much to do.",
            )?,
        };
        registry.register(Box::new(metrics.pods.clone()))?;
        registry.register(Box::new(metrics.latency.clone()))?;
        registry.register(Box::new(metrics.steps.clone()))?;
        registry.register(Box::new(metrics.shed.clone()))?;
        Ok(metrics)
    }

    /// A review was answered, `took` after its headers arrived.
    pub fn answered(&self, answer: &Answer, took: Duration) {
        let status = match answer.outcome {
            Outcome::Error => "error",
            Outcome::Skipped => "skipped",
            Outcome::Applied => "applied",
        };
        let resource = match answer.subject {
            Subject::Unknown => "unknown",
            Subject::Pod => "Pod",
            Subject::Autoscaler => "VPA",
        };
        if answer.subject == Subject::Pod {
            let applied = if answer.outcome == Outcome::Applied { "true" } else { "false" };
            self.pods.with_label_values(&[applied]).inc();
        }
        self.latency.with_label_values(&[status, resource]).observe(took.as_secs_f64());
    }

    /// A review was admitted as it was, because there was too much to do.
    pub fn shed(&self) {
        self.shed.inc();
    }

    /// Times the parts of one review.
    pub fn timer(&self) -> Timer<'_> {
        let now = Instant::now();
        Timer { steps: &self.steps, began: now, last: now }
    }
}

/// Times the parts of one review, each from the end of the one before.
#[derive(Debug)]
pub struct Timer<'a> {
    steps: &'a HistogramVec,
    began: Instant,
    last: Instant,
}

impl Timer<'_> {
    /// A part is over.
    pub fn step(&mut self, name: &str) {
        let now = Instant::now();
        self.steps.with_label_values(&[name]).observe(now.duration_since(self.last).as_secs_f64());
        self.last = now;
    }

    /// Everything is over; hands back how long it took.
    pub fn total(self) -> Duration {
        let took = self.began.elapsed();
        self.steps.with_label_values(&["total"]).observe(took.as_secs_f64());
        took
    }
}
