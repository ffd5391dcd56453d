//! Writes what is predicted into the status of `TimeSeriesPrediction` objects, and events about them.

use api::prediction::{TimeSeriesPrediction, TimeSeriesPredictionStatus};
use cluster::ObjectKey;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, TestOperation};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Api, ApiResource, DynamicObject, Patch as Body, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Error, Resource as _};

use super::event::CONTROLLER;

/// The most characters of an event's note.
const MOST_OF_NOTE: usize = 1000;

/// Writes what is predicted.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    events: Recorder,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        let events = Recorder::new(client.clone(), Reporter { controller: CONTROLLER.to_owned(), instance: None });
        Self { client, events }
    }

    /// Writes the status of an object, unless another one has its name by now.
    pub(crate) async fn say(
        &self,
        key: &ObjectKey,
        uid: &str,
        status: &TimeSeriesPredictionStatus,
    ) -> Result<(), Error> {
        let patch = Patch(vec![
            PatchOperation::Test(TestOperation {
                path: PointerBuf::from_tokens(["metadata", "uid"]),
                value: uid.into(),
            }),
            PatchOperation::Add(AddOperation {
                path: PointerBuf::from_tokens(["status"]),
                value: serde_json::to_value(status).map_err(Error::SerdeError)?,
            }),
        ]);
        // Answers are read loosely: what others wrote into an object must not make our write look failed.
        let resource = ApiResource::erase::<TimeSeriesPrediction>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &key.namespace, &resource);
        let params = PatchParams { field_manager: Some(CONTROLLER.to_owned()), ..PatchParams::default() };
        match api.patch_status(&key.name, &params, &Body::Json::<()>(patch)).await {
            // It is gone.
            Err(Error::Api(answer)) if answer.code == 404 => Ok(()),
            written => written.map(drop),
        }
    }

    /// Tells people of an object. They are told best, so an event that cannot be written is no failure.
    pub(crate) async fn tell(&self, key: &ObjectKey, uid: &str, reason: &str, note: &str, is_bad: bool) {
        let event = Event {
            type_: if is_bad { EventType::Warning } else { EventType::Normal },
            reason: reason.to_owned(),
            note: Some(note.chars().take(MOST_OF_NOTE).collect()),
            action: "Predict".to_owned(),
            secondary: None,
        };
        let reference = ObjectReference {
            api_version: Some(TimeSeriesPrediction::api_version(&()).into_owned()),
            kind: Some(TimeSeriesPrediction::kind(&()).into_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        if let Err(error) = self.events.publish(&event, &reference).await {
            tracing::debug!(object = %key, reason, %error, "cannot write an event");
        }
    }
}
