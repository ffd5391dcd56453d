//! Reads of the histories of all predicted metrics, in every replica, so that a new leader is warm.
//!
//! Each metric is read by itself, one chunk of its history at a time. A few reads run concurrently.
//! Their slots are shared fairly among namespaces, so that one tenant does not delay others. A read
//! ends with its object. Fits run in a pool of their own.

mod prometheus_source;
mod rounds;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use horizontal::ehpa::Rules;
use horizontal::predictions::{
    MetricKey, PredictionResult, PredictionSet, QuerySlots, ReadFailure, ReadRequest, Samples,
};
use jiff::Timestamp;
use sources::prometheus::{HistorySettings, Observer};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::watch;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet, block_in_place};
use tokio::time::{Instant, MissedTickBehavior, interval};
use view::View;

use super::settings::PredictionArgs;
use super::{FitPool, PredictionInputs};
use crate::predictions::metrics::ForecastMetrics;
use prometheus_source::PrometheusSource;
use rounds::ByNamespace;

pub use rounds::Round;

/// Interval of checks for changes, due reads and new results.
const TICK: Duration = Duration::from_secs(1);

pub(crate) type Results = BTreeMap<String, Arc<PredictionResult>>;

pub enum Source {
    Prometheus(Box<HistorySettings>, Observer),
    /// Rounds of usage, and the maximum time between two.
    Rounds(watch::Receiver<Option<Round>>, Duration),
}

/// Reads the histories of all predictions until it is dropped. Results go to `store`.
pub(crate) async fn collect(
    args: PredictionArgs,
    mut inputs: PredictionInputs,
    store: watch::Sender<Option<Results>>,
    metrics: ForecastMetrics,
) {
    // Nothing is watched until the kinds are installed.
    let is_installed = |view: &View| !view.freshness.is_empty() && view.is_synced();
    if inputs.horizontal.wait_for(is_installed).await.is_err() {
        return;
    }
    inputs.horizontal.mark_changed();
    let (prometheus, rounds) = match inputs.source {
        Source::Prometheus(settings, observer) => {
            let source = PrometheusSource::new(*settings, observer, metrics.clone());
            (Some(source), None)
        }
        Source::Rounds(newest, patience) => {
            let rounds = Rounds {
                newest,
                patience,
                received_at: Timestamp::now(),
                seen: None,
            };
            (None, Some(rounds))
        }
    };
    let collector = RunningCollector {
        predictions: PredictionSet::new(
            inputs.recommender,
            inputs.settings.intervals(args.model_update_interval),
            inputs.settings.limits(),
            prometheus.is_some(),
            inputs.settings.access(inputs.rules.is_some()),
        ),
        horizontal: inputs.horizontal,
        rules: inputs.rules,
        slots: QuerySlots::new(usize::from(args.prometheus_query_concurrency)),
        rounds,
        fits: FitPool::new(FitPool::default_size(), metrics.clone()),
        store,
        metrics,
        requests: JoinSet::new(),
        in_progress: HashMap::new(),
    };
    let ask = |request| {
        let prometheus = prometheus.clone();
        async {
            let missing = || ReadFailure::refused("Prometheus is not configured".to_owned());
            prometheus.ok_or_else(missing)?.ask(request).await
        }
    };
    collector.run(ask, Timestamp::now).await;
}

struct RunningCollector {
    horizontal: watch::Receiver<View>,
    rules: Option<watch::Receiver<Option<Arc<Rules>>>>,
    predictions: PredictionSet,
    slots: QuerySlots,
    /// Rounds of usage, without a store.
    rounds: Option<Rounds>,
    fits: FitPool,
    store: watch::Sender<Option<Results>>,
    metrics: ForecastMetrics,
    requests: JoinSet<Result<Samples, ReadFailure>>,
    in_progress: HashMap<Id, Asked>,
}

struct Asked {
    metric: MetricKey,
    namespace: String,
    since: Instant,
    task: AbortHandle,
}

impl RunningCollector {
    /// Runs until it is dropped. `ask` reads from a store.
    async fn run<A, F>(mut self, ask: A, clock: impl Fn() -> Timestamp)
    where
        A: Fn(ReadRequest) -> F,
        F: Future<Output = Result<Samples, ReadFailure>> + Send + 'static,
    {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => in_place(|| self.tick(clock())),
                Some(ended) = self.requests.join_next_with_id() => in_place(|| self.take(ended, clock())),
                // A finished fit makes room for the next one.
                Some(()) = self.fits.ended() => in_place(|| self.fit(clock())),
            }
            if self.rounds.is_none() {
                in_place(|| self.ask(&ask, clock()));
            }
        }
    }

    fn fit(&mut self, now: Timestamp) {
        self.predictions.collect_fits(now);
        if self.fits.has_capacity() {
            self.fits.start(self.predictions.awaiting_fit());
        }
    }

    fn tick(&mut self, now: Timestamp) {
        let changed = (self.update_rules() | self.horizontal.has_changed().unwrap_or(false)) && {
            let view = self.horizontal.borrow_and_update();
            let synced = self.predictions.sync(&view);
            let derived = synced.derived;
            tracing::debug!(derived, "derived the metrics of changed predictions");
            synced.is_changed
        };
        let refused = self.predictions.limit(now);
        if let Some(rounds) = &mut self.rounds {
            rounds.append_current(&mut self.predictions, &self.metrics, now);
        }
        self.fit(now);
        self.cancel(now);
        self.slots.forget(now.as_second());
        let results = self.predictions.take_changed();
        if changed || !results.is_empty() {
            self.metrics.kept(&mut self.predictions, refused);
            self.store.send_modify(|known| {
                let known = known.get_or_insert_default();
                known.retain(|uid, _| self.predictions.has(uid));
                let by_uid = |result: PredictionResult| (result.spec.uid.clone(), result.into());
                known.extend(results.into_iter().map(by_uid));
            });
        }
    }

    /// Passes the rules on. Returns whether they changed.
    fn update_rules(&mut self) -> bool {
        let rules = self.rules.as_ref().and_then(|rules| rules.borrow().clone());
        rules.is_some_and(|rules| self.predictions.set_rules(rules))
    }

    /// Ends reads of metrics that are gone or refused.
    fn cancel(&mut self, now: Timestamp) {
        let Self {
            in_progress,
            predictions,
            slots,
            ..
        } = self;
        in_progress.retain(|_, request| {
            let is_pending = predictions.is_in_progress(&request.metric);
            if !is_pending {
                request.task.abort();
                slots.release(&request.namespace, request.since.elapsed(), now.as_second());
            }
            is_pending
        });
    }

    fn take(
        &mut self,
        ended: Result<(Id, Result<Samples, ReadFailure>), JoinError>,
        now: Timestamp,
    ) {
        let (id, answer) = ended.unwrap_or_else(|error| {
            let failure = ReadFailure::refused("the query failed".to_owned());
            (error.id(), Err(failure))
        });
        // Cancelled reads were removed.
        let Some(asked) = self.in_progress.remove(&id) else {
            return;
        };
        let (metric, namespace, took) = (asked.metric, asked.namespace, asked.since.elapsed());
        self.slots.release(&namespace, took, now.as_second());
        let _timer = answer.is_ok().then(|| self.metrics.update_timer());
        let Some(change) = self.predictions.record(&metric, answer, took, now) else {
            return;
        };
        let (prediction, metric) = (change.prediction, change.metric);
        if let Some(ReadFailure { why, details, .. }) = change.failure {
            tracing::info!(%prediction, metric, reason = why, details, "cannot read the history of a predicted metric");
        } else {
            tracing::info!(%prediction, metric, "the history of a predicted metric is readable again");
        }
    }

    /// Starts reads while there are slots.
    fn ask<A, F>(&mut self, ask: &A, now: Timestamp)
    where
        A: Fn(ReadRequest) -> F,
        F: Future<Output = Result<Samples, ReadFailure>> + Send + 'static,
    {
        while let Some(request) = self.predictions.next_request(&mut self.slots, now) {
            let (metric, namespace) = (request.metric.clone(), request.namespace.clone());
            let task = self.requests.spawn(ask(request));
            let (id, since) = (task.id(), Instant::now());
            let asked = Asked {
                metric,
                namespace,
                since,
                task,
            };
            self.in_progress.insert(id, asked);
        }
    }
}

struct Rounds {
    newest: watch::Receiver<Option<Round>>,
    /// Maximum time between two rounds.
    patience: Duration,
    received_at: Timestamp,
    /// Time of the last appended round.
    seen: Option<Timestamp>,
}

impl Rounds {
    fn append_current(
        &mut self,
        predictions: &mut PredictionSet,
        metrics: &ForecastMetrics,
        now: Timestamp,
    ) {
        let round = self.newest.borrow().clone();
        let Some(round) = round.filter(|round| self.seen != Some(round.at)) else {
            let silent = Duration::try_from(now.duration_since(self.received_at));
            if silent.unwrap_or_default() > self.patience {
                let pipelines = predictions.pipelines();
                let read = pipelines.filter(|pipeline| pipeline.query().is_some());
                read.for_each(|pipeline| pipeline.fail("no usage samples", now));
            }
            return;
        };
        (self.seen, self.received_at) = (Some(round.at), now);
        let usage = ByNamespace::new(&round);
        for pipeline in predictions.pipelines() {
            let Some(query) = pipeline.query() else {
                continue;
            };
            let sample = usage.sum(query);
            let _timer = metrics.update_timer();
            pipeline.append_current(round.at, sample, now);
        }
    }
}

/// Runs work of some milliseconds. A multi-threaded runtime moves the other tasks of this thread
/// meanwhile.
fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => block_in_place(work),
        _ => work(),
    }
}
