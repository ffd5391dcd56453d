//! `metrics` and `behavior`: sources for scaling and its rate limits. Source: `MetricSpec` and
//! `HorizontalPodAutoscalerBehavior` of `autoscaling/v2`.

use model::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema;
use crate::sizing_policy::LabelSelector;
use crate::vpa::CrossVersionObjectReference;

/// One metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "(self.type == 'Resource') == has(self.resource) && (self.type == 'ContainerResource') == has(self.containerResource) && (self.type == 'Pods') == has(self.pods) && (self.type == 'Object') == has(self.object) && (self.type == 'External') == has(self.external)",
        "message": "a metric has the field of its type and no other",
    },
    {
        "rule": "!has(self.resource) || self.resource.target.type != 'Value'",
        "message": "the target of a Resource metric is Utilization or AverageValue",
    },
    {
        "rule": "!has(self.containerResource) || self.containerResource.target.type != 'Value'",
        "message": "the target of a ContainerResource metric is Utilization or AverageValue",
    },
    {
        "rule": "!has(self.pods) || self.pods.target.type == 'AverageValue'",
        "message": "the target of a Pods metric is AverageValue",
    },
    {
        "rule": "!has(self.object) || self.object.target.type != 'Utilization'",
        "message": "the target of an Object metric is Value or AverageValue",
    },
    {
        "rule": "!has(self.external) || self.external.target.type != 'Utilization'",
        "message": "the target of an External metric is Value or AverageValue",
    },
]))]
pub struct MetricSpec {
    /// Type of the source. The field of the same name has the details.
    #[serde(rename = "type")]
    pub kind: MetricKind,
    /// CPU or memory of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceSource>,
    /// CPU or memory of one container of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_resource: Option<ContainerResourceSource>,
    /// A metric of each pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsSource>,
    /// A metric of one object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectSource>,
    /// A metric unrelated to Kubernetes objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSource>,
}

/// Type of a metric source.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// CPU or memory of the pods.
    Resource,
    /// CPU or memory of one container of each pod.
    ContainerResource,
    /// A metric of each pod.
    Pods,
    /// A metric of one object.
    Object,
    /// A metric unrelated to Kubernetes objects.
    External,
}

/// CPU or memory of the pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ResourceSource {
    /// Name of the resource.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Target value.
    pub target: MetricTarget,
}

/// CPU or memory of one container of each pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ContainerResourceSource {
    /// Name of the resource.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Name of the container.
    #[schemars(length(min = 1, max = 253))]
    pub container: String,
    /// Target value.
    pub target: MetricTarget,
}

/// A metric of each pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct PodsSource {
    /// Name and selector of the metric.
    pub metric: MetricIdentifier,
    /// Target value.
    pub target: MetricTarget,
}

/// A metric of one object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// Object of the metric.
    pub described_object: CrossVersionObjectReference,
    /// Name and selector of the metric.
    pub metric: MetricIdentifier,
    /// Target value.
    pub target: MetricTarget,
}

/// A metric unrelated to Kubernetes objects.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ExternalSource {
    /// Name and selector of the metric.
    pub metric: MetricIdentifier,
    /// Target value.
    pub target: MetricTarget,
}

/// Name and selector of a metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct MetricIdentifier {
    /// Name of the metric.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Selector of its series. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// Target value of a metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'Utilization' ? has(self.averageUtilization) : self.type == 'Value' ? has(self.value) : has(self.averageValue)",
        "message": "a target of type Utilization needs averageUtilization, Value needs value, and AverageValue needs averageValue",
    },
]))]
pub struct MetricTarget {
    /// Type of the target: Utilization, Value or AverageValue.
    #[serde(rename = "type")]
    pub kind: TargetKind,
    /// Target of the metric itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub value: Option<Quantity>,
    /// Target of the metric divided by the number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub average_value: Option<Quantity>,
    /// Target in percent of the pods' requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub average_utilization: Option<i32>,
}

/// Type of a target.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// `averageUtilization`
    Utilization,
    /// `value`
    Value,
    /// `averageValue`
    AverageValue,
}

/// Scaling rules of both directions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Behavior {
    /// Rules for scaling up. Absent means at most four pods or 100 percent in 15 seconds, whichever
    /// is more, without stabilization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_up: Option<ScalingRules>,
    /// Rules for scaling down. Absent means no rate limit, with the stabilization window of the
    /// cluster, usually five minutes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScalingRules>,
}

/// Scaling rules of one direction.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingRules {
    /// Seconds for which earlier recommendations limit a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 3600))]
    pub stabilization_window_seconds: Option<i32>,
    /// Selection among the policies. Absent means Max.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub select_policy: Option<SelectPolicy>,
    /// Rate limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<ScalingPolicy>,
    /// Tolerated deviation from the target as a fraction of it. Absent means the setting of the
    /// cluster, usually 0.1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub tolerance: Option<Quantity>,
}

/// Selection among several policies.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SelectPolicy {
    /// The policy with the largest change.
    Max,
    /// The policy with the smallest change.
    Min,
    /// No scaling in this direction.
    Disabled,
}

/// Rate limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ScalingPolicy {
    /// Unit of the value.
    #[serde(rename = "type")]
    pub kind: PolicyKind,
    /// Maximum change.
    #[schemars(range(min = 1))]
    pub value: i32,
    /// Period in seconds.
    #[schemars(range(min = 1, max = 1800))]
    pub period_seconds: i32,
}

/// Unit of a policy's value.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// Pods.
    Pods,
    /// Percent of the pods at the start of the period.
    Percent,
}
