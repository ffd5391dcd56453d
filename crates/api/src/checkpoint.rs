//! `VerticalPodAutoscalerCheckpoint` of `autoscaling.k8s.io/v1`: the usage history of one
//! container, kept across restarts.
//!
//! Source: upstream `pkg/apis/autoscaling.k8s.io/v1/types.go` at 1.8, checkpoint format `v3`. The
//! status is written through the main resource: there is no status subresource. An unknown time is
//! written as `null`, other empty values are left out, times have whole seconds.

use std::collections::BTreeMap;

use json_patch::{Patch, PatchOperation, ReplaceOperation};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use model::WHOLE_POD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{parse::ParseError, patch, schema};

/// The only supported checkpoint format.
pub const VERSION: &str = "v3";

/// Annotation that Plimsoll writes on a checkpoint: history of a sizing method other than
/// upstream's, as JSON; see docs/history.md#histories-of-sizing-methods.
///
/// Upstream reads only the spec and the status.
pub const SIZING_HISTORY: &str = "plimsoll.dev/sizing-history";

/// Container of the checkpoint.
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
    doc = "Usage history of one container, kept across restarts of the recommender.",
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

/// Usage history of one container.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct VerticalPodAutoscalerCheckpointStatus {
    /// Time of the last write.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub last_update_time: Option<Time>,
    /// Format of the data.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Histogram of CPU usage.
    #[serde(default)]
    pub cpu_histogram: HistogramCheckpoint,
    /// Histogram of memory peaks.
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
    /// Number of CPU samples.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "schema::count")]
    pub total_samples_count: i64,
}

/// Histogram with exponentially decaying weights.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct HistogramCheckpoint {
    /// Time at which a new sample has a decay factor of 1.
    #[serde(default)]
    #[schemars(schema_with = "schema::nullable_time")]
    pub reference_timestamp: Option<Time>,
    /// Weights of the non-empty buckets by index, scaled so that the largest is 10000.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::free_form")]
    pub bucket_weights: BTreeMap<u32, u32>,
    /// Sum of all weights before scaling.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(schema_with = "schema::number")]
    pub total_weight: f64,
}

/// Patch of the main resource that replaces its status.
pub fn status_patch(
    status: &VerticalPodAutoscalerCheckpointStatus,
) -> Result<Patch, serde_json::Error> {
    let value = serde_json::to_value(status)?;
    Ok(Patch(vec![PatchOperation::Replace(ReplaceOperation {
        path: patch::status_path(),
        value,
    })]))
}

/// Parses an object. The error names the invalid field.
pub fn parse(object: serde_json::Value) -> Result<VerticalPodAutoscalerCheckpoint, ParseError> {
    crate::parse::parse(object)
}

/// Name of the checkpoint of a container: `<vpa>-<container>`; of the pod as a whole that of the VPA.
pub fn object_name(vpa: &str, container: &str) -> String {
    if container == WHOLE_POD {
        return vpa.to_owned();
    }
    format!("{vpa}-{container}")
}

fn is_default<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}
