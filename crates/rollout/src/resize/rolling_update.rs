//! Rolling updates of Deployments in place of evictions: the annotation that asks for them, and the
//! conditions that a Deployment must meet.

use std::fmt;
use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use view::{ObjectKey, Owner, Pod, View, Vpa, is_reverted};

use crate::settings::Settings;

/// Annotation that users set on a VPA: rolling update in place of evictions; see
/// docs/updating.md#rolling-updates-in-place-of-evictions.
///
/// `Eviction`, the default, or `RollingUpdate`.
pub const REPLACEMENT: &str = "plimsoll.dev/replacement";

/// Annotation that Plimsoll writes on a pod template of a Deployment: beginning of the last rolling
/// update, RFC 3339; see docs/updating.md#rolling-updates-in-place-of-evictions.
pub const RESIZED_AT: &str = "plimsoll.dev/resized-at";

/// The shortest time between two rolling updates of a Deployment.
pub const ROLLING_UPDATE_INTERVAL: Duration = Duration::from_mins(10);

/// The replacement of pods that want another size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replacement {
    Eviction,
    /// The Deployment's rolling update replaces all pods.
    RollingUpdate,
    /// The annotation is invalid, or the target is not a Deployment. No pod is evicted.
    Invalid,
}

impl Replacement {
    /// The replacement that a VPA object asks for. Without `rollingUpdates`, pods are evicted.
    pub(crate) fn of(vpa: &Vpa, mode: EffectiveUpdateMode, settings: &Settings) -> Self {
        let annotations = vpa.object.metadata.annotations.as_ref();
        let written = annotations.and_then(|all| all.get(REPLACEMENT));
        let evicts = matches!(
            mode,
            EffectiveUpdateMode::Recreate | EffectiveUpdateMode::InPlaceOrRecreate
        );
        let Some(written) = written.filter(|_| settings.rolling_updates && evicts) else {
            return Self::Eviction;
        };
        let target = &vpa.object.spec.target_ref;
        let is_deployment = target.kind == "Deployment" && target.api_version.starts_with("apps/");
        match written.as_str() {
            "Eviction" => Self::Eviction,
            "RollingUpdate" if is_deployment => Self::RollingUpdate,
            _ => Self::Invalid,
        }
    }
}

pub(crate) fn deployment_of<'a>(pod: &Pod, view: &'a View) -> Option<&'a Owner> {
    let owner = pod.owner.as_ref();
    let set = owner.filter(|owner| owner.kind == "ReplicaSet")?;
    let set = view.controller_of(set.workload(&pod.key.namespace))?;
    let owner = set.owner.as_ref();
    owner.filter(|owner| owner.kind == "Deployment")
}

/// A Deployment whose pod template is changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RollingUpdate {
    pub deployment: ObjectKey,
    pub uid: String,
}

/// The reasons for which a Deployment gets no rolling update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RollingUpdateRefusal {
    /// It has a controlling owner, which would revert the change.
    Controlled,
    /// It has a label or an annotation of a tool that reverts changes.
    ManagedByTool,
    Paused,
    NoReplicas,
    RecreateStrategy,
    NoSurge,
    /// `maxUnavailable` covers all replicas, so that all pods may go first.
    AllMayBeUnavailable,
    /// Another rollout is under way, or pods are unavailable.
    RolloutInProgress,
    /// The last rolling update is less than [`ROLLING_UPDATE_INTERVAL`] old, or in the future.
    TooSoon,
}

impl RollingUpdateRefusal {
    pub const ALL: [Self; 9] = [
        Self::Controlled,
        Self::ManagedByTool,
        Self::Paused,
        Self::NoReplicas,
        Self::RecreateStrategy,
        Self::NoSurge,
        Self::AllMayBeUnavailable,
        Self::RolloutInProgress,
        Self::TooSoon,
    ];

    /// The refusal as a label of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Controlled => "controlled",
            Self::ManagedByTool => "managed_by_tool",
            Self::Paused => "paused",
            Self::NoReplicas => "no_replicas",
            Self::RecreateStrategy => "recreate_strategy",
            Self::NoSurge => "no_surge",
            Self::AllMayBeUnavailable => "all_may_be_unavailable",
            Self::RolloutInProgress => "rollout_in_progress",
            Self::TooSoon => "too_soon",
        }
    }
}

impl fmt::Display for RollingUpdateRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Controlled => "it has a controlling owner, which would revert the change",
            Self::ManagedByTool => {
                "its labels or annotations name a tool that may revert the change, such as Argo CD or Flux"
            }
            Self::Paused => "it is paused",
            Self::NoReplicas => "it has no replicas",
            Self::RecreateStrategy => "its strategy is Recreate",
            Self::NoSurge => "its maxSurge is 0",
            Self::AllMayBeUnavailable => "its maxUnavailable covers all replicas",
            Self::RolloutInProgress => "a rollout is in progress, or pods are unavailable",
            Self::TooSoon => "its last rolling update for another size is less than 10 minutes old, or in the future",
        })
    }
}

/// Checks whether the pod template of a Deployment may be changed. `answers_oom_kill` admits
/// unavailable pods: the killed pod may be one of them.
///
/// Source of the checks of a finished rollout: `kubectl rollout status`.
pub fn may_roll(
    deployment: &Deployment,
    answers_oom_kill: bool,
    now: Timestamp,
) -> Result<(), RollingUpdateRefusal> {
    let (metadata, spec) = (&deployment.metadata, &deployment.spec);
    if Owner::controller(metadata.owner_references.clone()).is_some() {
        return Err(RollingUpdateRefusal::Controlled);
    }
    if is_reverted(metadata) {
        return Err(RollingUpdateRefusal::ManagedByTool);
    }
    if spec.paused == Some(true) {
        return Err(RollingUpdateRefusal::Paused);
    }
    let replicas = spec.replicas.unwrap_or(1);
    check_strategy(spec, replicas)?;
    let status = deployment.status.clone().unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or(0);
    let is_complete = status.observed_generation >= metadata.generation
        && updated == replicas
        && status.replicas == Some(updated);
    let all_available = status.available_replicas.unwrap_or(0) >= replicas;
    if !is_complete || !(all_available || answers_oom_kill) {
        return Err(RollingUpdateRefusal::RolloutInProgress);
    }
    let template = spec.template.metadata.as_ref();
    let resized_at = template
        .and_then(|template| template.annotations.as_ref()?.get(RESIZED_AT))
        .and_then(|text| text.parse::<Timestamp>().ok());
    // After a clock went back, the time may be in the future.
    let age = resized_at.map(|at| Duration::try_from(now.duration_since(at)).unwrap_or_default());
    if age.is_some_and(|age| age < ROLLING_UPDATE_INTERVAL) {
        return Err(RollingUpdateRefusal::TooSoon);
    }
    Ok(())
}

fn check_strategy(spec: &DeploymentSpec, replicas: i32) -> Result<(), RollingUpdateRefusal> {
    if replicas <= 0 {
        return Err(RollingUpdateRefusal::NoReplicas);
    }
    let strategy = spec.strategy.as_ref();
    if strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate") {
        return Err(RollingUpdateRefusal::RecreateStrategy);
    }
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
    let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
    // The Deployment controller rounds surge up and unavailable pods down.
    if hundredths(surge, replicas) <= 0 {
        return Err(RollingUpdateRefusal::NoSurge);
    }
    if hundredths(unavailable, replicas) / 100 >= i64::from(replicas) {
        return Err(RollingUpdateRefusal::AllMayBeUnavailable);
    }
    Ok(())
}

/// A number of pods in hundredths: an integer, or a percentage of the replicas. Absent means the
/// default of 25 %, and a value that the API server would refuse means 0.
fn hundredths(value: Option<&IntOrString>, replicas: i32) -> i64 {
    match value {
        None => 25 * i64::from(replicas),
        Some(IntOrString::Int(count)) => 100 * i64::from(*count),
        Some(IntOrString::String(text)) => {
            let percent = text
                .strip_suffix('%')
                .and_then(|text| text.parse::<u32>().ok());
            i64::from(percent.unwrap_or(0)) * i64::from(replicas)
        }
    }
}

#[cfg(test)]
mod tests;
