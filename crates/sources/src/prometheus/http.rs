//! HTTP requests to `/api/v1/...`, limited in time and size. Long queries use POST.
//!
//! Source: <https://prometheus.io/docs/prometheus/latest/querying/api/>.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connection::Connection;
use super::error::PrometheusError;
use super::instant_response::{self, InstantSample, SeriesShape};
use super::range_response::{self, Labelled};
use super::time_range::{Window, seconds};
use crate::error_chain::with_causes;

/// Maximum size of a response about a namespace in bytes.
pub(super) const MAX_BYTES: usize = 64 << 20;
/// Maximum size of an instant query's response in bytes, which a caller waits for.
const MAX_INSTANT_BYTES: usize = 4 << 20;
/// Maximum length of a URL; servers and proxies reject URLs somewhat longer.
const MAX_ADDRESS_BYTES: usize = 4 << 10;
/// The store gets a shorter timeout than this side, so that it can report it.
const GRACE: Duration = Duration::from_secs(5);

/// One request to the store, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// HTTP status; `None` without a response.
    pub code: Option<u16>,
    pub duration: Duration,
}

/// Callback for every request.
pub type Observer = Arc<dyn Fn(Exchange) + Send + Sync>;

/// Client of a history store.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    query_timeout: Duration,
    always_post: bool,
    observer: Observer,
}

impl Prometheus {
    /// Prepares a client; sends nothing yet.
    pub async fn connect(
        connection: &Connection,
        observer: Observer,
    ) -> Result<Self, PrometheusError> {
        let client = connection.client().await?;
        Ok(Self {
            always_post: connection.always_post,
            ..Self::with_client(client, connection.query_timeout, observer)
        })
    }

    /// Sends requests below the base address of a client, such as that of an API server's proxy.
    pub fn with_client(client: Client, query_timeout: Duration, observer: Observer) -> Self {
        Self {
            client,
            query_timeout,
            always_post: false,
            observer,
        }
    }

    /// The series of a query with a value per step: at most `MAX_SERIES`, in at most `max_bytes`.
    pub(super) async fn query_range<const MAX_SERIES: usize>(
        &self,
        query: &str,
        window: Window,
        max_bytes: usize,
    ) -> Result<Vec<Labelled>, PrometheusError> {
        let (start, end) = (seconds(window.start), seconds(window.end));
        let step = seconds(window.step.milliseconds());
        let limit = format!("{}ms", self.query_timeout.as_millis());
        let parameters = [
            ("query", query),
            ("start", &start),
            ("end", &end),
            ("step", &step),
            ("timeout", &limit),
        ];
        let answer = self.ask("query_range", &parameters, self.patience(), max_bytes);
        parse(answer.await?, range_response::series::<MAX_SERIES>).await
    }

    /// Whether a selector matches any series in a time range. Cheap: uses only the index.
    pub(super) async fn has_series(
        &self,
        selector: &str,
        window: Window,
    ) -> Result<bool, PrometheusError> {
        let (start, end) = (seconds(window.start), seconds(window.end));
        let parameters = [
            ("match[]", selector),
            ("start", &start),
            ("end", &end),
            ("limit", "1"),
        ];
        let body = self.get("label/__name__/values", &parameters).await?;
        Ok(!parse(body, range_response::label_values).await?.is_empty())
    }

    /// The current values of a query, with timestamps of the store.
    pub async fn query(
        &self,
        query: &str,
        patience: Duration,
    ) -> Result<Vec<InstantSample>, PrometheusError> {
        let limit = format!("{}ms", patience.as_millis());
        let parameters = &[("query", query), ("timeout", &limit)];
        let answer = self.ask("query", parameters, patience, MAX_INSTANT_BYTES);
        parse(answer.await?, instant_response::samples).await
    }

    /// The names and labels of a selector's series since this time.
    pub async fn shapes(
        &self,
        selector: &str,
        since: Timestamp,
    ) -> Result<Vec<SeriesShape>, PrometheusError> {
        let start = seconds(since.as_millisecond());
        let body = self
            .get("series", &[("match[]", selector), ("start", &start)])
            .await?;
        parse(body, instant_response::shapes).await
    }

    async fn get(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Vec<u8>, PrometheusError> {
        self.ask(path, parameters, self.patience(), MAX_BYTES).await
    }

    fn patience(&self) -> Duration {
        self.query_timeout.saturating_add(GRACE)
    }

    async fn ask(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        patience: Duration,
        max_bytes: usize,
    ) -> Result<Vec<u8>, PrometheusError> {
        let started = Instant::now();
        let answer = timeout(patience, self.exchange(path, parameters, max_bytes)).await;
        let answer = answer.unwrap_or(Err(PrometheusError::Timeout(patience)));
        let code = match &answer {
            Ok(_) => Some(StatusCode::OK.as_u16()),
            Err(PrometheusError::Refused { code, .. } | PrometheusError::BadQuery { code, .. }) => {
                Some(*code)
            }
            Err(_) => None,
        };
        (self.observer)(Exchange {
            code,
            duration: started.elapsed(),
        });
        answer
    }

    async fn exchange(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        max_bytes: usize,
    ) -> Result<Vec<u8>, PrometheusError> {
        let parameters = form_urlencoded::Serializer::new(String::new())
            .extend_pairs(parameters)
            .finish();
        // Label values are only available through GET.
        let posts = !path.starts_with("label/")
            && (self.always_post || parameters.len() > MAX_ADDRESS_BYTES);
        let request = if posts {
            let request = Request::post(format!("/api/v1/{path}"));
            request
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Body::from(parameters.into_bytes()))
        } else {
            Request::get(format!("/api/v1/{path}?{parameters}")).body(Body::empty())
        };
        let request = request.map_err(|error| PrometheusError::SetUp(error.to_string().into()))?;
        let (status, body) = send(&self.client, request, max_bytes).await?;
        if status.is_success() {
            return Ok(body);
        }
        Err(range_response::refusal(status.as_u16(), &body))
    }
}

/// The status of a response and its body, of at most `max_bytes`.
pub(crate) async fn send(
    client: &Client,
    request: Request<Body>,
    max_bytes: usize,
) -> Result<(StatusCode, Vec<u8>), PrometheusError> {
    let unreachable =
        |error: &(dyn Error + 'static)| PrometheusError::Unreachable(with_causes(error).into());
    let response = client.send(request).await;
    let (head, body) = response.map_err(|error| unreachable(&error))?.into_parts();
    let body = Limited::new(body, max_bytes).collect().await;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            PrometheusError::TooLong(max_bytes)
        } else {
            unreachable(&*error)
        }
    })?;
    Ok((head.status, body.to_bytes().into()))
}

/// Parses long responses on a blocking thread, so that other tasks continue.
async fn parse<T: Send + 'static>(
    body: Vec<u8>,
    read: fn(&[u8]) -> Result<T, PrometheusError>,
) -> Result<T, PrometheusError> {
    let read = spawn_blocking(move || read(&body)).await;
    read.map_err(|error| PrometheusError::Malformed(error.to_string().into()))?
}
