//! Waves: new requests go to one pod of a workload first, and to three more for each pod that has been well
//! with them for a time. If pods get worse with them, the recommendation is rolled back.
//!
//! `pods that may get them now = max(1, 3 * proven) - unproven - underway`

use std::fmt;
use std::time::Duration;

use api::rollback::WAVE_QUERY;

/// Workloads with fewer pods have no waves.
pub(crate) const MIN_PODS: usize = 4;
/// The time for which a pod without proof counts: it may lack something else.
pub(crate) const JUDGED_FOR: Duration = Duration::from_mins(10);
/// Pods that may follow one.
const GROWTH: usize = 3;

/// Numbers of the pods of a VPA object.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Wave {
    /// Pods with the recommended requests that have been well with them for long enough.
    pub(crate) proven: usize,
    /// Pods that have had them for a shorter time, or are not well.
    pub(crate) unproven: usize,
    /// Pods that are about to get them.
    pub(crate) underway: usize,
    /// Pods that have been well for long enough, but whose values cannot be read from Prometheus.
    pub(crate) unknown: usize,
    /// Those of the unproven ones that fail.
    pub(crate) failing: usize,
    /// Pods with other requests, to compare the failing ones with.
    pub(crate) others: usize,
    pub(crate) failing_others: usize,
}

impl Wave {
    /// The number of pods that may get the recommended requests now.
    pub(crate) fn allowed(&self) -> usize {
        let all = (GROWTH * self.proven).max(1);
        all.saturating_sub(self.unproven + self.underway)
    }

    /// Whether pods got worse with the recommended requests: a fifth of them fails, and more than twice the
    /// share of the others.
    pub(crate) fn is_worse(&self) -> bool {
        let changed = self.proven + self.unproven;
        self.failing > 0
            && self.others > 0
            && self.failing * 5 >= changed
            && self.failing * self.others > 2 * self.failing_others * changed
    }
}

impl fmt::Display for Wave {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let changed = self.proven + self.unproven;
        let (failing, others, failing_others) = (self.failing, self.others, self.failing_others);
        write!(
            out,
            "{failing} of {changed} pods with the new requests fail, {failing_others} of {others} with the former ones"
        )
    }
}

/// A fault of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Failure<'a> {
    OomKilled(&'a str),
    BacksOff(&'a str),
    NotReady(Duration),
    /// Shares of CPU periods, of the pod and the largest one of others.
    Throttled {
        value: f64,
        largest: f64,
    },
    /// Values of the query of the VPA object, of the pod and the largest one of others.
    Query {
        value: f64,
        largest: f64,
    },
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::OomKilled(container) => write!(out, "container {container} was OOM killed"),
            Self::BacksOff(container) => write!(out, "container {container} ends again and again"),
            Self::NotReady(after) => write!(out, "it is not ready after {}s", after.as_secs()),
            Self::Throttled { value, largest } => {
                let [value, largest] = [value, largest].map(|share| share * 100.0);
                write!(
                    out,
                    "{value:.0} % of its CPU periods are throttled, at most {largest:.0} % of those of others"
                )
            }
            Self::Query { value, largest } => {
                write!(
                    out,
                    "its value of {WAVE_QUERY} is {value:.3}, at most {largest:.3} for others"
                )
            }
        }
    }
}
