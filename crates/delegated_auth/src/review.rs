//! Asks the API server for a review: who has this token, may this user do that.

use std::time::{Duration, Instant};

use kube::Client;
use runtime::Backoff;
use runtime::client::Urgent;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::metrics::Asked;

/// For one question, all tries together. The autoscaler has five workers, and none of them should
/// wait longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// Between two tries. Upstream begins with half a second, which leaves no time for a third.
const BACKOFF: Backoff = Backoff {
    initial: Duration::from_millis(100),
    cap: Duration::from_secs(1),
    tries: 5,
};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// None that can be used.
    #[error("{0}")]
    Refused(#[from] kube::Error),
    /// None in time.
    #[error("no answer from the API server within {TIMEOUT:?}")]
    Timeout,
}

/// Posts a review and gives what the API server made of it. `is_urgent`: ahead of others who wait
/// for the client's rate.
pub(crate) async fn ask<R>(
    client: &Client,
    path: &str,
    review: &R,
    is_urgent: bool,
    asked: &Asked,
) -> Result<R, ReviewError>
where
    R: Serialize + DeserializeOwned,
{
    let once = || async {
        let started = Instant::now();
        let body = serde_json::to_vec(review).map_err(kube::Error::SerdeError)?;
        let request = http::Request::post(path)
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body);
        let mut request = request.map_err(kube::Error::HttpError)?;
        if is_urgent {
            request.extensions_mut().insert(Urgent);
        }
        let answer = client.request::<R>(request).await;
        asked.observe(
            answer.as_ref().map_or_else(code, |_| Some(201)),
            started.elapsed(),
        );
        answer
    };
    let Ok(answer) = tokio::time::timeout(TIMEOUT, BACKOFF.retry(once)).await else {
        asked.observe(None, TIMEOUT);
        return Err(ReviewError::Timeout);
    };
    Ok(answer?)
}

/// The code of a refusal, if it has one.
fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}
