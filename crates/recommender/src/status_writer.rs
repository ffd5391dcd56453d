//! Writes of the status of `VerticalPodAutoscaler` objects, each as one JSON patch, and events about
//! them: history that cannot be fetched or has arrived, recommendations that are capped or no longer
//! are, conflicts with HPAs.
//!
//! Upstream's patch replaces the whole status. Here it first tests the UID, so the status of a
//! deleted object is not written to its successor.

mod queue;

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
use vertical::condition_change::ConditionChange;
use vertical::recommender_state::Decision;
use vertical::write_queue::Priority;
use view::ObjectKey;

use crate::metrics::PublishMetrics;

pub(crate) use queue::StatusWrites;

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

    /// The writer for one term of leadership.
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
        let (history, cap) = (decision.history_change(), decision.cap_change());
        for (change, action, [began, ended], note) in [
            (
                history,
                "FetchHistory",
                [HISTORY_MISSING, HISTORY_FETCHED],
                "Fetched history from Prometheus",
            ),
            (
                cap,
                "CapToSchedulable",
                [RECOMMENDATION_CAPPED, RECOMMENDATION_UNCAPPED],
                "The recommendation can be scheduled without a cap",
            ),
            (
                decision.hpa_conflict_change(),
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
