//! Selection of the `VerticalPodAutoscaler` of a pod: the oldest of those whose target is the
//! topmost controller of the pod.
//!
//! Source: upstream `pkg/admission-controller/resource/vpa/matcher.go` and `pkg/utils/vpa/api.go`
//! (`stronger`).

use std::sync::Arc;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler};
use model::Workload;
use view::target::{TargetError, selects, topmost};
use view::{ObjectName, View, Vpa, WellKnown};

use crate::pod::Labels;

/// The label by which a Deployment distinguishes the pods of its `ReplicaSet`s.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The VPA of a pod with these labels and this controller; `None` if no VPA selects the pod or a
/// controller is unknown.
pub(crate) fn select<'a>(
    view: &'a View,
    labels: &Labels<'_>,
    owner: Workload<'_>,
) -> Option<&'a Arc<Vpa>> {
    let top = topmost_controller(view, labels, owner)?;
    // All candidates target the same workload, so its selector is evaluated once per API version.
    let mut known: Option<(&str, bool)> = None;
    let mut selects = |vpa: &'a Vpa| {
        let target = vpa.points_at();
        let known = known.get_or_insert_with(|| {
            (
                target.api_version,
                selects(view, target, |key| labels.get(key)),
            )
        });
        if known.0 != target.api_version {
            *known = (
                target.api_version,
                selects(view, target, |key| labels.get(key)),
            );
        }
        known.1
    };
    let candidates = view.vpas_of(top).filter(|vpa| patches_pods(&vpa.object));
    candidates
        .filter(|vpa| selects(vpa))
        .min_by_key(|vpa| precedence(vpa))
}

/// Whether the VPA changes pods when they are created. A startup boost applies in mode `Off` too.
fn patches_pods(object: &VerticalPodAutoscaler) -> bool {
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

/// The sort key: the creation time, then the name. An object without creation time comes first, as
/// upstream.
fn precedence(vpa: &Vpa) -> (Option<i64>, &str) {
    let created_at = vpa
        .object
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0.as_second());
    (created_at, &vpa.key.name)
}

fn topmost_controller<'a>(
    view: &'a View,
    labels: &'a Labels<'_>,
    owner: Workload<'a>,
) -> Option<Workload<'a>> {
    match topmost(view, owner) {
        Ok(top) => top,
        Err(TargetError::Missing(missing)) if owner == (&missing).into() => {
            topmost(view, deployment_of(view, labels, owner)?).ok()?
        }
        Err(_) => None,
    }
}

/// The Deployment of a `ReplicaSet` that the watch has not delivered yet: its first pods are
/// created within milliseconds.
fn deployment_of<'a>(
    view: &View,
    labels: &Labels<'_>,
    owner: Workload<'a>,
) -> Option<Workload<'a>> {
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
