//! What is measured about reviews. Names, labels and buckets are upstream's
//! (`pkg/utils/metrics/admission/admission.go`).

use std::time::{Duration, Instant};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

use admission::{AdmissionResource, AdmissionStatus, Decision};

const LATENCY_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0,
];
const STEP_BUCKETS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0,
];

/// With which names begin.
pub(crate) const PREFIX: &str = "vpa_admission_controller";

/// All metrics of the webhook, each looked up once. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Left as they were, and changed.
    pods: [IntCounter; 2],
    /// By outcome and subject.
    latency: [[Histogram; 3]; 3],
    steps: Steps,
    shed: IntCounter,
}

/// The parts of a review.
#[derive(Debug, Clone)]
struct Steps {
    read_request: Histogram,
    admit: Histogram,
    build_response: Histogram,
    total: Histogram,
}

impl Metrics {
    /// Adds the metrics to a registry.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let histogram = |name, help, buckets: &[f64], labels: &[&str]| {
            HistogramVec::new(
                HistogramOpts::new(name, help).buckets(buckets.to_vec()),
                labels,
            )
        };
        let pods = IntCounterVec::new(
            Opts::new(
                "vpa_admission_controller_admission_pods_total",
                "Pods, by whether they were changed.",
            ),
            &["applied"],
        )?;
        let latency = histogram(
            "vpa_admission_controller_admission_latency_seconds",
            "Time spent on a review, by what became of it and what it was about.",
            &LATENCY_BUCKETS,
            &["status", "resource"],
        )?;
        let steps = histogram(
            "vpa_admission_controller_execution_latency_seconds",
            "Time spent in each part of a review.",
            &STEP_BUCKETS,
            &["step"],
        )?;
        let shed = IntCounter::new(
            "vpa_admission_controller_shed_reviews_total",
            "Reviews admitted as they were, because there was too much to do.",
        )?;
        registry.register(Box::new(pods.clone()))?;
        registry.register(Box::new(latency.clone()))?;
        registry.register(Box::new(steps.clone()))?;
        registry.register(Box::new(shed.clone()))?;
        let step = |name: &str| steps.with_label_values(&[name]);
        Ok(Self {
            pods: ["false", "true"].map(|applied| pods.with_label_values(&[applied])),
            latency: ["error", "skipped", "applied"].map(|status| {
                ["unknown", "Pod", "VPA"]
                    .map(|resource| latency.with_label_values(&[status, resource]))
            }),
            steps: Steps {
                read_request: step("read_request"),
                admit: step("admit"),
                build_response: step("build_response"),
                total: step("total"),
            },
            shed,
        })
    }

    /// A review was answered, `took` after its headers arrived.
    pub fn answered(&self, decision: &Decision, took: Duration) {
        let [error, skipped, applied] = &self.latency;
        let [unknown, pod, autoscaler] = match decision.status {
            AdmissionStatus::Error => error,
            AdmissionStatus::Skipped => skipped,
            AdmissionStatus::Applied => applied,
        };
        let latency = match decision.resource {
            AdmissionResource::Unknown => unknown,
            AdmissionResource::Pod => pod,
            AdmissionResource::Vpa => autoscaler,
        };
        latency.observe(took.as_secs_f64());
        if decision.resource == AdmissionResource::Pod {
            let [left, changed] = &self.pods;
            if decision.status == AdmissionStatus::Applied {
                changed
            } else {
                left
            }
            .inc();
        }
    }

    /// A review was admitted as it was, because there was too much to do.
    pub fn shed(&self) {
        self.shed.inc();
    }

    /// Times the parts of one review.
    pub fn timer(&self) -> Timer<'_> {
        let now = Instant::now();
        Timer {
            steps: &self.steps,
            began: now,
            last: now,
        }
    }
}

/// Times the parts of one review, each from the end of the one before.
#[derive(Debug)]
pub struct Timer<'a> {
    steps: &'a Steps,
    began: Instant,
    last: Instant,
}

impl Timer<'_> {
    /// The request is read.
    pub fn read(&mut self) {
        let now = Instant::now();
        self.steps
            .read_request
            .observe(now.duration_since(self.last).as_secs_f64());
        self.last = now;
    }

    /// The answer is known, which is written already; hands back how long everything took.
    pub fn admitted(self) -> Duration {
        let now = Instant::now();
        let took = now.duration_since(self.began);
        self.steps
            .admit
            .observe(now.duration_since(self.last).as_secs_f64());
        self.steps.build_response.observe(0.0);
        self.steps.total.observe(took.as_secs_f64());
        took
    }
}
