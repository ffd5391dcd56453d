//! A pod reduced to its labels and phase: enough to match selectors and to find the working pods.

use k8s_openapi::api::core::v1;
use model::Labels;

use crate::pod::Phase;
use crate::table::ObjectKey;

/// A pod that has not ended.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelledPod {
    /// Namespace and name.
    pub key: ObjectKey,
    pub labels: Labels,
    pub phase: Phase,
    /// Whether it has a deletion timestamp.
    pub is_terminating: bool,
}

impl LabelledPod {
    /// Converts an API object; fields that no decision reads are dropped.
    pub fn from_k8s(pod: v1::Pod) -> Self {
        Self {
            key: ObjectKey::from(&pod.metadata),
            is_terminating: pod.metadata.deletion_timestamp.is_some(),
            labels: pod.metadata.labels.unwrap_or_default().into(),
            phase: Phase::of(pod.status.and_then(|status| status.phase).as_deref()),
        }
    }
}
