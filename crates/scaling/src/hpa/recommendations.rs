//! Stabilisation: what was proposed lately holds back what is proposed now.
//!
//! With behaviour: no more than the least of the window up, no less than the most of the window
//! down, and in between no change; records strictly within a window count. Without: no less than
//! the most of the controller's own window, its very edge included. Source: upstream
//! `horizontal.go` (`stabilizeRecommendation`, `stabilizeRecommendationWithBehaviors`).

use jiff::{SignedDuration, Timestamp};

/// What was proposed, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recommendations(Vec<(Timestamp, i32)>);

impl Recommendations {
    pub(super) fn starting_with(replicas: i32, now: Timestamp) -> Self {
        Self(vec![(now, replicas)])
    }

    /// Holds a proposal back from shrinking too soon, and remembers it.
    pub(super) fn hold_down(
        &mut self,
        proposal: i32,
        window: SignedDuration,
        now: Timestamp,
    ) -> i32 {
        let edge = before(now, window);
        self.0.retain(|(at, _)| *at >= edge);
        let held = self
            .0
            .iter()
            .fold(proposal, |most, (_, replicas)| most.max(*replicas));
        self.0.push((now, proposal));
        held
    }

    /// Holds a proposal back in both directions, and remembers it.
    pub(super) fn hold(
        &mut self,
        proposal: i32,
        current: i32,
        windows: Windows,
        now: Timestamp,
    ) -> i32 {
        let (up_edge, down_edge) = (before(now, windows.up), before(now, windows.down));
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

/// How far each direction looks back.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    pub(super) up: SignedDuration,
    pub(super) down: SignedDuration,
}

/// A time that does not exist is as early as can be.
pub(super) fn before(now: Timestamp, by: SignedDuration) -> Timestamp {
    now.checked_sub(by).unwrap_or(Timestamp::MIN)
}
