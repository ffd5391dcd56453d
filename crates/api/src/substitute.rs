//! `Substitute` of `autoscaling.crane.io/v1alpha1`: scale target of a `HorizontalPodAutoscaler` in
//! place of a workload, to preview its effect.
//!
//! Source: gocrane/api `autoscaling/v1alpha1/substitute_types.go`. Its scale subresource shows the
//! workload's pods and real size.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;
use crate::vpa::CrossVersionObjectReference;

/// Workload represented by the object.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "autoscaling.crane.io",
    version = "v1alpha1",
    kind = "Substitute",
    namespaced,
    shortname = "subs",
    status = "SubstituteStatus",
    derive = "PartialEq",
    doc = "Scale target in place of a workload, to preview a HorizontalPodAutoscaler without scaling.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn(name = "REPLICAS", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(
        name = "AGE",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct SubstituteSpec {
    /// Replicas requested through the scale subresource. Reset to the workload's replicas shortly
    /// after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// The represented workload.
    pub substitute_target_ref: CrossVersionObjectReference,
}

/// Values of the scale subresource.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SubstituteStatus {
    /// Selector of the workload's pods in text form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// Current number of replicas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<Substitute, ParseError> {
    crate::parse::parse(object)
}
