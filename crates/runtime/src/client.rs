//! The client for the API server: its configuration, rate limit, timeouts and metrics.
//!
//! It does not retry, because that depends on the request: an eviction that a disruption budget
//! refuses should not be retried. Callers use [`crate::retry`]. Metric names and buckets are
//! client-go's.

#[cfg(test)]
mod tests;

use parking_lot::Mutex;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use axum::body::{Body, Bytes, HttpBody};
use futures::{Stream, StreamExt as _, TryFutureExt as _};
use http::header::{UPGRADE, USER_AGENT};
use http::{HeaderValue, Request, Response};
use kube::Config;
use kube::client::{Body as KubeBody, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use prometheus::{Gauge, HistogramVec, IntCounterVec, Registry};
use rustls::crypto::aws_lc_rs;
use tower::layer::layer_fn;
use tower::{BoxError, Service};

use crate::api_server_clock::ApiServerClock;
use crate::args::CommonArgs;
use crate::pflag::Program;
use crate::rate_limiter::Throttle;

/// Time limit from sending a request to the last byte of its response; to the first byte for a
/// watch. The API server's own limit is 60 s.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of one response other than a watch. The largest is that of metrics-server, about
/// 600 bytes per pod of the cluster; larger lists are paged.
const MAX_RESPONSE_BYTES: usize = 128 << 20;

/// component-base's buckets for REST client latencies, in seconds.
const BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

/// The client configuration of `--kubeconfig`, else `KUBECONFIG`, else the pod's service account.
///
/// `~/.kube/config` is not read: a service started by hand must not change the cluster last used.
pub async fn config(args: &CommonArgs, program: &Program) -> anyhow::Result<Config> {
    let from_environment = std::env::var_os("KUBECONFIG").is_some_and(|paths| !paths.is_empty());
    let options = KubeConfigOptions::default();
    let unusable =
        |from: &str, error: KubeconfigError| anyhow!("cannot use the kubeconfig {from}: {error}");
    let mut config = if !args.kubeconfig.is_empty() {
        let loaded = match Kubeconfig::read_from(Path::new(&args.kubeconfig)) {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
            Err(error) => Err(error),
        };
        loaded.map_err(|error| unusable(&format!("--kubeconfig={}", args.kubeconfig), error))?
    } else if from_environment {
        let loaded = Config::from_kubeconfig(&options).await;
        loaded.map_err(|error| unusable("KUBECONFIG", error))?
    } else {
        Config::incluster().map_err(|error| {
            anyhow!("no API server: --kubeconfig and KUBECONFIG are not set, and this is not a pod with a service account: {error}")
        })?
    };
    let agent = user_agent(program);
    let agent =
        HeaderValue::from_str(&agent).map_err(|_| anyhow!("invalid user agent {agent:?}"))?;
    config.headers.push((USER_AGENT, agent));
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.default_retry = false;
    Ok(config)
}

/// Installs aws-lc-rs as the cryptography provider of the process. Later calls have no effect.
pub fn install_crypto_provider() {
    // An error means that another thread installed the same provider first.
    drop(aws_lc_rs::default_provider().install_default());
}

pub fn user_agent(program: &Program) -> String {
    format!("plimsoll-{}/{}", program.name, program.version)
}

/// Builds a client whose requests share one throttle.
pub fn connect(
    config: Config,
    throttle: Throttle,
    metrics: RestMetrics,
) -> anyhow::Result<kube::Client> {
    let host = config
        .cluster_url
        .authority()
        .map_or_else(String::new, ToString::to_string);
    let clock = metrics.clock.layer();
    let shared = RequestState {
        throttle: Arc::new(Mutex::new(throttle)),
        metrics,
        host: host.into(),
        timeout: REQUEST_TIMEOUT,
    };
    let builder = ClientBuilder::try_from(config)
        .map_err(|error| anyhow!("cannot set up the API client: {error}"))?;
    let layer = layer_fn(|inner| RequestService {
        inner,
        shared: shared.clone(),
    });
    Ok(builder.with_layer(&clock).with_layer(&layer).build())
}

/// Request extension: may use the reserved part of `--kube-api-burst`, and so overtakes others.
#[derive(Debug, Clone, Copy)]
pub struct Urgent;

/// client-go's request metrics, and the API server's clock.
#[derive(Debug, Clone)]
pub struct RestMetrics {
    rows: RestMetricRows,
    pub(crate) clock: ApiServerClock,
}

crate::metrics! {
    struct RestMetricRows {
        requests: IntCounterVec { code, method, host } = "rest_client_requests_total",
            "Requests to the API server by code, method and host.";
        durations: HistogramVec { verb, host } [BUCKETS] = "rest_client_request_duration_seconds",
            "Latency of requests to the API server.";
        waits: HistogramVec { verb, host } [BUCKETS] = "rest_client_rate_limiter_duration_seconds",
            "Time that requests waited for the client-side rate limit (--kube-api-qps, --kube-api-burst).";
        clock_offset: Gauge = "plimsoll_clock_offset_seconds",
            "Local time minus the API server's time, at its last response.";
    }
}

impl RestMetrics {
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let rows = RestMetricRows::register(registry)?;
        let clock = ApiServerClock::with_metric(rows.clock_offset.clone());
        Ok(Self { rows, clock })
    }
}

#[derive(Clone)]
struct RequestState {
    throttle: Arc<Mutex<Throttle>>,
    metrics: RestMetrics,
    host: Arc<str>,
    timeout: Duration,
}

struct RequestService<S> {
    inner: S,
    shared: RequestState,
}

impl<S, B> Service<Request<KubeBody>> for RequestService<S>
where
    S: Service<Request<KubeBody>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    /// Waits in the response future, not in `poll_ready`: the client has one queue, and a watch
    /// must not wait behind a thousand writes.
    fn call(&mut self, request: Request<KubeBody>) -> Self::Future {
        let kind = ResponseKind::of(&request);
        let is_urgent = request.extensions().get::<Urgent>().is_some();
        let wait = match kind {
            ResponseKind::Streaming => Some(Duration::ZERO),
            ResponseKind::Paged | ResponseKind::Complete => {
                let mut throttle = self.shared.throttle.lock();
                throttle.acquire(is_urgent, Instant::now())
            }
        };
        let Some(wait) = wait else {
            return Box::pin(std::future::ready(Err(QueueFull.into())));
        };
        let acquired = tokio::time::sleep(wait);
        let method = request.method().to_string();
        let shared = self.shared.clone();
        // The request is sent when this future is polled.
        let answer = self.inner.call(request);
        let answer = answer.map_ok(|response| response.map(Body::new));
        Box::pin(async move {
            let labels: &[&str] = &[&method, &shared.host];
            let metrics = &shared.metrics.rows;
            let waits = metrics.waits.with_label_values(labels);
            waits.observe(wait.as_secs_f64());
            acquired.await;
            let started = Instant::now();
            let response = match kind {
                ResponseKind::Streaming => streaming_response(answer, shared.timeout).await,
                ResponseKind::Paged => paged_response(answer, shared.timeout).await,
                ResponseKind::Complete => complete_response(answer, shared.timeout).await,
            };
            let durations = metrics.durations.with_label_values(labels);
            durations.observe(started.elapsed().as_secs_f64());
            let code = response.as_ref().map_or("<error>".to_owned(), |response| {
                response.status().as_u16().to_string()
            });
            let labels: &[&str] = &[&code, &method, &shared.host];
            metrics.requests.with_label_values(labels).inc();
            response
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseKind {
    /// Watches, followed logs and upgraded connections: few, long, and reopened when they end.
    Streaming,
    /// Pages of lists, passed on while they arrive: a reader of objects never holds a page.
    Paged,
    /// All others, passed on when complete.
    Complete,
}

impl ResponseKind {
    fn of(request: &Request<KubeBody>) -> Self {
        let query = request.uri().query().unwrap_or_default();
        let asks = |name| matches!(name, "watch=true" | "watch=1" | "follow=true" | "follow=1");
        if request.headers().contains_key(UPGRADE) || query.split('&').any(asks) {
            Self::Streaming
        } else if query
            .split('&')
            .any(|parameter| parameter.starts_with("limit="))
        {
            Self::Paged
        } else {
            Self::Complete
        }
    }
}

async fn streaming_response(
    answer: impl Future<Output = Result<Response<Body>, BoxError>>,
    timeout: Duration,
) -> Result<Response<Body>, BoxError> {
    let response = tokio::time::timeout(timeout, answer).await;
    response.map_err(|_| RequestTimeout(timeout))?
}

/// Limits the time and the size of the body.
async fn paged_response(
    answer: impl Future<Output = Result<Response<Body>, BoxError>>,
    timeout: Duration,
) -> Result<Response<Body>, BoxError> {
    let deadline = tokio::time::Instant::now() + timeout;
    let response = tokio::time::timeout_at(deadline, answer)
        .await
        .map_err(|_| RequestTimeout(timeout))??;
    Ok(response.map(|body| {
        let chunks = bounded(body);
        let timed = futures::stream::try_unfold(Box::pin(chunks), move |mut chunks| async move {
            let next = tokio::time::timeout_at(deadline, chunks.next()).await;
            let chunk = next
                .map_err(|_| BoxError::from(RequestTimeout(timeout)))?
                .transpose()?;
            Ok::<_, BoxError>(chunk.map(|chunk| (chunk, chunks)))
        });
        Body::from_stream(timed)
    }))
}

/// The chunks of a body. Fails beyond `MAX_RESPONSE_BYTES`.
fn bounded(body: Body) -> impl Stream<Item = Result<Bytes, BoxError>> + Send {
    let mut length = 0_usize;
    body.into_data_stream().map(move |chunk| {
        let chunk = chunk?;
        length = length.saturating_add(chunk.len());
        if length > MAX_RESPONSE_BYTES {
            Err(TooLong.into())
        } else {
            Ok(chunk)
        }
    })
}

async fn complete_response(
    answer: impl Future<Output = Result<Response<Body>, BoxError>>,
    timeout: Duration,
) -> Result<Response<Body>, BoxError> {
    let (parts, body) = paged_response(answer, timeout).await?.into_parts();
    let bytes = axum::body::to_bytes(body, MAX_RESPONSE_BYTES).await?;
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

#[derive(Debug, thiserror::Error)]
#[error("no answer from the API server within {0:?}")]
pub(crate) struct RequestTimeout(pub(crate) Duration);

/// A response exceeds the client's size limit.
#[derive(Debug, thiserror::Error)]
#[error("an answer of the API server is longer than {} MiB", MAX_RESPONSE_BYTES >> 20)]
pub struct TooLong;

pub fn is_too_long(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .any(<dyn std::error::Error>::is::<TooLong>)
}

#[derive(Debug, thiserror::Error)]
#[error("too many requests wait for the API server")]
struct QueueFull;
