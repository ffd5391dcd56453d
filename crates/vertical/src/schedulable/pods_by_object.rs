//! Pods of each object, including Pending ones. Objects are found by a label of their selector, so
//! the cost is not the product of pods and objects.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Requirement, Selector};
use view::{ObjectKey, Pod, View, Vpa};

/// The pods of each object.
pub(super) struct PodsByObject<'a>(BTreeMap<&'a ObjectKey, Vec<&'a Arc<Pod>>>);

/// The objects of one namespace.
#[derive(Default)]
struct Index<'a> {
    by_label: HashMap<(&'a str, &'a str), Vec<Entry<'a>>>,
    /// Objects whose selectors require no label with given values.
    others: Vec<Entry<'a>>,
}

type Entry<'a> = (&'a ObjectKey, &'a Selector);

impl<'a> PodsByObject<'a> {
    pub(super) fn find(view: &'a View, objects: &[(&'a Arc<Vpa>, &'a Selector)]) -> Self {
        let mut indices: HashMap<&str, Index> = HashMap::new();
        for (vpa, selector) in objects {
            indices
                .entry(&vpa.key.namespace)
                .or_default()
                .add(&vpa.key, selector);
        }
        let mut found: BTreeMap<&ObjectKey, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in view.pods.iter().chain(view.pending_pods.iter()) {
            let Some(index) = indices.get(pod.key.namespace.as_str()) else {
                continue;
            };
            for key in index.objects_of(pod) {
                found.entry(key).or_default().push(pod);
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

impl<'a> Index<'a> {
    fn add(&mut self, key: &'a ObjectKey, selector: &'a Selector) {
        let mut values =
            selector
                .requirements()
                .iter()
                .filter_map(|requirement| match requirement {
                    Requirement::In(label, values) => Some((label, values)),
                    _ => None,
                });
        match values.next() {
            Some((label, values)) => {
                for value in values {
                    self.by_label
                        .entry((label, value))
                        .or_default()
                        .push((key, selector));
                }
            }
            None => self.others.push((key, selector)),
        }
    }

    fn objects_of<'b>(&'b self, pod: &'b Pod) -> impl Iterator<Item = &'a ObjectKey> + use<'a, 'b> {
        let by_label = pod
            .labels
            .iter()
            .filter_map(|label| self.by_label.get(&label))
            .flatten();
        let selecting = by_label
            .chain(&self.others)
            .filter(|(_, selector)| selector.matches(&pod.labels));
        selecting.map(|(key, _)| *key)
    }
}
