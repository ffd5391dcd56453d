//! Labels of an object and selectors over labels, with the canonical text of Kubernetes.
//!
//! Source: `k8s.io/apimachinery/pkg/labels`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod selector;
mod syntax;

pub use selector::{ParseSelectorError, Requirement, Selector};
pub use syntax::{is_label_name, is_label_value};

/// Labels of an object, displayed as `a=1,b=2` in order of the keys.
///
/// There are very many objects with few labels, so this is a sorted list of exact size.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Box<[(Box<str>, Box<str>)]>);

impl Labels {
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(other, _)| (**other).cmp(key));
        Some(&self.0[found.ok()?].1)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<BTreeMap<String, String>> for Labels {
    fn from(labels: BTreeMap<String, String>) -> Self {
        let pair = |(key, value): (String, String)| (key.into(), value.into());
        Self(labels.into_iter().map(pair).collect())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(labels: I) -> Self {
        let pair = |(key, value): (K, V)| (key.into(), value.into());
        Self::from(labels.into_iter().map(pair).collect::<BTreeMap<_, _>>())
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{key}={value}")?;
        }
        Ok(())
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(BTreeMap::<String, String>::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_found_and_printed_by_key() {
        let labels: Labels = [("tier", "back"), ("app", "web")].into_iter().collect();
        assert_eq!(labels.to_string(), "app=web,tier=back");
        assert_eq!(labels.get("tier"), Some("back"));
        assert_eq!(labels.get("other"), None);
    }

    #[test]
    fn labels_are_a_map_in_json() {
        let json = r#"{"app":"web","tier":"back"}"#;
        let labels: Labels = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&labels).unwrap(), json);
    }
}
