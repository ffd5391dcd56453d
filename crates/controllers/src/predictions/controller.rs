//! Publishes forecasts on the feed and writes them into the status of predictions, for one term of
//! leadership.
//!
//! A prediction is published as soon as all its metrics have a result; none waits for another. For
//! a prediction that is not on the feed yet, readers use the status, which has the forecast of the
//! previous leader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::prediction::TimeSeriesPredictionStatus;
use feed::{Forecast, Publisher};
use futures::{StreamExt as _, stream};
use horizontal::ehpa::Rules;
use horizontal::predictions::{PredictionResult, StatusUpdate, status_update};
use jiff::Timestamp;
use kube::ResourceExt as _;
use runtime::{Controller, Leading, Manager, NotLeading, Pace, Reconcile};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use view::View;

use crate::predictions::args::PredictionArgs;
use crate::predictions::collector::{HistoryCollector, Source};
use crate::predictions::metrics::ForecastMetrics;
use crate::predictions::store::PredictionStore;
use crate::predictions::writer::Writer;

/// Time during which changes are coalesced.
const SETTLE: Duration = Duration::from_millis(500);

/// Observed objects and options of the controller.
pub struct PredictionInputs {
    /// View with predictions. Empty until their kinds are installed.
    pub horizontal: watch::Receiver<View>,
    /// Name of this recommender.
    pub recommender: String,
    /// Maximum number of concurrent writes.
    pub workers: usize,
    /// Rules that allow queries more than the flags do, if there are any.
    pub rules: Option<watch::Receiver<Option<Arc<Rules>>>>,
    /// Source of histories.
    pub source: Source,
    /// Feed of forecasts, if it is enabled.
    pub publisher: Option<Publisher<Forecast>>,
}

#[derive(Clone)]
pub struct PredictionController {
    store: PredictionStore,
    /// View with predictions, for their status.
    horizontal: watch::Receiver<View>,
    publisher: Option<Publisher<Forecast>>,
    writer: Writer,
    workers: usize,
    /// Interval of checks of all predictions.
    frequency: Duration,
    metrics: ForecastMetrics,
}

/// Results that one of the two loops has processed.
struct SeenResults {
    results: BTreeMap<String, Arc<PredictionResult>>,
    /// Time of the next check of all predictions; `None` before the first one.
    due: Option<Instant>,
}

/// Changes since the last call.
struct ResultChanges {
    /// Complete results: all of them, or those that changed.
    changed: Vec<Arc<PredictionResult>>,
    /// UIDs of deleted predictions.
    gone: Vec<String>,
    is_full: bool,
    is_first: bool,
}

impl SeenResults {
    fn new() -> Self {
        Self {
            results: BTreeMap::new(),
            due: None,
        }
    }

    /// Returns the changes; `None` before the first results.
    fn changes(
        &mut self,
        store: &PredictionStore,
        frequency: Duration,
        now: Instant,
    ) -> Option<ResultChanges> {
        let all = store.all()?;
        let is_first = self.due.is_none();
        let is_full = self.due.is_none_or(|due| due <= now);
        if is_full {
            self.due = Some(now + frequency);
        }
        let before = std::mem::replace(&mut self.results, all);
        let is_new = |uid: &String, result: &Arc<PredictionResult>| {
            let seen = before.get(uid);
            is_full || seen.is_none_or(|seen| !Arc::ptr_eq(seen, result))
        };
        let results = &self.results;
        let known = results.iter().filter(|(_, result)| result.is_known());
        let changed = known.filter(|(uid, result)| is_new(uid, result));
        let changed = changed.map(|(_, result)| Arc::clone(result)).collect();
        let gone = before.into_keys().filter(|uid| !results.contains_key(uid));
        Some(ResultChanges {
            changed,
            gone: gone.collect(),
            is_full,
            is_first,
        })
    }
}

/// Loop that passes changed results to a function.
struct ResultFollower<'a, F> {
    store: &'a PredictionStore,
    frequency: Duration,
    revisions: watch::Receiver<u64>,
    seen: SeenResults,
    process: F,
}

impl<F: AsyncFn(ResultChanges)> Reconcile for ResultFollower<'_, F> {
    type Plan = ResultChanges;

    async fn changed(&mut self) {
        // The sender is in the store, so it is there.
        let _ = self.revisions.changed().await;
    }

    fn plan(&mut self, now: Instant) -> Option<ResultChanges> {
        self.revisions.mark_unchanged();
        self.seen.changes(self.store, self.frequency, now)
    }

    async fn apply(&mut self, changes: ResultChanges) -> Option<Instant> {
        (self.process)(changes).await;
        self.seen.due
    }
}

/// Resets the metrics at the end of the term.
struct ReadyMetrics(ForecastMetrics);

impl Drop for ReadyMetrics {
    fn drop(&mut self) {
        self.0.ready(0, 0);
    }
}

impl PredictionController {
    /// Registers the metrics and starts to read histories.
    pub fn start(
        args: &PredictionArgs,
        inputs: PredictionInputs,
        manager: &Manager,
    ) -> Result<Self, prometheus::Error> {
        let store = PredictionStore::default();
        let metrics = ForecastMetrics::register(&manager.registry)?;
        let collector = HistoryCollector {
            args: args.clone(),
            horizontal: inputs.horizontal.clone(),
            recommender: inputs.recommender,
            source: inputs.source,
            rules: inputs.rules,
            store: store.clone(),
            metrics: metrics.clone(),
        };
        let tasks = &manager.tasks;
        tasks.spawn_until_shutdown("forecasts", collector.run());
        Ok(Self {
            store,
            horizontal: inputs.horizontal,
            publisher: inputs.publisher,
            writer: Writer::new(manager.object_writer()),
            workers: inputs.workers,
            frequency: args.prediction_update_frequency_duration.0,
            metrics,
        })
    }

    /// Runs until shutdown, or until it is dropped with the Lease. Publishing does not wait for
    /// writes.
    pub async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.writer = self.writer.during(&leading);
        let controller = Controller {
            pace: Pace {
                settle: SETTLE,
                min_pause: SETTLE,
                resync: self.frequency,
                ..Pace::default()
            },
            leading,
            shutdown,
        };
        tokio::join!(self.publish(&controller), self.write(&controller));
        Ok(())
    }

    async fn publish(&self, controller: &Controller) {
        let begin = |publisher: &Publisher<Forecast>| publisher.begin(controller.leading.term());
        let term = self.publisher.as_ref().map(begin);
        let counted = ReadyMetrics(self.metrics.clone());
        self.follow(controller, async |changes| {
            let now = Timestamp::now();
            let (mut ready, mut others) = (0, 0);
            let forecasts = changes.changed.iter().map(|result| {
                let forecast = self.with_status(result, |written| result.forecast(written, now));
                let is_ready = forecast.metrics.iter().filter(|metric| metric.is_ready);
                let count = is_ready.count();
                ready += count;
                others += forecast.metrics.len() - count;
                forecast
            });
            match &term {
                None => forecasts.for_each(drop),
                Some(term) if changes.is_first => term.reset(forecasts, now),
                Some(term) => {
                    forecasts.for_each(|forecast| term.apply(forecast, now));
                    changes.gone.iter().for_each(|uid| term.delete(uid, now));
                }
            }
            if changes.is_full {
                counted.0.ready(ready, others);
            }
        })
        .await;
    }

    async fn write(&self, controller: &Controller) {
        self.follow(controller, async |changes| {
            stream::iter(changes.changed)
                .for_each_concurrent(self.workers, async |result| {
                    self.write_one(&result, Timestamp::now()).await;
                })
                .await;
        })
        .await;
    }

    /// Calls `process` after changes, and periodically with all results.
    async fn follow(&self, controller: &Controller, process: impl AsyncFn(ResultChanges)) {
        let follower = ResultFollower {
            store: &self.store,
            frequency: self.frequency,
            revisions: self.store.revisions(),
            seen: SeenResults::new(),
            process,
        };
        controller.clone().run(follower).await;
    }

    /// Passes the status of a prediction to a function. It is not copied, since it is far larger
    /// than a forecast.
    fn with_status<T>(
        &self,
        result: &PredictionResult,
        with_status: impl FnOnce(Option<&TimeSeriesPredictionStatus>) -> T,
    ) -> T {
        let view = self.horizontal.borrow();
        let whole = view.predictions.get(&result.spec.key);
        let object = whole.map(|whole| &whole.object);
        let object = object.filter(|object| object.uid().as_ref() == Some(&result.spec.uid));
        with_status(object.and_then(|object| object.status.as_ref()))
    }

    async fn write_one(&self, result: &PredictionResult, now: Timestamp) {
        let spec = &result.spec;
        let status_update = self.with_status(result, |written| {
            let forecast = result.forecast(written, now);
            status_update(result, &forecast, written, now)
        });
        let Some(StatusUpdate { status, event }) = status_update else {
            return;
        };
        let (writer, key, uid) = (&self.writer, &spec.key, &spec.uid);
        let written = writer.update_status(key, uid, &status).await;
        if written.as_ref().is_err_and(NotLeading::is) {
            return;
        }
        self.metrics.written(written.is_ok());
        if let Err(error) = written {
            tracing::warn!(prediction = %key, %error, "cannot write the status of a prediction");
        } else if let Some((is_bad, reason, note)) = event {
            writer.record_event(key, uid, reason, &note, is_bad).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use horizontal::predictions::{MetricResult, PredictionSpec};

    use super::*;

    const FREQUENCY: Duration = Duration::from_secs(30);

    fn result(uid: &str, missing: Option<&str>) -> PredictionResult {
        let spec = PredictionSpec {
            key: view::ObjectKey::new("shop", uid),
            uid: uid.to_owned(),
            generation: 1,
            window_seconds: 3600,
        };
        let metric = MetricResult {
            missing: missing.map(str::to_owned),
            ..MetricResult::default()
        };
        PredictionResult {
            spec: Arc::new(spec),
            metrics: vec![metric],
        }
    }

    fn check(changes: Option<ResultChanges>, uids: &[&str], gone: &[&str], is_full: bool) {
        let changes = changes.expect("there are objects");
        let found: Vec<_> = changes
            .changed
            .iter()
            .map(|result| result.spec.uid.as_str())
            .collect();
        assert_eq!((found.as_slice(), changes.is_full), (uids, is_full));
        assert_eq!(changes.gone, gone);
    }

    #[test]
    fn a_result_is_published_while_another_is_missing() {
        let (store, now) = (PredictionStore::default(), Instant::now());
        let mut seen = SeenResults::new();
        assert!(
            seen.changes(&store, FREQUENCY, now).is_none(),
            "it is not known which objects there are"
        );
        store.update(
            vec![
                result("known", Some("too little history")),
                result("unread", None),
            ],
            |_| true,
        );
        check(seen.changes(&store, FREQUENCY, now), &["known"], &[], true);
        check(seen.changes(&store, FREQUENCY, now), &[], &[], false);
        store.update(vec![result("unread", Some("too little history"))], |_| true);
        check(
            seen.changes(&store, FREQUENCY, now),
            &["unread"],
            &[],
            false,
        );
        store.update(Vec::new(), |uid| uid == "unread");
        check(seen.changes(&store, FREQUENCY, now), &[], &["known"], false);
        check(
            seen.changes(&store, FREQUENCY, now + FREQUENCY),
            &["unread"],
            &[],
            true,
        );
    }
}
