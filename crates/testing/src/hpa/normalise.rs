//! From the proposal to the new count: stabilised, rate-limited, and within the bounds.
//!
//! Without behaviour the maximum is twice the count, or four. History is in memory only, as in the
//! controller. Source: upstream `horizontal.go` (`normalizeDesiredReplicas`,
//! `normalizeDesiredReplicasWithBehaviors`, `storeScaleEvent`).

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::Behavior;
use super::rate::Events;
use super::stabilisation::Recommendations;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub min: i32,
    pub max: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalised {
    pub replicas: i32,
    /// Effect of stabilisation.
    pub able_to_scale: AbleToScale,
    /// Effect of rate limits and bounds.
    pub scaling_limited: ScalingLimited,
}

/// Reasons of the condition `AbleToScale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbleToScale {
    ReadyForNewScale,
    /// A recent recommendation was lower.
    ScaleUpStabilized,
    /// A recent recommendation was higher.
    ScaleDownStabilized,
}

/// Reasons of the condition `ScalingLimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingLimited {
    /// The proposal is used.
    DesiredWithinRange,
    TooFewReplicas,
    TooManyReplicas,
    ScaleUpLimit,
    ScaleDownLimit,
}

/// The controller's history of one autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    recommendations: Recommendations,
    events: Events,
    downscale_window: SignedDuration,
}

impl History {
    /// Starts a history. The current count is the first recommendation, so that the workload does
    /// not shrink at once. `downscale_window` is
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub fn new(current: i32, downscale_window: SignedDuration, now: Timestamp) -> Self {
        Self {
            recommendations: Recommendations::starting_with(current, now),
            events: Events::default(),
            downscale_window,
        }
    }

    pub fn normalise(
        &mut self,
        proposal: i32,
        current: i32,
        bounds: Bounds,
        behavior: Option<&Behavior>,
        now: Timestamp,
    ) -> Normalised {
        match behavior {
            None => self.plain(proposal, current, bounds, now),
            Some(behavior) => self.by_rules(proposal, current, bounds, behavior, now),
        }
    }

    /// Records a change of the count. Without behaviour nothing is recorded, as in the controller.
    pub fn scaled(&mut self, from: i32, to: i32, behavior: Option<&Behavior>, now: Timestamp) {
        let Some(behavior) = behavior else { return };
        let [up, down] = behavior.complete(self.downscale_window);
        let Events {
            up: added,
            down: removed,
        } = &mut self.events;
        if to > from {
            added.add(to.saturating_sub(from), &up.policies, now);
        } else if to < from {
            removed.add(from.saturating_sub(to), &down.policies, now);
        }
    }

    fn plain(&mut self, proposal: i32, current: i32, bounds: Bounds, now: Timestamp) -> Normalised {
        let recommendations = &mut self.recommendations;
        let held = recommendations.stabilize_down(proposal, self.downscale_window, now);
        let able_to_scale = if held == proposal {
            AbleToScale::ReadyForNewScale
        } else {
            AbleToScale::ScaleDownStabilized
        };
        let limit = current.saturating_mul(2).max(4);
        let (most, reason) = if bounds.max > limit {
            (limit, ScalingLimited::ScaleUpLimit)
        } else {
            (bounds.max, ScalingLimited::TooManyReplicas)
        };
        let (replicas, scaling_limited) = if held < bounds.min {
            (bounds.min, ScalingLimited::TooFewReplicas)
        } else if held > most {
            (most, reason)
        } else {
            (held, ScalingLimited::DesiredWithinRange)
        };
        Normalised {
            replicas,
            able_to_scale,
            scaling_limited,
        }
    }

    fn by_rules(
        &mut self,
        proposal: i32,
        current: i32,
        bounds: Bounds,
        behavior: &Behavior,
        now: Timestamp,
    ) -> Normalised {
        let [up, down] = behavior.complete(self.downscale_window);
        let windows = [up.window, down.window];
        let recommendations = &mut self.recommendations;
        let held = recommendations.stabilize(proposal, current, windows, now);
        let able_to_scale = if held == proposal {
            AbleToScale::ReadyForNewScale
        } else if proposal >= current {
            AbleToScale::ScaleUpStabilized
        } else {
            AbleToScale::ScaleDownStabilized
        };
        let limit = match held.cmp(&current) {
            Ordering::Greater => {
                let ceiling = self.events.ceiling(&up, current, now);
                let rules = (ceiling, ScalingLimited::ScaleUpLimit);
                let user = (bounds.max, ScalingLimited::TooManyReplicas);
                Some(if user.0 > rules.0 { rules } else { user }).filter(|(most, _)| held > *most)
            }
            Ordering::Less => {
                let floor = self.events.floor(&down, current, now);
                let rules = (floor, ScalingLimited::ScaleDownLimit);
                let user = (bounds.min, ScalingLimited::TooFewReplicas);
                Some(if user.0 < rules.0 { rules } else { user }).filter(|(least, _)| held < *least)
            }
            Ordering::Equal => None,
        };
        let (replicas, scaling_limited) =
            limit.unwrap_or((held, ScalingLimited::DesiredWithinRange));
        Normalised {
            replicas,
            able_to_scale,
            scaling_limited,
        }
    }
}
