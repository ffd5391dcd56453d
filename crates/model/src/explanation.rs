//! Steps of each number of a recommendation.

use std::time::Duration;

use crate::{Quantity, ResourceName};

/// Number of a resource's recommendation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Recommended request.
    Target,
    /// Requests below this are likely insufficient.
    Lower,
    /// Requests above this are likely wasted.
    Upper,
}

/// Limit that determines a number instead of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Minimum of the container's policy.
    MinAllowed,
    /// Maximum of the container's policy.
    MaxAllowed,
    /// Global maximum of all containers.
    GlobalMaxAllowed,
    /// Maximum of a `LimitRange` in the namespace.
    LimitRange,
    /// Room of a `ResourceQuota` per pod.
    Quota,
    /// Free resources of the largest node that the pod may run on.
    Node,
}

/// Step of a sizing method other than the VPA's: a number, or a decision in words.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodStep {
    /// Name, such as `percentile` or `chance-of-failure`.
    pub name: String,
    /// Number in `unit`; `None` if the step is a decision.
    pub value: Option<f64>,
    /// Unit of the number; empty for a plain number.
    pub unit: String,
    /// Decision or remark in words.
    pub text: Option<String>,
}

impl MethodStep {
    /// A number.
    pub fn number(name: &str, value: f64, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value),
            unit: unit.to_owned(),
            text: None,
        }
    }

    /// A decision in words.
    pub fn text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: None,
            unit: String::new(),
            text: Some(text.to_owned()),
        }
    }
}

/// Steps of one number, in order. Amounts are millicores for CPU and bytes for memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Resource of the number.
    pub resource: ResourceName,
    /// Kind of the number.
    pub bound: Bound,
    /// Percentile of usage in the history, as a fraction.
    pub percentile: f64,
    /// Value of the percentile.
    pub usage: i64,
    /// Value with the safety margin.
    pub with_margin: i64,
    /// Length of the history in confidence intervals.
    pub confidence: f64,
    /// Value with the confidence factor, which widens bounds while confidence is low; the target
    /// has none.
    pub with_confidence: i64,
    /// Minimum of the container.
    pub minimum: i64,
    /// The greater of the last two.
    pub at_least_minimum: i64,
    /// Value by a per-VPA sizing policy: its target, or the bound widened to include it.
    pub by_per_vpa_policy: Option<i64>,
    /// Steps of the sizing method to that value, in order. The last one is the value. Empty with the
    /// VPA's method, whose steps are the fields above.
    pub method_steps: Vec<MethodStep>,
    /// Value as a quantity, rounded as configured.
    pub rounded: Quantity,
    /// Value in whole cores, if requested by the object.
    pub in_whole_units: Quantity,
    /// Value within the policies' limits: the recommendation.
    pub capped: Quantity,
    /// Limit that changed the value in the last step.
    pub capped_by: Option<Cap>,
    /// Explanation of that limit unless it is a policy; also the reason for a limit that could not
    /// apply.
    pub capped_because: Option<String>,
}

/// Explanation of the recommendation for one container.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerExplanation {
    /// Number of CPU samples in the history.
    pub samples: i64,
    /// Time between the first and the last of them.
    pub lifespan: Duration,
    /// Target, lower and upper bound of each controlled resource.
    pub numbers: Vec<Explanation>,
}
