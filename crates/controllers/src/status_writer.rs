//! Writes of the status of an object that the caller has seen.

use api::patch::{self, guarded};
use kube::api::Patch;
use kube::{Error, Resource};
use runtime::ObjectWriter;
use serde::Serialize;
use view::ObjectKey;

/// Writes the status of an object, unless another one has its name now.
pub(crate) async fn put_status<K: Resource<DynamicType = ()>>(
    objects: &ObjectWriter,
    key: &ObjectKey,
    uid: &str,
    status: &impl Serialize,
) -> Result<(), Error> {
    let patch = guarded(uid, patch::put_status(status).map_err(Error::SerdeError)?);
    let (patch, params) = (Patch::Json::<()>(patch), objects.patching());
    let api = objects.untyped::<K>(&key.namespace);
    api.patch_status(&key.name, &params, &patch).await.map(drop)
}
