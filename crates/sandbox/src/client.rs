//! Clients of the API server of a sandbox.

#[cfg(test)]
mod tests;

use std::error::Error;
use std::future::{Ready, ready};
use std::iter::successors;
use std::mem::replace;
use std::time::Duration;

use anyhow::{Context as _, Result};
use http::{Request, Response};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::time::{sleep, timeout};
use tower::BoxError;
use tower::buffer::BufferLayer;
use tower::retry::{Policy, RetryLayer};

use crate::layout::Layout;

/// Pause between two requests to the API server.
const POLL: Duration = Duration::from_millis(50);
/// Limit for one answer of the API server while it starts.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Requests that wait for their turn, as many as in kube's own client.
const REQUESTS: usize = 1024;

/// A client with the administrator's rights.
pub(crate) async fn client(layout: &Layout) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(layout.kubeconfig()).context("read the kubeconfig")?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .context("use the kubeconfig")?;
    with_config(config)
}

fn with_config(config: Config) -> Result<Client> {
    let builder = ClientBuilder::try_from(config).context("make a client")?;
    let retries = RetryLayer::new(ClosedConnection::default());
    // Retries need a service of which there can be several.
    let shared = BufferLayer::new(REQUESTS);
    Ok(builder.with_layer(&shared).with_layer(&retries).build())
}

/// A client with the administrator's rights, once the API server is ready.
pub(crate) async fn ready_client(layout: &Layout) -> Result<Client> {
    let client = client(layout).await?;
    loop {
        let request = http::Request::get("/readyz")
            .body(Vec::new())
            .context("build a request")?;
        // A server that is about to end, or begins, may take a request and never answer it.
        if let Ok(Ok(_)) = timeout(ANSWER_TIMEOUT, client.request_text(request)).await {
            return Ok(client);
        }
        sleep(POLL).await;
    }
}

/// Sends a request a second time that met the end of its connection: client and API server end one
/// that was idle for 90 s, both.
#[derive(Clone, Copy, Default)]
struct ClosedConnection {
    is_second: bool,
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for ClosedConnection {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Self::Future> {
        let error: &(dyn Error + 'static) = result.as_ref().err()?.as_ref();
        let is_closed = successors(Some(error), |error| (*error).source())
            .filter_map(|error| error.downcast_ref::<hyper::Error>())
            .any(hyper::Error::is_incomplete_message);
        (is_closed && !replace(&mut self.is_second, true)).then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let policy = &mut RetryPolicy::default();
        Policy::<_, Response<B>, BoxError>::clone_request(policy, request)
    }
}
