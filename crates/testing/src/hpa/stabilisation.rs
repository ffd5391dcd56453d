//! Stabilisation of proposals by recent ones.
//!
//! With behaviour: at most the minimum of the up window, at least the maximum of the down window,
//! and no change in between; records strictly within a window count. Without: at least the maximum
//! of the controller's window, including its edge. Source: upstream `horizontal.go`
//! (`stabilizeRecommendation`, `stabilizeRecommendationWithBehaviors`).

use jiff::{SignedDuration, Timestamp};

/// Proposals with their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recommendations(Vec<(Timestamp, i32)>);

impl Recommendations {
    pub(super) fn starting_with(replicas: i32, now: Timestamp) -> Self {
        Self(vec![(now, replicas)])
    }

    /// Stabilises a proposal when scaling down, and records it.
    pub(super) fn stabilize_down(
        &mut self,
        proposal: i32,
        window: SignedDuration,
        now: Timestamp,
    ) -> i32 {
        let edge = before(now, window);
        self.0.retain(|(at, _)| *at >= edge);
        let recent = self.0.iter();
        let held = recent.fold(proposal, |most, (_, replicas)| most.max(*replicas));
        self.0.push((now, proposal));
        held
    }

    /// Stabilises a proposal by the windows of scaling up and down, and records it.
    pub(super) fn stabilize(
        &mut self,
        proposal: i32,
        current: i32,
        windows: [SignedDuration; 2],
        now: Timestamp,
    ) -> i32 {
        let [up_edge, down_edge] = windows.map(|window| before(now, window));
        self.0.retain(|(at, _)| *at >= up_edge.min(down_edge));
        let (mut least, mut most) = (proposal, proposal);
        for (at, replicas) in &self.0 {
            if *at > up_edge {
                least = least.min(*replicas);
            }
            if *at > down_edge {
                most = most.max(*replicas);
            }
        }
        self.0.push((now, proposal));
        current.max(least).min(most)
    }
}

/// Saturates at the earliest time.
pub(super) fn before(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
