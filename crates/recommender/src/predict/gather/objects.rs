//! The objects that are forecast, with a history each of every metric.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::prediction::TimeSeriesPrediction;
use cluster::{View, Whole};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::predict::job::{Annotations, Job, MetricJob};
use crate::predict::outlook::Outlook;
use crate::predict::query::Query;
use crate::predict::track::{Pace, Track};

/// All objects, by their unique identifiers.
pub(super) struct Objects {
    recommender: String,
    pace: Pace,
    /// Whether there is a store that knows expressions.
    has_store: bool,
    known: BTreeMap<String, Object>,
    is_synced: bool,
}

struct Object {
    job: Arc<Job>,
    tracks: Vec<Track>,
    is_new: bool,
}

impl Objects {
    pub(super) fn new(recommender: String, pace: Pace, has_store: bool) -> Self {
        Self { recommender, pace, has_store, known: BTreeMap::new(), is_synced: false }
    }

    /// Takes up which objects there are; gives whether any came, went or changed, or whether it is known for the first time.
    pub(super) fn sync(&mut self, view: &View, now: Timestamp) -> bool {
        // Before the kinds are installed nothing is watched.
        if view.freshness().next().is_none() || !view.is_synced() {
            return false;
        }
        let mut before = std::mem::take(&mut self.known);
        let mut changed = !std::mem::replace(&mut self.is_synced, true);
        for whole in view.predictions.iter() {
            let Some(job) = self.job(view, whole) else { continue };
            let old = before.remove(&job.uid);
            let object = match old {
                Some(old) if *old.job == job => old,
                old => {
                    changed = true;
                    self.object(job, old, now)
                }
            };
            self.known.insert(object.job.uid.clone(), object);
        }
        changed || !before.is_empty()
    }

    fn job(&self, view: &View, whole: &Whole<TimeSeriesPrediction>) -> Option<Job> {
        let object = &whole.object;
        let uid = object.uid().filter(|uid| !uid.is_empty())?;
        let annotations = Annotations::of(view, whole);
        let is_ours = annotations.recommender() == self.recommender && object.metadata.deletion_timestamp.is_none();
        if !is_ours {
            return None;
        }
        let mut job = Job::new(whole.key.clone(), object, annotations);
        job.uid = uid;
        if !self.has_store {
            job.metrics.iter_mut().for_each(needs_store);
        }
        Some(job)
    }

    /// An object with what is known of its metrics already.
    fn object(&self, job: Job, old: Option<Object>, now: Timestamp) -> Object {
        let mut known = old.map(|old| old.tracks).unwrap_or_default();
        let window = job.window_seconds;
        let tracks = job.metrics.iter().map(|metric| {
            let same = known.iter().position(|track| track.is_for(metric, window));
            let same = same.map(|place| known.swap_remove(place));
            same.unwrap_or_else(|| Track::new(&job.uid, metric.clone(), window, self.pace, now))
        });
        Object { tracks: tracks.collect(), job: Arc::new(job), is_new: true }
    }

    pub(super) fn has(&self, uid: &str) -> bool {
        self.known.contains_key(uid)
    }

    pub(super) fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        self.known.values_mut().flat_map(|object| &mut object.tracks)
    }

    /// Metrics that are to be looked at, those first that wait longest; at most so many.
    pub(super) fn due(&mut self, now: Timestamp, most: usize) -> Vec<&mut Track> {
        let now = now.as_second();
        let mut due: Vec<_> = self.tracks().filter(|track| track.is_due(now)).collect();
        due.sort_by_key(|track| track.due());
        due.truncate(most);
        due
    }

    pub(super) fn is_due(&self, now: Timestamp) -> bool {
        let now = now.as_second();
        let mut tracks = self.known.values().flat_map(|object| &object.tracks);
        tracks.any(|track| track.is_due(now))
    }

    /// What was found out since this was asked for last.
    pub(super) fn news(&mut self) -> Vec<Outlook> {
        let mut news = Vec::new();
        for object in self.known.values_mut() {
            if object.is_new || object.tracks.iter().any(|track| track.is_news) {
                object.is_new = false;
                object.tracks.iter_mut().for_each(|track| track.is_news = false);
                let metrics = object.tracks.iter().map(|track| track.outlook().clone()).collect();
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
