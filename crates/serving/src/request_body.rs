//! Request bodies, held in memory whole. Limits their number, the size of each and the total.
//!
//! No layer of tower limits the memory of all requests together: the size of a body is known only
//! when it has arrived, so each part acquires its bytes.

mod pending;

use std::error::Error;
use std::iter::successors;
use std::ops::Deref;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::{LengthLimitError, Limited};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use pending::{Entry, PendingBodies};

/// The limits of bodies. Clones share them.
#[derive(Debug, Clone)]
pub struct BodyLimits {
    max_bytes: usize,
    total_bytes: Arc<Semaphore>,
    pending: PendingBodies,
}

/// A body. It counts against the limits until it is dropped.
#[derive(Debug)]
pub struct RequestBody {
    /// The time at which the headers of the request had arrived.
    pub received_at: Instant,
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

/// The reason why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyRejection {
    /// The body is larger than the limit of each.
    TooLarge,
    /// A limit of all bodies is reached.
    Overloaded,
    Incomplete,
}

impl BodyLimits {
    /// At most `max_bytes` of each body, `max_total_bytes` of all together, and `max_pending` requests
    /// whose bodies have not arrived.
    pub fn new(max_bytes: usize, max_total_bytes: usize, max_pending: usize) -> Self {
        Self {
            max_bytes,
            total_bytes: Arc::new(Semaphore::new(max_total_bytes)),
            pending: PendingBodies::new(max_pending),
        }
    }

    pub async fn read(&self, body: Body) -> Result<RequestBody, BodyRejection> {
        let entry = self.pending.insert();
        let mut read = pin!(self.read_to_end(body, &entry));
        // Most bodies have arrived with their headers.
        if let Some(body) = read.as_mut().now_or_never() {
            return body;
        }
        self.pending
            .wait(&entry, read)
            .await
            .unwrap_or(Err(BodyRejection::Overloaded))
    }

    async fn read_to_end(
        &self,
        body: Body,
        entry: &Entry<'_>,
    ) -> Result<RequestBody, BodyRejection> {
        let mut read = RequestBody {
            received_at: Instant::now(),
            bytes: Vec::new(),
            permit: None,
        };
        let mut stream = Body::new(Limited::new(body, self.max_bytes)).into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| BodyRejection::of(&error))?;
            let permit = self.acquire(part.len(), entry).await?;
            entry.add(part.len());
            match &mut read.permit {
                Some(all) => all.merge(permit),
                None => read.permit = Some(permit),
            }
            read.bytes.extend_from_slice(&part);
        }
        Ok(read)
    }

    /// Acquires bytes, if need be from requests whose bodies have not arrived and that hold more.
    async fn acquire(
        &self,
        bytes: usize,
        entry: &Entry<'_>,
    ) -> Result<OwnedSemaphorePermit, BodyRejection> {
        let count = u32::try_from(bytes).map_err(|_| BodyRejection::TooLarge)?;
        let total = Arc::clone(&self.total_bytes);
        if let Ok(permit) = Arc::clone(&total).try_acquire_many_owned(count) {
            return Ok(permit);
        }
        if !entry.make_room(bytes) {
            return Err(BodyRejection::Overloaded);
        }
        let acquired = total.acquire_many_owned(count).await;
        acquired.map_err(|_| BodyRejection::Overloaded)
    }
}

impl Deref for RequestBody {
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

    pub fn response(self) -> (StatusCode, &'static str) {
        match self {
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "request payload too large\n"),
            Self::Overloaded => (StatusCode::SERVICE_UNAVAILABLE, "too many requests\n"),
            Self::Incomplete => (StatusCode::BAD_REQUEST, "incomplete request\n"),
        }
    }
}

impl IntoResponse for BodyRejection {
    fn into_response(self) -> Response {
        self.response().into_response()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Bytes;
    use futures::stream;

    use super::*;

    const MAX_BYTES: usize = 1000;

    fn limits() -> BodyLimits {
        BodyLimits::new(MAX_BYTES, 4 * MAX_BYTES, 100)
    }

    fn whole(bytes: usize) -> Body {
        Body::from(vec![b' '; bytes])
    }

    /// A body that never ends.
    fn unfinished(bytes: usize) -> Body {
        let part = Ok::<_, Infallible>(Bytes::from(vec![b' '; bytes]));
        Body::from_stream(stream::iter([part]).chain(stream::pending()))
    }

    #[tokio::test]
    async fn the_size_of_a_body_is_limited() {
        for (bytes, expected) in [
            (MAX_BYTES, None),
            (MAX_BYTES + 1, Some(BodyRejection::TooLarge)),
        ] {
            assert_eq!(limits().read(whole(bytes)).await.err(), expected, "{bytes}");
        }
    }

    #[tokio::test]
    async fn the_total_size_of_bodies_is_limited() {
        let limits = limits();
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(
                limits
                    .read(whole(MAX_BYTES))
                    .await
                    .expect("below the limit"),
            );
        }
        let refused = limits.read(whole(MAX_BYTES)).await;
        assert_eq!(refused.err(), Some(BodyRejection::Overloaded));
        held.pop();
        assert!(limits.read(whole(MAX_BYTES)).await.is_ok());
    }

    #[tokio::test]
    async fn unfinished_bodies_give_their_memory_to_others() {
        let limits = limits();
        let mut open: Vec<_> = [900, 901, 900, 900]
            .map(|bytes| Box::pin(limits.read(unfinished(bytes))))
            .into();
        for read in &mut open {
            assert!(read.as_mut().now_or_never().is_none());
        }
        // 399 bytes are free.
        let largest = open.remove(1);
        let (whole, dropped) = tokio::join!(limits.read(whole(400)), largest);
        assert!(whole.is_ok());
        assert_eq!(dropped.err(), Some(BodyRejection::Overloaded));
        for read in &mut open {
            assert!(read.as_mut().now_or_never().is_none(), "it still waits");
        }
    }
}
