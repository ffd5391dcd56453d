//! The write to Deployments: the annotation of the pod template that begins a rolling update.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use rollout::{ActionOutcome, RESIZED_AT, RollingUpdate, may_roll};
use serde_json::{Value, json};

/// Reads a Deployment, checks whether it may be rolled, and changes the annotation. A change of the
/// Deployment between the read and the write leads to a conflict.
pub(crate) async fn roll(
    client: &Client,
    update: &RollingUpdate,
    answers_oom_kill: bool,
    now: Timestamp,
) -> kube::Result<ActionOutcome> {
    let (key, uid) = (&update.deployment, &update.uid);
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &key.namespace);
    let deployment = deployments.get(&key.name).await?;
    if deployment.uid().as_ref() != Some(uid) {
        return Ok(ActionOutcome::PodGone);
    }
    if let Err(refusal) = may_roll(&deployment, answers_oom_kill, now) {
        return Ok(ActionOutcome::RollingUpdateRefused(refusal));
    }
    let body = Patch::Merge(annotation_patch(&deployment, now));
    let params = PatchParams::default();
    let patched = deployments.patch(&key.name, &params, &body).await?;
    Ok(ActionOutcome::Accepted {
        generation: patched.metadata.generation,
    })
}

/// The merge patch of the annotation. The API server answers 409 if the Deployment has another
/// resource version.
fn annotation_patch(deployment: &Deployment, now: Timestamp) -> Value {
    // Whole seconds, as in the times of Kubernetes.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    json!({
        "metadata": {"resourceVersion": deployment.resource_version()},
        "spec": {"template": {"metadata": {"annotations": {RESIZED_AT: now.to_string()}}}},
    })
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::sync::{Arc, Mutex};

    use http::Method;
    use rollout::RollingUpdateRefusal;
    use testing::api_server;
    use view::ObjectKey;

    use super::*;

    /// The outcome at an API server with this Deployment, which answers the patch with `code`; and
    /// the patch.
    async fn outcome(deployment: Value, code: u16) -> (kube::Result<ActionOutcome>, Option<Value>) {
        let patched = Arc::new(Mutex::new(None));
        let state = Arc::clone(&patched);
        let client = api_server(move |request| {
            let path = "/apis/apps/v1/namespaces/shop/deployments/web";
            assert_eq!(request.uri().path(), path);
            let is_patch = request.method() == Method::PATCH;
            if is_patch {
                *state.lock().expect("no panic") = serde_json::from_slice(request.body()).ok();
            }
            ready(if is_patch && code != 200 {
                let conflict = json!({"kind": "Status", "status": "Failure", "code": code, "message": "changed", "reason": "Conflict"});
                (code, conflict)
            } else {
                (200, deployment.clone())
            })
        });
        let update = RollingUpdate {
            deployment: ObjectKey::new("shop", "web"),
            uid: "u1".to_owned(),
        };
        let now = "2026-01-01T12:00:00.5Z".parse().expect("a time");
        let outcome = roll(&client, &update, false, now).await;
        let patched = patched.lock().expect("no panic").take();
        (outcome, patched)
    }

    fn deployment() -> Value {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"namespace": "shop", "name": "web", "uid": "u1", "resourceVersion": "7", "generation": 1},
            "spec": {"replicas": 1, "selector": {}, "template": {}},
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
        })
    }

    #[tokio::test]
    async fn the_patch_sets_one_annotation_of_the_version_that_was_read() {
        let (found, patched) = outcome(deployment(), 200).await;
        let generation = Some(1);
        assert_eq!(
            found.expect("it is accepted"),
            ActionOutcome::Accepted { generation }
        );
        let expected = json!({
            "metadata": {"resourceVersion": "7"},
            "spec": {"template": {"metadata": {"annotations": {"plimsoll.dev/resized-at": "2026-01-01T12:00:00Z"}}}},
        });
        assert_eq!(patched, Some(expected));
        assert!(outcome(deployment(), 409).await.0.is_err());
    }

    #[tokio::test]
    async fn a_deployment_that_may_not_be_rolled_is_not_written() {
        let (mut paused, mut other) = (deployment(), deployment());
        paused["spec"]["paused"] = json!(true);
        other["metadata"]["uid"] = json!("u2");
        for (deployment, expected) in [
            (
                paused,
                ActionOutcome::RollingUpdateRefused(RollingUpdateRefusal::Paused),
            ),
            (other, ActionOutcome::PodGone),
        ] {
            let (found, patched) = outcome(deployment, 200).await;
            assert_eq!((found.expect("an answer"), patched), (expected, None));
        }
    }
}
