//! Which `VerticalPodAutoscaler` sizes a pod: the oldest of those that point at the topmost controller above it.
//!
//! Source: upstream `pkg/admission-controller/resource/vpa/matcher.go` and `pkg/utils/vpa/api.go` (`stronger`).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler};
use cluster::target::{Resolution, TargetError, resolve, topmost};
use cluster::{Autoscaler, ObjectKey, View, WellKnown};
use model::{Labels, WorkloadRef};

/// The label with which a Deployment tells the pods of its `ReplicaSets` apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The autoscaler of a pod with these labels that `owner` is making; none where there is none or it cannot be told.
pub(crate) fn select<'a>(view: &'a View, labels: &Labels, owner: &WorkloadRef) -> Option<&'a Arc<Autoscaler>> {
    let top = top(view, labels, owner)?;
    // They all point at one workload, at most under several versions: it is looked at once for each.
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    let mut selects = |autoscaler: &'a Autoscaler| {
        *known.entry(&autoscaler.object.spec.target_ref.api_version).or_insert_with(|| {
            match resolve(view, &autoscaler.target()) {
                Resolution::Pods(selector) => selector.matches(labels),
                Resolution::Unsupported { .. } | Resolution::Waiting(_) => false,
            }
        })
    };
    let wanted = view.autoscalers_of(&top).filter(|autoscaler| changes_pods(&autoscaler.object));
    wanted.filter(|autoscaler| selects(autoscaler)).min_by_key(|autoscaler| age_and_name(autoscaler))
}

/// Whether pods get anything when they are created. A boost counts also where the mode is Off.
fn changes_pods(object: &VerticalPodAutoscaler) -> bool {
    let spec = &object.spec;
    let policies = spec.resource_policy.iter().flat_map(|policy| &policy.container_policies);
    spec.effective_update_mode() != EffectiveUpdateMode::Off
        || spec.startup_boost.is_some()
        || policies.into_iter().any(|policy| policy.startup_boost.is_some())
}

/// The older one is stronger, then the one whose name comes first. One without a time counts as the oldest, as it does upstream.
fn age_and_name(autoscaler: &Autoscaler) -> (Option<i64>, &str) {
    let created_at = autoscaler.object.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
    (created_at, &autoscaler.key.name)
}

fn top(view: &View, labels: &Labels, owner: &WorkloadRef) -> Option<WorkloadRef> {
    match topmost(view, owner) {
        Ok(top) => top,
        Err(TargetError::Missing(missing)) if missing == *owner => topmost(view, &maker(view, labels, owner)?).ok()?,
        Err(_) => None,
    }
}

/// The Deployment of a `ReplicaSet` so new that no watch has told of it: its first pods come within milliseconds.
fn maker(view: &View, labels: &Labels, owner: &WorkloadRef) -> Option<WorkloadRef> {
    if owner.kind != WellKnown::ReplicaSet.kind() {
        return None;
    }
    let name = owner.name.strip_suffix(labels.get(TEMPLATE_HASH)?)?.strip_suffix('-')?;
    view.controller(WellKnown::Deployment, &ObjectKey::new(&owner.namespace, name))?;
    Some(WorkloadRef {
        api_version: WellKnown::Deployment.api_version().to_owned(),
        kind: WellKnown::Deployment.kind().to_owned(),
        namespace: owner.namespace.clone(),
        name: name.to_owned(),
    })
}
