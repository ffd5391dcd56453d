//! Errors of requests, which become `Status` responses. The HPA controller treats them alike: it
//! shows the message in a condition and an event, and never scales down because of one.

use delegated_auth::Rejection;
use sources::rules::QueryError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StatusError {
    /// The metric does not exist, or its last value is too old.
    #[error("{0}")]
    NotFound(String),
    #[error("{0}")]
    BadRequest(String),
    #[error("{0}")]
    Forbidden(String),
    #[error("Unauthorized")]
    Unauthorized,
    /// The provider of the metric cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// The provider of the metric does not answer in time.
    #[error("{0}")]
    Timeout(String),
    #[error("too many requests at once")]
    TooManyRequests,
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// A defect of the adapter.
    #[error("{0}")]
    InternalError(String),
}

impl From<Rejection> for StatusError {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Unauthorized => Self::Unauthorized,
            Rejection::Forbidden(message) => Self::Forbidden(message),
            Rejection::TooManyRequests => Self::TooManyRequests,
        }
    }
}

impl From<QueryError> for StatusError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Nothing => Self::NotFound(error.to_string()),
            QueryError::Wrong(why) => Self::BadRequest(why),
        }
    }
}
