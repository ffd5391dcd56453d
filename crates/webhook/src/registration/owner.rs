//! The owner of the registration. The programs of a release are deleted with its `ClusterRole` objects,
//! and the garbage collector deletes the registration with its owner: it would send reviews to a Service
//! that is gone.

use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Api, Client, Resource as _};

use super::other_webhook::permitted;

#[derive(Clone)]
pub struct Owner {
    roles: Api<ClusterRole>,
    name: String,
}

impl Owner {
    /// `None` for an empty name.
    pub fn of(client: Client, name: &str) -> Option<Self> {
        (!name.is_empty()).then(|| Self {
            roles: Api::all(client),
            name: name.to_owned(),
        })
    }

    /// The reference to the role; `None` if it does not exist or may not be read. The role is read each time: one that
    /// was deleted and created again has another UID, and the old one would delete the registration.
    pub(super) async fn reference(&self) -> kube::Result<Option<OwnerReference>> {
        let Some(role) = permitted(self.roles.get_opt(&self.name)).await? else {
            // The registration matters more than its end.
            let role = &self.name;
            tracing::debug!(role, "cannot read the owner of the registration");
            return Ok(None);
        };
        Ok(role.and_then(|role| role.owner_ref(&())))
    }
}
