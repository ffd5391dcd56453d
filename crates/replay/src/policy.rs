//! The interface of a sizing policy in a replay: one container, one resource.

use jiff::Timestamp;
use sizing::Amounts;

/// The replayed resource. Amounts of CPU are in millicores, of memory in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// CPU: usage above the request is slowed down.
    Cpu,
    /// Memory: usage above the request is an OOM kill.
    Memory,
}

/// Bytes of a MiB.
pub const MIB: f64 = 1_048_576.0;

impl Resource {
    /// An amount in millicores or MiB.
    pub fn amount(self, amounts: Amounts) -> f64 {
        match self {
            Self::Cpu => amounts.cpu.millicores() as f64,
            Self::Memory => amounts.memory.bytes() as f64 / MIB,
        }
    }
}

/// A sizing policy with the history of one container and resource.
pub trait Policy {
    /// Adds the usage of a pod in the slot that began at `at`. Pods are numbered from 0, and have their
    /// requests in common.
    fn observe(&mut self, pod: usize, at: Timestamp, usage: f64);

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
