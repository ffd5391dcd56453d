//! The only writes, besides those of the certificates and the reviews of callers: the authorities
//! in the adapter's own objects, and events about these. What a person's commands write, they write
//! with that person's rights.

mod event;

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::service_ref::OwnService;
pub use event::Events;

/// The name under which the authorities are applied.
pub(crate) const MANAGER: &str = "plimsoll-adapter";
/// The name under which a person has an object taken over and given back.
pub(crate) const ADOPTER: &str = "plimsoll-adopt";

/// Puts authorities into an object that is there in this version. Applied, so that the object says
/// whose field this is.
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

/// Leads an object, as it was seen, to the adapter. Applied, so that the object says whose these
/// fields are.
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

/// Makes an object what it was. Replaced as a whole: what was not there is not there again.
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
