//! Index of selectors by the labels that they require.
//!
//! A selector is listed under one `key=value` pair, of which only the hash is kept, so candidates must
//! still be checked with `Selector::matches`.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use model::{Labels, Requirement, Selector};

/// Selectors by the labels of an object.
#[derive(Clone, Debug, Default)]
pub struct SelectorIndex {
    by_label: HashMap<u64, Vec<u32>>,
    /// Selectors without values.
    others: Vec<u32>,
}

impl SelectorIndex {
    /// Adds a selector, under the labels of the requirement with the fewest other selectors.
    pub fn insert(&mut self, selector: &Selector, id: u32) {
        let count = |labels: &Vec<u64>| {
            let known = labels.iter().filter_map(|label| self.by_label.get(label));
            known.map(Vec::len).sum::<usize>()
        };
        let named = selector.requirements().iter().filter_map(labels_of);
        match named.min_by_key(count) {
            Some(labels) => {
                for label in labels {
                    self.by_label.entry(label).or_default().push(id);
                }
            }
            None if selector.is_nothing() => {}
            None => self.others.push(id),
        }
    }

    pub fn remove(&mut self, selector: &Selector, id: u32) {
        let named = selector.requirements().iter().filter_map(labels_of);
        for label in named.flatten() {
            if let Some(ids) = self.by_label.get_mut(&label) {
                ids.retain(|other| *other != id);
                if ids.is_empty() {
                    self.by_label.remove(&label);
                }
            }
        }
        self.others.retain(|other| *other != id);
    }

    pub fn len(&self) -> usize {
        self.by_label.values().map(Vec::len).sum::<usize>() + self.others.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_label.is_empty() && self.others.is_empty()
    }

    /// Candidate selectors in the order of their ids, without duplicates.
    pub fn candidates(&self, labels: &Labels) -> Vec<u32> {
        let named = labels
            .iter()
            .filter_map(|label| self.by_label.get(&hash(label)));
        let mut found: Vec<u32> = named.flatten().chain(&self.others).copied().collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// The labels that a requirement names; `None` if it names no values.
fn labels_of(requirement: &Requirement) -> Option<Vec<u64>> {
    match requirement {
        Requirement::In(key, values) => {
            Some(values.iter().map(|value| hash((key, value))).collect())
        }
        _ => None,
    }
}

fn hash(label: (&str, &str)) -> u64 {
    let mut hasher = DefaultHasher::new();
    label.hash(&mut hasher);
    hasher.finish()
}
