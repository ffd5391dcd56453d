//! Predictions of this recommender, with a pipeline for each of their metrics. No I/O and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forecast::PeakAccuracy;
use jiff::Timestamp;
use kube::ResourceExt as _;
use view::{ObjectKey, Stripped, View};

use super::metric_entry::{MemoryLimits, MetricEntry};
use super::query_slots::QuerySlots;
use super::{ReadFailure, ReadIntervals, ReadRange, Samples};
use crate::ehpa::Rules;
use crate::predictions::access::{Inputs, QueryAccess};
use crate::predictions::pipeline::MetricPipeline;
use crate::predictions::query::Query;
use crate::predictions::result::PredictionResult;
use crate::predictions::spec::{ForecastSpec, PredictionSpec, forecast_spec};

/// Predictions by UID.
pub struct PredictionSet {
    recommender: String,
    intervals: ReadIntervals,
    limits: MemoryLimits,
    /// Whether a Prometheus store is configured, which expressions need.
    has_store: bool,
    access: QueryAccess,
    known: BTreeMap<String, Prediction>,
    is_synced: bool,
    next_number: u64,
    /// Namespace of the last started fit.
    fitted: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncResult {
    /// Whether predictions were added, removed or changed. True for the first call.
    pub is_changed: bool,
    pub derived: usize,
}

struct Prediction {
    inputs: Inputs,
    spec: Arc<PredictionSpec>,
    /// Creation time, in seconds since 1970.
    created: i64,
    metrics: Vec<MetricEntry>,
    is_new: bool,
}

/// Metric of one prediction. The number distinguishes it from a previous one at its index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricKey {
    uid: String,
    number: u64,
}

/// Request to read a chunk of the history of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    pub metric: MetricKey,
    pub namespace: String,
    pub query: Query,
    pub range: ReadRange,
}

/// A history became unreadable, for another reason than before, or readable again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryChange {
    pub prediction: ObjectKey,
    pub metric: String,
    /// `None` if the history is readable again.
    pub failure: Option<ReadFailure>,
}

impl PredictionSet {
    pub fn new(
        recommender: String,
        intervals: ReadIntervals,
        limits: MemoryLimits,
        has_store: bool,
        access: QueryAccess,
    ) -> Self {
        Self {
            recommender,
            intervals,
            limits,
            has_store,
            access,
            known: BTreeMap::new(),
            is_synced: false,
            next_number: 0,
            fitted: String::new(),
        }
    }

    /// Replaces the rules. Returns whether they differ from the previous ones.
    pub fn set_rules(&mut self, rules: Arc<Rules>) -> bool {
        self.access.set_rules(rules)
    }

    /// Takes the predictions of a view. Derives the metrics of those whose inputs changed. New
    /// metrics wait for [`Self::limit`].
    pub fn sync(&mut self, view: &View) -> SyncResult {
        if !self.access.is_known() {
            return SyncResult::default();
        }
        let mut before = std::mem::take(&mut self.known);
        let mut sync_result = SyncResult {
            is_changed: !std::mem::replace(&mut self.is_synced, true),
            derived: 0,
        };
        for prediction in view.predictions.iter() {
            let inputs = self.access.inputs(view, prediction);
            let Some(uid) = self.uid(&inputs) else {
                continue;
            };
            let (uid, old) = before
                .remove_entry(uid)
                .map_or_else(|| (uid.to_owned(), None), |(uid, old)| (uid, Some(old)));
            let object = match old {
                Some(old) if old.inputs.is_same(&inputs) => old,
                old => {
                    let (object, is_changed) = self.object(inputs, old);
                    sync_result.derived += 1;
                    sync_result.is_changed |= is_changed;
                    object
                }
            };
            self.known.insert(uid, object);
        }
        sync_result.is_changed |= !before.is_empty();
        sync_result
    }

    /// UID of a prediction that this recommender is responsible for.
    fn uid<'a>(&self, inputs: &'a Inputs) -> Option<&'a str> {
        let metadata = &inputs.prediction.object.metadata;
        let is_ours = metadata.deletion_timestamp.is_none()
            && inputs.annotations().recommender() == self.recommender;
        let uid = metadata.uid.as_deref();
        uid.filter(|uid| is_ours && !uid.is_empty())
    }

    /// A prediction with the known pipelines of its metrics, and whether it differs from the old
    /// one.
    fn object(&mut self, inputs: Inputs, old: Option<Prediction>) -> (Prediction, bool) {
        let Stripped { key, object } = &*inputs.prediction;
        let created = object
            .creation_timestamp()
            .map_or(0, |created| created.0.as_second());
        let spec = PredictionSpec::new(key.clone(), object);
        let count = object.spec.prediction_metrics.len();
        let (known, before) = match old {
            Some(old) => (old.metrics, Some((old.inputs, old.spec, old.is_new))),
            None => (Vec::new(), None),
        };
        let numbers: Vec<_> = known.iter().map(|entry| entry.number).collect();
        let mut known: Vec<_> = known.into_iter().map(Some).collect();
        let mut metrics = Vec::with_capacity(count);
        for metric in (0..count).filter_map(|index| metric(&inputs, index, self.has_store)) {
            let is_same = |(index, known): (usize, &Option<MetricEntry>)| {
                let known = known.as_ref().zip(before.as_ref());
                known.is_some_and(|(known, (old, ..))| {
                    self.is_known(known, old, index, &metric, spec.window_seconds)
                })
            };
            let same = known.iter().enumerate().position(is_same);
            let mut same = same.and_then(|index| known.get_mut(index)?.take());
            if let Some(pipeline) = same.as_mut().and_then(MetricEntry::pipeline_mut) {
                pipeline.continue_with(&metric);
            }
            metrics.push(same.unwrap_or_else(|| {
                self.next_number += 1;
                MetricEntry::new(
                    self.next_number,
                    metric.identifier.clone(),
                    metric.usual_bytes(),
                )
            }));
        }
        let same = before.filter(|(_, old, _)| **old == spec);
        let same = same.filter(|_| metrics.iter().map(|entry| entry.number).eq(numbers));
        let is_changed = same.is_none();
        let (spec, is_new) = same.map_or_else(
            || (Arc::new(spec), true),
            |(_, spec, is_new)| (spec, is_new),
        );
        (
            Prediction {
                inputs,
                spec,
                created,
                metrics,
                is_new,
            },
            is_changed,
        )
    }

    /// Whether a metric is the one that the prediction had at this index before.
    fn is_known(
        &self,
        known: &MetricEntry,
        old: &Inputs,
        index: usize,
        new: &ForecastSpec,
        window_seconds: u32,
    ) -> bool {
        known.result().identifier == new.identifier
            && match known.pipeline() {
                Some(pipeline) => pipeline.is_for(new, window_seconds),
                // The old one is derived again, since waiting metrics keep no texts.
                None => metric(old, index, self.has_store).as_ref() == Some(new),
            }
    }

    pub fn has(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    pub fn pipelines(&mut self) -> impl Iterator<Item = &mut MetricPipeline> {
        let entries = self
            .known
            .values_mut()
            .flat_map(|object| &mut object.metrics);
        entries.filter_map(MetricEntry::pipeline_mut)
    }

    /// Accuracy of each metric over the last day, where the method knows it, in the order of the
    /// UIDs: prediction, identifier of the metric, accuracy.
    pub fn accuracies(&self) -> impl Iterator<Item = (&ObjectKey, &str, &PeakAccuracy)> {
        self.known.values().flat_map(|object| {
            let results = object.metrics.iter().map(MetricEntry::result);
            results.filter_map(|result| {
                let accuracy = result.accuracy.as_ref()?;
                Some((&object.spec.key, result.identifier.as_str(), accuracy))
            })
        })
    }

    /// Returns the next read; `None` while none is due or no slot is free. Within a namespace the
    /// longest due metric comes first.
    pub fn next_request(&mut self, slots: &mut QuerySlots, now: Timestamp) -> Option<ReadRequest> {
        let second = now.as_second();
        let is_due = |entry: &MetricEntry| entry.due(second).is_some();
        // Lazy: the slots look at the predictions only while one is free.
        let known = self.known.values();
        let waiting = known.filter(|object| object.metrics.iter().any(is_due));
        let waiting = waiting.map(|object| object.spec.key.namespace.as_str());
        let namespace = slots.next_namespace(waiting, second)?.to_owned();
        let known = self.known.values_mut();
        let own = known.filter(|object| object.spec.key.namespace == namespace);
        let due = own.flat_map(|Prediction { spec, metrics, .. }| {
            let due = metrics
                .iter_mut()
                .filter_map(|entry| Some((entry.due(second)?.due(), entry)));
            due.map(|(due, entry)| (due, &spec.uid, entry))
        });
        let (_, uid, entry) = due.min_by_key(|(due, ..)| *due)?;
        let pipeline = entry.pipeline()?;
        let (chunk, query) = (pipeline.chunk(now), pipeline.query()?.clone());
        entry.begin(chunk);
        slots.acquire(&namespace);
        let metric = MetricKey {
            uid: uid.clone(),
            number: entry.number,
        };
        Some(ReadRequest {
            metric,
            namespace,
            query,
            range: chunk.range,
        })
    }

    /// Whether the response to a read of this metric is still of use.
    pub fn is_in_progress(&self, key: &MetricKey) -> bool {
        let object = self.known.get(&key.uid);
        let mut metrics = object.iter().flat_map(|object| &object.metrics);
        metrics.any(|entry| entry.number == key.number && entry.is_in_progress())
    }

    /// Records the response to a read and its duration. Returns a new failure, a failure with
    /// another reason, or its end.
    pub fn record(
        &mut self,
        key: &MetricKey,
        answer: Result<Samples, ReadFailure>,
        took: Duration,
        now: Timestamp,
    ) -> Option<HistoryChange> {
        let object = self.known.get_mut(&key.uid)?;
        let mut metrics = object.metrics.iter_mut();
        let entry = metrics.find(|entry| entry.number == key.number)?;
        let (chunk, pipeline) = entry.end()?;
        let (is_change, failure) = match answer {
            Ok(found) => (pipeline.append_chunk(chunk, found, now), None),
            Err(ReadFailure {
                excess: Some(excess),
                ..
            }) if pipeline.reduce_chunk(chunk, excess, now) => return None,
            Err(failure) => (pipeline.fail_after(&failure.why, took, now), Some(failure)),
        };
        is_change.then(|| HistoryChange {
            prediction: object.spec.key.clone(),
            metric: pipeline.result().identifier.clone(),
            failure,
        })
    }

    /// Takes the results of finished fits.
    pub fn collect_fits(&mut self, now: Timestamp) {
        let pipelines = self.pipelines();
        pipelines.for_each(|pipeline| pipeline.collect_fits(now));
    }

    /// Pipelines with due fits. Namespaces take turns to be the first.
    pub fn awaiting_fit(&mut self) -> impl Iterator<Item = &mut MetricPipeline> {
        let last = std::mem::take(&mut self.fitted);
        let known = self.known.values_mut();
        let objects = known.map(|it| (it.spec.key.namespace.clone(), &mut it.metrics));
        let pipelines = objects.flat_map(|(namespace, metrics)| {
            let admitted = metrics.iter_mut().filter_map(MetricEntry::pipeline_mut);
            let waiting = admitted.filter(|pipeline| pipeline.awaits_fit());
            waiting.map(move |pipeline| (namespace.clone(), pipeline))
        });
        let mut pipelines: Vec<_> = pipelines.collect();
        pipelines.sort_by(|(a, _), (b, _)| (*a <= last, a).cmp(&(*b <= last, b)));
        let first = pipelines.first();
        self.fitted = first.map_or(last, |(namespace, _)| namespace.clone());
        pipelines.into_iter().map(|(_, pipeline)| pipeline)
    }

    /// Refuses metrics beyond the memory limits, those of the newest predictions first, and admits
    /// those that leave a reserve. Returns the number of refused metrics.
    pub fn limit(&mut self, now: Timestamp) -> usize {
        let Self {
            has_store,
            known,
            limits,
            intervals,
            ..
        } = self;
        let mut needed: BTreeMap<&str, usize> = BTreeMap::new();
        for object in known.values() {
            let bytes = object.metrics.iter().map(MetricEntry::needed_bytes);
            *needed.entry(&object.spec.key.namespace).or_default() += bytes.sum::<usize>();
        }
        let share = limits.share(needed.into_values().collect());
        let reason = limits.reason(share);
        let mut objects: Vec<&mut Prediction> = known.values_mut().collect();
        objects.sort_by(|a, b| (a.created, &a.spec.uid).cmp(&(b.created, &b.spec.uid)));
        let mut used: BTreeMap<&str, usize> = BTreeMap::new();
        let mut refused = 0;
        for Prediction {
            inputs,
            spec,
            metrics,
            ..
        } in objects
        {
            let used = used.entry(&spec.key.namespace).or_default();
            for (index, entry) in metrics.iter_mut().enumerate() {
                let bytes = used.saturating_add(entry.needed_bytes());
                let most = if entry.pipeline().is_some() {
                    share
                } else {
                    MemoryLimits::most_to_begin(share)
                };
                if bytes > most {
                    refused += 1;
                    entry.refuse(&reason);
                    continue;
                }
                *used = bytes;
                if entry.pipeline().is_none()
                    && let Some(metric) = metric(inputs, index, *has_store)
                {
                    entry.admit(MetricPipeline::new(
                        &spec.uid,
                        metric,
                        spec.window_seconds,
                        *intervals,
                        now,
                    ));
                }
            }
        }
        refused
    }

    /// Returns the results that changed since the last call.
    pub fn take_changed(&mut self) -> Vec<PredictionResult> {
        let mut changed = Vec::new();
        for object in self.known.values_mut() {
            let is_new = std::mem::take(&mut object.is_new);
            let newer = object.metrics.iter_mut().map(MetricEntry::take_change);
            if newer.fold(is_new, |any, is_newer| any | is_newer) {
                let metrics = object.metrics.iter().map(|entry| entry.result().clone());
                changed.push(PredictionResult {
                    spec: Arc::clone(&object.spec),
                    metrics: metrics.collect(),
                });
            }
        }
        changed
    }
}

/// The metric at this index of a prediction. Without a store only usage has a history.
fn metric(inputs: &Inputs, index: usize, has_store: bool) -> Option<ForecastSpec> {
    let object = &inputs.prediction.object;
    let metric = object.spec.prediction_metrics.get(index)?;
    let mut metric = forecast_spec(object, metric, inputs.annotations(), &inputs.access);
    if !has_store && matches!(metric.query, Ok(Query::Expression(_))) {
        metric.query = Err(
            "the history of this metric is only in Prometheus, which is not configured: see --datasource"
                .to_owned(),
        );
    }
    Some(metric)
}
