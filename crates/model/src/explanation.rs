//! Steps of a recommended request.

use crate::{Quantity, ResourceName};

/// Limit that determines a number instead of usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    MinAllowed,
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
    pub fn number(name: &str, value: f64, unit: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value),
            unit: unit.to_owned(),
            text: None,
        }
    }

    pub fn text(name: &str, text: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: None,
            unit: String::new(),
            text: Some(text.to_owned()),
        }
    }
}

/// Steps of a recommended request, in order. Amounts are millicores for CPU and bytes for memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    pub resource: ResourceName,
    /// Percentile of usage in the history, as a fraction.
    pub percentile: f64,
    /// Value of the percentile.
    pub usage: i64,
    /// Value with the safety margin.
    pub with_margin: i64,
    pub minimum: i64,
    /// The greater of the last two.
    pub at_least_minimum: i64,
    /// Steps of a per-VPA sizing policy, in order, which replace the fields above. The last one is
    /// the value. Empty with the VPA's method.
    pub method_steps: Vec<MethodStep>,
    /// Value as a quantity, rounded as configured.
    pub rounded: Quantity,
    /// Value in whole cores, if requested by the object.
    pub in_whole_units: Quantity,
    /// Value within the policies' limits: the recommended request.
    pub capped: Quantity,
    /// Limit that changed the value in the last step.
    pub capped_by: Option<Cap>,
}
