//! The recommender's only writes: the status of `VerticalPodAutoscaler` objects, each as one JSON
//! patch; checkpoints (`act/checkpoint.rs`), objects of sizing policies (`act/policy.rs`), objects
//! of EHPAs (`act/ehpa.rs`, `act/prediction.rs`) and events (`act/event.rs`).
//!
//! Upstream's patch replaces the whole status. Here it first tests the UID, so the status of a
//! deleted object is not written to its successor.

pub(crate) mod checkpoint;
pub(crate) mod ehpa;
mod event;
mod objects;
pub(crate) mod policy;
pub(crate) mod prediction;
mod writes;

use std::time::Instant;

use api::patch::guarded;
use api::patch::put_status;
use api::vpa::VerticalPodAutoscaler;
use jiff::Timestamp;
use json_patch::Patch;
use kube::api::{ApiResource, DynamicObject, Patch as Body, PatchParams};
use kube::core::Request;
use kube::{Client, Error, Resource as _};
use runtime::Leading;
use runtime::client::Urgent;
use vertical::state::Decision;
use vertical::write_queue::Priority;
use view::ObjectKey;

use crate::metrics::PublishMetrics;
use crate::outcome::StatusOutcome;
use event::Events;

pub(crate) use writes::Writes;

/// Writes statuses. Clones share everything.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    metrics: PublishMetrics,
    events: Events,
}

impl Writer {
    /// Creates a writer with this client.
    pub(crate) fn new(client: Client, metrics: PublishMetrics) -> Self {
        let events = Events::new(client.clone());
        Self {
            client,
            metrics,
            events,
        }
    }

    /// Writes a decision, if this process still leads.
    async fn write(
        &self,
        decision: &Decision,
        priority: Priority,
        leading: &Leading,
    ) -> StatusOutcome {
        let leads = leading.holds(Instant::now());
        let outcome = if leads {
            self.send(decision, priority).await
        } else {
            StatusOutcome::NotLeading
        };
        self.metrics.written(outcome);
        if outcome == StatusOutcome::Written && decision.is_first_recommendation() {
            self.metrics
                .first_recommendation(&decision.autoscaler, Timestamp::now());
        }
        if let Some(news) = decision
            .history_change()
            .filter(|_| outcome == StatusOutcome::Written)
        {
            self.events.history(&decision.autoscaler, news).await;
        }
        if let Some(news) = decision
            .cap_change()
            .filter(|_| outcome == StatusOutcome::Written)
        {
            self.events.caps(&decision.autoscaler, news).await;
        }
        outcome
    }

    async fn send(&self, decision: &Decision, priority: Priority) -> StatusOutcome {
        let Decision {
            autoscaler, status, ..
        } = decision;
        let key = &autoscaler.key;
        let sent = match put_status(status) {
            Ok(patch) => {
                self.patch(key, guarded(autoscaler.uid(), patch), priority)
                    .await
            }
            Err(error) => Err(Error::SerdeError(error)),
        };
        match sent {
            Ok(()) => StatusOutcome::Written,
            Err(error) => {
                let outcome = classify(&error);
                tracing::warn!(autoscaler = %key, outcome = outcome.name(), %error, "cannot write the status");
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
        self.client
            .request::<DynamicObject>(request)
            .await
            .map(drop)
    }
}

fn classify(error: &Error) -> StatusOutcome {
    match error {
        Error::Api(status) if status.code == 404 => StatusOutcome::Gone,
        error if is_refused(error) => StatusOutcome::Refused,
        _ => StatusOutcome::Failed,
    }
}

/// Whether the content of the write is the cause of the error, so that a retry is useless. 422 is
/// either a failed test of the UID or a status that the schema refuses.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::Api(status) => matches!(status.code, 400 | 413 | 422),
        error => matches!(error, Error::SerdeError(_)),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    fn check(code: u16, expected: StatusOutcome) {
        let status = Status::failure("why", "Reason").with_code(code).boxed();
        assert_eq!(classify(&Error::Api(status)), expected, "{code}");
    }

    #[test]
    fn answers_say_whether_another_attempt_may_help() {
        check(404, StatusOutcome::Gone);
        check(400, StatusOutcome::Refused);
        check(422, StatusOutcome::Refused);
        check(409, StatusOutcome::Failed);
        check(403, StatusOutcome::Failed);
        check(429, StatusOutcome::Failed);
        check(503, StatusOutcome::Failed);
    }
}
