//! Metrics of reviews. Names, labels and buckets are upstream's
//! (`pkg/utils/metrics/admission/admission.go`), whose smallest bucket is longer than nearly all
//! reviews; `plimsoll_webhook_review_duration_seconds` has smaller ones.

use std::time::{Duration, Instant};

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};

use admission::{AdmissionResource, AdmissionStatus, Decision};

const LATENCY_BUCKETS: [f64; 17] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 2.0, 5.0, 10.0, 20.0,
];
/// Limits of the buckets in seconds: from less than a review takes to the shortest possible timeout.
const REVIEW_BUCKETS: [f64; 14] = [
    0.000_025, 0.000_05, 0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1,
    0.25, 1.0,
];
const STEP_BUCKETS: [f64; 22] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0,
    90.0, 100.0, 120.0, 150.0, 240.0,
];

/// The label values of resources, in the order of [`admission::AdmissionResource`].
const RESOURCES: [&str; 3] = ["unknown", "Pod", "VPA"];

pub(crate) const PREFIX: &str = "vpa_admission_controller";

runtime::metrics! {
    struct Rows {
        pods: IntCounterVec { applied } = "vpa_admission_controller_admission_pods_total",
            "Reviewed pods, by whether they were patched.";
        latency: HistogramVec { status, resource } [LATENCY_BUCKETS]
            = "vpa_admission_controller_admission_latency_seconds",
            "Time spent on a review, by status and resource.";
        reviews: HistogramVec { resource } [REVIEW_BUCKETS]
            = "plimsoll_webhook_review_duration_seconds",
            "Time from the headers of a review to its response, by resource.";
        steps: HistogramVec { step } [STEP_BUCKETS]
            = "vpa_admission_controller_execution_latency_seconds",
            "Time spent in each step of a review.";
        shed: IntCounter = "vpa_admission_controller_shed_reviews_total",
            "Objects admitted without review during overload.";
    }
}

/// The metrics of reviews, with each child looked up once. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// Unchanged and patched.
    pods: [IntCounter; 2],
    /// By status and resource.
    latency: [[Histogram; 3]; 3],
    /// By resource.
    reviews: [Histogram; 3],
    /// By step.
    steps: [Histogram; 4],
    pub shed: IntCounter,
}

const STEPS: [&str; 4] = ["read_request", "admit", "build_response", "total"];

impl Metrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let rows = Rows::register(registry)?;
        Ok(Self {
            pods: ["false", "true"].map(|applied| rows.pods.with_label_values(&[applied])),
            latency: ["error", "skipped", "applied"].map(|status| {
                RESOURCES.map(|resource| (rows.latency).with_label_values(&[status, resource]))
            }),
            reviews: RESOURCES.map(|resource| rows.reviews.with_label_values(&[resource])),
            steps: STEPS.map(|step| rows.steps.with_label_values(&[step])),
            shed: rows.shed,
        })
    }

    /// Records a decision, `took` after the headers of the request arrived.
    pub fn record(&self, decision: &Decision, took: Duration) {
        let resource = decision.resource as usize;
        self.latency[decision.status as usize][resource].observe(took.as_secs_f64());
        self.reviews[resource].observe(took.as_secs_f64());
        if decision.resource == AdmissionResource::Pod {
            let is_patched = decision.status == AdmissionStatus::Applied;
            self.pods[usize::from(is_patched)].inc();
        }
    }

    /// A timer of the steps of a review whose headers arrived at `received_at`.
    pub fn timer(&self, received_at: Instant) -> Timer<'_> {
        Timer {
            steps: &self.steps,
            started_at: received_at,
            last: received_at,
        }
    }
}

/// A timer of the steps of one review, each from the end of the previous one.
#[derive(Debug)]
pub struct Timer<'a> {
    steps: &'a [Histogram; 4],
    started_at: Instant,
    last: Instant,
}

impl Timer<'_> {
    pub fn end_reading(&mut self) {
        let now = Instant::now();
        let took = now.duration_since(self.last);
        let [read_request, ..] = self.steps;
        read_request.observe(took.as_secs_f64());
        self.last = now;
    }

    /// Ends the decision, which includes building the response. Returns the time of all steps.
    pub fn finish(self) -> Duration {
        let now = Instant::now();
        let took = now.duration_since(self.started_at);
        let admitting = now.duration_since(self.last);
        let [_, admit, build_response, total] = self.steps;
        admit.observe(admitting.as_secs_f64());
        build_response.observe(0.0);
        total.observe(took.as_secs_f64());
        took
    }
}
