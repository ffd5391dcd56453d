//! Writes to `APIService` objects and their events. The only other writes are certificates and
//! reviews.

mod event;

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

pub use event::Events;

/// The field manager of `caBundle`.
pub(crate) const MANAGER: &str = "plimsoll-adapter";

/// Applies a CA bundle to an object of this resource version.
pub async fn trust(
    services: &Api<APIService>,
    name: &str,
    version: Option<String>,
    bundle: &str,
) -> kube::Result<APIService> {
    let change = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "resourceVersion": version},
        "spec": {"caBundle": ByteString(bundle.as_bytes().to_vec())},
    });
    services
        .patch(
            name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(change),
        )
        .await
}
