//! Pods of each object, including Pending ones.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::Selector;
use view::{ObjectKey, Pod, SelectorIndex, View, Vpa};

/// The pods of each object.
pub(super) struct PodsByObject<'a>(BTreeMap<&'a ObjectKey, Vec<&'a Arc<Pod>>>);

impl<'a> PodsByObject<'a> {
    pub(super) fn find(view: &'a View, objects: &[(&'a Arc<Vpa>, &'a Selector)]) -> Self {
        let mut indices: HashMap<&str, SelectorIndex> = HashMap::new();
        for (id, (vpa, selector)) in (0..).zip(objects) {
            let index = indices.entry(&vpa.key.namespace).or_default();
            index.insert(selector, id);
        }
        let mut found: BTreeMap<&ObjectKey, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in view.pods.iter().chain(view.pending_pods.iter()) {
            let Some(index) = indices.get(pod.key.namespace.as_str()) else {
                continue;
            };
            let candidates = index.candidates(&pod.labels).into_iter();
            let candidates = candidates.filter_map(|id| objects.get(id as usize));
            for (vpa, _) in candidates.filter(|(_, selector)| selector.matches(&pod.labels)) {
                found.entry(&vpa.key).or_default().push(pod);
            }
        }
        Self(found)
    }

    pub(super) fn of(&self, key: &ObjectKey) -> impl Iterator<Item = &'a Arc<Pod>> + '_ {
        self.0.get(key).into_iter().flatten().copied()
    }

    pub(super) fn take(&mut self, key: &ObjectKey) -> Vec<&'a Arc<Pod>> {
        self.0.remove(key).unwrap_or_default()
    }
}
