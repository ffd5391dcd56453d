//! The connection to Prometheus, and the names under which it has usage; shared by all questions.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use sources::prometheus::{Excess, Exchange, Layout, Observer, Prometheus, PrometheusError, Step, Window};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Question;
use crate::history::Settings;
use crate::metrics::Metrics;
use crate::predict::query::Query;
use crate::predict::track::{Found, Span};

/// Seconds that a connection is used: tokens and certificates are read for each, and others take their place.
const CONNECTION_LASTS: i64 = 600;
/// Seconds that the names of usage are used.
const LAYOUT_LASTS: i64 = 600;
/// The same where the store has no usage.
const NO_LAYOUT_LASTS: i64 = 30;
/// The same where the store could not be asked: questions that wait for the names fail together.
const FAILURE_LASTS: i64 = 5;
/// The longest time for one question, and for finding the names of usage.
const LONGEST_QUERY: Duration = Duration::from_mins(1);
const DAY: i64 = 86_400;

const NO_LAYOUT: Layout = Layout { cpu: None, memory: None, pod_labels: None };

/// The reason for which a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) why: String,
    /// The bound that the answer exceeds.
    pub(super) excess: Option<Excess>,
}

impl Failure {
    pub(super) fn refused(why: String) -> Self {
        Self { why, excess: None }
    }
}

impl From<PrometheusError> for Failure {
    fn from(error: PrometheusError) -> Self {
        Self { why: error.to_string(), excess: error.excess() }
    }
}

/// A value that is used up to a time, in seconds since 1970.
#[derive(Debug)]
struct Expiring<T> {
    value: T,
    ends: i64,
}

type Cell<T> = Arc<Mutex<Option<Expiring<T>>>>;

/// The store. Clones share the connection.
#[derive(Clone)]
pub(super) struct Store {
    settings: Arc<Settings>,
    metrics: Metrics,
    connection: Cell<Prometheus>,
    layout: Cell<Result<Layout, Failure>>,
}

impl Store {
    pub(super) fn new(settings: Settings, metrics: Metrics) -> Self {
        Self { settings: Arc::new(settings), metrics, connection: Cell::default(), layout: Cell::default() }
    }

    /// The answer to one question.
    pub(super) async fn ask(self, question: Question) -> Result<Found, Failure> {
        let answer = self.read(&question).await;
        self.metrics.forecasts.read(answer.is_ok());
        answer
    }

    async fn read(&self, question: &Question) -> Result<Found, Failure> {
        let Question { query, span, .. } = question;
        let connection = self.connection().await?;
        let layout = match query {
            Query::Expression(_) => NO_LAYOUT,
            Query::Workload { .. } => self.layout(&connection).await?,
        };
        let text = query.text(&layout).map_err(Failure::refused)?;
        let window = window(*span).ok_or_else(|| Failure::refused("there is no time to ask for".to_owned()))?;
        let read = connection.read_expression(&text, window).await;
        if matches!(read, Err(PrometheusError::Unreachable(_))) {
            *self.connection.lock().await = None;
        }
        let mut found = Found::new();
        for one in read? {
            let samples = one.series.points().iter().map(|(at, value)| (at.as_second(), *value));
            found.entry(one.labels).or_default().extend(samples);
        }
        Ok(found)
    }

    async fn connection(&self) -> Result<Prometheus, Failure> {
        let mut kept = self.connection.lock().await;
        let now = Timestamp::now().as_second();
        if let Some(Expiring { value, .. }) = kept.as_ref().filter(|kept| now < kept.ends) {
            return Ok(value.clone());
        }
        let mut connection = self.settings.connection.clone();
        connection.query_timeout = connection.query_timeout.min(LONGEST_QUERY);
        let metrics = self.metrics.history.clone();
        let observer: Observer = Arc::new(move |exchange: Exchange| metrics.exchanged(exchange));
        let value = Prometheus::connect(&connection, observer).await?;
        *kept = Some(Expiring { value: value.clone(), ends: now + CONNECTION_LASTS });
        Ok(value)
    }

    async fn layout(&self, connection: &Prometheus) -> Result<Layout, Failure> {
        let mut kept = self.layout.lock().await;
        let now = Timestamp::now().as_second();
        if let Some(Expiring { value, .. }) = kept.as_ref().filter(|kept| now < kept.ends) {
            return value.clone();
        }
        let (value, lasts) = self.detect(connection, now).await;
        *kept = Some(Expiring { value: value.clone(), ends: Timestamp::now().as_second() + lasts });
        value
    }

    /// The names of usage, and for how many seconds they are used.
    async fn detect(&self, connection: &Prometheus, now: i64) -> (Result<Layout, Failure>, i64) {
        let Settings { usage, pod_labels, .. } = &*self.settings;
        let Some(window) = window(Span { first: now - DAY, last: now, step: 60 }) else {
            return (Ok(NO_LAYOUT), NO_LAYOUT_LASTS);
        };
        let found = timeout(LONGEST_QUERY, connection.detect(usage, pod_labels, window)).await;
        match found.unwrap_or(Err(PrometheusError::Timeout(LONGEST_QUERY))) {
            Ok(layout) => (Ok(layout), LAYOUT_LASTS),
            // There may be other metrics.
            Err(PrometheusError::NoSeries { .. }) => (Ok(NO_LAYOUT), NO_LAYOUT_LASTS),
            // Asking a metric for less does not help.
            Err(error) => (Err(Failure::refused(error.to_string())), FAILURE_LASTS),
        }
    }
}

fn window(span: Span) -> Option<Window> {
    let at = |second| Timestamp::from_second(second).ok();
    let step: Step = format!("{}s", span.step).parse().ok()?;
    Window::new(at(span.first)?, at(span.last)?, step)
}
