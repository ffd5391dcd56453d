//! The selectors in the query of a URL. Unknown parameters are ignored, and of repeated ones the
//! first counts.

use model::Selector;

use crate::status_error::StatusError;

/// The largest length of a selector, which becomes part of a cached query.
const MAX_BYTES: usize = 8 << 10;

/// The selectors of a query. Without a parameter, a selector matches everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Selectors {
    /// The parameter `labelSelector`.
    pub(super) labels: Selector,
    /// The parameter `metricLabelSelector`.
    pub(super) metric: Selector,
}

impl Selectors {
    pub(super) fn parse(query: &str) -> Result<Self, StatusError> {
        let named = |parameter: &str| {
            let found =
                form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == parameter);
            let Some((_, text)) = found else {
                return Ok(Selector::everything());
            };
            if text.len() > MAX_BYTES {
                return Err(StatusError::BadRequest(format!(
                    "{parameter}: it has {} bytes, at most {MAX_BYTES} are allowed",
                    text.len()
                )));
            }
            text.parse()
                .map_err(|error| StatusError::BadRequest(format!("{parameter}: {error}")))
        };
        Ok(Self {
            labels: named("labelSelector")?,
            metric: named("metricLabelSelector")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(query: &str, expected: Result<(&str, &str), &str>) {
        let found = Selectors::parse(query)
            .map(|found| (found.labels.to_string(), found.metric.to_string()))
            .map_err(|error| error.to_string());
        let expected = expected
            .map(|(labels, metric)| (labels.to_owned(), metric.to_owned()))
            .map_err(str::to_owned);
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn selectors_arrive_as_the_api_server_encodes_them() {
        check("", Ok(("", "")));
        check("labelSelector=&metricLabelSelector", Ok(("", "")));
        check(
            "labelSelector=app%3Dcart%2Ctier+in+%28a%2Cb%29&metricLabelSelector=verb%3DGET",
            Ok(("app=cart,tier in (a,b)", "verb=GET")),
        );
        check("labelSelector=tier%20in%20(a,b)", Ok(("tier in (a,b)", "")));
        check(
            "timeout=1s&foo=1&labelSelector=a%3D1&labelSelector=b%3D2&pretty",
            Ok(("a=1", "")),
        );
        check(
            "labelSelector=a%3D%253D",
            Err("labelSelector: unable to parse selector requirement \"a=%3D\""),
        );
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        check(
            "labelSelector=a%3D%3D%3Db",
            Err("labelSelector: unable to parse selector requirement \"a===b\""),
        );
        check(
            "metricLabelSelector=,",
            Err("metricLabelSelector: unable to parse selector requirement \"\""),
        );
        for (parameter, bytes) in [("labelSelector", 8193), ("metricLabelSelector", 60_000)] {
            let why = format!("{parameter}: it has {bytes} bytes, at most 8192 are allowed");
            let query = format!("{parameter}=a%3D{}", "x".repeat(bytes - 2));
            check(&query, Err(&why));
        }
        let longest = format!("a in ({})", vec!["x".repeat(63); 127].join(","));
        assert!(Selectors::parse(&format!("labelSelector={longest}")).is_ok());
        check(
            "labelSelector=%ff",
            Err("labelSelector: unable to parse selector requirement \"\u{fffd}\""),
        );
    }
}
