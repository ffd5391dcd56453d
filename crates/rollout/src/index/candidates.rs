//! The VPA objects of one target, found by the labels of a pod.

use std::collections::HashMap;

use api::vpa::{NodeGroup, VerticalPodAutoscaler};
use model::{Labels, Workload};
use view::{Owner, View, target};

/// The VPA objects of one target, as indices, the oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Candidates {
    /// Those of node groups, by the label of their pods.
    groups: HashMap<String, HashMap<String, Vec<usize>>>,
    /// Those of all pods.
    plain: Vec<usize>,
}

impl Candidates {
    /// Adds a VPA object that is younger than the others. One with an invalid node group selects no
    /// pod.
    pub(super) fn push(&mut self, object: &VerticalPodAutoscaler, index: usize) {
        match NodeGroup::of(object) {
            None => self.plain.push(index),
            Some(Ok(group)) => {
                let values = self.groups.entry(group.pod_label()).or_default();
                let indices = values.entry(group.value().to_owned()).or_default();
                indices.push(index);
            }
            Some(Err(_)) => {}
        }
    }

    /// Those that may select a pod with these labels: of node groups first, then the oldest first.
    pub(super) fn for_labels(&self, labels: &Labels) -> impl Iterator<Item = usize> {
        let mut grouped = Vec::new();
        if !self.groups.is_empty() {
            let groups = labels
                .iter()
                .filter_map(|(key, value)| self.groups.get(key)?.get(value));
            grouped.extend(groups.flatten().copied());
            grouped.sort_unstable();
        }
        grouped.into_iter().chain(self.plain.iter().copied())
    }

    /// Those that share the pods of one owner: all, if there are node groups.
    pub(super) fn sharing(&self) -> impl Iterator<Item = usize> {
        let plain = self.plain.iter().filter(|_| !self.groups.is_empty());
        let groups = self.groups.values().flat_map(HashMap::values).flatten();
        groups.chain(plain).copied()
    }
}

/// The topmost controller of an owner.
pub(super) fn topmost<'a>(
    view: &'a View,
    namespace: &'a str,
    owner: &'a Owner,
) -> Option<Workload<'a>> {
    let Owner {
        api_version,
        kind,
        name,
        uid: _,
    } = owner;
    let owner = Workload {
        api_version,
        kind,
        namespace,
        name,
    };
    target::topmost(view, owner).ok().flatten()
}
