//! How each number of a recommendation came about, step by step.

use std::time::Duration;

use crate::{Quantity, ResourceName};

/// Which of the three numbers of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// What to ask for.
    Target,
    /// Less is likely too little.
    Lower,
    /// More is likely wasted.
    Upper,
}

/// Who had the last word on a number that is not what usage asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// The least that the container's policy allows.
    MinAllowed,
    /// The most that the container's policy allows.
    MaxAllowed,
    /// The most that is allowed for every container.
    GlobalMaxAllowed,
    /// The most that a `LimitRange` of the namespace allows.
    LimitRange,
    /// What a `ResourceQuota` of the namespace leaves to each pod.
    Quota,
    /// What the largest node that the pod may run on has left for it.
    Node,
}

/// The steps of one number, in their order. Amounts are thousandths of a core for CPU and bytes for
/// memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Of which resource.
    pub resource: ResourceName,
    /// Which number.
    pub bound: Bound,
    /// The share of usage below the number that is taken from the history, from 0 to 1.
    pub percentile: f64,
    /// That number.
    pub usage: i64,
    /// With the safety margin on top.
    pub with_margin: i64,
    /// How much history there is, in intervals of confidence.
    pub confidence: f64,
    /// With the factor that makes a bound wide while confidence is small; the target has none.
    pub with_confidence: i64,
    /// The least that the container gets.
    pub minimum: i64,
    /// The greater one of the last two.
    pub at_least_minimum: i64,
    /// What a sizing policy of the object's own makes of it: its target, or the bound widened to
    /// hold that.
    pub by_own_policy: Option<i64>,
    /// As a quantity, rounded as configured.
    pub rounded: Quantity,
    /// In whole cores, where the object asks for them.
    pub in_whole_units: Quantity,
    /// Within the limits of policies: this is recommended.
    pub capped: Quantity,
    /// Who changed it in the last step.
    pub capped_by: Option<Cap>,
    /// In words what that rests on, where it is no policy; also why a limit that should hold could
    /// not.
    pub capped_because: Option<String>,
}

/// How the recommendation for one container came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerExplanation {
    /// How many samples of CPU usage the history has seen.
    pub samples: i64,
    /// Time between the first and the last of them.
    pub lifespan: Duration,
    /// Target, lower and upper bound of each controlled resource.
    pub numbers: Vec<Explanation>,
}
