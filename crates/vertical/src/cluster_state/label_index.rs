//! Index between labels and selectors.
//!
//! Both directions use one `key=value` pair, of which only the hash is kept, so candidates must
//! still be checked with `Selector::matches`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Labels, Requirement, Selector};

/// Ids by the hash of a label.
#[derive(Clone, Debug, Default)]
struct Postings(HashMap<u64, Vec<u32>>);

impl Postings {
    fn insert(&mut self, label: u64, id: u32) {
        self.0.entry(label).or_default().push(id);
    }

    fn remove(&mut self, label: u64, id: u32) {
        if let Some(ids) = self.0.get_mut(&label) {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.0.remove(&label);
            }
        }
    }

    fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn get(&self, label: u64) -> &[u32] {
        self.0.get(&label).map_or(&[], Vec::as_slice)
    }

    /// Labels of the requirement with the fewest ids, among those that name values.
    fn rarest(&self, selector: &Selector) -> Option<Vec<u64>> {
        let count = |labels: &Vec<u64>| {
            labels
                .iter()
                .map(|label| self.get(*label).len())
                .sum::<usize>()
        };
        selector
            .requirements()
            .iter()
            .filter_map(labels_of)
            .min_by_key(count)
    }
}

fn labels_of(requirement: &Requirement) -> Option<Vec<u64>> {
    match requirement {
        Requirement::In(key, values) => Some(values.iter().map(|value| hash(key, value)).collect()),
        _ => None,
    }
}

fn hash(key: &str, value: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (key, value).hash(&mut hasher);
    hasher.finish()
}

/// Selectors by the labels of an object.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    by_label: Postings,
    /// Selectors without values.
    others: Vec<u32>,
}

/// Index position of a selector.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    Labels(Vec<u64>),
    Others,
    Nowhere,
}

impl SelectorIndex {
    pub(crate) fn insert(&mut self, selector: &Selector, id: u32) -> Entry {
        if selector.is_nothing() {
            return Entry::Nowhere;
        }
        let Some(labels) = self.by_label.rarest(selector) else {
            self.others.push(id);
            return Entry::Others;
        };
        for label in &labels {
            self.by_label.insert(*label, id);
        }
        Entry::Labels(labels)
    }

    pub(super) fn remove(&mut self, entry: &Entry, id: u32) {
        match entry {
            Entry::Labels(labels) => labels
                .iter()
                .for_each(|label| self.by_label.remove(*label, id)),
            Entry::Others => self.others.retain(|other| *other != id),
            Entry::Nowhere => {}
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.by_label.len() + self.others.len()
    }

    /// Candidate selectors without duplicates.
    pub(crate) fn candidates(&self, labels: &Labels) -> Vec<u32> {
        let named = labels
            .iter()
            .flat_map(|(key, value)| self.by_label.get(hash(key, value)));
        let mut found: Vec<u32> = named.chain(&self.others).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Label sets by selector.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelIndex {
    by_label: Postings,
}

impl LabelIndex {
    pub(super) fn insert(&mut self, labels: &Labels, id: u32) {
        for (key, value) in labels.iter() {
            self.by_label.insert(hash(key, value), id);
        }
    }

    pub(super) fn remove(&mut self, labels: &Labels, id: u32) {
        for (key, value) in labels.iter() {
            self.by_label.remove(hash(key, value), id);
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.by_label.len()
    }

    /// Candidate label sets without duplicates; `None` if the selector names no value, so that all
    /// are candidates.
    pub(super) fn candidates(&self, selector: &Selector) -> Option<Vec<u32>> {
        let labels = self.by_label.rarest(selector)?;
        let mut found: Vec<u32> = labels
            .iter()
            .flat_map(|label| self.by_label.get(*label))
            .copied()
            .collect();
        found.sort_unstable();
        found.dedup();
        Some(found)
    }
}
