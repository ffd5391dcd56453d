//! Which `VerticalPodAutoscaler` sizes a pod: the oldest of those that point at the topmost
//! controller above it.
//!
//! Source: upstream `pkg/admission-controller/resource/vpa/matcher.go` and `pkg/utils/vpa/api.go`
//! (`stronger`).

use std::sync::Arc;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler};
use model::Workload;
use view::target::{TargetError, means, topmost};
use view::{Autoscaler, ObjectName, View, WellKnown};

use crate::pod::Labels;

/// The label with which a Deployment tells the pods of its `ReplicaSets` apart.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The autoscaler of a pod with these labels that `owner` is making; none where there is none or it
/// cannot be told.
pub(crate) fn select<'a>(
    view: &'a View,
    labels: &Labels<'_>,
    owner: Workload<'_>,
) -> Option<&'a Arc<Autoscaler>> {
    let top = top(view, labels, owner)?;
    // They all point at one workload, which is looked at once as long as they name the same version
    // of it.
    let mut known: Option<(&str, bool)> = None;
    let mut selects = |autoscaler: &'a Autoscaler| {
        let target = autoscaler.points_at();
        let known = known.get_or_insert_with(|| {
            (
                target.api_version,
                means(view, target, |key| labels.get(key)),
            )
        });
        if known.0 != target.api_version {
            *known = (
                target.api_version,
                means(view, target, |key| labels.get(key)),
            );
        }
        known.1
    };
    let wanted = view
        .autoscalers_of(top)
        .filter(|autoscaler| changes_pods(&autoscaler.object));
    wanted
        .filter(|autoscaler| selects(autoscaler))
        .min_by_key(|autoscaler| age_and_name(autoscaler))
}

/// Whether pods get anything when they are created. A boost counts also where the mode is Off.
fn changes_pods(object: &VerticalPodAutoscaler) -> bool {
    let spec = &object.spec;
    let policies = spec
        .resource_policy
        .iter()
        .flat_map(|policy| &policy.container_policies);
    spec.effective_update_mode() != EffectiveUpdateMode::Off
        || spec.startup_boost.is_some()
        || policies
            .into_iter()
            .any(|policy| policy.startup_boost.is_some())
}

/// The older one is stronger, then the one whose name comes first. One without a time counts as the
/// oldest, as it does upstream.
fn age_and_name(autoscaler: &Autoscaler) -> (Option<i64>, &str) {
    let created_at = autoscaler
        .object
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0.as_second());
    (created_at, &autoscaler.key.name)
}

fn top<'a>(view: &'a View, labels: &'a Labels<'_>, owner: Workload<'a>) -> Option<Workload<'a>> {
    match topmost(view, owner) {
        Ok(top) => top,
        Err(TargetError::Missing(missing)) if owner == (&missing).into() => {
            topmost(view, maker(view, labels, owner)?).ok()?
        }
        Err(_) => None,
    }
}

/// The Deployment of a `ReplicaSet` so new that no watch has told of it: its first pods come within
/// milliseconds.
fn maker<'a>(view: &View, labels: &Labels<'_>, owner: Workload<'a>) -> Option<Workload<'a>> {
    if owner.kind != WellKnown::ReplicaSet.kind() {
        return None;
    }
    let name = owner
        .name
        .strip_suffix(labels.get(TEMPLATE_HASH)?)?
        .strip_suffix('-')?;
    view.controller(
        WellKnown::Deployment,
        &ObjectName {
            namespace: owner.namespace,
            name,
        },
    )?;
    let (api_version, kind) = (
        WellKnown::Deployment.api_version(),
        WellKnown::Deployment.kind(),
    );
    Some(Workload {
        api_version,
        kind,
        name,
        ..owner
    })
}
