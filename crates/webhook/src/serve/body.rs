//! Reads the bodies of requests, which are held in memory whole: no more than a limit each, no more
//! than a limit together, and no more than so many at a time.

use std::pin::pin;
use std::sync::Arc;

use axum::body::{Body, BodyDataStream};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{FutureExt as _, StreamExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::waiting::Waiting;

/// The largest review that is read, as upstream's. The API server's own limit on objects is below
/// it.
pub(super) const LARGEST: usize = 5 << 20;
/// All bodies that are held at the same time: those of several thousand usual reviews.
const TOGETHER: usize = 64 << 20;
/// Requests whose bodies are still to come: one for each connection. A connection may have
/// hundreds, and each costs some memory.
pub(super) const AWAITED: usize = 8192;

/// The bodies that are held or awaited. Clones share the limits.
#[derive(Debug, Clone)]
pub(super) struct Bodies {
    held: Arc<Semaphore>,
    awaited: Waiting,
}

/// A body, which counts until it is dropped.
#[derive(Debug)]
pub(super) struct Held {
    bytes: Vec<u8>,
    counted: Option<OwnedSemaphorePermit>,
}

/// Why a body was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    TooLarge,
    TooMany,
    Broken,
}

impl Default for Bodies {
    fn default() -> Self {
        Self {
            held: Arc::new(Semaphore::new(TOGETHER)),
            awaited: Waiting::new(AWAITED),
        }
    }
}

impl Bodies {
    /// Reads a body to its end.
    pub(super) async fn read(&self, body: Body) -> Result<Held, Refused> {
        let mut reading = pin!(self.read_whole(body));
        // Most have come with their heads.
        if let Some(read) = reading.as_mut().now_or_never() {
            return read;
        }
        self.awaited
            .wait(reading)
            .await
            .unwrap_or(Err(Refused::TooMany))
    }

    async fn read_whole(&self, body: Body) -> Result<Held, Refused> {
        let mut held = Held {
            bytes: Vec::new(),
            counted: None,
        };
        let mut stream: BodyDataStream = body.into_data_stream();
        while let Some(part) = stream.next().await {
            let part = part.map_err(|_| Refused::Broken)?;
            if held.bytes.len().saturating_add(part.len()) > LARGEST {
                return Err(Refused::TooLarge);
            }
            let more = u32::try_from(part.len()).map_err(|_| Refused::TooLarge)?;
            let more = Arc::clone(&self.held)
                .try_acquire_many_owned(more)
                .map_err(|_| Refused::TooMany)?;
            match &mut held.counted {
                Some(counted) => counted.merge(more),
                None => held.counted = Some(more),
            }
            held.bytes.extend_from_slice(&part);
        }
        Ok(held)
    }
}

impl std::ops::Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge => {
                (StatusCode::PAYLOAD_TOO_LARGE, "request payload too large\n").into_response()
            }
            Self::TooMany => {
                (StatusCode::SERVICE_UNAVAILABLE, "too many requests\n").into_response()
            }
            Self::Broken => (
                StatusCode::BAD_REQUEST,
                "the request did not arrive whole\n",
            )
                .into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bodies_are_bounded_each_and_together() {
        let bodies = Bodies::default();
        let whole = vec![b' '; LARGEST];
        assert_eq!(
            bodies.read(Body::from(vec![b' '; LARGEST + 1])).await.err(),
            Some(Refused::TooLarge)
        );
        let mut held = Vec::new();
        for _ in 0..TOGETHER / LARGEST {
            held.push(
                bodies
                    .read(Body::from(whole.clone()))
                    .await
                    .expect("there is room"),
            );
        }
        assert_eq!(
            bodies.read(Body::from(whole.clone())).await.err(),
            Some(Refused::TooMany)
        );
        held.pop();
        assert!(bodies.read(Body::from(whole)).await.is_ok());
    }
}
