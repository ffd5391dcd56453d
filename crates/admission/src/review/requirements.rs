//! `resources` of a container or pod, as a review holds them.

use std::fmt;

use model::ResourceList;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Text;
use crate::patch::Map;

/// Requests and limits. A map that is absent is not the same as one that is empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Requirements {
    pub(crate) requests: Option<ResourceList>,
    pub(crate) limits: Option<ResourceList>,
    /// Whether there is anything else, such as claims of devices.
    pub(crate) has_others: bool,
}

impl Requirements {
    /// One of the two maps.
    pub(crate) fn list(&self, map: Map) -> Option<&ResourceList> {
        match map {
            Map::Requests => self.requests.as_ref(),
            Map::Limits => self.limits.as_ref(),
        }
    }
}

impl<'de> Deserialize<'de> for Requirements {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(RequirementsVisitor)
    }
}

struct RequirementsVisitor;

impl<'de> Visitor<'de> for RequirementsVisitor {
    type Value = Requirements;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("requests and limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Requirements, A::Error> {
        let mut requirements = Requirements::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "requests" => requirements.requests = map.next_value()?,
                "limits" => requirements.limits = map.next_value()?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    requirements.has_others = true;
                }
            }
        }
        Ok(requirements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text, how many requests and limits there are in it, and whether there is anything else.
    fn check(json: &str, lengths: [Option<usize>; 2], has_others: bool) {
        let read: Requirements = serde_json::from_str(json).expect("requirements");
        let found = [Map::Requests, Map::Limits].map(|map| read.list(map).map(ResourceList::len));
        assert_eq!((found, read.has_others), (lengths, has_others), "{json}");
    }

    #[test]
    fn what_else_is_there_is_seen() {
        check("{}", [None, None], false);
        check(
            r#"{"requests":{"cpu":"1"},"limits":null}"#,
            [Some(1), None],
            false,
        );
        check(
            r#"{"requests":{},"limits":{"cpu":"1","memory":"1"}}"#,
            [Some(0), Some(2)],
            false,
        );
        check(r#"{"claims":[{"name":"gpu"}]}"#, [None, None], true);
    }
}
