//! Why a client gets no number. The autoscaler treats all reasons alike: it shows the text in a
//! condition and an event, and never scales down because of it.

use delegated_auth::Rejection;
use sources::rules::QueryError;

/// Why there is no number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nobody knows the metric, or its last value is too old. The text says which, and how old.
    #[error("{0}")]
    NotFound(String),
    /// The question makes no sense.
    #[error("{0}")]
    BadRequest(String),
    /// The caller may not ask this.
    #[error("{0}")]
    Forbidden(String),
    /// Nobody knows who the caller is.
    #[error("Unauthorized")]
    Unauthorized,
    /// Whoever knows the metric cannot be reached.
    #[error("{0}")]
    Unavailable(String),
    /// Whoever knows the metric does not answer in time.
    #[error("{0}")]
    Timeout(String),
    /// Too many questions at once.
    #[error("too many requests at once")]
    TooMany,
    /// Only reading is possible.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,
    /// A defect of the adapter.
    #[error("{0}")]
    Internal(String),
}

impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Unauthorized => Self::Unauthorized,
            Rejection::Forbidden(message) => Self::Forbidden(message),
            Rejection::TooManyRequests => Self::TooMany,
        }
    }
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Nothing => Self::NotFound(error.to_string()),
            QueryError::Wrong(why) => Self::BadRequest(why),
        }
    }
}
