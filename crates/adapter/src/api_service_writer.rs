//! Writes to `APIService` objects, and events about those that another client has changed. The only
//! other writes are certificates and reviews.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource as _};
use serde_json::json;

/// The field manager of `caBundle`.
pub(crate) const MANAGER: &str = "plimsoll-adapter";
const API_VERSION: &str = "apiregistration.k8s.io/v1";
/// Event of an `APIService`: another client changed an `APIService` of the adapter.
const EXTERNALLY_MODIFIED: &str = "ExternallyModified";

/// Applies a CA bundle to an object of this resource version.
pub async fn trust(
    services: &Api<APIService>,
    name: &str,
    version: Option<String>,
    bundle: &str,
) -> kube::Result<APIService> {
    let change = Patch::Apply(json!({
        "apiVersion": API_VERSION,
        "kind": "APIService",
        "metadata": {"name": name, "resourceVersion": version},
        "spec": {"caBundle": ByteString(bundle.as_bytes().to_vec())},
    }));
    let parameters = PatchParams::apply(MANAGER).force();
    services.patch(name, &parameters, &change).await
}

/// Writes events. Events about cluster-scoped objects are in the namespace `default`.
#[derive(Clone)]
pub struct Events(Recorder);

impl Events {
    pub fn new(client: Client) -> Self {
        let reporter = Reporter {
            controller: MANAGER.to_owned(),
            instance: None,
        };
        Self(Recorder::new(client, reporter))
    }

    /// Records a change by another client. The object may be gone. A failure is only logged.
    pub async fn changed(&self, name: &str, present: Option<&APIService>, note: &str) {
        let about = present.map(|present| present.object_ref(&()));
        let about = ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some("APIService".to_owned()),
            name: Some(name.to_owned()),
            ..about.unwrap_or_default()
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
