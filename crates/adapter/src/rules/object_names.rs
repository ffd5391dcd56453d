//! The names of the objects that a selector matches. Pods come from a watch; other objects are
//! listed on request, and cached for some seconds.

use parking_lot::Mutex;
use std::collections::HashMap;
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

use crate::request::StatusError;

const TIMEOUT: Duration = Duration::from_millis(1500);
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

const TTL: Duration = Duration::from_secs(15);
/// The approximate limit of memory. Callers choose selectors, and each selector has its own list.
const MAX_BYTES: usize = 32 << 20;
/// The overhead of a list, and of each name.
const LIST_BYTES: usize = 256;
const NAME_BYTES: usize = 32;

/// The resource, the namespace and the selector of a list.
type Key = (String, String, String);

#[derive(Debug, Default)]
struct NameCache {
    lists: HashMap<Key, Entry>,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    at: Instant,
    names: Arc<[String]>,
    bytes: usize,
}

impl Entry {
    fn is_expired(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) > TTL
    }
}

impl NameCache {
    fn get(&self, key: &Key, now: Instant) -> Option<Arc<[String]>> {
        self.lists
            .get(key)
            .filter(|list| !list.is_expired(now))
            .map(|list| Arc::clone(&list.names))
    }

    /// Caches a list, if there is room.
    fn insert(&mut self, key: Key, names: &Arc<[String]>, at: Instant) {
        let texts: usize = names.iter().map(|name| NAME_BYTES + name.len()).sum();
        let bytes = LIST_BYTES + key.0.len() + key.1.len() + key.2.len() + texts;
        self.remove(&key);
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            self.sweep(at);
        }
        if self.bytes.saturating_add(bytes) > MAX_BYTES {
            self.remove_largest_except(&key.1);
        }
        if self.bytes.saturating_add(bytes) <= MAX_BYTES {
            self.bytes += bytes;
            let names = Arc::clone(names);
            self.lists.insert(key, Entry { at, names, bytes });
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.lists.retain(|_, list| !list.is_expired(now));
        self.bytes = self.lists.values().map(|list| list.bytes).sum();
    }

    /// Removes the lists of the namespace with the most memory, unless it is `namespace`: one
    /// namespace must not displace the lists of another.
    fn remove_largest_except(&mut self, namespace: &str) {
        let mut held: HashMap<&str, usize> = HashMap::new();
        for (key, list) in &self.lists {
            *held.entry(&key.1).or_default() += list.bytes;
        }
        let largest = held
            .into_iter()
            .max_by_key(|(_, bytes)| *bytes)
            .map(|(namespace, _)| namespace.to_owned());
        if let Some(largest) = largest.filter(|largest| largest != namespace) {
            self.lists.retain(|key, _| key.1 != largest);
            self.bytes = self.lists.values().map(|list| list.bytes).sum();
        }
    }

    fn remove(&mut self, key: &Key) {
        if let Some(list) = self.lists.remove(key) {
            self.bytes -= list.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_in(namespace: &str, selector: usize) -> Key {
        let (resource, namespace) = ("deployments.apps".to_owned(), namespace.to_owned());
        (resource, namespace, format!("app={selector}"))
    }

    fn key(selector: usize) -> Key {
        key_in("shop", selector)
    }

    fn names(count: usize) -> Arc<[String]> {
        (0..count)
            .map(|number| format!("deployment-{number:040}"))
            .collect()
    }

    #[test]
    fn a_list_expires() {
        let (mut lists, start) = (NameCache::default(), Instant::now());
        lists.insert(key(1), &names(2), start);
        assert_eq!(lists.get(&key(1), start + TTL).as_deref(), Some(&*names(2)));
        let late = start + TTL + Duration::from_secs(1);
        assert_eq!(lists.get(&key(1), late), None);
        assert_eq!(lists.get(&key(2), start), None);
        lists.insert(key(1), &names(3), start + TTL);
        let later = start + 2 * TTL;
        lists.sweep(later);
        assert_eq!(lists.get(&key(1), later).as_deref(), Some(&*names(3)));
        lists.sweep(start + 3 * TTL);
        assert_eq!((lists.lists.len(), lists.bytes), (0, 0));
    }

    #[test]
    fn lists_of_one_namespace_do_not_displace_those_of_another() {
        let (mut lists, start, names) = (NameCache::default(), Instant::now(), names(5000));
        for selector in 0..1000 {
            lists.insert(key(selector), &names, start);
        }
        let other = key_in("bank", 0);
        lists.insert(other.clone(), &names, start);
        assert!(lists.get(&other, start).is_some());
    }

    #[test]
    fn long_lists_of_many_selectors_are_bounded() {
        let (mut lists, start, names) = (NameCache::default(), Instant::now(), names(5000));
        for selector in 0..1000 {
            lists.insert(key(selector), &names, start);
        }
        let bytes = lists.bytes;
        assert!(bytes <= MAX_BYTES && bytes > MAX_BYTES / 2, "{bytes}");
        assert!(lists.lists.len() < 100, "{}", lists.lists.len());
        let later = start + 2 * TTL;
        lists.insert(key(2000), &names, later);
        assert!(
            lists.get(&key(2000), later).is_some(),
            "those whose time is over make room"
        );
        assert_eq!(lists.lists.len(), 1);
    }
}
