//! The writes to pods: evictions, and resizes with their annotations. And the annotation of a VPA object whose
//! recommendation is rolled back.
//!
//! Each write carries the unique identifier as a precondition, so that it cannot apply to a later object
//! of the same name.

use std::time::Duration;

use api::patch::guarded;
use api::rollback::ROLLED_BACK;
use api::vpa::VerticalPodAutoscaler;
use json_patch::Patch;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Patch as Body, PatchParams, Preconditions};
use kube::core::{PartialObjectMeta, Status};
use kube::{Api, Client, Error};
use rollout::{Action, ActionKind, ActionOutcome, AnnotationChanges, RollbackChange};
use runtime::{ApiServerClock, Backoff, Leading, NotLeading};
use serde_json::{Value, json};
use tokio::time::timeout;
use view::ObjectKey;

use crate::deployment_writer::roll;

/// The timeout of an eviction or a resize, and of all tries to write annotations. The API server
/// usually answers in 100 ms.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Writes pods, and Deployments for their rolling updates, while this replica leads. Clones share
/// the client.
#[derive(Clone)]
pub(crate) struct PodWriter {
    client: Client,
    clock: ApiServerClock,
}

impl PodWriter {
    /// A writer for one term of leadership.
    pub(crate) fn new(client: &Client, leading: &Leading, clock: ApiServerClock) -> Self {
        Self {
            client: leading.guard(client),
            clock,
        }
    }

    /// Sends an action and returns its outcome; `None`, without sending it, if this replica does not
    /// lead any more.
    pub(crate) async fn execute(&self, action: &Action) -> Option<ActionOutcome> {
        match &action.kind {
            ActionKind::Evict => outcome(action, self.evict(&action.pod, &action.pod_uid)).await,
            ActionKind::RollingUpdate(update) => {
                let answers_oom_kill = action.oom_kill.is_some();
                let now = self.clock.timestamp();
                outcome(action, roll(&self.client, update, answers_oom_kill, now)).await
            }
            ActionKind::Resize {
                patch,
                annotations,
                attempt: _,
            } => {
                let outcome = outcome(action, self.resize(action, patch)).await?;
                if matches!(outcome, ActionOutcome::Accepted { .. }) {
                    write_annotations(&action.pod, || self.annotate(action, annotations)).await;
                }
                Some(outcome)
            }
        }
    }

    /// Rolls a recommendation back, or ends that. Returns whether it was written.
    pub(crate) async fn roll_back(&self, change: &RollbackChange) -> bool {
        let RollbackChange { vpa, uid, rollback } = change;
        let text = rollback.as_ref().map(|it| json!(it).to_string());
        let body = Body::Merge(annotation_patch(
            uid,
            &[(ROLLED_BACK.to_owned(), text)].into(),
        ));
        let client = self.client.clone();
        let vpas: Api<PartialObjectMeta<VerticalPodAutoscaler>> =
            Api::namespaced(client, &vpa.namespace);
        let params = PatchParams::default();
        let write = || async { vpas.patch(&vpa.name, &params, &body).await.map(drop) };
        write_annotations(vpa, write).await
    }

    async fn evict(&self, key: &ObjectKey, uid: &str) -> kube::Result<ActionOutcome> {
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            ..Preconditions::default()
        };
        let delete_options = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let params = EvictParams {
            delete_options: Some(delete_options),
            ..EvictParams::default()
        };
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        pods.evict(&key.name, &params).await?;
        Ok(ActionOutcome::Accepted { generation: None })
    }

    async fn resize(&self, action: &Action, patch: &Patch) -> kube::Result<ActionOutcome> {
        let body = Body::Json::<()>(guarded(&action.pod_uid, patch.clone()));
        let (pods, params) = (self.pods(&action.pod), PatchParams::default());
        let resized = pods.patch_subresource("resize", &action.pod.name, &params, &body);
        let accepted = resized.await?;
        Ok(ActionOutcome::Accepted {
            generation: accepted.metadata.generation,
        })
    }

    async fn annotate(&self, action: &Action, annotations: &AnnotationChanges) -> kube::Result<()> {
        let body = Body::Merge(annotation_patch(&action.pod_uid, annotations));
        let (pods, params) = (self.pods(&action.pod), PatchParams::default());
        pods.patch(&action.pod.name, &params, &body).await.map(drop)
    }

    /// The pods of a namespace. Only the metadata of answers is parsed.
    fn pods(&self, pod: &ObjectKey) -> Api<PartialObjectMeta<Pod>> {
        Api::namespaced(self.client.clone(), &pod.namespace)
    }
}

/// The outcome of a request; [`ActionOutcome::Unknown`] after the timeout, `None` if it was not
/// sent.
async fn outcome(
    action: &Action,
    request: impl Future<Output = kube::Result<ActionOutcome>>,
) -> Option<ActionOutcome> {
    Some(match timeout(TIMEOUT, request).await {
        Ok(Ok(accepted)) => accepted,
        Ok(Err(error)) if NotLeading::is(&error) => return None,
        Ok(Err(error)) => {
            tracing::info!(
                pod = %action.pod,
                vpa = %action.vpa,
                action = action.kind.as_str(),
                reason = action.reason.as_str(),
                %error,
                "action failed"
            );
            classify(&error)
        }
        Err(_) => {
            tracing::warn!(
                pod = %action.pod,
                vpa = %action.vpa,
                action = action.kind.as_str(),
                timeout_seconds = TIMEOUT.as_secs(),
                "timeout of action, outcome unknown"
            );
            ActionOutcome::Unknown
        }
    })
}

/// Writes annotations of an object, with the retries of [`Backoff`]. Returns whether that succeeded; an object
/// that is gone is no error.
async fn write_annotations<R>(object: &ObjectKey, mut write: impl FnMut() -> R) -> bool
where
    R: Future<Output = kube::Result<()>>,
{
    let backoff = Backoff::default();
    let tries = backoff.retry(|| {
        let write = write();
        async move {
            write.await.or_else(|error| {
                if classify(&error) == ActionOutcome::PodGone {
                    Ok(())
                } else {
                    Err(error)
                }
            })
        }
    });
    match timeout(TIMEOUT, tries).await {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => tracing::warn!(%object, %error, "cannot write annotations"),
        Err(_) => tracing::warn!(%object, "timeout while writing annotations"),
    }
    false
}

/// The merge patch that changes only these annotations. The API server answers 409 for a pod with
/// another UID.
fn annotation_patch(uid: &str, annotations: &AnnotationChanges) -> Value {
    json!({"metadata": {"uid": uid, "annotations": annotations}})
}

fn classify(error: &Error) -> ActionOutcome {
    let Error::Api(status) = error else {
        return ActionOutcome::Unknown;
    };
    match status.code {
        404 => ActionOutcome::PodGone,
        // A later pod of the same name.
        409 if status.message.contains("UID") => ActionOutcome::PodGone,
        429 => {
            let seconds = status
                .details
                .as_ref()
                .map_or(0, |details| details.retry_after_seconds);
            ActionOutcome::TooManyRequests {
                retry_after: (seconds > 0).then(|| Duration::from_secs(seconds.into())),
            }
        }
        // A lost race, such as that for a quota's status.
        409 => ActionOutcome::TooManyRequests { retry_after: None },
        403 if has_cause(status, "NodeCapacity") => ActionOutcome::Infeasible,
        403 => ActionOutcome::Forbidden,
        400..=499 => ActionOutcome::Rejected,
        _ => ActionOutcome::Unknown,
    }
}

fn has_cause(status: &Status, reason: &str) -> bool {
    status
        .details
        .iter()
        .flat_map(|details| &details.causes)
        .any(|cause| cause.reason == reason)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::core::response::StatusDetails;

    use super::*;

    const OTHER_POD: &str = "Precondition failed: UID in precondition: a, UID in object meta: b";

    fn check(code: u16, message: &str, details: Option<StatusDetails>, expected: &ActionOutcome) {
        let status = Status {
            details,
            ..Status::failure(message, "Reason").with_code(code)
        };
        assert_eq!(
            classify(&Error::Api(status.boxed())),
            *expected,
            "{code} {message}"
        );
    }

    #[test]
    fn a_patch_of_annotations_has_the_uid_and_the_changes_only() {
        let annotations = [
            ("set".to_owned(), Some("1".to_owned())),
            ("gone".to_owned(), None),
        ]
        .into();
        let expected =
            json!({"metadata": {"uid": "u1", "annotations": {"set": "1", "gone": null}}});
        assert_eq!(annotation_patch("u1", &annotations), expected);
    }

    #[test]
    fn errors_are_classified() {
        let none = &ActionOutcome::TooManyRequests { retry_after: None };
        let (gone, rejected) = (&ActionOutcome::PodGone, &ActionOutcome::Rejected);
        for (code, message, expected) in [
            (404, "no such pod", gone),
            (
                409,
                "the UID in the precondition (a) does not match the UID in record (b)",
                gone,
            ),
            (409, OTHER_POD, gone),
            (409, "the object has been modified", none),
            (
                429,
                "Cannot evict pod as it would violate the pod's disruption budget.",
                none,
            ),
            (403, "exceeded quota: team", &ActionOutcome::Forbidden),
            (
                422,
                "Pod QOS Class may not change as a result of resizing",
                rejected,
            ),
            (500, "etcd is away", &ActionOutcome::Unknown),
        ] {
            check(code, message, None, expected);
        }
        let details = |json| Some(serde_json::from_value(json).expect("details"));
        let later = details(json!({"retryAfterSeconds": 10}));
        let retry_after = Some(Duration::from_secs(10));
        check(
            429,
            "wait",
            later,
            &ActionOutcome::TooManyRequests { retry_after },
        );
        let small = details(json!({"causes": [{"reason": "NodeCapacity"}]}));
        let message = "node didn't have enough allocatable resources";
        check(403, message, small, &ActionOutcome::Infeasible);
    }

    /// The tries to write annotations where each answer is this one, until a second one would be
    /// made.
    async fn check_tries(code: u16, message: &str, expected: usize) {
        let tries = AtomicUsize::new(0);
        let write = || async {
            if tries.fetch_add(1, Ordering::Relaxed) > 0 {
                std::future::pending::<()>().await;
            }
            Err(Error::Api(
                Status::failure(message, "Conflict").with_code(code).boxed(),
            ))
        };
        let pod = ObjectKey::new("shop", "web-0");
        let writing = write_annotations(&pod, write);
        let has_tried_again = async {
            while tries.load(Ordering::Relaxed) < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            _ = writing => {}
            () = has_tried_again => {}
        }
        assert_eq!(tries.load(Ordering::Relaxed), expected, "{code} {message}");
    }

    #[tokio::test]
    async fn annotations_are_retried_unless_the_pod_is_gone() {
        check_tries(409, OTHER_POD, 1).await;
        check_tries(404, "no such pod", 1).await;
        check_tries(422, "metadata.uid: Invalid value: field is immutable", 1).await;
        check_tries(409, "the object has been modified", 2).await;
    }
}
