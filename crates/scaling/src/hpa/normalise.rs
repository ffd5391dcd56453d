//! From what the metrics ask for to what is done: stabilised, no faster than the rules, within the
//! bounds.
//!
//! Without behaviour at most double, and at least four, at a time. What was proposed and done is
//! remembered here, in memory only, as in the controller. Source: upstream `horizontal.go`
//! (`normalizeDesiredReplicas`, `normalizeDesiredReplicasWithBehaviors`, `storeScaleEvent`).

use std::cmp::Ordering;

use jiff::{SignedDuration, Timestamp};

use super::Behavior;
use super::rate::Events;
use super::recommendations::{Recommendations, Windows};

/// The bounds that the user set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The least.
    pub min: i32,
    /// The most.
    pub max: i32,
}

/// What is done, and what held it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Normalised {
    /// So many replicas.
    pub replicas: i32,
    /// Whether earlier proposals held it back.
    pub able_to_scale: AbleToScale,
    /// Whether rules or bounds did.
    pub scaling_limited: ScalingLimited,
}

/// Reasons of the condition `AbleToScale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbleToScale {
    /// Nothing earlier speaks against it.
    ReadyForNewScale,
    /// Fewer were wanted lately.
    ScaleUpStabilized,
    /// More were wanted lately.
    ScaleDownStabilized,
}

/// Reasons of the condition `ScalingLimited`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalingLimited {
    /// What is wanted is done.
    DesiredWithinRange,
    /// The least binds.
    TooFewReplicas,
    /// The most binds.
    TooManyReplicas,
    /// The rules of growth bind.
    ScaleUpLimit,
    /// The rules of shrinking bind.
    ScaleDownLimit,
}

impl AbleToScale {
    /// The reason as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadyForNewScale => "ReadyForNewScale",
            Self::ScaleUpStabilized => "ScaleUpStabilized",
            Self::ScaleDownStabilized => "ScaleDownStabilized",
        }
    }
}

impl ScalingLimited {
    /// The reason as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DesiredWithinRange => "DesiredWithinRange",
            Self::TooFewReplicas => "TooFewReplicas",
            Self::TooManyReplicas => "TooManyReplicas",
            Self::ScaleUpLimit => "ScaleUpLimit",
            Self::ScaleDownLimit => "ScaleDownLimit",
        }
    }
}

/// What the controller remembers of one autoscaler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    recommendations: Recommendations,
    events: Events,
    downscale_window: SignedDuration,
}

impl History {
    /// An autoscaler that is seen for the first time. The count that it is found with is its first
    /// recommendation, so that it does not shrink at once. `downscale_window` is
    /// `--horizontal-pod-autoscaler-downscale-stabilization`.
    pub fn new(current: i32, downscale_window: SignedDuration, now: Timestamp) -> Self {
        Self {
            recommendations: Recommendations::starting_with(current, now),
            events: Events::default(),
            downscale_window,
        }
    }

    /// What becomes of a proposal.
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

    /// Remembers that the count was changed. Without behaviour nothing is remembered, as in the
    /// controller.
    pub fn scaled(&mut self, from: i32, to: i32, behavior: Option<&Behavior>, now: Timestamp) {
        let Some(behavior) = behavior else { return };
        let (up, down) = behavior.complete(self.downscale_window);
        if to > from {
            self.events
                .up
                .add(to.saturating_sub(from), &up.policies, now);
        } else if to < from {
            self.events
                .down
                .add(from.saturating_sub(to), &down.policies, now);
        }
    }

    fn plain(&mut self, proposal: i32, current: i32, bounds: Bounds, now: Timestamp) -> Normalised {
        let held = self
            .recommendations
            .hold_down(proposal, self.downscale_window, now);
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
        let (up, down) = behavior.complete(self.downscale_window);
        let windows = Windows {
            up: up.window,
            down: down.window,
        };
        let held = self.recommendations.hold(proposal, current, windows, now);
        let able_to_scale = if held == proposal {
            AbleToScale::ReadyForNewScale
        } else if proposal >= current {
            AbleToScale::ScaleUpStabilized
        } else {
            AbleToScale::ScaleDownStabilized
        };
        let limit = match held.cmp(&current) {
            Ordering::Greater => {
                let rules = (
                    self.events.ceiling(&up, current, now),
                    ScalingLimited::ScaleUpLimit,
                );
                let user = (bounds.max, ScalingLimited::TooManyReplicas);
                Some(if user.0 > rules.0 { rules } else { user }).filter(|(most, _)| held > *most)
            }
            Ordering::Less => {
                let rules = (
                    self.events.floor(&down, current, now),
                    ScalingLimited::ScaleDownLimit,
                );
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
