//! Writes on behalf of sizing policies: their `VerticalPodAutoscaler` objects, their status and
//! their events.
//!
//! No write affects an object that no policy owns. Objects are created only if the name is free,
//! changed by a patch that tests UID and owners, and deleted only in the version in which the
//! policy owned them.

use api::patch::{guarded, put_status};
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy, report_patch};
use api::vpa::VerticalPodAutoscaler;
use json_patch::Patch;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Error;
use kube::api::{Api, ApiResource, DynamicObject, Patch as Body, PatchParams};
use kube::runtime::events::EventType;
use runtime::object_writer::{delete_owned, reference};
use runtime::{NotLeading, ObjectWriter, WriteOutcome};
use vertical::sizing_policies::desired::is_policy;
use vertical::sizing_policies::plan::Action;
use vertical::sizing_policies::status::{StatusEvent, StatusUpdate};
use view::{ObjectKey, Policy, PolicyScope};

const ACTION: &str = "ApplyPolicy";

/// Event of a sizing policy: numbers of VPA objects that the policy created, changed and removed.
const AUTOSCALERS_WRITTEN: &str = "AutoscalersWritten";

/// Numbers of objects written for one policy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct WriteCounts {
    created: usize,
    changed: usize,
    removed: usize,
}

impl WriteCounts {
    pub(crate) fn add(&mut self, action: &Action) {
        match action {
            Action::Create(_) => self.created += 1,
            Action::Change(_) => self.changed += 1,
            Action::Remove => self.removed += 1,
        }
    }
}

/// Writes one object, if this process still leads.
pub(crate) async fn write(
    objects: &ObjectWriter,
    key: &ObjectKey,
    action: &Action,
    policy: &Policy,
) -> Result<WriteOutcome, String> {
    let sent = match action {
        Action::Create(object) => create(objects, key, object).await,
        Action::Change(patch) => change(objects, key, patch.clone()).await,
        Action::Remove => remove(objects, key, &policy.uid).await,
    };
    outcome(sent, key, action.name())
}

/// Writes the status of a policy, if this process still leads.
pub(crate) async fn write_status(
    objects: &ObjectWriter,
    policy: &Policy,
    update: &StatusUpdate,
) -> Result<WriteOutcome, String> {
    outcome(
        send_status(objects, policy, update).await,
        &policy.key,
        "status",
    )
}

/// Records the events of a policy. A failed event is no error, since the status has the same
/// information.
pub(crate) async fn record_events(
    objects: &ObjectWriter,
    policy: &Policy,
    events: &[StatusEvent],
    counts: &WriteCounts,
) {
    let object = object_of(policy);
    let record = async |type_: EventType, reason: &str, note: &str| {
        objects
            .record_event(&object, type_, reason, ACTION, note)
            .await;
    };
    for StatusEvent { reason, note } in events {
        record(EventType::Warning, reason, note).await;
    }
    let WriteCounts {
        created,
        changed,
        removed,
    } = counts;
    if *counts != WriteCounts::default() {
        let note = format!("{created} VPA objects created, {changed} changed, {removed} removed");
        record(EventType::Normal, AUTOSCALERS_WRITTEN, &note).await;
    }
}

async fn create(
    objects: &ObjectWriter,
    key: &ObjectKey,
    object: &VerticalPodAutoscaler,
) -> Result<(), Error> {
    let value = serde_json::to_value(object).map_err(Error::SerdeError)?;
    let object: DynamicObject = serde_json::from_value(value).map_err(Error::SerdeError)?;
    let api = objects.untyped::<VerticalPodAutoscaler>(&key.namespace);
    match api.create(&objects.posting(), &object).await {
        // What was seen may be a moment old: our own object need not be made twice.
        Err(Error::Api(answer)) if answer.code == 409 => {
            let metadata = api.get_metadata(&key.name).await?.metadata;
            if metadata.owner_references.iter().flatten().any(is_policy) {
                Ok(())
            } else {
                Err(Error::Api(answer))
            }
        }
        created => created.map(drop),
    }
}

async fn change(objects: &ObjectWriter, key: &ObjectKey, patch: Patch) -> Result<(), Error> {
    let api = objects.untyped::<VerticalPodAutoscaler>(&key.namespace);
    let (patch, params) = (Body::Json::<()>(patch), objects.patching());
    api.patch(&key.name, &params, &patch).await.map(drop)
}

async fn remove(objects: &ObjectWriter, key: &ObjectKey, owner: &str) -> Result<(), Error> {
    let api = objects.untyped::<VerticalPodAutoscaler>(&key.namespace);
    let is_right = |reference: &OwnerReference| is_policy(reference) && reference.uid == owner;
    delete_owned(&api, &key.name, is_right).await.map(drop)
}

async fn send_status(
    objects: &ObjectWriter,
    policy: &Policy,
    update: &StatusUpdate,
) -> Result<(), Error> {
    let patch = match update {
        StatusUpdate::Status(status) => {
            let patch = put_status(status).map_err(Error::SerdeError)?;
            Body::Json(guarded(&policy.uid, patch))
        }
        StatusUpdate::Report(shard, report) => {
            Body::Merge(report_patch(&policy.uid, *shard, report))
        }
    };
    let api = match policy.scope {
        PolicyScope::Namespace => objects.untyped::<SizingPolicy>(&policy.key.namespace),
        PolicyScope::Cluster(_) => {
            let kind = ApiResource::erase::<ClusterSizingPolicy>(&());
            Api::all_with(objects.client().clone(), &kind)
        }
    };
    let (name, params) = (&policy.key.name, PatchParams::default());
    api.patch_status(name, &params, &patch).await.map(drop)
}

fn outcome(sent: Result<(), Error>, key: &ObjectKey, action: &str) -> Result<WriteOutcome, String> {
    match sent {
        Ok(()) => Ok(WriteOutcome::Written),
        Err(error) if NotLeading::is(&error) => Ok(WriteOutcome::NotLeading),
        Err(error) => {
            tracing::warn!(object = %key, action, %error, "cannot write on behalf of a sizing policy");
            let problem = match error {
                Error::Api(status) => status.message.clone(),
                error => error.to_string(),
            };
            Err(format!("{action} {key}: {problem}"))
        }
    }
}

fn object_of(policy: &Policy) -> ObjectReference {
    let ObjectKey { namespace, name } = &policy.key;
    match policy.scope {
        PolicyScope::Namespace => reference::<SizingPolicy>(namespace, name, &policy.uid),
        PolicyScope::Cluster(_) => reference::<ClusterSizingPolicy>(namespace, name, &policy.uid),
    }
}

#[cfg(test)]
mod tests {
    use api::sizing_policy::SizingPolicySpec;
    use jiff::Timestamp;
    use kube::{Client, Config};
    use runtime::Leading;

    use super::*;

    #[tokio::test]
    async fn after_the_term_nothing_is_sent() {
        runtime::client::install_crypto_provider();
        let nowhere = Config::new("http://127.0.0.1:1".parse().expect("an address"));
        let client = Client::try_from(nowhere).expect("a client");
        let leading = Leading::alone(Timestamp::UNIX_EPOCH);
        let objects = ObjectWriter::new(client, "test").during(&leading);
        let policy = Policy {
            key: ObjectKey::new("shop", "all"),
            uid: "u1".to_owned(),
            created: None,
            generation: 1,
            is_terminating: false,
            scope: PolicyScope::Namespace,
            spec: SizingPolicySpec::default(),
            status: None,
        };
        let (key, action) = (
            ObjectKey::new("shop", "web"),
            Action::Change(Patch::default()),
        );
        let update = StatusUpdate::Status(Box::default());
        for expected in [None, Some(WriteOutcome::NotLeading)] {
            let object = write(&objects, &key, &action, &policy).await;
            let status = write_status(&objects, &policy, &update).await;
            assert_eq!([object.ok(), status.ok()], [expected; 2]);
            leading.lost().cancel();
        }
    }
}
