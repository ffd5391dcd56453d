//! The labels of a pod in a review.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use crate::review::Text;

/// Keys and values, sorted by key. Of duplicate keys the last one counts, as for the API server.
#[derive(Debug, Default)]
pub(crate) struct Labels<'a>(Vec<(Text<'a>, Text<'a>)>);

impl Labels<'_> {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let after = self.0.partition_point(|(other, _)| **other <= *key);
        let (last, value) = self.0.get(after.checked_sub(1)?)?;
        (**last == *key).then_some(value)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Labels<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(LabelsVisitor)
    }
}

struct LabelsVisitor;

impl<'de> Visitor<'de> for LabelsVisitor {
    type Value = Labels<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels<'de>, A::Error> {
        let mut labels: Vec<(Text<'de>, Text<'de>)> = Vec::new();
        while let Some(label) = map.next_entry()? {
            labels.push(label);
        }
        labels.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Labels(labels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, key: &str, expected: Option<&str>) {
        let labels: Labels = serde_json::from_str(json).expect("labels");
        assert_eq!(labels.get(key), expected, "{key} of {json}");
    }

    #[test]
    fn labels_are_found_by_key() {
        let json = r#"{"tier":"back","app":"web"}"#;
        check(json, "app", Some("web"));
        check(json, "tier", Some("back"));
        check(json, "b", None);
        check("{}", "app", None);
    }

    #[test]
    fn the_last_of_duplicate_keys_counts() {
        check(
            r#"{"app":"web","a":"","app":"\u0041pi"}"#,
            "app",
            Some("Api"),
        );
    }
}
