//! Writes of objects and events in a program's name.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, PatchParams, PostParams, Preconditions,
};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Error, Resource};

use crate::leader_term::Leading;

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
    /// The writer with this field manager.
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

    /// Parameters of a patch, with the field manager.
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

    /// Records an event about an object. Events are best effort: a failure is logged only.
    pub async fn record_event(
        &self,
        object: &ObjectReference,
        type_: EventType,
        reason: &str,
        action: &str,
        note: &str,
    ) {
        let event = Event {
            type_,
            reason: reason.to_owned(),
            note: Some(note.chars().take(MAX_NOTE_LENGTH).collect()),
            action: action.to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, object).await {
            let (kind, namespace, name) = (&object.kind, &object.namespace, &object.name);
            tracing::debug!(kind, namespace, name, reason, %error, "cannot write an event");
        }
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

/// Reference to an object of a kind, for its events.
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
