//! `metrics`: sources for scaling. Source: `MetricSpec` of `autoscaling/v2`.

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
