//! How objects of others and of our own are written in this program's name.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, PatchParams, PostParams, Preconditions,
};
use kube::{Client, Error, Resource};

use super::event::CONTROLLER;

/// Objects of a kind whose answers are read loosely: what others wrote into one must not make our
/// write look failed.
pub(super) fn loosely_typed<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), namespace, &ApiResource::erase::<K>(&()))
}

/// To patch in our name.
pub(super) fn patching() -> PatchParams {
    PatchParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PatchParams::default()
    }
}

/// To create or replace in our name.
pub(super) fn posting() -> PostParams {
    PostParams {
        field_manager: Some(CONTROLLER.to_owned()),
        ..PostParams::default()
    }
}

/// How to delete an object one of whose owners is the right one: in the very version in which that
/// was seen. Absent where there is none.
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

/// Deletes an object. False if it is gone already.
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
