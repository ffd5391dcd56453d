//! A term of leadership.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;

use http::Request;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio_util::sync::CancellationToken;

use crate::lease;

/// A term of leadership. Clones share it.
#[derive(Debug, Clone)]
pub struct Leading {
    lost: CancellationToken,
    term: u64,
    /// The renew deadline; `None` without leader election.
    until: Arc<Mutex<Option<Instant>>>,
}

impl Leading {
    pub(crate) fn new(term: u64, until: Option<Instant>) -> Self {
        Self {
            lost: CancellationToken::new(),
            term,
            until: Arc::new(Mutex::new(until)),
        }
    }

    /// A term without an end that starts at `now`, for `--leader-elect=false`.
    pub fn alone(now: Timestamp) -> Self {
        Self::new(lease::term(now, 0), None)
    }

    /// The number of the term. It increases with each term, across candidates.
    pub fn term(&self) -> u64 {
        self.term
    }

    /// Cancelled when the term ends, before another candidate can start its own.
    pub fn lost(&self) -> &CancellationToken {
        &self.lost
    }

    /// Whether the term lasts at `now`. [`Leading::guard`] checks it before each write: a process
    /// that was suspended runs its next line before any timer.
    pub fn holds(&self, now: Instant) -> bool {
        let until = *self.until.lock();
        !self.lost.is_cancelled() && until.is_none_or(|until| now < until)
    }

    /// A client whose requests fail with [`NotLeading`] after the term, except reads.
    pub fn guard(&self, client: &Client) -> Client {
        let (leading, inner) = (self.clone(), client.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (leads, inner) = (leading.holds(Instant::now()), inner.clone());
            async move {
                if leads || request.method().is_safe() {
                    inner.send(request).await
                } else {
                    Err(kube::Error::Service(NotLeading.into()))
                }
            }
        });
        Client::new(service, client.default_namespace())
    }

    pub(crate) fn end(&self) {
        self.lost.cancel();
    }

    pub(crate) fn extend(&self, until: Instant) {
        *self.until.lock() = Some(until);
    }
}

/// The error of a write after the term.
#[derive(Debug, thiserror::Error)]
#[error("this replica is no longer the leader")]
pub struct NotLeading;

impl NotLeading {
    /// Whether this is the cause of an error, so that nothing was sent.
    pub fn is(error: &kube::Error) -> bool {
        matches!(error, kube::Error::Service(cause) if cause.is::<Self>())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http::{Method, Response};

    use super::*;

    #[test]
    fn a_term_ends_at_its_deadline_before_it_is_cancelled() {
        let start = Instant::now();
        let leading = Leading::new(1, Some(start + Duration::from_secs(10)));
        let after = |seconds| leading.holds(start + Duration::from_secs(seconds));
        assert!(after(9) && !after(10));
        leading.extend(start + Duration::from_secs(12));
        assert!(after(11));
        leading.end();
        assert!(!after(11));
    }

    #[tokio::test]
    async fn after_the_term_a_guarded_client_only_reads() {
        let leading = Leading::alone(Timestamp::UNIX_EPOCH);
        let service = tower::service_fn(async |_: Request<Body>| {
            Ok::<_, Infallible>(Response::new(Body::empty()))
        });
        let client = leading.guard(&Client::new(service, "shop"));
        for (ends, method, is_sent) in [
            (false, Method::POST, true),
            (true, Method::GET, true),
            (true, Method::POST, false),
            (true, Method::PATCH, false),
            (true, Method::DELETE, false),
        ] {
            if ends {
                leading.end();
            }
            let request = Request::builder().method(&method).body(Body::empty());
            let sent = client.send(request.unwrap()).await;
            let is_refused = sent.is_err_and(|error| NotLeading::is(&error));
            assert_eq!(is_refused, !is_sent, "{method}");
        }
    }
}
