//! Classification of pods: ready with a value, unready, missing a value, or ignored.
//!
//! A deleted or failed pod is ignored. A pending pod is unready. A pod without a value is missing.
//! For CPU a pod is also unready while it starts: CPU usage of a start is unrelated to the load.
//! Source: upstream `replica_calculator.go` (`groupPods`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Requests;

#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    pub name: String,
    /// Whether it has a deletion timestamp.
    pub deleted: bool,
    pub phase: Phase,
    /// Its `Ready` condition, if any.
    pub ready: Option<ReadyCondition>,
    /// Start time reported by the kubelet.
    pub started: Option<Timestamp>,
    pub requests: Requests,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers have started.
    Pending,
    /// At least one container runs.
    Running,
    Succeeded,
    Failed,
    /// The node does not report.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    pub status: ReadyStatus,
    /// Last transition time.
    pub since: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyStatus {
    True,
    False,
    /// The node does not report.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodMetric {
    /// Value in milli-units, also for bytes.
    pub value_milli: i64,
    /// End of the measurement window.
    pub at: Timestamp,
    pub window: SignedDuration,
}

pub type PodMetrics = BTreeMap<String, PodMetric>;

/// Delays for CPU values of starting pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadinessDelays {
    /// Time after its start during which a pod counts only with a value measured entirely while
    /// ready (`--horizontal-pod-autoscaler-cpu-initialization-period`).
    pub cpu_initialization: SignedDuration,
    /// A pod that became unready within this time after its start counts as never ready
    /// (`--horizontal-pod-autoscaler-initial-readiness-delay`).
    pub initial_readiness: SignedDuration,
}

impl Default for ReadinessDelays {
    fn default() -> Self {
        Self {
            cpu_initialization: SignedDuration::from_mins(5),
            initial_readiness: SignedDuration::from_secs(30),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PodClass {
    Ignored,
    Unready,
    Missing,
    Ready(i64),
}

impl Pod {
    pub(super) fn class(
        &self,
        metric: Option<&PodMetric>,
        is_cpu: bool,
        delays: ReadinessDelays,
        now: Timestamp,
    ) -> PodClass {
        if self.deleted || self.phase == Phase::Failed {
            return PodClass::Ignored;
        }
        if self.phase == Phase::Pending {
            return PodClass::Unready;
        }
        match metric {
            None => PodClass::Missing,
            Some(metric) if is_cpu && self.is_starting(metric, delays, now) => PodClass::Unready,
            Some(metric) => PodClass::Ready(metric.value_milli),
        }
    }

    fn is_starting(&self, metric: &PodMetric, delays: ReadinessDelays, now: Timestamp) -> bool {
        let (Some(ready), Some(started)) = (self.ready, self.started) else {
            return true;
        };
        let unready = ready.status == ReadyStatus::False;
        if later(started, delays.cpu_initialization) > now {
            unready || metric.at < later(ready.since, metric.window)
        } else {
            unready && later(started, delays.initial_readiness) > ready.since
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        let status = self.ready.map(|ready| ready.status);
        self.phase == Phase::Running && status == Some(ReadyStatus::True)
    }
}

/// Saturates at the latest time.
fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
