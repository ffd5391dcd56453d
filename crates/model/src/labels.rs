//! Labels of an object and selectors over labels, with the canonical text of Kubernetes.
//!
//! Source: `k8s.io/apimachinery/pkg/labels`.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

mod selector;

pub use selector::{ParseSelectorError, Requirement, Selector};

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

/// Maximum length of a name without prefix, and of a value, in bytes.
const MAX_LENGTH: usize = 63;
/// Maximum length of the prefix of a name, in bytes.
const MAX_PREFIX_LENGTH: usize = 253;

/// Whether the text is a valid label name: a part, or a DNS subdomain, a slash and a part.
/// Source: `k8s.io/apimachinery/pkg/util/validation` (`IsQualifiedName`).
pub fn is_label_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_part(text),
        Some((prefix, part)) => {
            prefix.len() <= MAX_PREFIX_LENGTH
                && prefix.split('.').all(is_dns_label)
                && is_part(part)
        }
    }
}

/// Whether the text is a valid label value, which may be empty.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_part(text)
}

fn is_part(text: &str) -> bool {
    text.len() <= MAX_LENGTH && is_made_of(text, |byte| byte.is_ascii_alphanumeric(), b"-_.")
}

fn is_dns_label(text: &str) -> bool {
    let is_outer = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    is_made_of(text, is_outer, b"-")
}

/// Whether a text begins and ends with `outer` bytes and has only these and `inner` in between.
fn is_made_of(text: &str, outer: impl Fn(u8) -> bool, inner: &[u8]) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| outer(*first))
        && bytes.last().is_some_and(|last| outer(*last))
        && bytes
            .iter()
            .all(|byte| outer(*byte) || inner.contains(byte))
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

    #[test]
    fn names_and_values_are_those_that_the_api_server_accepts() {
        let long = "a".repeat(MAX_LENGTH);
        let too_long = "a".repeat(MAX_LENGTH + 1);
        let prefix = "a.".repeat(126) + "a";
        let long_prefixes = [format!("{prefix}/{long}"), format!("a.{prefix}/b")];
        for (text, is_name, is_value) in [
            ("", false, true),
            ("pool", true, true),
            ("A_b.c-1", true, true),
            ("a.b/Pool", true, false),
            (long.as_str(), true, true),
            (too_long.as_str(), false, false),
            (long_prefixes[0].as_str(), true, false),
            (long_prefixes[1].as_str(), false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a b", false, false),
            ("/a", false, false),
            ("a/", false, false),
            ("A.b/c", false, false),
            ("a..b/c", false, false),
            ("a/b/c", false, false),
            ("é", false, false),
        ] {
            assert_eq!(is_label_name(text), is_name, "{text}");
            assert_eq!(is_label_value(text), is_value, "{text}");
        }
    }
}
