//! The only writes, besides those of the certificates and the reviews of callers: the authorities in the adapter's own objects.

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// The name under which the authorities are applied.
const MANAGER: &str = "plimsoll-adapter";

/// Puts authorities into an object that is there in this version. Applied, so that the object says whose field this is.
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
    services.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(change)).await
}
