//! Errors of the metrics APIs, of resources and external ones.

use std::time::Duration;

use kube::Error;

/// Failed read; there are no new samples, and known ones stay.
#[derive(Debug, thiserror::Error)]
pub enum MetricsApiError {
    #[error("the metrics API did not answer within {0:?}")]
    Timeout(Duration),
    /// The API has no provider, or its provider is down.
    #[error("the metrics API is not available: {0}")]
    Unavailable(String),
    #[error("reading metrics is not allowed: {0}")]
    Forbidden(String),
    #[error("the metrics API's answer cannot be read: {0}")]
    Malformed(#[source] serde_json::Error),
    /// The response has more items than a cluster can have.
    #[error("the metrics API's answer holds {items} items, more than {most}")]
    TooMany { items: usize, most: usize },
    #[error("reading metrics failed: {0}")]
    Request(#[source] Error),
}

impl From<Error> for MetricsApiError {
    fn from(error: Error) -> Self {
        match error {
            Error::SerdeError(error) => Self::Malformed(error),
            Error::Api(status) => match status.code {
                401 | 403 => Self::Forbidden(status.message.clone()),
                404 | 503 => Self::Unavailable(status.message.clone()),
                _ => Self::Request(Error::Api(status)),
            },
            other => Self::Request(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn check(code: u16, expected: &str) {
        let status = Status::failure("the reason", "Reason")
            .with_code(code)
            .boxed();
        let error = MetricsApiError::from(Error::Api(status)).to_string();
        assert!(error.starts_with(expected), "{code}: {error}");
    }

    #[test]
    fn answers_without_metrics_say_why() {
        check(503, "the metrics API is not available: the reason");
        check(404, "the metrics API is not available: the reason");
        check(403, "reading metrics is not allowed: the reason");
        check(500, "reading metrics failed: ");
    }
}
