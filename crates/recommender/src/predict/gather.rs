//! Reads the history of every metric, and what is new of it again and again, in every replica, so that a new leader is warm.
//!
//! A few questions are asked at the same time, those first that wait longest. Where nobody answers, the rest of a portion is left alone and
//! everything is tried again after a pause. What takes long to make of a history is made elsewhere.

mod objects;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cluster::View;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use sources::prometheus::{Exchange, Layout, Observer, Prometheus, PrometheusError, Step, Window};
use tokio::sync::watch;
use tokio::task::block_in_place;
use tokio::time::timeout;

use super::Book;
use super::query::Query;
use super::rounds::{ByNamespace, Round};
use super::study::Studies;
use super::track::{Found, MOST_SERIES, Pace, Span, Track};
use crate::history::Settings;
use crate::metrics::{ForecastMetrics, Metrics};
use objects::Objects;

/// Metrics that are read before what was found is published.
const PORTION: usize = 100;
/// Where nobody answers this often in one portion, the rest is left alone.
const MAX_FAILURES: usize = 3;
/// How long a connection is used: tokens and certificates are read for each, and others take their place.
const SESSION_LASTS: i64 = 600;
/// How long it is known under which names a store has usage.
const LAYOUT_LASTS: i64 = 600;
/// The same where it has none.
const NO_LAYOUT_LASTS: i64 = 30;
/// A question about a forecast is small; a store that takes longer is as good as gone.
const LONGEST_QUERY: Duration = Duration::from_mins(1);
/// Between two looks at what is due.
const TICK: Duration = Duration::from_secs(1);
const DAY: i64 = 86_400;

/// Where histories are.
pub(crate) enum Source {
    Prometheus(Box<Settings>),
    /// Rounds of usage, and how long one may take to come.
    Rounds(watch::Receiver<Option<Round>>, Duration),
}

/// Reads histories.
pub(crate) struct Gather {
    /// Objects. Empty as long as their kinds are not installed.
    pub(crate) horizontal: watch::Receiver<View>,
    /// The recommender whose objects these are.
    pub(crate) recommender: String,
    pub(crate) source: Source,
    pub(crate) pace: Pace,
    /// How many questions are asked at the same time.
    pub(crate) concurrency: usize,
    pub(crate) book: Book,
    pub(crate) metrics: Metrics,
}

/// A connection, and under which names the store has usage.
struct Session {
    store: Prometheus,
    layout: Layout,
    ends: Ends,
}

/// Up to when a session serves, in seconds since 1970.
#[derive(Clone, Copy)]
struct Ends {
    session: i64,
    layout: i64,
}

impl Ends {
    fn serves(self, needs_layout: bool, now: i64) -> bool {
        now < self.session && (!needs_layout || now < self.layout)
    }
}

impl Gather {
    /// Goes on until it is dropped.
    pub(crate) async fn run(self) {
        let Self { mut horizontal, recommender, source, pace, concurrency, book, metrics } = self;
        let mut objects = Objects::new(recommender, pace, matches!(source, Source::Prometheus(_)));
        let mut reader =
            Reader { concurrency, metrics: metrics.clone(), session: None, heard: Timestamp::now(), seen: None };
        let studies = Studies::new(Studies::places(), metrics.forecasts.clone());
        loop {
            let changed = horizontal.has_changed().unwrap_or(false) && {
                let view = horizontal.borrow_and_update();
                block_in_place(|| objects.sync(&view, Timestamp::now()))
            };
            match &source {
                Source::Prometheus(settings) => reader.read(settings, objects.due(Timestamp::now(), PORTION)).await,
                Source::Rounds(rounds, patience) => {
                    let round = rounds.borrow().clone();
                    block_in_place(|| reader.hear(round, *patience, objects.tracks()));
                }
            }
            objects.tracks().for_each(|track| track.learn(Timestamp::now()));
            studies.begin(objects.tracks());
            let news = objects.news();
            if changed || !news.is_empty() {
                metrics.forecasts.kept(objects.tracks());
                book.update(news, |uid| objects.has(uid));
            }
            if objects.is_due(Timestamp::now()) && matches!(source, Source::Prometheus(_)) {
                tokio::task::yield_now().await;
            } else {
                // A study that has ended makes room for the next.
                drop(timeout(TICK, studies.ended()).await);
            }
        }
    }
}

struct Reader {
    concurrency: usize,
    metrics: Metrics,
    session: Option<Session>,
    /// When usage was last heard of.
    heard: Timestamp,
    /// The time of the last round that was taken in.
    seen: Option<Timestamp>,
}

impl Reader {
    async fn read(&mut self, settings: &Settings, due: Vec<&mut Track>) {
        if due.is_empty() {
            return;
        }
        let (metrics, concurrency) = (&self.metrics.forecasts.clone(), self.concurrency);
        let needs_layout = due.iter().any(|track| matches!(track.query(), Some(Query::Workload { .. })));
        let session = match self.session(settings, needs_layout).await {
            Ok(session) => session,
            Err(error) => {
                tracing::warn!(%error, metrics = due.len(), "no history of predicted metrics; it is tried again");
                for track in due {
                    track.fail(&error.to_string(), Timestamp::now());
                }
                return;
            }
        };
        let unanswered = AtomicUsize::new(0);
        let reads: Vec<BoxFuture<'_, ()>> =
            due.into_iter().map(|track| look(track, session, &unanswered, metrics).boxed()).collect();
        stream::iter(reads).buffer_unordered(concurrency).collect::<()>().await;
        if unanswered.load(Ordering::Relaxed) > 0 {
            self.session = None;
        }
    }

    async fn session(&mut self, settings: &Settings, needs_layout: bool) -> Result<&Session, PrometheusError> {
        let now = Timestamp::now();
        let session = match self.session.take() {
            Some(session) if session.ends.serves(needs_layout, now.as_second()) => session,
            _ => self.connect(settings, needs_layout, now).await?,
        };
        Ok(self.session.insert(session))
    }

    async fn connect(
        &self,
        settings: &Settings,
        needs_layout: bool,
        now: Timestamp,
    ) -> Result<Session, PrometheusError> {
        let mut connection = settings.connection.clone();
        connection.query_timeout = connection.query_timeout.min(LONGEST_QUERY);
        let metrics = self.metrics.history.clone();
        let observer: Observer = Arc::new(move |exchange: Exchange| metrics.exchanged(exchange));
        let store = Prometheus::connect(&connection, observer).await?;
        let ends = Ends { session: now.as_second() + SESSION_LASTS, layout: i64::MIN };
        let mut session = Session { store, layout: NO_LAYOUT, ends };
        if needs_layout
            && let Some(window) = window(Span { first: now.as_second() - DAY, last: now.as_second(), step: 60 })
        {
            match session.store.detect(&settings.usage, &settings.pod_labels, window).await {
                Ok(layout) => (session.layout, session.ends.layout) = (layout, now.as_second() + LAYOUT_LASTS),
                // There may be other metrics.
                Err(PrometheusError::NoSeries { .. }) => session.ends.layout = now.as_second() + NO_LAYOUT_LASTS,
                Err(error) => return Err(error),
            }
        }
        Ok(session)
    }

    /// Takes in a round, if it is a new one.
    fn hear<'a>(&mut self, round: Option<Round>, patience: Duration, tracks: impl Iterator<Item = &'a mut Track>) {
        let now = Timestamp::now();
        let Some(round) = round.filter(|round| self.seen != Some(round.at)) else {
            let silent = Duration::try_from(now.duration_since(self.heard)).unwrap_or_default();
            if silent > patience {
                tracks
                    .filter(|track| track.query().is_some())
                    .for_each(|track| track.fail("no usage is measured", now));
            }
            return;
        };
        (self.seen, self.heard) = (Some(round.at), now);
        let usage = ByNamespace::new(&round);
        for track in tracks {
            let Some(query) = track.query() else { continue };
            let sample = usage.sum(query);
            let _timer = self.metrics.forecasts.learning();
            track.hear(round.at, sample, now);
        }
    }
}

const NO_LAYOUT: Layout = Layout { cpu: None, memory: None, pod_labels: None };

/// Looks at one metric.
async fn look(track: &mut Track, session: &Session, unanswered: &AtomicUsize, metrics: &ForecastMetrics) {
    if unanswered.load(Ordering::Relaxed) >= MAX_FAILURES {
        track.fail("Prometheus does not answer", Timestamp::now());
        return;
    }
    let span = track.span(Timestamp::now());
    let found = read_one(session, track.query(), span).await;
    metrics.read(found.is_ok());
    match found {
        Ok(found) => block_in_place(|| {
            let _timer = metrics.learning();
            track.take(span, found, Timestamp::now());
        }),
        Err(failure) => {
            unanswered.fetch_add(usize::from(failure.is_silence), Ordering::Relaxed);
            track.fail(&failure.why, Timestamp::now());
        }
    }
}

struct Failure {
    why: String,
    /// Whether nobody answers, so that there is no use in asking on.
    is_silence: bool,
}

async fn read_one(session: &Session, query: Option<&Query>, span: Span) -> Result<Found, Failure> {
    let refused = |why: String| Failure { why, is_silence: false };
    let query = query.ok_or_else(|| refused("there is no query".to_owned()))?;
    let text = query.text(&session.layout).map_err(refused)?;
    let window = window(span).ok_or_else(|| refused("there is no time to ask for".to_owned()))?;
    let mut found = Found::new();
    let take = |series: Vec<sources::prometheus::Labelled>| {
        for one in series {
            // Of too many series it only matters that there are.
            if found.len() > MOST_SERIES && !found.contains_key(&one.labels) {
                continue;
            }
            let samples = one.series.points().iter().map(|(at, value)| (at.as_second(), *value));
            found.entry(one.labels).or_default().extend(samples);
        }
    };
    session.store.read_expression(&text, window, take).await.map_err(|error| {
        let is_silence = matches!(error, PrometheusError::Unreachable(_) | PrometheusError::Timeout(_));
        Failure { why: error.to_string(), is_silence }
    })?;
    Ok(found)
}

fn window(span: Span) -> Option<Window> {
    let at = |second| Timestamp::from_second(second).ok();
    let step: Step = format!("{}s", span.step).parse().ok()?;
    Window::new(at(span.first)?, at(span.last)?, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_also_where_nobody_asks_for_names() {
        for (needs_layout, now, expected) in
            [(false, 99, true), (false, 100, false), (true, 49, true), (true, 50, false), (true, 100, false)]
        {
            let ends = Ends { session: 100, layout: 50 };
            assert_eq!(ends.serves(needs_layout, now), expected, "{needs_layout} at {now}");
        }
    }
}
