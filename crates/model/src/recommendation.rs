//! Recommended requests of containers, in the shape of
//! `VerticalPodAutoscaler.status.recommendation`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize, Serializer};

use super::{Quantity, ResourceList, ResourceName};

/// Name of a pod as a whole (`spec.resources`) among the names of its containers, of which none is empty.
pub const WHOLE_POD: &str = "";

/// A container's name in texts, also that of a pod as a whole.
pub fn shown_name(container: &str) -> &str {
    match container {
        WHOLE_POD => "whole pod",
        name => name,
    }
}

/// Recommendation for the containers of one workload, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Fields")]
pub struct Recommendation {
    /// One entry per container, or one for the pod as a whole ([`WHOLE_POD`]).
    pub containers: Vec<ContainerRecommendation>,
}

/// The fields of a recommendation in the status. Source: upstream's enhancement proposal 7571.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    container_recommendations: Cow<'a, [ContainerRecommendation]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pod_recommendations: Option<Cow<'a, ContainerRecommendation>>,
}

impl From<Fields<'_>> for Recommendation {
    fn from(fields: Fields<'_>) -> Self {
        let mut containers = fields.container_recommendations.into_owned();
        if let Some(pod) = fields.pod_recommendations {
            containers.insert(0, pod.into_owned());
        }
        Self { containers }
    }
}

impl Serialize for Recommendation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Names are in order, so that of the pod comes first.
        let (pod, containers) = match &self.containers[..] {
            [first, others @ ..] if first.container_name == WHOLE_POD => (Some(first), others),
            all => (None, all),
        };
        Fields {
            container_recommendations: Cow::Borrowed(containers),
            pod_recommendations: pod.map(Cow::Borrowed),
        }
        .serialize(serializer)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerRecommendation {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,
    /// Recommended request.
    pub target: ResourceList,
    /// Requests below this are likely insufficient.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub lower_bound: ResourceList,
    /// Requests above this are likely wasted.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub upper_bound: ResourceList,
    /// The target before policies.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub uncapped_target: ResourceList,
}

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

/// Bounds of a container's resource policy, if any. Missing or zero resources have no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed<'a> {
    pub min: Option<&'a ResourceList>,
    pub max: Option<&'a ResourceList>,
    /// Values that follow the recommendation.
    pub values: ControlledValues,
}

/// Values of a container that follow its recommendation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControlledValues {
    /// Requests, and limits in proportion.
    #[default]
    RequestsAndLimits,
    /// Requests only; limits stay unchanged and cap the requests.
    RequestsOnly,
}
