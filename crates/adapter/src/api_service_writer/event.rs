//! Events about `APIService` objects that another client has changed. A failure to write one is
//! only logged.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource as _};

use super::MANAGER;

/// Event of an `APIService`: another client changed an `APIService` of the adapter.
const EXTERNALLY_MODIFIED: &str = "ExternallyModified";

/// Writes events. Events about cluster-scoped objects are in the namespace `default`.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    /// Creates a writer that uses this client.
    pub fn new(client: Client) -> Self {
        Self(Recorder::new(
            client,
            Reporter {
                controller: MANAGER.to_owned(),
                instance: None,
            },
        ))
    }

    /// Records a change by another client. The object may be gone.
    pub async fn changed(&self, name: &str, present: Option<&APIService>, note: &str) {
        let about = present
            .map(|present| present.object_ref(&()))
            .unwrap_or_default();
        let about = ObjectReference {
            api_version: Some("apiregistration.k8s.io/v1".to_owned()),
            kind: Some("APIService".to_owned()),
            name: Some(name.to_owned()),
            ..about
        };
        let event = Event {
            type_: EventType::Warning,
            reason: EXTERNALLY_MODIFIED.to_owned(),
            note: Some(note.to_owned()),
            action: "Look".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.0.publish(&event, &about).await {
            tracing::debug!(name, %error, "cannot write an event");
        }
    }
}
