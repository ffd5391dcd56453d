//! Publishes forecasts on the feed and writes them into the status of predictions, for one term of
//! leadership.
//!
//! A prediction is published as soon as all its metrics have a result; none waits for another. For
//! a prediction that is not on the feed yet, readers use the status, which has the forecast of the
//! previous leader.

use std::sync::Arc;
use std::time::Duration;

use api::prediction::TimeSeriesPredictionStatus;
use feed::{Forecast, Publisher};
use futures::{StreamExt as _, stream};
use horizontal::predictions::{PredictionResult, StatusUpdate, status_update};
use jiff::Timestamp;
use kube::ResourceExt as _;
use runtime::{Controller, Leading, Manager, NotLeading, ObjectWriter, Pace, Reconcile};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use view::View;

use super::settings::PredictionArgs;
use crate::predictions::PredictionInputs;
use crate::predictions::collector::{Results, collect};
use crate::predictions::metrics::ForecastMetrics;
use crate::predictions::writer::{record_event, update_status};
use crate::{changed, event_type};

/// Time during which changes are coalesced.
const SETTLE: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct PredictionController {
    results: watch::Receiver<Option<Results>>,
    /// View with predictions, for their status.
    horizontal: watch::Receiver<View>,
    publisher: Option<Publisher<Forecast>>,
    objects: ObjectWriter,
    workers: usize,
    /// Interval of checks of all predictions.
    frequency: Duration,
    metrics: ForecastMetrics,
}

/// Results that one of the two loops has processed.
#[derive(Default)]
struct SeenResults {
    results: Results,
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
    /// Returns the changes that lead to these results; `None` before the first ones.
    fn changes(
        &mut self,
        all: Option<Results>,
        frequency: Duration,
        now: Instant,
    ) -> Option<ResultChanges> {
        let all = all?;
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
struct ResultFollower<F> {
    results: watch::Receiver<Option<Results>>,
    frequency: Duration,
    seen: SeenResults,
    process: F,
}

impl<F: AsyncFn(ResultChanges)> Reconcile for ResultFollower<F> {
    type Plan = ResultChanges;

    async fn changed(&mut self) {
        changed(&mut self.results).await;
    }

    fn plan(&mut self, now: Instant) -> Option<ResultChanges> {
        let all = self.results.borrow_and_update().clone();
        self.seen.changes(all, self.frequency, now)
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
        mut inputs: PredictionInputs,
        manager: &Manager,
    ) -> Result<Self, prometheus::Error> {
        let (store, results) = watch::channel(None);
        let metrics = ForecastMetrics::register(&manager.registry)?;
        let controller = Self {
            results,
            horizontal: inputs.horizontal.clone(),
            publisher: inputs.publisher.take(),
            objects: manager.object_writer(),
            workers: inputs.workers,
            frequency: args.prediction_update_frequency_duration.0,
            metrics: metrics.clone(),
        };
        let collecting = collect(args.clone(), inputs, store, metrics);
        let tasks = &manager.tasks;
        tasks.spawn_until_shutdown("forecasts", collecting);
        Ok(controller)
    }

    /// Runs until shutdown, or until it is dropped with the Lease. Publishing does not wait for
    /// writes.
    pub async fn run(
        mut self,
        leading: Leading,
        shutdown: CancellationToken,
    ) -> anyhow::Result<()> {
        self.objects = self.objects.during(&leading);
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
            results: self.results.clone(),
            frequency: self.frequency,
            seen: SeenResults::default(),
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
        let (objects, key, uid) = (&self.objects, &spec.key, &spec.uid);
        let written = update_status(objects, key, uid, &status).await;
        if written.as_ref().is_err_and(NotLeading::is) {
            return;
        }
        self.metrics.written(written.is_ok());
        if let Err(error) = written {
            tracing::warn!(prediction = %key, %error, "cannot write the status of a prediction");
        } else if let Some((is_bad, reason, note)) = event {
            record_event(objects, key, uid, event_type(is_bad), reason, &note).await;
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
        let mut seen = SeenResults::default();
        let now = Instant::now();
        let mut changes = |all: &Results, now| seen.changes(Some(all.clone()), FREQUENCY, now);
        let mut all = Results::new();
        for one in [
            result("known", Some("too little history")),
            result("unread", None),
        ] {
            all.insert(one.spec.uid.clone(), Arc::new(one));
        }
        check(changes(&all, now), &["known"], &[], true);
        check(changes(&all, now), &[], &[], false);
        let read = result("unread", Some("too little history"));
        all.insert("unread".to_owned(), Arc::new(read));
        check(changes(&all, now), &["unread"], &[], false);
        all.remove("known");
        check(changes(&all, now), &[], &["known"], false);
        check(changes(&all, now + FREQUENCY), &["unread"], &[], true);
    }

    #[test]
    fn before_the_first_results_it_is_not_known_which_objects_there_are() {
        let mut seen = SeenResults::default();
        assert!(seen.changes(None, FREQUENCY, Instant::now()).is_none());
    }
}
