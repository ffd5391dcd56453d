//! Writes what is predicted into the status of `TimeSeriesPrediction` objects, and events about them.

use api::patch::{guarded, put_status};
use api::prediction::{TimeSeriesPrediction, TimeSeriesPredictionStatus};
use cluster::ObjectKey;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::Patch as Body;
use kube::runtime::events::EventType;
use kube::{Client, Error, Resource as _};

use super::event::{Events, event};
use super::objects::{loosely_typed, patching};

/// Writes what is predicted.
#[derive(Clone)]
pub(crate) struct Writer {
    client: Client,
    events: Events,
}

impl Writer {
    pub(crate) fn new(client: Client) -> Self {
        let events = Events::new(client.clone());
        Self { client, events }
    }

    /// Writes the status of an object, unless another one has its name by now.
    pub(crate) async fn say(
        &self,
        key: &ObjectKey,
        uid: &str,
        status: &TimeSeriesPredictionStatus,
    ) -> Result<(), Error> {
        let patch = guarded(uid, put_status(status).map_err(Error::SerdeError)?);
        let api = loosely_typed::<TimeSeriesPrediction>(&self.client, &key.namespace);
        match api.patch_status(&key.name, &patching(), &Body::Json::<()>(patch)).await {
            // It is gone.
            Err(Error::Api(answer)) if answer.code == 404 => Ok(()),
            written => written.map(drop),
        }
    }

    /// Tells people of an object. They are told best, so an event that cannot be written is no failure.
    pub(crate) async fn tell(&self, key: &ObjectKey, uid: &str, reason: &str, note: &str, is_bad: bool) {
        let kind = if is_bad { EventType::Warning } else { EventType::Normal };
        let reference = ObjectReference {
            api_version: Some(TimeSeriesPrediction::api_version(&()).into_owned()),
            kind: Some(TimeSeriesPrediction::kind(&()).into_owned()),
            namespace: Some(key.namespace.clone()),
            name: Some(key.name.clone()),
            uid: Some(uid.to_owned()),
            ..ObjectReference::default()
        };
        self.events.tell(&reference, &event(kind, reason, "Predict", note)).await;
    }
}
