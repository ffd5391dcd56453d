//! Writes of the plan of one EHPA, one function per object. A failed write becomes a problem and an
//! event, and does not keep the other objects from being written.

use api::ehpa::{EffectiveHorizontalPodAutoscaler, adopted_by};
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use horizontal::ehpa::reasons::{
    FAILED_RECONCILE_HPA, FAILED_RECONCILE_PREDICTION, FAILED_RECONCILE_SUBSTITUTE, FAILED_SCALE,
};
use horizontal::ehpa::{
    Desired, Observed, Plan, Problem, Writable, differs, may_adopt, owned_name, ready_contains,
};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Error, ResourceExt as _};
use view::ObjectKey;

use crate::ehpa::writer::{ApplyOutcome, Writer};

/// Maximum number of HPAs that one pass over an EHPA deletes, and that it restores.
const MAX_WITHDRAWN: usize = 10;
/// Maximum length of an error in conditions, events and logs, in characters.
const MAX_ERROR_LENGTH: usize = 1000;

/// Event of an EHPA: the HPA was created.
const HPA_CREATED: &str = "HPACreated";
/// Event of an EHPA: an existing HPA was adopted.
const HPA_ADOPTED: &str = "HPAAdopted";
/// Event of an EHPA: the HPA was deleted, since another one scales the workload.
const HPA_DELETED: &str = "HPADeleted";
/// Event of an EHPA: the Substitute of a preview was created.
const SUBSTITUTE_CREATED: &str = "SubstituteCreated";
/// Event of an EHPA: the `TimeSeriesPrediction` was created.
const PREDICTION_CREATED: &str = "PredictionCreated";
/// Event of an EHPA: `specificReplicas` could not be applied.
const FAILED_MANUAL_SCALE: &str = "FailedManualScale";
/// Event of an EHPA: the HPA could not be written.
const FAILED_UPDATE_HPA: &str = "FailedUpdateHPA";
/// Event of an EHPA: the Substitute could not be written.
const FAILED_UPDATE_SUBSTITUTE: &str = "FailedUpdateSubstitute";
/// Event of an EHPA: the `TimeSeriesPrediction` could not be written.
const FAILED_UPDATE_PREDICTION: &str = "FailedUpdatePrediction";

/// Kind of an object that an EHPA owns, with reasons as in Crane.
struct Owned {
    kind: &'static str,
    created: &'static str,
    update_failed: &'static str,
    /// Reason of the condition `Ready` after a failed write.
    reconcile_failed: &'static str,
}

const HPA: Owned = Owned {
    kind: "HorizontalPodAutoscaler",
    created: HPA_CREATED,
    update_failed: FAILED_UPDATE_HPA,
    reconcile_failed: FAILED_RECONCILE_HPA,
};
const SUBSTITUTE: Owned = Owned {
    kind: "Substitute",
    created: SUBSTITUTE_CREATED,
    update_failed: FAILED_UPDATE_SUBSTITUTE,
    reconcile_failed: FAILED_RECONCILE_SUBSTITUTE,
};
const PREDICTION: Owned = Owned {
    kind: "TimeSeriesPrediction",
    created: PREDICTION_CREATED,
    update_failed: FAILED_UPDATE_PREDICTION,
    reconcile_failed: FAILED_RECONCILE_PREDICTION,
};

#[derive(Default)]
pub(super) struct Applied {
    /// Outcome for the HPA; `None` if the write failed or none was planned.
    pub(super) hpa: Option<ApplyOutcome>,
    pub(super) is_scaled: bool,
    pub(super) problems: Vec<Problem>,
}

/// Writes a plan. With `is_settled`, the HPA is known to be as planned.
pub(super) async fn apply(
    writer: &Writer,
    observed: &Observed<'_>,
    plan: &Plan,
    is_settled: bool,
) -> Applied {
    let object = observed.object;
    let mut applier = PlanApplier {
        writer,
        object,
        uid: object.uid().unwrap_or_default(),
        key: ObjectKey::new(object.namespace().unwrap_or_default(), owned_name(object)),
        problems: Vec::new(),
    };
    // An HPA must find its target: the Substitute is created before it and deleted after it.
    applier.apply_substitute(observed, plan).await;
    applier.withdraw_hpas(plan).await;
    let hpa = if is_settled {
        Some(ApplyOutcome::Unchanged)
    } else {
        applier.apply_hpa(plan).await
    };
    applier.delete_substitute(plan).await;
    applier.apply_prediction(observed, plan).await;
    let is_scaled = applier.scale(plan).await;
    Applied {
        hpa,
        is_scaled,
        problems: applier.problems,
    }
}

struct PlanApplier<'a> {
    writer: &'a Writer,
    object: &'a EffectiveHorizontalPodAutoscaler,
    uid: String,
    /// Key of the Substitute and the prediction.
    key: ObjectKey,
    problems: Vec<Problem>,
}

impl PlanApplier<'_> {
    async fn apply_substitute(&mut self, observed: &Observed<'_>, plan: &Plan) {
        let Desired::Apply(wanted) = &plan.substitute else {
            return;
        };
        let is_current =
            |there: &Substitute| there.spec == wanted.spec && there.status == wanted.status;
        if observed.substitute.is_some_and(is_current) {
            return;
        }
        let mut result = self.writer.apply(&**wanted, Writable::Own).await;
        if let Ok(outcome) = result {
            let (writer, status) = (self.writer, &wanted.status);
            let written = writer.patch_status::<Substitute>(&self.key, status).await;
            result = written.map(|()| outcome);
        }
        self.record(&SUBSTITUTE, result).await;
    }

    async fn delete_substitute(&mut self, plan: &Plan) {
        if plan.substitute == Desired::Delete {
            let deleted = self.writer.delete::<Substitute>(&self.key, &self.uid).await;
            self.record(&SUBSTITUTE, unchanged(deleted)).await;
        }
    }

    /// Deletes HPAs that the EHPA created, and restores those that it adopted.
    async fn withdraw_hpas(&mut self, plan: &Plan) {
        for name in plan.deleted.iter().take(MAX_WITHDRAWN) {
            let key = self.hpa_key(name);
            let writer = self.writer;
            let deleting = writer.delete::<HorizontalPodAutoscaler>(&key, &self.uid);
            let deleted = deleting.await;
            if matches!(deleted, Ok(true)) {
                let note = format!(
                    "HorizontalPodAutoscaler {name} is deleted: another one scales the same workload"
                );
                self.event(HPA_DELETED, &note, false).await;
            }
            self.record(&HPA, unchanged(deleted)).await;
        }
        for name in plan.restored.iter().take(MAX_WITHDRAWN) {
            let key = self.hpa_key(name);
            let restored = self.writer.restore(&key, &adopted_by(self.object)).await;
            self.record(&HPA, unchanged(restored)).await;
        }
    }

    async fn event(&self, reason: &str, note: &str, is_bad: bool) {
        self.writer
            .record_event(self.object, reason, note, is_bad)
            .await;
    }

    fn hpa_key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.object.namespace().unwrap_or_default(), name)
    }

    async fn apply_hpa(&mut self, plan: &Plan) -> Option<ApplyOutcome> {
        let hpa = plan.hpa.as_ref()?;
        let name = hpa.name_any();
        let installed = may_adopt(self.object, &name);
        let writable = if plan.adopts {
            Writable::Adopt { installed }
        } else {
            Writable::Own
        };
        let result = self.writer.apply(hpa, writable).await;
        if plan.adopts && matches!(result, Ok(ApplyOutcome::Changed)) {
            let note = format!("HorizontalPodAutoscaler {name} is adopted");
            self.event(HPA_ADOPTED, &note, false).await;
        }
        self.record(&HPA, result).await
    }

    async fn apply_prediction(&mut self, observed: &Observed<'_>, plan: &Plan) {
        let (writer, there) = (self.writer, observed.prediction);
        let result = match &plan.prediction {
            Desired::Apply(wanted) if there.is_none_or(|there| differs(there, wanted)) => {
                writer.apply(&**wanted, Writable::Own).await
            }
            Desired::Delete => {
                let deleting = writer.delete::<TimeSeriesPrediction>(&self.key, &self.uid);
                unchanged(deleting.await)
            }
            Desired::Apply(_) | Desired::Keep => return,
        };
        self.record(&PREDICTION, result).await;
    }

    /// Scales the workload directly, in a preview. Returns whether it was scaled.
    async fn scale(&mut self, plan: &Plan) -> bool {
        let Some(replicas) = plan.scale_to else {
            return false;
        };
        let Err(error) = self.writer.scale(self.object, replicas).await else {
            return true;
        };
        let (reason, message) = (FAILED_SCALE, text(&error));
        if !ready_contains(self.object.status.as_ref(), &message) {
            self.event(FAILED_MANUAL_SCALE, &message, true).await;
        }
        self.problems.push(Problem { reason, message });
        false
    }

    /// Records a creation as an event, and a failure as a problem and, unless the status has it
    /// already, as an event.
    async fn record(
        &mut self,
        owned: &Owned,
        result: Result<ApplyOutcome, Error>,
    ) -> Option<ApplyOutcome> {
        let object = self.object;
        let error = match result {
            Ok(outcome) => {
                if outcome == ApplyOutcome::Created {
                    let note = format!("{} is created", owned.kind);
                    self.event(owned.created, &note, false).await;
                }
                return Some(outcome);
            }
            Err(error) => error,
        };
        let (reason, message) = (owned.reconcile_failed, text(&error));
        if !ready_contains(object.status.as_ref(), &message) {
            let ehpa = self.hpa_key(&object.name_any());
            let kind = owned.kind;
            tracing::warn!(%ehpa, kind, error = message, "cannot write an object of an EHPA");
            self.event(owned.update_failed, &message, true).await;
        }
        self.problems.push(Problem { reason, message });
        None
    }
}

/// The outcome of a deletion or restoration, which is not recorded as a change.
fn unchanged(result: Result<bool, Error>) -> Result<ApplyOutcome, Error> {
    result.map(|_| ApplyOutcome::Unchanged)
}

/// The message of an error, as conditions, events and logs have it.
pub(super) fn text(error: &Error) -> String {
    let text = match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        error => error.to_string(),
    };
    text.chars().take(MAX_ERROR_LENGTH).collect()
}
