//! Selection of the `VerticalPodAutoscaler` of a pod: the oldest of those whose target is the
//! topmost controller of the pod. For a pod of a `DaemonSet`, one of the group of its node comes
//! first.
//!
//! Source: upstream `pkg/admission-controller/resource/vpa/matcher.go` and `pkg/utils/vpa/api.go`
//! (`stronger`).

use std::collections::BTreeMap;
use std::sync::Arc;

use api::vpa::{EffectiveUpdateMode, NodeGroup, VerticalPodAutoscaler};
use model::{Workload, WorkloadRef};
use view::target::{TargetError, selects, topmost};
use view::{View, Vpa, WellKnown};

use crate::pod::Labels;

/// The label by which a Deployment distinguishes the pods of its `ReplicaSet`s.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// An object that a decision depends on and that the watch has not delivered yet: pods are created
/// within milliseconds after their controller, and those of a `DaemonSet` after their node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// A controller above the pod: its VPA is not known before.
    Controller(WorkloadRef),
    /// The node of a pod of this namespace that is to have the label of a node group.
    Node { namespace: String, name: String },
}

impl Awaited {
    pub fn namespace(&self) -> &str {
        match self {
            Self::Controller(controller) => &controller.namespace,
            Self::Node { namespace, .. } => namespace,
        }
    }

    pub fn is_in(&self, view: &View) -> bool {
        match self {
            Self::Node { name, .. } => view.nodes.get(&**name).is_some(),
            Self::Controller(controller) => view.controller_of(controller.into()).is_some(),
        }
    }
}

/// The VPA of a pod, and labels of the groups of its node.
#[derive(Debug, Default)]
pub(crate) struct Selection<'a> {
    /// `None` if no VPA selects the pod or a controller is unknown.
    pub(crate) vpa: Option<&'a Arc<Vpa>>,
    /// The labels that VPA objects of node groups select the pod by, of those that it lacks.
    pub(crate) labels: BTreeMap<String, String>,
    /// An object with which the selection may be another one.
    pub(crate) awaits: Option<Awaited>,
}

/// The VPA of a pod with these labels and this controller, which is created on `node`.
pub(crate) fn select<'a>(
    view: &'a View,
    labels: &Labels<'_>,
    owner: Workload<'_>,
    node: Option<&str>,
) -> Selection<'a> {
    let top = match topmost_controller(view, labels, owner) {
        Ok(Some(top)) => top,
        Ok(None) => return Selection::default(),
        Err(missing) => {
            // Without VPA objects in the namespace, no controller matters.
            let awaits = view.vpas.in_namespace(owner.namespace).next().is_some();
            return Selection {
                awaits: awaits.then_some(Awaited::Controller(missing)),
                ..Selection::default()
            };
        }
    };
    // All candidates target the same workload, so its selector is evaluated once per API version.
    let mut known: BTreeMap<&str, bool> = BTreeMap::new();
    let mut selects = |vpa: &'a Vpa| {
        let target = vpa.points_at();
        let selects = || selects(view, target, |key| labels.get(key).map(|value| &**value));
        *known.entry(target.api_version).or_insert_with(selects)
    };
    let mut added = BTreeMap::new();
    let mut awaits = None;
    if let Some(name) = node {
        let group_of = |vpa: &'a Arc<Vpa>| Some((vpa, NodeGroup::of(&vpa.object)?.ok()?));
        let node = view.nodes.get(name);
        for (vpa, group) in view.vpas_of(top).filter_map(group_of) {
            let is_in_group =
                node.is_none_or(|node| node.labels.get(group.node_label()) == Some(group.value()));
            if !is_in_group || !selects(vpa) {
                continue;
            }
            if node.is_none() {
                awaits = Some(Awaited::Node {
                    namespace: owner.namespace.to_owned(),
                    name: name.to_owned(),
                });
            }
            let pod_label = group.pod_label();
            if node.is_some()
                && labels
                    .get(&*pod_label)
                    .is_none_or(|label| **label != *group.value())
            {
                added.insert(pod_label, group.value().to_owned());
            }
        }
    }
    let label = |key: &str| {
        let added = added.get(key).map(String::as_str);
        added.or(labels.get(key).map(|value| &**value))
    };
    let candidates = view.vpas_of(top).filter(|vpa| patches_pods(&vpa.object));
    let vpa = candidates
        .filter(|vpa| NodeGroup::includes(&vpa.object, label) && selects(vpa))
        .min_by_key(|vpa| vpa.precedence());
    Selection {
        vpa,
        labels: added,
        awaits,
    }
}

/// Whether the VPA changes pods when they are created. A startup boost applies in mode `Off` too.
fn patches_pods(object: &VerticalPodAutoscaler) -> bool {
    let spec = &object.spec;
    spec.effective_update_mode() != EffectiveUpdateMode::Off || spec.has_startup_boost()
}

/// The topmost controller above a pod, or the one that the view lacks.
fn topmost_controller<'a>(
    view: &'a View,
    labels: &'a Labels<'_>,
    owner: Workload<'a>,
) -> Result<Option<Workload<'a>>, WorkloadRef> {
    let missing = match topmost(view, owner) {
        Ok(top) => return Ok(top),
        Err(TargetError::Missing(missing)) => missing,
        Err(_) => return Ok(None),
    };
    let deployment = deployment_of(view, labels, owner);
    match deployment.filter(|_| owner == (&missing).into()) {
        Some(deployment) => Ok(topmost(view, deployment).ok().flatten()),
        None => Err(missing),
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
        .strip_suffix(&**labels.get(TEMPLATE_HASH)?)?
        .strip_suffix('-')?;
    let deployment = Workload {
        api_version: WellKnown::Deployment.api_version(),
        kind: WellKnown::Deployment.kind(),
        name,
        ..owner
    };
    view.controller_of(deployment).map(|_| deployment)
}
