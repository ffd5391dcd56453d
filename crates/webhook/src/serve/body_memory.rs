//! Request bodies, which are held in memory whole. Limits their number and their total size; the
//! limit of each is axum's `DefaultBodyLimit`.
//!
//! No layer of tower limits the memory of all requests together: the size of a body is known only
//! when it has arrived, so each part acquires its bytes.

use std::error::Error;
use std::iter::successors;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::RequestExt as _;
use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::LengthLimitError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Endpoint;
use super::pending_bodies::PendingBodies;

/// Maximum size of a body, as upstream. The API server's own limit of objects is lower.
pub(super) const MAX_BYTES: usize = 5 << 20;
/// Maximum size of all bodies together: those of several thousand typical reviews.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Maximum number of requests whose bodies have not arrived: one per connection. A connection may
/// have hundreds, and each costs some memory.
pub(super) const MAX_PENDING: usize = 8192;

/// The limits of bodies. Clones share them.
#[derive(Debug, Clone)]
pub(super) struct BodyLimits {
    total_bytes: Arc<Semaphore>,
    pending: PendingBodies,
}

/// The body of a review. It counts against the limits until it is dropped.
#[derive(Debug)]
pub(super) struct ReviewBody {
    /// The time at which the headers of the request had arrived.
    pub(super) received_at: Instant,
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The reason why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BodyRejection {
    /// The content type is not JSON.
    NotJson,
    /// The body is larger than [`MAX_BYTES`].
    TooLarge,
    /// A limit of all bodies is reached.
    Overloaded,
    /// The connection failed.
    Incomplete,
}

impl FromRequest<Arc<Endpoint>> for ReviewBody {
    type Rejection = BodyRejection;

    async fn from_request(
        request: Request,
        endpoint: &Arc<Endpoint>,
    ) -> Result<Self, BodyRejection> {
        let content_type = request.headers().get(header::CONTENT_TYPE);
        if content_type.is_none_or(|value| value != "application/json") {
            return Err(BodyRejection::NotJson);
        }
        endpoint.limits.read(request.into_limited_body()).await
    }
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self {
            total_bytes: Arc::new(Semaphore::new(MAX_TOTAL_BYTES)),
            pending: PendingBodies::new(MAX_PENDING),
        }
    }
}

impl BodyLimits {
    async fn read(&self, body: Body) -> Result<ReviewBody, BodyRejection> {
        let mut read = pin!(self.read_to_end(body));
        // Most bodies have arrived with their headers.
        if let Some(body) = read.as_mut().now_or_never() {
            return body;
        }
        self.pending
            .wait(read)
            .await
            .unwrap_or(Err(BodyRejection::Overloaded))
    }

    async fn read_to_end(&self, body: Body) -> Result<ReviewBody, BodyRejection> {
        let mut read = ReviewBody {
            received_at: Instant::now(),
            bytes: Vec::new(),
            permit: None,
        };
        let mut stream = body.into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| BodyRejection::of(&error))?;
            let count = u32::try_from(part.len()).map_err(|_| BodyRejection::TooLarge)?;
            let permit = Arc::clone(&self.total_bytes)
                .try_acquire_many_owned(count)
                .map_err(|_| BodyRejection::Overloaded)?;
            match &mut read.permit {
                Some(all) => all.merge(permit),
                None => read.permit = Some(permit),
            }
            read.bytes.extend_from_slice(&part);
        }
        Ok(read)
    }
}

impl Deref for ReviewBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyRejection {
    fn of(error: &axum::Error) -> Self {
        let is_too_large = successors(error.source(), |&error| error.source())
            .any(<dyn Error>::is::<LengthLimitError>);
        if is_too_large {
            Self::TooLarge
        } else {
            Self::Incomplete
        }
    }
}

impl IntoResponse for BodyRejection {
    fn into_response(self) -> Response {
        let (code, text) = match self {
            // Upstream's response, after which the API server applies its failure policy.
            Self::NotJson => return StatusCode::OK.into_response(),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request payload too large\n"),
            Self::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "too many requests\n"),
            Self::Incomplete => (StatusCode::BAD_REQUEST, "incomplete request\n"),
        };
        (code, text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_total_size_of_bodies_is_limited() {
        let limits = BodyLimits::default();
        let body = || Body::from(vec![b' '; MAX_BYTES]);
        let mut held = Vec::new();
        for _ in 0..MAX_TOTAL_BYTES / MAX_BYTES {
            held.push(limits.read(body()).await.expect("below the limit"));
        }
        assert_eq!(
            limits.read(body()).await.err(),
            Some(BodyRejection::Overloaded)
        );
        held.pop();
        assert!(limits.read(body()).await.is_ok());
    }
}
