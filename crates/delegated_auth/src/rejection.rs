//! The reasons to reject a caller.

/// The reason to reject a caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// The caller is not authenticated.
    #[error("Unauthorized")]
    Unauthorized,
    /// The caller is not authorized. The text is the API server's.
    #[error("{0}")]
    Forbidden(String),
    /// Too many reviews are in flight.
    #[error("too many requests at once")]
    TooManyRequests,
}

/// The scope of the access review that authorized a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthorizedScope {
    /// All resources of the API group in the whole cluster.
    Cluster,
    Request,
}
