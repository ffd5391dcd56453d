//! `Substitute` of `autoscaling.crane.io/v1alpha1`: what a `HorizontalPodAutoscaler` scales in
//! place of a workload, to see what it would do.
//!
//! Source: gocrane/api `autoscaling/v1alpha1/substitute_types.go`. Its scale subresource shows the
//! workload's pods and real size.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::parse::ParseError;
use crate::vpa::CrossVersionObjectReference;

/// Which workload it stands for.
#[derive(CustomResource, JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "autoscaling.crane.io",
    version = "v1alpha1",
    kind = "Substitute",
    namespaced,
    shortname = "subs",
    status = "SubstituteStatus",
    derive = "PartialEq",
    doc = "Stands for a workload before a HorizontalPodAutoscaler, so that what it would do can be seen without doing it.",
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
    /// How many replicas somebody asked for. It is soon put back to how many the workload has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,

    /// The workload that it stands for.
    pub substitute_target_ref: CrossVersionObjectReference,
}

/// What the scale subresource shows.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SubstituteStatus {
    /// Selector of the workload's pods, as text.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label_selector: String,
    /// How many replicas there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
}

/// Reads an object, or says which of its fields cannot be read.
pub fn parse(object: serde_json::Value) -> Result<Substitute, ParseError> {
    crate::parse::parse(object)
}
