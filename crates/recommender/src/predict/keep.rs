//! Tells what is forecast on the feed, and writes it into the objects, for one term of leadership.
//!
//! Nothing is told before something was found out about every object: a new leader must not look like one that forecasts nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::prediction::TimeSeriesPredictionStatus;
use cluster::{ObjectKey, View};
use feed::{Forecast, Publisher, Term};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::ResourceExt as _;
use runtime::Leading;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::Book;
use super::outlook::Outlook;
use super::status::{Change, change};
use crate::act::prediction::Writer;
use crate::metrics::Metrics;

/// How long news gather before they are told together.
const SETTLE: Duration = Duration::from_millis(500);

/// What tells and writes forecasts.
#[derive(Clone)]
pub(crate) struct Keeper {
    pub(crate) book: Book,
    /// The objects as they are, for their status.
    pub(crate) horizontal: watch::Receiver<View>,
    /// Where forecasts are told, if there is a feed.
    pub(crate) publisher: Option<Publisher<Forecast>>,
    pub(crate) writer: Writer,
    /// How many objects are written at the same time.
    pub(crate) workers: usize,
    /// How often every object is looked at, whether or not there are news of it.
    pub(crate) frequency: Duration,
    pub(crate) metrics: Metrics,
}

/// What was done in this term.
struct Done {
    term: Option<Term<Forecast>>,
    /// Whether readers are served.
    is_told: bool,
    /// What was last looked at.
    seen: BTreeMap<String, Arc<Outlook>>,
    /// When all objects are looked at again.
    due: Instant,
    metrics: Metrics,
}

impl Done {
    fn tell(&mut self, all: &BTreeMap<String, Arc<Outlook>>, looks: &[Look], now: Timestamp) {
        if !self.is_told {
            if all.values().all(|outlook| outlook.is_known()) {
                self.is_told = true;
                if let Some(term) = &self.term {
                    term.reset(looks.iter().map(|look| look.forecast.clone()), now);
                }
            }
            return;
        }
        let Some(term) = &self.term else { return };
        for look in looks {
            term.apply(look.forecast.clone(), now);
        }
        for uid in self.seen.keys().filter(|uid| !all.contains_key(*uid)) {
            term.delete(uid, now);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        self.metrics.forecasts.ready([].into_iter());
    }
}

/// An object that is looked at.
struct Look {
    outlook: Arc<Outlook>,
    forecast: Forecast,
    written: Option<TimeSeriesPredictionStatus>,
}

impl Keeper {
    /// Runs until shutdown, or until it is dropped with the lease.
    pub(crate) async fn run(self, leading: Leading, shutdown: CancellationToken) -> anyhow::Result<()> {
        let term = self.publisher.as_ref().map(|publisher| publisher.begin(leading.term()));
        let metrics = self.metrics.clone();
        let mut done = Done { term, is_told: false, seen: BTreeMap::new(), due: Instant::now(), metrics };
        let mut revisions = self.book.revisions();
        let work = async {
            loop {
                revisions.mark_unchanged();
                self.pass(&mut done, &leading).await;
                // A look in vain costs nothing.
                drop(timeout_at(done.due, revisions.changed()).await);
                sleep(SETTLE).await;
            }
        };
        shutdown.run_until_cancelled(work).await;
        Ok(())
    }

    async fn pass(&self, done: &mut Done, leading: &Leading) {
        let Some(all) = self.book.all().filter(|_| leading.holds(std::time::Instant::now())) else {
            done.due = Instant::now() + self.frequency;
            return;
        };
        let now = Timestamp::now();
        let is_full = done.due <= Instant::now() || !done.is_told;
        if is_full {
            done.due = Instant::now() + self.frequency;
        }
        let is_new = |uid: &String, outlook: &Arc<Outlook>| {
            is_full || done.seen.get(uid).is_none_or(|seen| !Arc::ptr_eq(seen, outlook))
        };
        let known = all.iter().filter(|(uid, outlook)| outlook.is_known() && is_new(uid, outlook));
        let looks: Vec<Look> = known.map(|(_, outlook)| self.look(outlook, now)).collect();
        done.tell(&all, &looks, now);
        done.seen = all;
        if is_full {
            self.metrics.forecasts.ready(looks.iter().map(|look| &look.forecast));
        }
        stream::iter(looks)
            .for_each_concurrent(self.workers, async |look| {
                if leading.holds(std::time::Instant::now()) {
                    self.write(&look, now).await;
                }
            })
            .await;
    }

    fn look(&self, outlook: &Arc<Outlook>, now: Timestamp) -> Look {
        let written = self.written(&outlook.job.key, &outlook.job.uid);
        let forecast = outlook.forecast(written.as_ref(), now);
        Look { outlook: Arc::clone(outlook), forecast, written }
    }

    fn written(&self, key: &ObjectKey, uid: &str) -> Option<TimeSeriesPredictionStatus> {
        let view = self.horizontal.borrow();
        let object = &view.predictions.get(key)?.object;
        object.status.clone().filter(|_| object.uid().as_deref() == Some(uid))
    }

    async fn write(&self, look: &Look, now: Timestamp) {
        let job = &look.outlook.job;
        let Some(Change { status, news }) = change(&look.outlook, &look.forecast, look.written.as_ref(), now) else {
            return;
        };
        let written = self.writer.say(&job.key, &job.uid, &status).await;
        self.metrics.forecasts.written(written.is_ok());
        match written {
            Ok(()) => {
                if let Some((is_bad, reason, note)) = news {
                    self.writer.tell(&job.key, &job.uid, reason, &note, is_bad).await;
                }
            }
            Err(error) => tracing::warn!(prediction = %job.key, %error, "cannot write what is predicted"),
        }
    }
}
