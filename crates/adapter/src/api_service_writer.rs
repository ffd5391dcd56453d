//! Writes to `APIService` objects and their events. The only other writes are certificates and
//! reviews. The commands `adopt` and `release` write with the rights of their user.

mod event;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::own_service::OwnService;
pub use event::Events;

/// The field manager of `caBundle`.
pub(crate) const MANAGER: &str = "plimsoll-adapter";
/// The field manager of the commands `adopt` and `release`.
pub(crate) const ADOPTER: &str = "plimsoll-adopt";

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

/// Applies the adapter's Service and CA bundle to an object, if it has not changed since it was
/// read.
pub async fn adopt(
    services: &Api<APIService>,
    name: &str,
    present: &APIService,
    own: &OwnService,
    annotations: &BTreeMap<String, String>,
    bundle: &str,
) -> kube::Result<APIService> {
    let mut spec = json!({
        "service": {"namespace": own.namespace, "name": own.name, "port": 443},
        "caBundle": ByteString(bundle.as_bytes().to_vec()),
    });
    if present
        .spec
        .as_ref()
        .is_some_and(|spec| spec.insecure_skip_tls_verify == Some(true))
    {
        spec["insecureSkipTLSVerify"] = json!(false);
    }
    let change = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name, "resourceVersion": present.metadata.resource_version, "annotations": annotations},
        "spec": spec,
    });
    services
        .patch(
            name,
            &PatchParams::apply(ADOPTER).force(),
            &Patch::Apply(change),
        )
        .await
}

/// Replaces an object with its previous state. Fields that it did not have before are removed.
pub async fn release(
    services: &Api<APIService>,
    name: &str,
    released: &APIService,
) -> kube::Result<APIService> {
    let params = PostParams {
        field_manager: Some(ADOPTER.to_owned()),
        ..PostParams::default()
    };
    services.replace(name, &params, released).await
}
