//! Reads from Prometheus. The connection and the detected series of usage are shared by all reads.

use std::sync::Arc;
use std::time::Duration;

use horizontal::predictions::{Query, ReadFailure, ReadRange, ReadRequest, Samples, truncate};
use jiff::Timestamp;
use sources::error_chain::with_causes;
use sources::prometheus::{
    HistorySettings, Layout, Observer, Prometheus, PrometheusError, Step, Window,
};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::predictions::metrics::ForecastMetrics;

/// Lifetime of a connection. A new one reads rotated tokens and certificates.
const CONNECTION_LASTS: Duration = Duration::from_mins(10);
/// Lifetime of the detected series of usage.
const LAYOUT_LASTS: Duration = Duration::from_mins(10);
/// Lifetime if the store has no usage.
const NO_LAYOUT_LASTS: Duration = Duration::from_secs(30);
/// Lifetime of a failed connection or detection: waiting reads fail together.
const FAILURE_LASTS: Duration = Duration::from_secs(5);
/// Maximum duration of one query, and of the detection.
const LONGEST_QUERY: Duration = Duration::from_mins(1);
const DAY: i64 = 86_400;
/// Maximum length of a query in the log, in characters.
const LOGGED_QUERY: usize = 300;

const NO_LAYOUT: Layout = Layout {
    cpu: None,
    memory: None,
    pod_labels: None,
};

fn failure(error: &PrometheusError) -> ReadFailure {
    ReadFailure {
        why: error.to_string(),
        excess: error.excess(),
        details: with_causes(error),
    }
}

/// Value that is computed anew at the end of its lifetime. Clones share it; readers wait for the
/// one that computes it.
#[derive(Clone)]
struct Cached<T>(Arc<Mutex<Option<(T, Instant)>>>);

impl<T: Clone> Cached<T> {
    async fn get(&self, compute: impl Future<Output = (T, Duration)>) -> T {
        let mut cached = self.0.lock().await;
        if let Some((value, end)) = &*cached
            && Instant::now() < *end
        {
            return value.clone();
        }
        let (value, lasts) = compute.await;
        *cached = Some((value.clone(), Instant::now() + lasts));
        value
    }
}

/// Prometheus as a source of histories. Clones share the connection.
#[derive(Clone)]
pub(super) struct PrometheusSource {
    settings: Arc<HistorySettings>,
    observer: Observer,
    metrics: ForecastMetrics,
    connection: Cached<Result<Prometheus, ReadFailure>>,
    layout: Cached<Detected>,
}

/// The series of usage, or why there are none, and whether the store must not be read at all.
type Detected = Result<Layout, (ReadFailure, bool)>;

impl PrometheusSource {
    pub(super) fn new(
        settings: HistorySettings,
        observer: Observer,
        metrics: ForecastMetrics,
    ) -> Self {
        Self {
            settings: Arc::new(settings),
            observer,
            metrics,
            connection: Cached(Arc::default()),
            layout: Cached(Arc::default()),
        }
    }

    pub(super) async fn ask(self, request: ReadRequest) -> Result<Samples, ReadFailure> {
        let answer = self.read(&request).await;
        self.metrics.read(answer.is_ok());
        answer
    }

    async fn read(&self, request: &ReadRequest) -> Result<Samples, ReadFailure> {
        let ReadRequest { query, range, .. } = request;
        let connection = self.connection.get(self.connect()).await?;
        let detected = self.layout.get(self.detect(&connection)).await;
        let layout = match (detected, query) {
            (Err((failure, true)), _) | (Err((failure, _)), Query::Workload { .. }) => {
                return Err(failure);
            }
            (Ok(layout), Query::Workload { .. }) => layout,
            (_, Query::Expression(_)) => NO_LAYOUT,
        };
        let text = query.text(&layout).map_err(ReadFailure::refused)?;
        let window = window(*range)
            .ok_or_else(|| ReadFailure::refused("the range to query is empty".to_owned()))?;
        let read = connection.read_expression(&text, window).await;
        if matches!(read, Err(PrometheusError::Unreachable(_))) {
            *self.connection.0.lock().await = None;
        }
        let mut found = Samples::new();
        let read = read.map_err(|error| {
            let query_text = truncate(&text, LOGGED_QUERY);
            let details = format!("{}; query: {query_text}", with_causes(&error));
            let namespace = &request.namespace;
            tracing::debug!(
                details,
                namespace,
                "cannot read the history of a predicted metric"
            );
            let why = match query {
                Query::Expression(_) => error.to_string(),
                Query::Workload { .. } => error.text_for_others(),
            };
            ReadFailure {
                why,
                details,
                ..failure(&error)
            }
        })?;
        for one in read {
            let points = one.series.points().iter();
            let samples = points.map(|(at, value)| (at.as_second(), *value));
            found.entry(one.labels).or_default().extend(samples);
        }
        Ok(found)
    }

    async fn connect(&self) -> (Result<Prometheus, ReadFailure>, Duration) {
        let mut connection = self.settings.connection.clone();
        connection.query_timeout = connection.query_timeout.min(LONGEST_QUERY);
        match Prometheus::connect(&connection, Arc::clone(&self.observer)).await {
            Ok(connection) => (Ok(connection), CONNECTION_LASTS),
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "cannot connect to Prometheus");
                (Err(failure(&error)), FAILURE_LASTS)
            }
        }
    }

    /// The series of usage, and their lifetime.
    async fn detect(&self, connection: &Prometheus) -> (Detected, Duration) {
        let HistorySettings {
            usage, pod_labels, ..
        } = &*self.settings;
        let (last, step) = (Timestamp::now().as_second(), 60);
        let first = last - DAY;
        let Some(window) = window(ReadRange { first, last, step }) else {
            return (Ok(NO_LAYOUT), NO_LAYOUT_LASTS);
        };
        let found = timeout(LONGEST_QUERY, connection.detect(usage, pod_labels, window)).await;
        match found.unwrap_or(Err(PrometheusError::Timeout(LONGEST_QUERY))) {
            Ok(layout) => (Ok(layout), LAYOUT_LASTS),
            // Other metrics may exist.
            Err(PrometheusError::NoSeries { .. }) => (Ok(NO_LAYOUT), NO_LAYOUT_LASTS),
            // A smaller chunk would not help.
            Err(error) => {
                let causes = with_causes(&error);
                tracing::warn!(
                    error = causes,
                    "cannot detect the series of usage in Prometheus"
                );
                let failure = ReadFailure::refused(error.text_for_others());
                let is_refused = matches!(error, PrometheusError::SeveralClusters(_));
                let lasts = if is_refused {
                    NO_LAYOUT_LASTS
                } else {
                    FAILURE_LASTS
                };
                (Err((failure, is_refused)), lasts)
            }
        }
    }
}

fn window(range: ReadRange) -> Option<Window> {
    let at = |second| Timestamp::from_second(second).ok();
    let step: Step = format!("{}s", range.step).parse().ok()?;
    Window::new(at(range.first)?, at(range.last)?, step)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex as SyncMutex;
    use std::net::Ipv4Addr;

    use axum::Router;
    use axum::http::{StatusCode, Uri};
    use prometheus::Registry;
    use serde_json::json;
    use sources::prometheus::{Connection, PodLabelSettings, UsageSettings};
    use tokio::net::TcpListener;

    use horizontal::PodNamePattern;
    use horizontal::predictions::{Expression, MetricKey, Resource};

    use super::*;

    /// A store that answers each path with a status code and a body.
    async fn serve(
        answer: impl Fn(&str) -> (StatusCode, String) + Clone + Send + Sync + 'static,
    ) -> PrometheusSource {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().fallback(async move |uri: Uri| answer(uri.path()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        store(format!("http://{address}"))
    }

    #[tokio::test]
    async fn only_a_fault_of_the_expression_is_shown_to_its_author() {
        let message = r#"invalid parameter "query": 1:5: parse error: unexpected end of input"#;
        let refused = "Prometheus refuses the query: HTTP status 400";
        let author = format!("Prometheus refuses the expression: {message}");
        let expression = || {
            Query::Expression(Expression {
                text: "sum(".to_owned(),
                confined_by: None,
            })
        };
        for (kind, query, expected) in [
            ("bad_data", expression(), author.as_str()),
            ("bad_data", request().query, refused),
            ("execution", expression(), refused),
        ] {
            let body = json!({"status": "error", "errorType": kind, "error": message}).to_string();
            let store = serve(move |_| (StatusCode::BAD_REQUEST, body.clone())).await;
            let failure = store
                .ask(ReadRequest { query, ..request() })
                .await
                .expect_err("it is refused");
            assert_eq!(failure.why, expected, "{kind}");
        }
    }

    fn store(address: String) -> PrometheusSource {
        let query_timeout = Duration::from_secs(30);
        let step: Step = "60s".parse().expect("a step");
        let settings = HistorySettings {
            connection: Connection {
                address,
                query_timeout,
                ..Connection::default()
            },
            usage: UsageSettings::default(),
            pod_labels: PodLabelSettings::default(),
            length: step,
            resolution: step,
        };
        let metrics = ForecastMetrics::register(&Registry::new()).expect("valid names");
        PrometheusSource::new(settings, Arc::new(|_| ()), metrics)
    }

    fn request() -> ReadRequest {
        let pods = PodNamePattern::new("Deployment", "web");
        let query = Query::Workload {
            namespace: "shop".to_owned(),
            pods,
            resource: Resource::Cpu,
        };
        let range = ReadRange {
            first: 0,
            last: 60,
            step: 60,
        };
        ReadRequest {
            metric: MetricKey::default(),
            namespace: "shop".to_owned(),
            query,
            range,
        }
    }

    #[tokio::test]
    async fn series_of_usage_are_detected_once() {
        let paths = Arc::new(SyncMutex::new(Vec::new()));
        let seen = Arc::clone(&paths);
        let store = serve(move |path| {
            seen.lock().push(path.to_owned());
            let data = if path.ends_with("query_range") {
                json!({"resultType": "matrix", "result": [
                    {"metric": {"pod": "web-1"}, "values": [[0, "1"], [60, "2"]]},
                ]})
            } else if path.ends_with("query") {
                json!({"resultType": "vector", "result": []})
            } else {
                json!(["x"])
            };
            let body = json!({"status": "success", "data": data});
            (StatusCode::OK, body.to_string())
        })
        .await;
        for _ in 0..2 {
            let found = store.clone().ask(request()).await.expect("an answer");
            assert_eq!(
                found.into_values().collect::<Vec<_>>(),
                [vec![(0, 1.0), (60, 2.0)]]
            );
        }
        let ranges = |path: &&String| path.ends_with("query_range");
        let paths = paths.lock();
        assert_eq!(
            (paths.iter().filter(ranges).count(), paths.len()),
            (2, 10),
            "{paths:?}"
        );
    }

    #[tokio::test]
    async fn a_store_of_several_clusters_has_no_history() {
        let store = serve(|path| {
            let clusters =
                ["eu", "us"].map(|it| json!({"metric": {"cluster": it}, "value": [0, "1"]}));
            let data = if path.ends_with("query") {
                json!({"resultType": "vector", "result": clusters})
            } else {
                json!(["eu", "us"])
            };
            (StatusCode::OK, json!({"data": data}).to_string())
        });
        let store = store.await;
        let expression = Query::Expression(Expression {
            text: "up".to_owned(),
            confined_by: None,
        });
        for query in [request().query, expression] {
            let failure = store.clone().ask(ReadRequest { query, ..request() }).await;
            let why = failure.expect_err("two clusters").why;
            let expected = r#"Prometheus has several clusters: cluster is "eu", "us"; set "#;
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[tokio::test]
    async fn smaller_chunks_do_not_help_against_an_unreachable_store() {
        let failure = store("http://127.0.0.1:1".to_owned())
            .ask(request())
            .await
            .expect_err("nothing listens there");
        assert!(
            failure.why.starts_with("Prometheus cannot be reached") && failure.excess.is_none(),
            "{failure:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn cached_values_expire() {
        let cached = Cached(Arc::default());
        for (later, expected) in [(0, 1), (99, 1), (1, 2)] {
            tokio::time::advance(Duration::from_secs(later)).await;
            let compute = async { (expected, Duration::from_secs(100)) };
            assert_eq!(cached.get(compute).await, expected, "{later}");
        }
    }
}
