//! Which autoscaler a pod is under: of those that point at the topmost controller above it and select it, the oldest.
//!
//! Pods find their autoscaler by the target's name, not by trying all: the effort grows with the number of pods and of
//! autoscalers, not with their product. Source: upstream `pkg/utils/vpa/api.go` (`GetControllingVPAForPod`).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use cluster::{Autoscaler, Owner, Pod, View, target};
use model::{Selector, Workload};

use super::strength::{OwnerName, Strength};

/// An autoscaler with its live pods.
#[derive(Debug)]
pub(super) struct Matched<'a> {
    /// The autoscaler.
    pub(super) autoscaler: &'a Arc<Autoscaler>,
    /// Pods that are bound to a node and are not being deleted, by name.
    pub(super) pods: Vec<&'a Arc<Pod>>,
    /// The number of pods that each group should have, by owner; a group without one is left alone.
    pub(super) strengths: BTreeMap<OwnerName<'a>, Strength>,
}

/// Namespace, kind and name.
type Name<'a> = (&'a str, &'a str, &'a str);

/// All autoscalers for which `counts` holds, with their pods; autoscalers without pods too.
pub(super) fn matched(view: &View, counts: impl Fn(&Autoscaler) -> bool) -> Vec<Matched<'_>> {
    let mut all: Vec<(Matched, Selector)> = view
        .autoscalers
        .iter()
        .filter(|autoscaler| counts(autoscaler))
        .filter_map(|autoscaler| match target::resolve(view, &autoscaler.target()) {
            target::Resolution::Pods(selector) => {
                Some((Matched { autoscaler, pods: Vec::new(), strengths: BTreeMap::new() }, selector))
            }
            target::Resolution::Unsupported { .. } | target::Resolution::Waiting(_) => None,
        })
        .collect();
    // Upstream compares whole seconds, which is what the API server keeps.
    all.sort_by_cached_key(|(matched, _)| {
        let metadata = &matched.autoscaler.object.metadata;
        (metadata.creation_timestamp.as_ref().map(|time| time.0), matched.autoscaler.key.name.clone())
    });
    let mut by_target: HashMap<Name, Vec<usize>> = HashMap::new();
    for (index, (matched, _)) in all.iter().enumerate() {
        by_target.entry(target_name(matched.autoscaler)).or_default().push(index);
    }
    let mut candidates: HashMap<(&str, Name), Vec<usize>> = HashMap::new();
    for pod in view.pods.iter().filter(|pod| pod.is_live()) {
        let Some(owner) = &pod.owner else { continue };
        let name = (pod.key.namespace.as_str(), owner.kind.as_str(), owner.name.as_str());
        let indices = candidates.entry((owner.api_version.as_str(), name)).or_insert_with(|| {
            let Owner { api_version, kind, name, uid: _ } = owner;
            let start = Workload { api_version, kind, namespace: &pod.key.namespace, name };
            let top = target::topmost(view, start).ok().flatten();
            top.and_then(|top| by_target.get(&(top.namespace, top.kind, top.name)).cloned()).unwrap_or_default()
        });
        let chosen =
            indices.iter().find(|index| all.get(**index).is_some_and(|(_, labels)| labels.matches(&pod.labels)));
        if let Some((matched, _)) = chosen.and_then(|index| all.get_mut(*index)) {
            matched.pods.push(pod);
        }
    }
    all.into_iter().map(|(matched, _)| matched).collect()
}

fn target_name(autoscaler: &Autoscaler) -> Name<'_> {
    let target = &autoscaler.object.spec.target_ref;
    (&autoscaler.key.namespace, &target.kind, &target.name)
}
