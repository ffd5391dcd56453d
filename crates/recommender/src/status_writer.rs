//! Writes of the status of `VerticalPodAutoscaler` objects, each as one JSON patch, and events about
//! them: history that cannot be fetched or has arrived, recommendations that are capped or no longer
//! are, conflicts with HPAs.
//!
//! Upstream's patch replaces the whole status. Here it first tests the UID, so the status of a
//! deleted object is not written to its successor.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use api::patch::{guarded, put_status};
use api::vpa::VerticalPodAutoscaler;
use jiff::Timestamp;
use json_patch::Patch;
use kube::api::{ApiResource, DynamicObject, Patch as Body, PatchParams};
use kube::core::Request;
use kube::runtime::events::EventType;
use kube::{Error, Resource as _};
use runtime::client::Urgent;
use runtime::{Leading, ObjectWriter, WriteOutcome};
use tokio::task::JoinSet;
use vertical::hpa_conflict::hpa_conflict_change;
use vertical::recommender_state::Decision;
use vertical::schedulable::cap_change;
use vertical::status::{ConditionChange, history_change};
use vertical::write_queue::{Priority, WriteQueue};
use view::ObjectKey;

use crate::metrics::PublishMetrics;

/// Event of a VPA: history from Prometheus cannot be read, with the error; see
/// docs/history.md#history-from-prometheus.
const HISTORY_MISSING: &str = "HistoryMissing";
/// Event of a VPA: history from Prometheus is complete.
const HISTORY_FETCHED: &str = "HistoryFetched";
/// Event of a VPA: nodes, quotas or limit ranges lower the recommendation; see
/// docs/sizing.md#recommendations-that-can-be-scheduled.
const RECOMMENDATION_CAPPED: &str = "RecommendationCapped";
/// Event of a VPA: nodes, quotas and limit ranges no longer lower the recommendation.
const RECOMMENDATION_UNCAPPED: &str = "RecommendationUncapped";
/// Event of a VPA: an HPA scales by utilization of a resource that the object sizes; see
/// docs/sizing.md#next-to-an-hpa.
const CONFLICTS_WITH_HPA: &str = "ConflictsWithHPA";
/// Event of a VPA: no HPA scales by utilization of a resource that the object sizes any more.
const HPA_CONFLICT_RESOLVED: &str = "HPAConflictResolved";

#[derive(Clone)]
pub(crate) struct StatusWriter {
    objects: ObjectWriter,
    metrics: PublishMetrics,
}

impl StatusWriter {
    pub(crate) fn new(objects: ObjectWriter, metrics: PublishMetrics) -> Self {
        Self { objects, metrics }
    }

    pub(crate) fn during(&self, leading: &Leading) -> Self {
        Self::new(self.objects.during(leading), self.metrics.clone())
    }

    /// Writes a decision, if this process still leads.
    async fn write(&self, decision: &Decision, priority: Priority) -> WriteOutcome {
        let outcome = self.send(decision, priority).await;
        self.metrics.written(outcome);
        if outcome == WriteOutcome::Written {
            self.report(decision).await;
        }
        outcome
    }

    /// Records the events of a written decision. Conditions have the same information.
    async fn report(&self, decision: &Decision) {
        let vpa = &decision.vpa;
        if decision.is_first_recommendation() {
            self.metrics.first_recommendation(vpa, Timestamp::now());
        }
        let (old, new) = (vpa.object.status.as_ref(), &decision.status);
        for (change, action, [began, ended], note) in [
            (
                history_change(old, new),
                "FetchHistory",
                [HISTORY_MISSING, HISTORY_FETCHED],
                "Fetched history from Prometheus",
            ),
            (
                cap_change(old, new),
                "CapToSchedulable",
                [RECOMMENDATION_CAPPED, RECOMMENDATION_UNCAPPED],
                "The recommendation can be scheduled without a cap",
            ),
            (
                hpa_conflict_change(old, new),
                "CompareWithHPA",
                [CONFLICTS_WITH_HPA, HPA_CONFLICT_RESOLVED],
                "No HorizontalPodAutoscaler scales by utilization of a resource that this object sizes",
            ),
        ] {
            let (type_, reason, note) = match change {
                Some(ConditionChange::Began(message)) => (EventType::Warning, began, message),
                Some(ConditionChange::Ended) => (EventType::Normal, ended, note),
                None => continue,
            };
            self.objects
                .record_event(&vpa.reference(), type_, reason, action, note)
                .await;
        }
    }

    async fn send(&self, decision: &Decision, priority: Priority) -> WriteOutcome {
        let (vpa, key) = (&decision.vpa, &decision.vpa.key);
        let sent = match put_status(&decision.status) {
            Ok(patch) => self.patch(key, guarded(vpa.uid(), patch), priority).await,
            Err(error) => Err(Error::SerdeError(error)),
        };
        match sent {
            Ok(()) => WriteOutcome::Written,
            Err(error) => {
                let outcome = WriteOutcome::of_error(&error);
                if outcome != WriteOutcome::NotLeading {
                    tracing::warn!(autoscaler = %key, outcome = outcome.name(), %error, "cannot write the status");
                }
                outcome
            }
        }
    }

    async fn patch(&self, key: &ObjectKey, patch: Patch, priority: Priority) -> Result<(), Error> {
        let resource = ApiResource::erase::<VerticalPodAutoscaler>(&());
        let objects = DynamicObject::url_path(&resource, Some(&key.namespace));
        let request = Request::new(objects).patch_subresource(
            "status",
            &key.name,
            &PatchParams::default(),
            &Body::Json::<()>(patch),
        );
        let mut request = request.map_err(Error::BuildRequest)?;
        if priority == Priority::Urgent {
            request.extensions_mut().insert(Urgent);
        }
        // The answer is read loosely: what others wrote into the object must not make our write
        // look failed.
        self.objects
            .client()
            .request::<DynamicObject>(request)
            .await
            .map(drop)
    }
}

/// Concurrent writes of statuses, for one term of leadership.
pub(crate) struct StatusWrites {
    writer: StatusWriter,
    queue: WriteQueue,
    started: Instant,
    running: JoinSet<(ObjectKey, WriteOutcome)>,
}

impl StatusWrites {
    /// At most `workers` of each priority at the same time. Changes of bounds alone are written once
    /// per `refresh_interval`.
    pub(crate) fn new(writer: StatusWriter, workers: usize, refresh_interval: Duration) -> Self {
        Self {
            writer,
            queue: WriteQueue::new(workers, refresh_interval),
            started: Instant::now(),
            running: JoinSet::new(),
        }
    }

    /// Writes a decision when it is its turn, unless it changes nothing, or bounds alone before
    /// these are due.
    pub(crate) fn put(&mut self, decision: Arc<Decision>, priority: Priority) {
        self.queue.put(decision, priority, self.started.elapsed());
        self.start();
    }

    pub(crate) fn retain(&mut self, is_kept: impl Fn(&ObjectKey) -> bool) {
        self.queue.retain(is_kept);
    }

    /// The outcome of the next write that ends; waits for ever without one.
    pub(crate) async fn ended(&mut self) -> WriteOutcome {
        let Some(ended) = self.running.join_next().await else {
            return std::future::pending().await;
        };
        let (key, outcome) = ended.unwrap_or_else(|error| resume_unwind(error.into_panic()));
        self.queue.done(&key);
        self.start();
        outcome
    }

    /// Whether nothing is pending or being written.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn start(&mut self) {
        while let Some((decision, priority)) = self.queue.take() {
            let writer = self.writer.clone();
            self.running.spawn(async move {
                let outcome = writer.write(&decision, priority).await;
                (decision.vpa.key.clone(), outcome)
            });
        }
    }
}

#[cfg(test)]
mod tests;
