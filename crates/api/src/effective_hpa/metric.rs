//! `metrics`: what a workload is scaled by. Source: `MetricSpec` of `autoscaling/v2`.

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
    /// Where the metric comes from; the field of this name says more.
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
    /// A metric of nothing in the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalSource>,
}

/// Where a metric comes from.
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
    /// A metric of nothing in the cluster.
    External,
}

/// CPU or memory of the pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ResourceSource {
    /// Name of the resource.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// What is wanted.
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
    /// What is wanted.
    pub target: MetricTarget,
}

/// A metric of each pod.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct PodsSource {
    /// Which metric.
    pub metric: MetricIdentifier,
    /// What is wanted.
    pub target: MetricTarget,
}

/// A metric of one object.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ObjectSource {
    /// Which object.
    pub described_object: CrossVersionObjectReference,
    /// Which metric.
    pub metric: MetricIdentifier,
    /// What is wanted.
    pub target: MetricTarget,
}

/// A metric of nothing in the cluster.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
pub struct ExternalSource {
    /// Which metric.
    pub metric: MetricIdentifier,
    /// What is wanted.
    pub target: MetricTarget,
}

/// Which metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
pub struct MetricIdentifier {
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// Which of its series. Absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// What is wanted of a metric.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.type == 'Utilization' ? has(self.averageUtilization) : self.type == 'Value' ? has(self.value) : has(self.averageValue)",
        "message": "a target of type Utilization needs averageUtilization, Value needs value, and AverageValue needs averageValue",
    },
]))]
pub struct MetricTarget {
    /// Which of the other fields says what is wanted.
    #[serde(rename = "type")]
    pub kind: TargetKind,
    /// Of the metric itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub value: Option<Quantity>,
    /// Of the metric divided by the number of pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::quantity")]
    pub average_value: Option<Quantity>,
    /// Percent of what the pods request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub average_utilization: Option<i32>,
}

/// Which field of a target says what is wanted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetKind {
    /// `averageUtilization`
    Utilization,
    /// `value`
    Value,
    /// `averageValue`
    AverageValue,
}
