//! Writes and deletes `VerticalPodAutoscalerCheckpoint` objects. They have no status subresource:
//! the status is part of the main resource, as upstream.
//!
//! Checkpoints use at most half of the API client's rate, so recommendations never wait for them.

use std::sync::Arc;
use std::time::Instant;

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::vpa::VerticalPodAutoscaler;
use json_patch::Patch;
use kube::Error;
use kube::api::{
    Api, DeleteParams, DynamicObject, Patch as Body, PatchParams, PostParams, Preconditions,
};
use parking_lot::Mutex;
use runtime::rate_limiter::Throttle;
use runtime::{Leading, NotLeading, ObjectWriter, WriteOutcome};
use vertical::checkpoint::content::CheckpointContent;
use vertical::checkpoint::garbage::{UnusedCheckpoint, UnusedReason};
use vertical::checkpoint::plan::CheckpointAction;
use view::ObjectKey;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckpointOutcome {
    /// The checkpoint was left, for the reason that this action names.
    Left(CheckpointAction),
    /// The checkpoint was due. It is never `Gone`, since a missing object is created.
    Write(WriteOutcome),
}

impl CheckpointOutcome {
    pub(crate) const ALL: [Self; 8] = [
        Self::Left(CheckpointAction::Unchanged),
        Self::Left(CheckpointAction::Newer),
        Self::Left(CheckpointAction::TooMany),
        Self::Left(CheckpointAction::Taken),
        Self::Write(WriteOutcome::Written),
        Self::Write(WriteOutcome::Refused),
        Self::Write(WriteOutcome::Failed),
        Self::Write(WriteOutcome::NotLeading),
    ];

    /// The label value of the metric.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Write(outcome) => outcome.name(),
            Self::Left(CheckpointAction::Unchanged) => "unchanged",
            Self::Left(CheckpointAction::TooMany) => "too_many",
            Self::Left(CheckpointAction::Taken) => "taken",
            Self::Left(_) => "newer",
        }
    }

    /// Whether the history is stored, or never will be: an object with too many container names has
    /// a condition and a counter of its own.
    pub(crate) fn is_stored(self) -> bool {
        match self {
            Self::Write(outcome) => outcome == WriteOutcome::Written,
            Self::Left(action) => action != CheckpointAction::Taken,
        }
    }
}

/// Writes and deletes checkpoints. Clones share the rate limit.
#[derive(Clone)]
pub(crate) struct CheckpointWriter {
    objects: ObjectWriter,
    pace: Arc<Mutex<Throttle>>,
}

impl CheckpointWriter {
    /// Creates a writer with half of `qps` and `burst`.
    pub(crate) fn new(objects: ObjectWriter, qps: f64, burst: u32) -> Self {
        Self {
            objects,
            pace: Arc::new(Mutex::new(Throttle::new(qps / 2.0, burst / 2))),
        }
    }

    /// The writer for one term of leadership, with the same rate limit.
    pub(crate) fn during(self, leading: &Leading) -> Self {
        Self {
            objects: self.objects.during(leading),
            ..self
        }
    }

    /// Writes one checkpoint, if this process still leads. `how` is an action that writes.
    pub(crate) async fn write(
        &self,
        key: &ObjectKey,
        how: CheckpointAction,
        content: &CheckpointContent,
    ) -> WriteOutcome {
        self.turn().await;
        match self.send(key, how, content).await {
            Ok(()) => WriteOutcome::Written,
            Err(error) => {
                let outcome = match WriteOutcome::of_error(&error) {
                    WriteOutcome::Gone => WriteOutcome::Failed,
                    outcome => outcome,
                };
                if outcome != WriteOutcome::NotLeading {
                    tracing::warn!(checkpoint = %key, outcome = outcome.name(), %error, "cannot write the checkpoint");
                }
                outcome
            }
        }
    }

    /// Sends the write. If the object was created or deleted in the meantime, the other kind of
    /// write is used.
    async fn send(
        &self,
        key: &ObjectKey,
        how: CheckpointAction,
        content: &CheckpointContent,
    ) -> Result<(), Error> {
        let patch = content.patch(how != CheckpointAction::Fill);
        let patch = patch.map_err(Error::SerdeError)?;
        match how {
            CheckpointAction::Create => match self.create(key, content).await {
                Err(Error::Api(answer)) if answer.code == 409 => self.patch(key, patch).await,
                created => created,
            },
            CheckpointAction::Replace => match self.patch(key, patch).await {
                Err(Error::Api(answer)) if answer.code == 404 => self.create(key, content).await,
                patched => patched,
            },
            _ => self.patch(key, patch).await,
        }
    }

    async fn create(&self, key: &ObjectKey, content: &CheckpointContent) -> Result<(), Error> {
        let object = content.object(&key.name);
        let api: Api<VerticalPodAutoscalerCheckpoint> =
            Api::namespaced(self.objects.client().clone(), &key.namespace);
        api.create(&PostParams::default(), &object).await.map(drop)
    }

    async fn patch(&self, key: &ObjectKey, patch: Patch) -> Result<(), Error> {
        let patch = Body::Json::<()>(patch);
        let (api, parameters) = (self.api(key), PatchParams::default());
        api.patch(&key.name, &parameters, &patch).await.map(drop)
    }

    /// Deletes an unused checkpoint. Returns whether it was deleted. The API server is asked
    /// whether the VPA object exists, since the watch does not see objects that do not parse.
    pub(crate) async fn collect(&self, unused: &UnusedCheckpoint) -> bool {
        self.turn().await;
        match self.delete(unused).await {
            Ok(deleted) => deleted,
            Err(Error::Api(answer)) if answer.code == 404 => false,
            Err(error) if NotLeading::is(&error) => false,
            Err(error) => {
                tracing::warn!(checkpoint = %unused.key, %error, "cannot delete the checkpoint");
                false
            }
        }
    }

    async fn delete(&self, unused: &UnusedCheckpoint) -> Result<bool, Error> {
        let UnusedCheckpoint {
            key,
            uid,
            vpa,
            reason,
        } = unused;
        if *reason == UnusedReason::NoVpa && self.exists(vpa).await? {
            return Ok(false);
        }
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        });
        self.api(key).delete(&key.name, &params).await?;
        tracing::info!(checkpoint = %key, reason = reason.name(), "deleted an unused checkpoint");
        Ok(true)
    }

    async fn exists(&self, vpa: &ObjectKey) -> Result<bool, Error> {
        if vpa.name.is_empty() {
            return Ok(false);
        }
        let vpas = self
            .objects
            .untyped::<VerticalPodAutoscaler>(&vpa.namespace);
        Ok(vpas.get_metadata_opt(&vpa.name).await?.is_some())
    }

    fn api(&self, key: &ObjectKey) -> Api<DynamicObject> {
        let objects = &self.objects;
        objects.untyped::<VerticalPodAutoscalerCheckpoint>(&key.namespace)
    }

    async fn turn(&self) {
        let wait = self.pace.lock().take(Instant::now());
        tokio::time::sleep(wait).await;
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use api::checkpoint::{
        VerticalPodAutoscalerCheckpointSpec, VerticalPodAutoscalerCheckpointStatus,
    };
    use http::Method;
    use kube::Client;
    use serde_json::{Value, json};
    use testing::{api_server, refusal};

    use super::*;

    /// An API server with one checkpoint, which refuses to create another one of its name.
    fn client(checkpoint: &Arc<Mutex<Value>>) -> Client {
        let checkpoint = Arc::clone(checkpoint);
        api_server(move |request| {
            let mut object = checkpoint.lock();
            if request.method() == Method::POST {
                return ready(refusal(409, "no"));
            }
            assert_eq!(request.method(), Method::PATCH);
            let patch: Patch = serde_json::from_slice(request.body()).expect("a patch");
            ready(match json_patch::patch(&mut object, &patch) {
                Ok(()) => (200, object.clone()),
                Err(_) => refusal(422, "no"),
            })
        })
    }

    /// Writes 7 samples of container `b-c` of object `a` over an object with 5 samples, during or
    /// after the term; returns how many that has then.
    async fn samples_after(
        how: CheckpointAction,
        vpa: &str,
        container: &str,
        leads: bool,
    ) -> (WriteOutcome, Value) {
        let checkpoint = Arc::new(Mutex::new(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": {"name": "a-b-c", "namespace": "shop"},
            "spec": {"vpaObjectName": vpa, "containerName": container},
            "status": {"totalSamplesCount": 5},
        })));
        let objects = ObjectWriter::new(client(&checkpoint), "test");
        let leading = Leading::alone(jiff::Timestamp::UNIX_EPOCH);
        if !leads {
            leading.lost().cancel();
        }
        let writer = CheckpointWriter::new(objects, 100.0, 100).during(&leading);
        let spec = VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: "a".to_owned(),
            container_name: "b-c".to_owned(),
        };
        let status = VerticalPodAutoscalerCheckpointStatus {
            total_samples_count: 7,
            ..Default::default()
        };
        let key = ObjectKey::new("shop", "a-b-c");
        let content = CheckpointContent {
            spec,
            status,
            ..Default::default()
        };
        let outcome = writer.write(&key, how, &content).await;
        let count = checkpoint.lock()["status"]["totalSamplesCount"].clone();
        (outcome, count)
    }

    #[tokio::test]
    async fn a_checkpoint_of_another_container_or_term_is_not_overwritten() {
        for how in [
            CheckpointAction::Create,
            CheckpointAction::Replace,
            CheckpointAction::Fill,
        ] {
            for (vpa, container, expected) in [
                ("a", "b-c", (WriteOutcome::Written, json!(7))),
                ("a-b", "c", (WriteOutcome::Refused, json!(5))),
                ("a", "other", (WriteOutcome::Refused, json!(5))),
                ("other", "b-c", (WriteOutcome::Refused, json!(5))),
            ] {
                let found = samples_after(how, vpa, container, true).await;
                assert_eq!(found, expected, "{how:?} {vpa} {container}");
            }
            let found = samples_after(how, "a", "b-c", false).await;
            let expected = (WriteOutcome::NotLeading, json!(5));
            assert_eq!(found, expected, "{how:?} after the term");
        }
    }
}
