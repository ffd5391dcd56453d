//! Cache of API discovery: the resource of each kind that objects name.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::api::ApiResource;
use kube::core::GroupVersionKind;
use kube::discovery::pinned_kind;
use kube::{Client, Error};
use tokio::time::Instant;

use super::parts;

const LIFETIME: Duration = Duration::from_mins(5);

/// Resources by version and kind. Only existing kinds are cached, so the API server limits their
/// number.
#[derive(Clone, Debug, Default)]
pub(super) struct DiscoveryCache(Arc<Mutex<HashMap<GroupVersionKind, (ApiResource, Instant)>>>);

impl DiscoveryCache {
    /// Returns the resource of a kind.
    pub(super) async fn resource(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<ApiResource, Error> {
        let (group, version) = parts(api_version);
        let kind = GroupVersionKind::gvk(group, version, kind);
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
