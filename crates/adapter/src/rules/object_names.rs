//! The names of the objects that a selector matches. Pods come from a watch; other objects are
//! listed on request.

use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{ApiResource as KubeApiResource, DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use model::Selector;
use sources::rules::ApiResource;
use tokio::sync::watch;
use tokio::time::timeout;
use view::{Resource, View};

use super::object_name_cache::NameCache;
use crate::status_error::StatusError;

const TIMEOUT: Duration = Duration::from_millis(1500);
/// The largest number of objects of a request.
pub(super) const MAX_NAMES: usize = 5000;

pub(super) struct Objects {
    client: Client,
    view: watch::Receiver<View>,
    lists: Mutex<NameCache>,
}

impl Objects {
    /// `view` has the labels of pods.
    pub(super) fn new(client: Client, view: watch::Receiver<View>) -> Self {
        Self {
            client,
            view,
            lists: Mutex::default(),
        }
    }

    /// Returns the names of the objects that a selector matches, at most [`MAX_NAMES`].
    pub(super) async fn names(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Arc<[String]>, StatusError> {
        let names = match namespace {
            Some(namespace) if resource.api_version == "v1" && resource.kind == "Pod" => {
                self.pods(namespace, selector)?
            }
            namespace => self.listed(resource, namespace, selector).await?,
        };
        let plural = &resource.resource;
        match names.len() {
            0 => Err(StatusError::NotFound(format!(
                "there are no {plural} with the labels {selector}"
            ))),
            1..=MAX_NAMES => Ok(names),
            count => Err(StatusError::BadRequest(format!(
                "{count} {plural} in one request, at most {MAX_NAMES} are allowed"
            ))),
        }
    }

    fn pods(&self, namespace: &str, selector: &Selector) -> Result<Arc<[String]>, StatusError> {
        let view = self.view.borrow();
        if !view
            .freshness
            .get(&Resource::LabelledPods)
            .is_some_and(|freshness| freshness.synced)
        {
            return Err(StatusError::Unavailable(
                "the pods of the cluster are not synced yet".to_owned(),
            ));
        }
        let pods = view
            .labelled_pods
            .in_namespace(namespace)
            .filter(|pod| selector.matches(&pod.labels));
        Ok(pods.map(|pod| pod.key.name.clone()).collect())
    }

    async fn listed(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> Result<Arc<[String]>, StatusError> {
        let key = (
            resource.resource.to_string(),
            namespace.unwrap_or_default().to_owned(),
            selector.to_string(),
        );
        if let Some(names) = self.lists.lock().get(&key, Instant::now()) {
            return Ok(names);
        }
        let (client, kind) = (self.client.clone(), dynamic(resource));
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client, namespace, &kind),
            None => Api::all_with(client, &kind),
        };
        let parameters = ListParams::default()
            .labels(&key.2)
            .limit(MAX_NAMES as u32 + 1);
        let plural = &resource.resource;
        let list = timeout(TIMEOUT, api.list_metadata(&parameters)).await;
        let list = list.map_err(|_| {
            StatusError::Timeout(format!("listing {plural} takes longer than {TIMEOUT:?}"))
        })?;
        let list = list.map_err(|error| {
            tracing::warn!(%error, resource = %plural, "cannot list the objects of a metric");
            StatusError::Unavailable(format!("cannot list {plural}"))
        })?;
        let names: Arc<[String]> = list.items.iter().map(kube::ResourceExt::name_any).collect();
        self.lists.lock().insert(key, &names, Instant::now());
        Ok(names)
    }

    /// Removes expired lists.
    pub(super) fn sweep(&self, now: Instant) {
        self.lists.lock().sweep(now);
    }
}

fn dynamic(resource: &ApiResource) -> KubeApiResource {
    let ApiResource {
        resource,
        kind,
        api_version,
        ..
    } = resource;
    let version = api_version.rsplit('/').next().unwrap_or_default();
    let gvk = GroupVersionKind::gvk(&resource.group, version, kind);
    KubeApiResource::from_gvk_with_plural(&gvk, &resource.resource)
}
