//! HTTP requests to `/api/v1/...`, limited in time and size. Long queries use POST.
//!
//! Source: <https://prometheus.io/docs/prometheus/latest/querying/api/>.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use promql::{ConfineError, Matchers};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::connection::Connection;
use super::error::PrometheusError;
use super::instant_response::{self, InstantSample, SeriesShape};
use super::range_response::{self, Labelled};
use super::time_range::{Window, seconds};
use crate::error_chain::with_causes;

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
    pub code: Option<u16>,
    pub duration: Duration,
}

/// Callback for every request.
pub type Observer = Arc<dyn Fn(Exchange) + Send + Sync>;

/// Client of a history store.
#[derive(Clone)]
pub struct Prometheus {
    client: Client,
    /// Path of the API below the client's address.
    base: String,
    query_timeout: Duration,
    always_post: bool,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Matchers of every selector that is sent.
    pub(super) matchers: Matchers,
    observer: Observer,
}

impl Prometheus {
    /// Prepares a client; sends nothing yet.
    pub async fn connect(
        connection: &Connection,
        observer: Observer,
    ) -> Result<Self, PrometheusError> {
        let client = connection.client().await?;
        Ok(Self::with_client(client, "", connection, observer))
    }

    /// Sends requests with a client, below a path such as that of an API server's proxy, and with
    /// all but the address and the credentials of the connection.
    pub fn with_client(
        client: Client,
        path: &str,
        connection: &Connection,
        observer: Observer,
    ) -> Self {
        Self {
            client,
            base: path.to_owned(),
            query_timeout: connection.query_timeout,
            always_post: connection.always_post,
            headers: connection.headers.clone(),
            matchers: connection.matchers.clone(),
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
        let names = self.label_values("__name__", selector, window, Some("1"));
        Ok(!names.await?.is_empty())
    }

    /// The values of a label of a selector's series in a time range, by the index.
    pub(super) async fn label_values(
        &self,
        label: &str,
        selector: &str,
        window: Window,
        limit: Option<&str>,
    ) -> Result<Vec<String>, PrometheusError> {
        let (start, end) = (seconds(window.start), seconds(window.end));
        let mut parameters = vec![("match[]", selector), ("start", &start), ("end", &end)];
        parameters.extend(limit.map(|limit| ("limit", limit)));
        let path = format!("label/{label}/values");
        let body = self.get(&path, &parameters).await?;
        parse(body, range_response::label_values).await
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

    /// The parameters of a request, with the matchers in each that has selectors.
    fn form(&self, parameters: &[(&str, &str)]) -> Result<String, ConfineError> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        for (name, value) in parameters {
            match *name {
                "query" | "match[]" => form.append_pair(name, &self.matchers.add_to(value)?),
                _ => form.append_pair(name, value),
            };
        }
        Ok(form.finish())
    }

    async fn exchange(
        &self,
        path: &str,
        parameters: &[(&str, &str)],
        max_bytes: usize,
    ) -> Result<Vec<u8>, PrometheusError> {
        let parameters = self.form(parameters)?;
        // Label values are only available through GET.
        let posts = !path.starts_with("label/")
            && (self.always_post || parameters.len() > MAX_ADDRESS_BYTES);
        let path = format!("{}/api/v1/{path}", self.base);
        let request = if posts {
            Request::post(path)
                .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
                .body(Body::from(parameters.into_bytes()))
        } else {
            Request::get(format!("{path}?{parameters}")).body(Body::empty())
        };
        let set_up = |error: http::Error| PrometheusError::SetUp(error.to_string().into());
        let mut request = request.map_err(set_up)?;
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
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
