//! One run: usage of one pod.

use serde::{Deserialize, Serialize};

use crate::price_of_failure::histogram::{Histogram, bound, bucket};
use crate::price_of_failure::history::{OOM_FACTOR, is_amount};
use crate::price_of_failure::settings::Settings;

/// Percentile of a run's CPU samples that the run needs.
const CPU_PERCENTILE: f64 = 0.95;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Run {
    /// Seconds since 1970 of the first and the last observation.
    pub(super) first: i64,
    pub(super) last: i64,
    /// CPU samples, in millicores.
    cpu: Histogram,
    /// Peak of memory in MiB, and the assumed need after an OOM kill.
    memory: Option<f64>,
    oom_need: Option<f64>,
    pub(super) has_ended: bool,
}

impl Run {
    pub(super) fn new(second: i64) -> Self {
        Self {
            first: second,
            last: second,
            cpu: Histogram::default(),
            memory: None,
            oom_need: None,
            has_ended: false,
        }
    }

    pub(super) fn add_cpu(&mut self, millicores: f64) {
        self.cpu.add(bucket(Settings::FIRST_BOUND, millicores), 1.0);
    }

    pub(super) fn add_memory(&mut self, mebibytes: f64) {
        let before = self.memory.unwrap_or(0.0);
        self.memory = Some(before.max(mebibytes));
    }

    /// Adds an OOM kill with this request. Returns the memory that was used.
    pub(super) fn add_oom(&mut self, request: f64) -> f64 {
        let used = request.max(self.memory.unwrap_or(0.0));
        let need = used * OOM_FACTOR;
        self.oom_need = Some(self.oom_need.map_or(need, |before| before.max(need)));
        used
    }

    pub(super) fn hours(&self) -> f64 {
        self.last.saturating_sub(self.first).max(0) as f64 / 3600.0
    }

    /// The need of CPU in millicores; `None` without a sample.
    pub(super) fn cpu(&self) -> Option<f64> {
        self.cpu
            .percentile(CPU_PERCENTILE)
            .map(|bucket| bound(Settings::FIRST_BOUND, bucket))
    }

    /// The need of memory in MiB; `None` without a sample or OOM kill.
    pub(super) fn memory(&self) -> Option<f64> {
        let needs = [self.memory, self.oom_need];
        needs.into_iter().flatten().reduce(f64::max)
    }

    pub(super) fn is_valid(&self) -> bool {
        let amounts = [self.memory, self.oom_need];
        self.cpu.is_valid() && amounts.into_iter().flatten().all(is_amount)
    }
}
