//! Through which adapters a question has come: two that leave the same metrics to each other must
//! not do so for ever.

use http::{HeaderMap, HeaderValue};

/// The header with their names.
pub(super) const HEADER: &str = "x-metrics-hop";

/// The longest way.
const MAX_HOPS: usize = 4;

/// Names of adapters, the first one first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Via(Vec<String>);

/// A question that has gone round.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the request has passed this adapter before, by way of {0}")]
pub(super) struct LoopDetected(String);

impl Via {
    /// Through which adapters a request has come, as far as that matters.
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let texts = headers
            .get_all(HEADER)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let names = texts
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Self(names.take(MAX_HOPS).map(str::to_owned).collect())
    }

    /// The same with this adapter as the last one, unless the question has been here, or has come
    /// too far.
    pub(super) fn append(&self, own: &str) -> Result<HeaderValue, LoopDetected> {
        let way = self.0.join(", ");
        if self.0.len() >= MAX_HOPS || self.0.iter().any(|name| name == own) {
            return Err(LoopDetected(way));
        }
        let all = if way.is_empty() {
            own.to_owned()
        } else {
            format!("{way}, {own}")
        };
        HeaderValue::from_str(&all).map_err(|_| LoopDetected(way))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: &[&str], own: &str, expected: Option<&str>) {
        let headers = seen
            .iter()
            .map(|text| (HEADER.parse().unwrap(), text.parse().unwrap()))
            .collect();
        let next = Via::from_headers(&headers).append(own);
        assert_eq!(
            next.ok().as_ref().map(|value| value.to_str().unwrap()),
            expected,
            "{seen:?}"
        );
    }

    #[test]
    fn a_question_goes_on_until_it_has_been_here() {
        check(&[], "a/adapter", Some("a/adapter"));
        check(&["b/adapter"], "a/adapter", Some("b/adapter, a/adapter"));
        check(
            &["b/adapter", "c/adapter"],
            "a/adapter",
            Some("b/adapter, c/adapter, a/adapter"),
        );
        check(&["a/adapter"], "a/adapter", None);
        check(&["b/adapter,a/adapter"], "a/adapter", None);
    }

    #[test]
    fn a_way_that_is_too_long_ends() {
        check(&["b,c,d,e"], "a", None);
        check(&["b,c,d,e,f,g", "h"], "a", None);
    }
}
