//! The adapters that a request has passed. Two adapters that forward the same metrics to each other
//! must not loop.

use http::{HeaderMap, HeaderValue};

pub(super) const HEADER: &str = "x-metrics-hop";

/// The largest number of adapters.
const MAX_HOPS: usize = 4;

/// Names of adapters, in the order in which the request passed them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Via(Vec<String>);

impl Via {
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

    /// Appends this adapter and returns the new header. Fails if the request has passed this adapter
    /// before, or too many others.
    pub(super) fn append(&self, own: &str) -> Result<HeaderValue, String> {
        let way = self.0.join(", ");
        let error = format!("the request has passed this adapter before, by way of {way}");
        if self.0.len() >= MAX_HOPS || self.0.iter().any(|name| name == own) {
            return Err(error);
        }
        let all = if way.is_empty() {
            own
        } else {
            &format!("{way}, {own}")
        };
        HeaderValue::from_str(all).map_err(|_| error)
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
    fn a_loop_is_detected() {
        check(&[], "a/adapter", Some("a/adapter"));
        check(&["b/adapter"], "a/adapter", Some("b/adapter, a/adapter"));
        check(&["b", "c"], "a", Some("b, c, a"));
        check(&["a/adapter"], "a/adapter", None);
        check(&["b/adapter,a/adapter"], "a/adapter", None);
    }

    #[test]
    fn too_many_hops_are_a_loop() {
        check(&["b,c,d,e"], "a", None);
        check(&["b,c,d,e,f,g", "h"], "a", None);
    }
}
