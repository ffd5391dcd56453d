//! Access to workloads of any kind, for their scale subresources, with a cache of API discovery.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::WellKnown;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::{Client, Error};
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time for which the resource of a kind is cached.
const LIFETIME: Duration = Duration::from_mins(5);

/// Resources of the kinds that objects name. Clones share the cache. Only existing kinds are
/// cached, so the API server limits their number.
#[derive(Clone, Debug, Default)]
pub struct ScaledKinds(Arc<Mutex<HashMap<GroupVersionKind, (ApiResource, Instant)>>>);

impl ScaledKinds {
    /// Access to the workloads of a kind in a namespace.
    pub async fn api(
        &self,
        client: &Client,
        namespace: &str,
        api_version: &str,
        kind: &str,
    ) -> Result<Api<DynamicObject>, Error> {
        let kind = gvk(api_version, kind);
        let resource = match well_known(&kind) {
            Some(resource) => resource,
            None => self.discovered(client, kind).await?,
        };
        Ok(Api::namespaced_with(client.clone(), namespace, &resource))
    }

    async fn discovered(
        &self,
        client: &Client,
        kind: GroupVersionKind,
    ) -> Result<ApiResource, Error> {
        let is_fresh = |(_, read_at): &(ApiResource, Instant)| read_at.elapsed() < LIFETIME;
        let known = self.0.lock().get(&kind).cloned();
        if let Some((resource, _)) = known.filter(is_fresh) {
            return Ok(resource);
        }
        let (resource, _) = pinned_kind(client, &kind).await?;
        let mut known = self.0.lock();
        known.retain(|_, found| is_fresh(found));
        known.insert(kind, (resource.clone(), Instant::now()));
        Ok(resource)
    }
}

/// The resource of a well-known kind, in its present version: like HPAs, objects may name a removed
/// one.
fn well_known(kind: &GroupVersionKind) -> Option<ApiResource> {
    let known = WellKnown::of_kind(&kind.kind)?;
    let present = gvk(known.api_version(), &kind.kind);
    (present.group == kind.group)
        .then(|| ApiResource::from_gvk_with_plural(&present, known.plural()))
}

fn gvk(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(api_version: &str, kind: &str, expected: Option<&str>) {
        let found = well_known(&gvk(api_version, kind))
            .map(|found| format!("{}/{} {}", found.group, found.version, found.plural));
        assert_eq!(found.as_deref(), expected, "{api_version} {kind}");
    }

    #[test]
    fn a_removed_version_means_the_present_one() {
        check("apps/v1", "Deployment", Some("apps/v1 deployments"));
        check("apps/v1beta2", "StatefulSet", Some("apps/v1 statefulsets"));
        check(
            "v1",
            "ReplicationController",
            Some("/v1 replicationcontrollers"),
        );
        check("example.com/v1", "Deployment", None);
        check("v1", "Deployment", None);
        check("argoproj.io/v1alpha1", "Rollout", None);
    }
}
