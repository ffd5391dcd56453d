//! `resources` of a container or pod, in a review.

use std::fmt;

use model::ResourceList;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use sizing::Written;

use super::Text;

/// Requests and limits. An absent list differs from an empty one.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Requirements {
    pub(crate) requests: Option<ResourceList>,
    pub(crate) limits: Option<ResourceList>,
    /// Whether there are other fields, such as `claims`.
    pub(crate) has_other_fields: bool,
}

impl Requirements {
    pub(crate) fn written(&self) -> Written<'_> {
        Written {
            requests: self.requests.as_ref(),
            limits: self.limits.as_ref(),
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
                    requirements.has_other_fields = true;
                }
            }
        }
        Ok(requirements)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expects the numbers of requests and limits, and whether there are other fields.
    fn check(json: &str, lengths: [Option<usize>; 2], has_other_fields: bool) {
        let read: Requirements = serde_json::from_str(json).expect("requirements");
        let found = [&read.requests, &read.limits].map(|list| list.as_ref().map(ResourceList::len));
        let found = (found, read.has_other_fields);
        assert_eq!(found, (lengths, has_other_fields), "{json}");
    }

    #[test]
    fn other_fields_are_noticed() {
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
