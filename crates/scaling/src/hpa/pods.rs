//! Which pods count: ready ones with a value, unready ones, ones whose value is missing, and ones
//! that are ignored.
//!
//! A pod that is deleted or has failed is ignored. A pending pod is unready. A pod without a value
//! is missing. For CPU alone a pod is also unready while it starts: a start needs CPU that says
//! nothing about the load. Source: upstream `replica_calculator.go` (`groupPods`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::Requests;

/// What can change the count of a pod's workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Name within the namespace.
    pub name: String,
    /// Whether its deletion was asked for.
    pub deleted: bool,
    /// Where it is in its life.
    pub phase: Phase,
    /// Its condition `Ready`, if it has one.
    pub ready: Option<ReadyCondition>,
    /// When the kubelet took it up.
    pub started: Option<Timestamp>,
    /// What it asks for.
    pub requests: Requests,
}

/// Phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all containers run yet.
    Pending,
    /// It runs.
    Running,
    /// It has ended well.
    Succeeded,
    /// It has ended badly.
    Failed,
    /// The node does not say.
    Unknown,
}

/// The condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyCondition {
    /// Its status.
    pub status: ReadyStatus,
    /// Since when it has it.
    pub since: Timestamp,
}

/// Status of the condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadyStatus {
    /// Ready.
    True,
    /// Not ready.
    False,
    /// The node does not say.
    Unknown,
}

/// A value of one pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodMetric {
    /// In thousandths of the unit, bytes too.
    pub value_milli: i64,
    /// End of the window that it was measured over.
    pub at: Timestamp,
    /// How long that window was.
    pub window: SignedDuration,
}

/// Values by pod name.
pub type PodMetrics = BTreeMap<String, PodMetric>;

/// How long a pod's start is held against its CPU values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadinessDelays {
    /// For this long after its start, a pod counts only with a value measured wholly while it was
    /// ready (`--horizontal-pod-autoscaler-cpu-initialization-period`).
    pub cpu_initialization: SignedDuration,
    /// A pod that became unready within this time after its start has never been ready
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

/// What a pod is to a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Ignored,
    Unready,
    Missing,
    Ready(i64),
}

impl Pod {
    /// What this pod is to a metric for which it has this value.
    pub(super) fn standing(
        &self,
        metric: Option<&PodMetric>,
        is_cpu: bool,
        delays: ReadinessDelays,
        now: Timestamp,
    ) -> Standing {
        if self.deleted || self.phase == Phase::Failed {
            return Standing::Ignored;
        }
        if self.phase == Phase::Pending {
            return Standing::Unready;
        }
        match metric {
            None => Standing::Missing,
            Some(metric) if is_cpu && self.is_starting(metric, delays, now) => Standing::Unready,
            Some(metric) => Standing::Ready(metric.value_milli),
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

    /// Whether it serves now.
    pub(super) fn is_ready(&self) -> bool {
        self.phase == Phase::Running
            && self
                .ready
                .is_some_and(|ready| ready.status == ReadyStatus::True)
    }
}

/// A time that does not exist is as late as can be.
fn later(time: Timestamp, by: SignedDuration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}
