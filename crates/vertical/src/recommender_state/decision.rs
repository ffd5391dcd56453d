//! Decisions about objects: the desired status, and the steps of its targets.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;

use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscalerStatus};
use jiff::Timestamp;
use model::{Explanation, Recommendation};
use view::{ObjectKey, Vpa};

use super::{RecommenderState, Target, Tracked};
use crate::applied::apply_report;
use crate::hpa_conflict::apply_hpa_conflict;
use crate::refresh::{StatusChange, status_change};
use crate::schedulable::{apply_cap, clear_cap};
use crate::status::{self, StatusInput};

/// Consecutive rounds without an answer after which recommendations are stale, as in upstream's
/// health check.
const MOST_UNANSWERED: u32 = 5;

/// The desired status of one object.
#[derive(Debug, Clone)]
pub struct Decision {
    pub vpa: Arc<Vpa>,
    pub status: VerticalPodAutoscalerStatus,
    pub pods: usize,
    /// Whether its target cannot be used.
    pub unsupported: bool,
    /// Difference from the status of the object.
    pub change: StatusChange,
}

#[derive(Debug, Default)]
pub struct Batch {
    pub decisions: Vec<Decision>,
    /// The last object of the batch; `None` at the end.
    pub last: Option<ObjectKey>,
}

impl Decision {
    /// Whether the object's status differs in meaning from the decided one.
    pub fn is_change(&self) -> bool {
        self.change != StatusChange::None
    }

    pub fn is_first_recommendation(&self) -> bool {
        let had = status::has_recommendation(self.vpa.object.status.as_ref());
        !had && status::has_recommendation(Some(&self.status))
    }
}

impl RecommenderState {
    /// Decides about the objects after `after`, until `is_enough` says so of their number. A decision about
    /// an object whose pods have many sets of labels takes milliseconds.
    pub fn decide_batch(
        &self,
        after: Option<&ObjectKey>,
        is_enough: impl Fn(usize) -> bool,
        now: Timestamp,
    ) -> Batch {
        let mut batch = Batch::default();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let objects = self.vpas.range((from, Bound::Unbounded));
        for (count, (key, tracked)) in (1..).zip(objects) {
            batch.decisions.extend(self.decide_one(key, tracked, now));
            batch.last = Some(key.clone());
            if is_enough(count) {
                break;
            }
        }
        batch
    }

    pub fn decide_objects<'a>(
        &self,
        keys: impl IntoIterator<Item = &'a ObjectKey>,
        now: Timestamp,
    ) -> Vec<Decision> {
        let tracked = keys
            .into_iter()
            .filter_map(|key| self.vpas.get_key_value(key));
        tracked
            .filter_map(|(key, tracked)| self.decide_one(key, tracked, now))
            .collect()
    }

    /// The steps of the targets of one container before caps to what can be scheduled; `None` without
    /// a recommendation.
    pub fn explain(&self, key: &ObjectKey, container: &str) -> Option<Vec<Explanation>> {
        self.cluster.explain(key, container)
    }

    fn decide_one(&self, key: &ObjectKey, tracked: &Tracked, now: Timestamp) -> Option<Decision> {
        let Target {
            selector,
            unsupported,
        } = tracked.target.as_ref()?;
        let pods = self.cluster.pod_count(key).unwrap_or(0);
        let input = StatusInput {
            object: &tracked.vpa.object,
            unsupported: unsupported.as_deref(),
            refused_annotation: tracked.refused_annotation.as_deref(),
            unused_annotations: &tracked.sizing.unused,
            pods,
            recommendation: self.recommend(&tracked.vpa),
            is_measured: self.cluster.is_measured(key),
            history: self.history_of(key, selector, now),
            may_be_measured_soon: tracked
                .rounds
                .pods_since
                .is_some_and(|since| now < since + self.config.usage_interval),
            omits_containers: self.cluster.kept_containers(key).is_some(),
            source_is_stale: self.source_is_stale(),
        };
        let mut status = status::status(input, now);
        self.apply_cap(tracked, &mut status, now);
        apply_hpa_conflict(&mut status, &tracked.vpa.object, &tracked.hpas, now);
        let mode = tracked.vpa.object.spec.effective_update_mode();
        let is_updated = !matches!(
            mode,
            EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial
        );
        let last = tracked.rounds.last_report.as_ref();
        apply_report(&mut status, is_updated && pods > 0, last, now);
        let change = status_change(tracked.vpa.object.status.as_ref(), &status, || {
            self.cluster.pod_requests(key)
        });
        Some(Decision {
            vpa: Arc::clone(&tracked.vpa),
            status,
            pods,
            unsupported: unsupported.is_some(),
            change,
        })
    }

    /// Whether the source of usage is stale. `None` in the first rounds without an answer, and in a
    /// new process before the first answer: an outage may have begun earlier.
    fn source_is_stale(&self) -> Option<bool> {
        match self.unanswered? {
            0 => Some(false),
            MOST_UNANSWERED.. => Some(true),
            _ => None,
        }
    }

    /// The recommendation from usage. Resources without samples keep the published value; a per-VPA
    /// policy never goes below it until it has enough history.
    fn recommend(&self, vpa: &Vpa) -> Recommendation {
        let key = &vpa.key;
        let mut recommendation = self.cluster.recommend(key).unwrap_or_default();
        let status = vpa.object.status.as_ref();
        if let Some(published) = status.and_then(|status| status.recommendation.as_ref()) {
            self.cluster
                .keep_published(key, &mut recommendation, published);
        }
        recommendation
    }

    /// Recommended, requested and allocatable cores and bytes of each node group, with the
    /// recommendations of these decisions; none unless recommendations are capped to nodes.
    pub fn node_group_totals<'a>(
        &self,
        decisions: impl IntoIterator<Item = &'a Decision>,
    ) -> Vec<(String, [f64; 6])> {
        let Some(schedulable) = &self.schedulable else {
            return Vec::new();
        };
        let decisions = decisions.into_iter();
        let decisions: HashMap<&ObjectKey, &Decision> = decisions
            .map(|decision| (&decision.vpa.key, decision))
            .collect();
        let totals = schedulable.node_group_totals(|vpa| {
            let decision = decisions.get(&vpa.key)?;
            decision.status.recommendation.as_ref()
        });
        let values = totals.iter();
        values
            .map(|(group, totals)| (group.to_string(), totals.values()))
            .collect()
    }

    fn apply_cap(
        &self,
        tracked: &Tracked,
        status: &mut VerticalPodAutoscalerStatus,
        now: Timestamp,
    ) {
        let Some(schedulable) = &self.schedulable else {
            clear_cap(status);
            return;
        };
        let whole_cores = self.cluster.config().integer_cpu;
        let published = tracked.vpa.object.status.as_ref();
        apply_cap(
            status,
            published,
            |found| schedulable.fit(&tracked.vpa, whole_cores, found),
            now,
        );
    }
}
