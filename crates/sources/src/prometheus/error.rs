//! Why a store of history gave nothing.

use std::time::Duration;

/// The store gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    /// The address, a certificate or a file with credentials cannot be used.
    #[error("the connection to Prometheus cannot be set up: {0}")]
    SetUp(String),
    /// It cannot be reached.
    #[error("Prometheus cannot be reached: {0}")]
    Unreachable(String),
    /// It took too long.
    #[error("Prometheus did not answer within {0:?}")]
    Timeout(Duration),
    /// It answered with an error.
    #[error("Prometheus answers {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What it said, in short.
        message: String,
    },
    /// The answer is longer than it may be.
    #[error("Prometheus' answer is longer than {0} bytes")]
    TooLong(usize),
    /// The answer is not what the API promises.
    #[error("Prometheus' answer cannot be read: {0}")]
    Malformed(String),
    /// It answers, but has no usage under any name that was tried.
    #[error("Prometheus has no series of usage; tried {tried}")]
    NoSeries {
        /// The selectors that matched nothing.
        tried: String,
    },
}

/// The bound that an answer exceeds. Asking for less at once may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Excess {
    /// It takes too long.
    Time,
    /// It has too many samples or bytes.
    Size,
}

impl PrometheusError {
    /// The bound that the answer exceeds, if that is the error.
    pub fn excess(&self) -> Option<Excess> {
        match self {
            Self::Timeout(_) => Some(Excess::Time),
            Self::TooLong(_) => Some(Excess::Size),
            Self::Refused { code, message } => match code {
                413 => Some(Excess::Size),
                504 => Some(Excess::Time),
                503 => message.contains("timed out").then_some(Excess::Time),
                400 | 422 => {
                    let is_size = ["too many", "exceeded", "limit"].iter().any(|word| message.contains(word));
                    is_size.then_some(Excess::Size)
                }
                _ => None,
            },
            Self::SetUp(_) | Self::Unreachable(_) | Self::Malformed(_) | Self::NoSeries { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(code: u16, message: &str, expected: Option<Excess>) {
        let error = PrometheusError::Refused { code, message: message.to_owned() };
        assert_eq!(error.excess(), expected, "{error}");
    }

    #[test]
    fn refusals_of_large_answers_are_told_from_others() {
        check(422, "query processing would load too many samples into memory in query execution", Some(Excess::Size));
        check(400, "exceeded maximum resolution of 11,000 points per timeseries", Some(Excess::Size));
        check(422, "the query hit the max number of chunks limit (limit: 2000000 chunks)", Some(Excess::Size));
        check(503, "query timed out in expression evaluation", Some(Excess::Time));
        check(413, "", Some(Excess::Size));
        check(504, "", Some(Excess::Time));
        check(400, "invalid parameter \"query\": 1:5: parse error", None);
        check(401, "Unauthorized", None);
        check(503, "service unavailable", None);
    }
}
