//! Objects that explain a recommendation, as read.

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::vpa::VerticalPodAutoscaler;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use sizing::Config;

use super::policy::PolicyFacts;

/// Objects that explain a recommendation.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub(super) vpa: VerticalPodAutoscaler,
    /// Names of further VPAs with the same target.
    pub(super) others: Vec<String>,
    /// Name of the EHPA that scales its target.
    pub(super) ehpa: Option<String>,
    pub(super) policy: Option<PolicyFacts>,
    pub(super) checkpoints: Vec<VerticalPodAutoscalerCheckpoint>,
    /// Settings of the recommender.
    pub(super) sizing: Config,
    /// Reason why these are the defaults, one sentence.
    pub(super) sizing_note: Option<String>,
    /// Pods that match the selector of its target, or the pod to explain.
    pub(super) pods: Vec<Pod>,
    pub(super) budgets: Vec<PodDisruptionBudget>,
    /// Events about the VPA and the pods.
    pub(super) events: Vec<Event>,
    /// Time of the explanation.
    pub(super) now: Timestamp,
    /// Parts that could not be read, one sentence each.
    pub(super) missing: Vec<String>,
}
