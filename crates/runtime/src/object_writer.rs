//! Writes of objects and events in a program's name, and their results.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, PatchParams, PostParams, Preconditions,
};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Error, Resource};

use crate::leader_term::{Leading, NotLeading};

/// Maximum number of characters in a note. The API server accepts 1024 bytes, and nearly all
/// characters here have one.
const MAX_NOTE_LENGTH: usize = 1000;

/// Writer with a field manager, which is also the reporting controller of its events. Clones share
/// the client.
#[derive(Clone)]
pub struct ObjectWriter {
    client: Client,
    manager: String,
    events: Recorder,
}

impl ObjectWriter {
    pub fn new(client: Client, manager: &str) -> Self {
        let reporter = Reporter {
            controller: manager.to_owned(),
            instance: None,
        };
        Self {
            events: Recorder::new(client.clone(), reporter),
            manager: manager.to_owned(),
            client,
        }
    }

    /// The writer for one term of leadership: after it, only reads are sent.
    #[must_use]
    pub fn during(&self, leading: &Leading) -> Self {
        Self::new(leading.guard(&self.client), &self.manager)
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Untyped access to objects of a kind: fields of others must not make our write look failed.
    pub fn untyped<K: Resource<DynamicType = ()>>(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<K>(&());
        Api::namespaced_with(self.client.clone(), namespace, &resource)
    }

    pub fn patching(&self) -> PatchParams {
        PatchParams {
            field_manager: Some(self.manager.clone()),
            ..PatchParams::default()
        }
    }

    /// Parameters of a creation or replacement, with the field manager.
    pub fn posting(&self) -> PostParams {
        PostParams {
            field_manager: Some(self.manager.clone()),
            ..PostParams::default()
        }
    }

    /// Records an event about an object. Events are best effort: a failure is logged only. Returns
    /// whether it was written.
    pub async fn record_event(
        &self,
        object: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) -> bool {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(MAX_NOTE_LENGTH).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        let published = self.events.publish(&event, object).await;
        if let Err(error) = &published {
            let (kind, namespace, name) = (&object.kind, &object.namespace, &object.name);
            tracing::debug!(kind, namespace, name, reason, %error, "cannot write an event");
        }
        published.is_ok()
    }
}

/// Deletes an object in the version in which `is_owner` holds for one of its owners. Returns false
/// if the object is absent or has no such owner.
pub async fn delete_owned(
    api: &Api<DynamicObject>,
    name: &str,
    is_owner: impl Fn(&OwnerReference) -> bool,
) -> Result<bool, Error> {
    let Some(seen) = api.get_metadata_opt(name).await? else {
        return Ok(false);
    };
    let metadata = seen.metadata;
    if !metadata.owner_references.iter().flatten().any(is_owner) {
        return Ok(false);
    }
    let params = DeleteParams::default().preconditions(Preconditions {
        uid: metadata.uid,
        resource_version: metadata.resource_version,
    });
    match api.delete(name, &params).await {
        Err(Error::Api(answer)) if answer.code == 404 => Ok(false),
        deleted => deleted.map(|_| true),
    }
}

pub fn reference<K: Resource<DynamicType = ()>>(
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: Some(namespace.to_owned()).filter(|namespace| !namespace.is_empty()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteOutcome {
    Written,
    /// The object does not exist any more, or another object has its name.
    Gone,
    /// The API server refuses the content; trying again gives the same answer.
    Refused,
    /// The request did not get through; the next attempt may.
    Failed,
    /// The request was not sent, because this process no longer leads.
    NotLeading,
}

impl WriteOutcome {
    pub const ALL: [Self; 5] = [
        Self::Written,
        Self::Gone,
        Self::Refused,
        Self::Failed,
        Self::NotLeading,
    ];

    /// The outcome of a failed request. 422 is a failed test of a patch, or refused content.
    pub fn of_error(error: &Error) -> Self {
        match error {
            Error::Api(status) if status.code == 404 => Self::Gone,
            Error::Api(status) if matches!(status.code, 400 | 413 | 422) => Self::Refused,
            Error::SerdeError(_) => Self::Refused,
            error if NotLeading::is(error) => Self::NotLeading,
            _ => Self::Failed,
        }
    }

    /// The label value of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Gone => "gone",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::NotLeading => "not_leading",
        }
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn answers_say_whether_another_attempt_may_help() {
        for (code, expected) in [
            (404, WriteOutcome::Gone),
            (400, WriteOutcome::Refused),
            (422, WriteOutcome::Refused),
            (409, WriteOutcome::Failed),
            (403, WriteOutcome::Failed),
            (429, WriteOutcome::Failed),
            (503, WriteOutcome::Failed),
        ] {
            let status = Status::failure("why", "Reason").with_code(code).boxed();
            assert_eq!(
                WriteOutcome::of_error(&Error::Api(status)),
                expected,
                "{code}"
            );
        }
        let error = Error::Service(NotLeading.into());
        assert_eq!(WriteOutcome::of_error(&error), WriteOutcome::NotLeading);
    }
}
