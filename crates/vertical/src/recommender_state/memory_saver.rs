//! Selectors of all VPA objects: with `--memory-saver`, pods that none of them selects are dropped.

use std::collections::BTreeMap;

use model::Selector;
use view::Pod;

/// Selectors by namespace.
pub(super) struct Selections<'a>(BTreeMap<&'a str, Vec<&'a Selector>>);

impl<'a> Selections<'a> {
    pub(super) fn of(selectors: impl Iterator<Item = (&'a str, &'a Selector)>) -> Self {
        let mut namespaces: BTreeMap<&str, Vec<&Selector>> = BTreeMap::new();
        for (namespace, selector) in selectors {
            namespaces.entry(namespace).or_default().push(selector);
        }
        Self(namespaces)
    }

    pub(super) fn include(&self, pod: &Pod) -> bool {
        let selectors = self
            .0
            .get(pod.key.namespace.as_str())
            .map(Vec::as_slice)
            .unwrap_or_default();
        selectors
            .iter()
            .any(|selector| selector.matches(&pod.labels))
    }
}
