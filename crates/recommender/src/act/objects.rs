//! Parameters of writes in this program's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, PatchParams, PostParams, Preconditions,
};
use kube::{Client, Error, Resource};

use super::event::CONTROLLER;

/// Untyped access to objects of a kind: fields that others wrote must not make our write look
/// failed.
pub(super) fn loosely_typed<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

/// Parameters of a patch, with our field manager.
pub(super) fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}

/// Parameters of a creation or replacement, with our field manager.
pub(super) fn posting() -> PostParams {
    PostParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PostParams::default()
    }
}

/// Parameters for deleting an object in the version in which one of its owners was the right one;
/// `None` without such an owner.
pub(super) async fn owned(
    api: &Api<DynamicObject>,
    name: &str,
    is_right: impl Fn(&OwnerReference) -> bool,
) -> Result<Option<DeleteParams>, Error> {
    let Some(seen) = api.get_metadata_opt(name).await? else {
        return Ok(None);
    };
    if !seen
        .metadata
        .owner_references
        .unwrap_or_default()
        .iter()
        .any(is_right)
    {
        return Ok(None);
    }
    let (uid, resource_version) = (seen.metadata.uid, seen.metadata.resource_version);
    let preconditions = Some(Preconditions {
        uid,
        resource_version,
    });
    Ok(Some(DeleteParams {
        preconditions,
        ..DeleteParams::default()
    }))
}

/// Deletes an object. Returns false if it does not exist.
pub(super) async fn delete(
    api: &Api<DynamicObject>,
    name: &str,
    seen: &DeleteParams,
) -> Result<bool, Error> {
    match api.delete(name, seen).await {
        Err(Error::Api(answer)) if answer.code == 404 => Ok(false),
        deleted => deleted.map(|_| true),
    }
}
