//! `TokenReview` and `SubjectAccessReview` requests to the API server.

use std::time::{Duration, Instant};

use kube::Client;
use runtime::Backoff;
use runtime::client::Urgent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::metrics::RequestMetrics;

/// The timeout of a review with all its retries. The HPA controller has five workers, and a review
/// must not block one of them for longer.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Pauses between retries. Upstream begins with 500 ms, which leaves no time for a third attempt.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(100),
    cap: Duration::from_secs(1),
    tries: 5,
};

/// Posts a review and returns it with its status. An urgent review precedes others that wait for
/// the client's rate limit.
pub(crate) async fn post<R>(
    client: &Client,
    path: &str,
    review: &R,
    is_urgent: bool,
    metrics: &RequestMetrics,
) -> Result<R, String>
where
    R: Serialize + DeserializeOwned,
{
    let attempt = || async {
        let started = Instant::now();
        let body = serde_json::to_vec(review).map_err(kube::Error::SerdeError)?;
        let mut request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body)
            .map_err(kube::Error::HttpError)?;
        if is_urgent {
            request.extensions_mut().insert(Urgent);
        }
        let response = client.request::<R>(request).await;
        let code = match &response {
            Ok(_) => Some(201),
            Err(kube::Error::Api(status)) => Some(status.code),
            Err(_) => None,
        };
        metrics.observe(code, started.elapsed());
        response
    };
    let Ok(response) = tokio::time::timeout(TIMEOUT, BACKOFF.retry(attempt)).await else {
        metrics.observe(None, TIMEOUT);
        return Err(format!("no answer from the API server within {TIMEOUT:?}"));
    };
    response.map_err(|error| error.to_string())
}
