//! Writes to `APIService` objects, and events about those that another client has changed. The only
//! other writes are certificates and reviews.

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use kube::{Api, ResourceExt as _};
use runtime::ObjectWriter;
use runtime::object_writer::reference;
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

/// Records a change by another client. The object may be gone. Events about cluster-scoped objects
/// are in the namespace `default`.
pub async fn record_change(
    objects: &ObjectWriter,
    name: &str,
    present: Option<&APIService>,
    note: &str,
) {
    let uid = present.and_then(APIService::uid).unwrap_or_default();
    let about = reference::<APIService>("", name, &uid);
    let (kind, reason) = (EventType::Warning, EXTERNALLY_MODIFIED);
    objects
        .record_event(&about, kind, reason, "Look", note)
        .await;
}
