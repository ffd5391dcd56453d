//! The objects that are forecast, with a history of each of their metrics. No input or output, and no clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::{ObjectKey, View, Whole};
use jiff::Timestamp;
use kube::ResourceExt as _;

use super::limits::MemoryLimits;
use super::shares::Shares;
use super::store::Failure;
use crate::predict::access::{Inputs, QueryAccess};
use crate::predict::job::{Job, MetricJob};
use crate::predict::outlook::Outlook;
use crate::predict::query::Query;
use crate::predict::track::{Found, Pace, Part, Span, Track};

/// All objects, by their unique identifiers.
pub(super) struct Objects {
    recommender: String,
    pace: Pace,
    limits: MemoryLimits,
    /// Whether there is a store that knows expressions.
    has_store: bool,
    pub(super) access: QueryAccess,
    known: BTreeMap<String, Object>,
    is_synced: bool,
    /// The number of the metric that comes next.
    next_number: u64,
    /// The namespace whose series were fitted last.
    fitted: String,
}

/// What a look at the objects found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Synced {
    /// Whether objects came, went or changed, or are known for the first time.
    pub(super) is_changed: bool,
    /// The number of objects whose metrics were derived.
    pub(super) derived: usize,
}

struct Object {
    /// The inputs that the metrics were derived from.
    inputs: Inputs,
    job: Arc<Job>,
    /// When the object was made, in seconds since 1970.
    created: i64,
    metrics: Vec<Pipeline>,
    is_new: bool,
}

/// One metric, and the question about it that has no answer yet.
struct Pipeline {
    number: u64,
    track: Track,
    asked: Option<Part>,
}

/// One metric of one object. The number tells it from one that had its place before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MetricKey {
    uid: String,
    number: u64,
}

/// A question about the history of one metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) metric: MetricKey,
    pub(super) namespace: String,
    pub(super) query: Query,
    pub(super) span: Span,
}

/// The history of a metric cannot be read any more, or for another reason than before, or again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HistoryChange {
    pub(super) prediction: ObjectKey,
    /// Identifier of the metric.
    pub(super) metric: String,
    /// None if the history can be read again.
    pub(super) failure: Option<Failure>,
}

impl Objects {
    pub(super) fn new(
        recommender: String,
        pace: Pace,
        limits: MemoryLimits,
        has_store: bool,
        access: QueryAccess,
    ) -> Self {
        Self {
            recommender,
            pace,
            limits,
            has_store,
            access,
            known: BTreeMap::new(),
            is_synced: false,
            next_number: 0,
            fitted: String::new(),
        }
    }

    /// Takes up which objects there are. The metrics of those are derived that changed, or something that they depend on.
    pub(super) fn sync(&mut self, view: &View, now: Timestamp) -> Synced {
        if !self.access.is_known() {
            return Synced::default();
        }
        let mut before = std::mem::take(&mut self.known);
        let mut synced = Synced { is_changed: !std::mem::replace(&mut self.is_synced, true), derived: 0 };
        for prediction in view.predictions.iter() {
            let inputs = self.access.inputs(view, prediction);
            let Some(uid) = self.uid(&inputs) else { continue };
            let (uid, old) =
                before.remove_entry(uid).map_or_else(|| (uid.to_owned(), None), |(uid, old)| (uid, Some(old)));
            let object = match old {
                Some(old) if old.inputs.is_same(&inputs) => old,
                old => {
                    synced.derived += 1;
                    let job = self.job(&uid, &inputs);
                    match old {
                        Some(old) if *old.job == job => Object { inputs, ..old },
                        old => {
                            synced.is_changed = true;
                            self.object(job, inputs, old, now)
                        }
                    }
                }
            };
            self.known.insert(uid, object);
        }
        synced.is_changed |= !before.is_empty();
        synced
    }

    /// The unique identifier of an object that this recommender forecasts.
    fn uid<'a>(&self, inputs: &'a Inputs) -> Option<&'a str> {
        let metadata = &inputs.prediction.object.metadata;
        let is_ours = metadata.deletion_timestamp.is_none() && inputs.annotations().recommender() == self.recommender;
        metadata.uid.as_deref().filter(|uid| is_ours && !uid.is_empty())
    }

    fn job(&self, uid: &str, inputs: &Inputs) -> Job {
        let Whole { key, object } = &*inputs.prediction;
        let mut job = Job::new(key.clone(), object, inputs.annotations(), &self.access.of(inputs));
        uid.clone_into(&mut job.uid);
        if !self.has_store {
            job.metrics.iter_mut().for_each(needs_store);
        }
        job
    }

    /// An object with what is known of its metrics already.
    fn object(&mut self, job: Job, inputs: Inputs, old: Option<Object>, now: Timestamp) -> Object {
        let created = inputs.prediction.object.creation_timestamp();
        let created = created.map_or(0, |created| created.0.as_second());
        let mut known = old.map(|old| old.metrics).unwrap_or_default();
        let window = job.window_seconds;
        let metrics = job.metrics.iter().map(|metric| {
            let same = known.iter().position(|pipeline| pipeline.track.is_for(metric, window));
            let same = same.map(|place| known.swap_remove(place));
            same.unwrap_or_else(|| {
                self.next_number += 1;
                let track = Track::new(&job.uid, metric.clone(), window, self.pace, now);
                Pipeline { number: self.next_number, track, asked: None }
            })
        });
        Object { metrics: metrics.collect(), created, job: Arc::new(job), inputs, is_new: true }
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    pub(super) fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        self.pipelines().map(|pipeline| &mut pipeline.track)
    }

    fn pipelines(&mut self) -> impl Iterator<Item = &mut Pipeline> {
        self.known.values_mut().flat_map(|object| &mut object.metrics)
    }

    /// The question that comes next; none while all wait for their time or for a place. Of a namespace the metric that waits longest comes first.
    pub(super) fn ask(&mut self, shares: &mut Shares, now: Timestamp) -> Option<Question> {
        let second = now.as_second();
        let is_due = |pipeline: &Pipeline| pipeline.asked.is_none() && pipeline.track.is_due(second);
        // Lazy: `next` looks at the objects only while a place is free.
        let waiting = self.known.values().filter(|object| object.metrics.iter().any(is_due));
        let waiting = waiting.map(|object| object.job.key.namespace.as_str());
        let namespace = shares.next(waiting, second)?.to_owned();
        let own = self.known.values_mut().filter(|object| object.job.key.namespace == namespace);
        let due = own.flat_map(|Object { job, metrics, .. }| {
            metrics.iter_mut().filter(|pipeline| is_due(pipeline)).map(|pipeline| (&job.uid, pipeline))
        });
        let (uid, pipeline) = due.min_by_key(|(_, pipeline)| pipeline.track.due())?;
        let part = pipeline.track.part(now);
        let query = pipeline.track.query()?.clone();
        pipeline.asked = Some(part);
        shares.take(&namespace);
        let metric = MetricKey { uid: uid.clone(), number: pipeline.number };
        Some(Question { metric, namespace, query, span: part.span })
    }

    /// Whether the answer to a question about this metric is still of use.
    pub(super) fn awaits(&self, key: &MetricKey) -> bool {
        let object = self.known.get(&key.uid);
        let mut metrics = object.iter().flat_map(|object| &object.metrics);
        metrics.any(|pipeline| pipeline.number == key.number && pipeline.asked.is_some())
    }

    /// Takes in the answer to a question, which took some time. Returns a failure that is new or has another reason, or its end.
    pub(super) fn answer(
        &mut self,
        key: &MetricKey,
        answer: Result<Found, Failure>,
        took: Duration,
        now: Timestamp,
    ) -> Option<HistoryChange> {
        let object = self.known.get_mut(&key.uid)?;
        let pipeline = object.metrics.iter_mut().find(|pipeline| pipeline.number == key.number)?;
        let part = pipeline.asked.take()?;
        let track = &mut pipeline.track;
        let (is_change, failure) = match answer {
            Ok(found) => (track.take_part(part, found, now), None),
            Err(Failure { excess: Some(excess), .. }) if track.asks_for_less(part, excess, now) => return None,
            Err(failure) => (track.fail_after(&failure.why, took, now), Some(failure)),
        };
        let metric = || track.outlook().identifier.clone();
        is_change.then(|| HistoryChange { prediction: object.job.key.clone(), metric: metric(), failure })
    }

    /// Takes in what was fitted since.
    pub(super) fn learn(&mut self, now: Timestamp) {
        self.tracks().for_each(|track| track.learn(now));
    }

    /// Metrics with series that wait to be fitted, of the namespace first that comes after the one that was first before.
    pub(super) fn unfitted(&mut self) -> impl Iterator<Item = &mut Track> {
        let last = std::mem::take(&mut self.fitted);
        let objects = self.known.values_mut().map(|object| (object.job.key.namespace.clone(), &mut object.metrics));
        let tracks = objects.flat_map(|(namespace, metrics)| {
            let waiting = metrics.iter_mut().map(|pipeline| &mut pipeline.track).filter(|track| track.is_unfitted());
            waiting.map(move |track| (namespace.clone(), track))
        });
        let mut tracks: Vec<_> = tracks.collect();
        tracks.sort_by(|(a, _), (b, _)| (*a <= last, a).cmp(&(*b <= last, b)));
        self.fitted = tracks.first().map_or(last, |(namespace, _)| namespace.clone());
        tracks.into_iter().map(|(_, track)| track)
    }

    /// Refuses metrics that take more memory than there is for their namespace, the newest objects first, and admits those that fit again.
    /// Returns the number of refused metrics.
    pub(super) fn limit(&mut self, now: Timestamp) -> usize {
        let mut needed: BTreeMap<String, usize> = BTreeMap::new();
        for object in self.known.values() {
            let tracks = object.metrics.iter().map(|pipeline| &pipeline.track).filter(|track| track.query().is_some());
            *needed.entry(object.job.key.namespace.clone()).or_default() +=
                tracks.map(Track::needed_bytes).sum::<usize>();
        }
        let share = self.limits.share(needed.into_values().collect());
        let reason = self.limits.reason(share);
        let mut objects: Vec<&mut Object> = self.known.values_mut().collect();
        objects.sort_by(|a, b| (a.created, &a.job.uid).cmp(&(b.created, &b.job.uid)));
        let mut used: BTreeMap<String, usize> = BTreeMap::new();
        let mut refused = 0;
        for object in objects {
            let used = used.entry(object.job.key.namespace.clone()).or_default();
            for pipeline in object.metrics.iter_mut().filter(|pipeline| pipeline.track.query().is_some()) {
                let bytes = used.saturating_add(pipeline.track.needed_bytes());
                if bytes <= share {
                    *used = bytes;
                    pipeline.track.admit(now);
                } else {
                    refused += 1;
                    pipeline.track.refuse(&reason);
                    pipeline.asked = None;
                }
            }
        }
        refused
    }

    /// What was found out since this was asked for last.
    pub(super) fn news(&mut self) -> Vec<Outlook> {
        let mut news = Vec::new();
        for object in self.known.values_mut() {
            if object.is_new || object.metrics.iter().any(|pipeline| pipeline.track.is_news) {
                object.is_new = false;
                object.metrics.iter_mut().for_each(|pipeline| pipeline.track.is_news = false);
                let metrics = object.metrics.iter().map(|pipeline| pipeline.track.outlook().clone()).collect();
                news.push(Outlook { job: Arc::clone(&object.job), metrics });
            }
        }
        news
    }
}

/// Usage is all that is known without a store.
fn needs_store(metric: &mut MetricJob) {
    if matches!(metric.query, Ok(Query::Expression(_))) {
        metric.query =
            Err("only Prometheus knows the history of this metric, and there is none: see --datasource".to_owned());
    }
}
