//! Recovery of Kubernetes label names from a store: there `app.kubernetes.io/name` is
//! `app_kubernetes_io_name`, and kube-state-metrics also writes `appName` as `app_name`.
//!
//! The reverse is only known for names in use, so it is built from the labels of live pods and from
//! selectors.

use std::collections::{BTreeMap, HashMap};

use model::Labels;

/// Label names in use, by their form in a store.
#[derive(Debug, Clone, Default)]
pub(crate) struct KnownKeys {
    /// `None` if several names have the same form.
    by_stored: HashMap<String, Option<String>>,
}

impl KnownKeys {
    /// Adds a name in use.
    pub(crate) fn insert(&mut self, key: &str) {
        let plain = sanitised(key);
        let snake = snake_case(&plain);
        for form in [plain, snake] {
            let known = self.by_stored.entry(form);
            let known = known.or_insert_with(|| Some(key.to_owned()));
            if known.as_deref() != Some(key) {
                *known = None;
            }
        }
    }

    /// Restores Kubernetes' label names where known.
    pub(crate) fn restore(&self, stored: &BTreeMap<String, String>) -> Labels {
        let name = |stored: &String| {
            let known = self.by_stored.get(stored).and_then(Clone::clone);
            known.unwrap_or_else(|| stored.clone())
        };
        let restored = stored.iter().map(|(key, value)| (name(key), value.clone()));
        restored.collect()
    }
}

impl<'a> FromIterator<&'a str> for KnownKeys {
    fn from_iter<I: IntoIterator<Item = &'a str>>(keys: I) -> Self {
        let mut known = Self::default();
        keys.into_iter().for_each(|key| known.insert(key));
        known
    }
}

fn sanitised(key: &str) -> String {
    key.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    let mut before = '_';
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && (before.is_ascii_lowercase() || before.is_ascii_digit()) {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
        before = letter;
    }
    snake
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(known: &[&str], stored: &str, expected: &str) {
        let known: KnownKeys = known.iter().copied().collect();
        let labels = known.restore(&BTreeMap::from([(stored.to_owned(), "v".to_owned())]));
        assert_eq!(labels.to_string(), format!("{expected}=v"));
    }

    #[test]
    fn names_in_use_are_found_again() {
        let (name, hash) = ("app.kubernetes.io/name", "pod-template-hash");
        check(&[name, "app"], "app_kubernetes_io_name", name);
        check(&[hash], "pod_template_hash", hash);
        check(&["appName"], "appName", "appName");
        check(&["appName"], "app_name", "appName");
        check(&["app", "app"], "app", "app");
    }

    #[test]
    fn other_names_stay_as_they_are() {
        check(&["app"], "tier", "tier");
        check(&[], "app_kubernetes_io_name", "app_kubernetes_io_name");
    }

    #[test]
    fn names_that_look_the_same_are_not_guessed() {
        check(&["a.b", "a-b"], "a_b", "a_b");
    }
}
