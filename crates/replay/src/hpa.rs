//! The native HPA of one workload between its passes, with the controller manager's and the API's defaults.
//!
//! Source: kubernetes/kubernetes `pkg/controller/podautoscaler`, version 1.36. `testing::hpa` has all of it,
//! compared with recordings of the controller; the tests of this crate compare the two.

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

/// Default of `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWNSCALE_WINDOW: SignedDuration = SignedDuration::from_mins(5);
/// Period of the default policies.
const PERIOD: SignedDuration = SignedDuration::from_secs(15);
/// Ratio of usage to target that changes nothing, to both sides.
const TOLERANCE: f64 = 0.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
}

pub struct Hpa {
    bounds: Bounds,
    proposals: Vec<(Timestamp, i32)>,
    /// Numbers of pods that were added, or removed if negative.
    changes: Vec<(Timestamp, i32)>,
}

impl Hpa {
    /// The present count is the first proposal, so that the workload does not shrink at once.
    pub fn new(bounds: Bounds, replicas: i32, now: Timestamp) -> Self {
        Self {
            bounds,
            proposals: vec![(now, replicas)],
            changes: Vec::new(),
        }
    }

    /// The number of replicas after a pass: the largest proposal of the metrics, unless one has none (`None`)
    /// and the others would scale down.
    pub fn pass(&mut self, current: i32, now: Timestamp, proposals: &[Option<i32>]) -> i32 {
        let Some(proposal) = proposals.iter().flatten().max() else {
            return current;
        };
        if proposals.contains(&None) && *proposal < current {
            return current;
        }
        let held = self.stabilise(*proposal, current, now);
        let replicas = match held.cmp(&current) {
            Ordering::Greater => held.min(self.bounds.max.min(self.ceiling(current, now))),
            Ordering::Less => held.max(self.bounds.min),
            Ordering::Equal => held,
        };
        if replicas != current {
            self.changes.push((now, replicas.saturating_sub(current)));
        }
        replicas
    }

    /// Holds replicas that a recent proposal asked for.
    fn stabilise(&mut self, proposal: i32, current: i32, now: Timestamp) -> i32 {
        self.proposals
            .retain(|(at, _)| now.duration_since(*at) < DOWNSCALE_WINDOW);
        self.proposals.push((now, proposal));
        let most = self.proposals.iter().map(|(_, replicas)| *replicas).max();
        current.max(proposal).min(most.unwrap_or(proposal))
    }

    /// Four pods or as many again as there were at the start of the period, whichever is more.
    fn ceiling(&mut self, current: i32, now: Timestamp) -> i32 {
        self.changes
            .retain(|(at, _)| now.duration_since(*at) < PERIOD);
        let changed = self.changes.iter().map(|(_, pods)| pods);
        let start = changed.fold(current, |sum, pods| sum.saturating_sub(*pods));
        let limit = start.saturating_add(4).max(start.saturating_mul(2));
        limit.max(current)
    }
}

/// The proposal of a metric with a target per pod: of its total and target, both in thousandths.
pub fn proposal(total: i64, target: i64, replicas: i32) -> i32 {
    let ratio = total as f64 / (target as f64 * f64::from(replicas));
    if (1.0 - TOLERANCE..=1.0 + TOLERANCE).contains(&ratio) {
        replicas
    } else {
        (total as f64 / target as f64).ceil() as i32
    }
}
