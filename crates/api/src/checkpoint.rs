//! `VerticalPodAutoscalerCheckpoint` of `autoscaling.k8s.io/v1`: what the recommender knows of one
//! container, kept across restarts.
//!
//! Source: upstream `pkg/apis/autoscaling.k8s.io/v1/types.go` at 1.8, checkpoint format `v3`. The
//! status is written through the main resource: there is no status subresource. A time that is not
//! known is written as `null`, other empty values are left out, times have whole seconds.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{parse::ParseError, patch, schema};

/// The only checkpoint format that is read and written.
pub const VERSION: &str = "v3";

/// Which container the checkpoint is for.
#[derive(
    CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq,
)]
#[kube(
    group = "autoscaling.k8s.io",
    version = "v1",
    kind = "VerticalPodAutoscalerCheckpoint",
    namespaced,
    shortname = "vpacheckpoint",
    status = "VerticalPodAutoscalerCheckpointStatus",
    derive = "PartialEq",
    doc = "Keeps what the recommender knows of one container's usage, so that it can go on after a restart.",
    annotation(
        "api-approved.kubernetes.io",
        "https://github.com/kubernetes/kubernetes/pull/63797"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerCheckpointSpec {
    /// Name of the VerticalPodAutoscaler that the checkpoint belongs to.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub vpa_object_name: String,
    /// Name of the container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container_name: String,
}

/// What the recommender knows of one container.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerCheckpointStatus {
    /// When this was written.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub last_update_time: Option<Time>,
    /// Format of the data.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Usage of CPU.
    #[serde(default)]
    pub cpu_histogram: HistogramCheckpoint,
    /// Peaks of memory usage.
    #[serde(default)]
    pub memory_histogram: HistogramCheckpoint,
    /// Time of the first CPU sample.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub first_sample_start: Option<Time>,
    /// Time of the last CPU sample.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub last_sample_start: Option<Time>,
    /// How many CPU samples there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(schema_with = "schema::count")]
    pub total_samples_count: i64,
}

/// A histogram whose weights halve with age.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HistogramCheckpoint {
    /// The time at which a sample weighs exactly its own weight.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub reference_timestamp: Option<Time>,
    /// Weight of each bucket that has any, by its index, scaled so that the largest is 10000.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::free_form")]
    pub bucket_weights: BTreeMap<u32, u32>,
    /// The sum of all weights, before that scaling.
    #[serde(default, skip_serializing_if = "is_nought")]
    #[schemars(schema_with = "schema::number")]
    pub total_weight: f64,
}

/// The patch of the main resource that puts `status` in place of the one that is there.
pub fn status_patch(
    status: &VerticalPodAutoscalerCheckpointStatus,
) -> Result<Patch, serde_json::Error> {
    let value = serde_json::to_value(status)?;
    Ok(Patch(vec![PatchOperation::Replace(ReplaceOperation {
        path: patch::status_path(),
        value,
    })]))
}

/// Reads an object, or says which of its fields cannot be read.
pub fn parse(object: serde_json::Value) -> Result<VerticalPodAutoscalerCheckpoint, ParseError> {
    crate::parse::parse(object)
}

/// Name of the checkpoint of a container: `<vpa>-<container>`.
pub fn object_name(vpa: &str, container: &str) -> String {
    format!("{vpa}-{container}")
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(count: &i64) -> bool {
    *count == 0
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_nought(weight: &f64) -> bool {
    *weight == 0.0
}
