//! The interface of a sizing policy in a replay: one container, one resource.

use jiff::Timestamp;

/// The replayed resource. Amounts of CPU are in millicores, of memory in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// CPU: usage above the request is slowed down.
    Cpu,
    /// Memory: usage above the request is an OOM kill.
    Memory,
}

/// A sizing policy with the history of one container and resource.
pub trait Policy {
    /// Adds the usage of the slot that began at `at`.
    fn observe(&mut self, at: Timestamp, usage: f64);

    /// Adds the usage of one of several pods, which have their requests in common. Pods are numbered
    /// from 0.
    fn observe_pod(&mut self, pod: usize, at: Timestamp, usage: f64) {
        let _ = pod;
        self.observe(at, usage);
    }

    /// Adds an OOM kill in the slot that began at `at`, at a request that was too small.
    fn oom(&mut self, at: Timestamp, request: f64) {
        let _ = (at, request);
    }

    /// Whether an OOM kill raises the request at once. A provisioned request stays: each slot with
    /// more usage is one more OOM kill.
    fn is_raised_by_oom(&self) -> bool {
        true
    }

    /// The recommended request at a decision; `None` keeps the present one.
    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64>;

    /// The recommended request between decisions, after a slot with this usage. Only a larger one
    /// is applied. Unless a policy has a rule of its own, it decides when usage exceeds the request.
    fn raise(&mut self, now: Timestamp, usage: f64, request: f64) -> Option<f64> {
        if usage > request {
            self.recommend(now, request)
        } else {
            None
        }
    }
}
