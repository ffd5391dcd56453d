//! Errors of a history store.
//!
//! The text of an error is public: it goes into conditions and events of objects. It contains
//! nothing of a response, except for an invalid expression
//! ([`BadQuery`](PrometheusError::BadQuery)), where Prometheus' message is for the author of the
//! expression. Details for administrators are in the source of an error, and
//! [`with_causes`](crate::error_chain::with_causes) returns both, for the log.

use std::time::Duration;

use promql::{Clusters, ConfineError, Excess};

/// Part of an error for the log only: addresses, files, and responses of the store or a proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Detail(String);

impl<T: Into<String>> From<T> for Detail {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// The address, a certificate or a credentials file is invalid.
    #[error("the connection to Prometheus cannot be set up")]
    SetUp(#[source] Detail),
    #[error("Prometheus cannot be reached")]
    Unreachable(#[source] Detail),
    #[error("Prometheus did not answer within {0:?}")]
    Timeout(Duration),
    #[error("{}", refused(*.code))]
    Refused {
        code: u16,
        /// Shortened message of the response.
        #[source]
        message: Detail,
    },
    /// The expression is invalid: it does not parse, or its series cannot be combined.
    #[error("Prometheus refuses the expression: {message}")]
    BadQuery {
        code: u16,
        /// Shortened message of Prometheus' parser or engine.
        message: String,
    },
    #[error("Prometheus' answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("Prometheus' answer has more than {0} series; sum() makes them one")]
    TooManySeries(usize),
    #[error("Prometheus' answer cannot be read")]
    Malformed(#[source] Detail),
    /// A part of the store did not answer, as Thanos and `VictoriaMetrics` say in an answer with the
    /// rest. Sums over it are too small.
    #[error("Prometheus' answer is partial")]
    Partial(#[source] Detail),
    /// Queries would add up equal names of several clusters.
    #[error(
        "Prometheus has several clusters: {0}; set --prometheus-matchers to the one of this cluster"
    )]
    SeveralClusters(Clusters),
    /// The query is outside the grammar in which every selector can get the matchers.
    #[error("the query cannot get --prometheus-matchers: {0}")]
    NoMatchers(#[from] ConfineError),
    #[error("Prometheus has no series of usage, or only for some minutes; tried {tried}")]
    NoSeries {
        /// The selectors without a match. They come from flags.
        tried: String,
    },
}

fn refused(code: u16) -> String {
    format!("Prometheus refuses the query: HTTP status {code}")
}

impl PrometheusError {
    /// The text for users other than the expression's author, without Prometheus' message.
    pub fn text_for_others(&self) -> String {
        match self {
            Self::BadQuery { code, .. } => refused(*code),
            Self::NoMatchers(_) => "the query cannot get --prometheus-matchers".to_owned(),
            error => error.to_string(),
        }
    }

    /// The limit exceeded by the response, if that is the error.
    pub fn excess(&self) -> Option<Excess> {
        match self {
            Self::Timeout(_) => Some(Excess::Time),
            Self::TooLong(_) | Self::TooManySeries(_) => Some(Excess::Size),
            Self::Refused {
                code,
                message: Detail(message),
            } => match code {
                413 => Some(Excess::Size),
                504 => Some(Excess::Time),
                503 => message.contains("timed out").then_some(Excess::Time),
                400 | 422 => {
                    let is_size = ["too many", "exceeded", "limit"]
                        .iter()
                        .any(|word| message.contains(word));
                    is_size.then_some(Excess::Size)
                }
                _ => None,
            },
            Self::SetUp(_)
            | Self::Unreachable(_)
            | Self::BadQuery { .. }
            | Self::Malformed(_)
            | Self::Partial(_)
            | Self::SeveralClusters(_)
            | Self::NoMatchers(_)
            | Self::NoSeries { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error_chain::with_causes;

    fn check(code: u16, message: &str, expected: Option<Excess>) {
        let error = PrometheusError::Refused {
            code,
            message: message.into(),
        };
        assert_eq!(error.excess(), expected, "{error}");
    }

    #[test]
    /// Everyone sees the public text, and the log also has the detail.
    fn only_the_log_has_addresses_and_answers() {
        let detail = || Detail::from("tcp connect error: prometheus-0.corp:9090");
        let refused = PrometheusError::Refused {
            code: 502,
            message: detail(),
        };
        for (error, public) in [
            (
                PrometheusError::SetUp(detail()),
                "the connection to Prometheus cannot be set up",
            ),
            (
                PrometheusError::Unreachable(detail()),
                "Prometheus cannot be reached",
            ),
            (refused, "Prometheus refuses the query: HTTP status 502"),
            (
                PrometheusError::Malformed(detail()),
                "Prometheus' answer cannot be read",
            ),
        ] {
            assert_eq!(error.to_string(), public);
            let log = with_causes(&error);
            assert!(log.starts_with(public), "{log}");
            assert!(log.contains("prometheus-0.corp:9090"), "{log}");
        }
    }

    #[test]
    fn only_the_author_of_an_expression_sees_its_error() {
        let error = PrometheusError::BadQuery {
            code: 400,
            message: "1:5: parse error".to_owned(),
        };
        let full = "Prometheus refuses the expression: 1:5: parse error";
        assert_eq!(error.to_string(), full);
        let for_others = "Prometheus refuses the query: HTTP status 400";
        assert_eq!(error.text_for_others(), for_others);
        assert_eq!(error.excess(), None);
    }

    #[test]
    fn refusals_of_large_responses_are_recognised() {
        let (size, time) = (Some(Excess::Size), Some(Excess::Time));
        let samples = "query processing would load too many samples into memory in query execution";
        let points = "exceeded maximum resolution of 11,000 points per timeseries";
        let chunks = "the query hit the max number of chunks limit (limit: 2000000 chunks)";
        let timeout = "query timed out in expression evaluation";
        for (code, message, expected) in [
            (422, samples, size),
            (400, points, size),
            (422, chunks, size),
            (503, timeout, time),
            (413, "", size),
            (504, "", time),
            (400, "invalid parameter \"query\": 1:5: parse error", None),
            (401, "Unauthorized", None),
            (503, "service unavailable", None),
        ] {
            check(code, message, expected);
        }
    }
}
