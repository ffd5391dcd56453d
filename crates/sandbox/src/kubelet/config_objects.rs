//! The Secrets, `ConfigMap`s and Services that pods use, from watches that all hosted pods share.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use tokio::sync::watch;

use super::WaitingReason;

/// Contents of an object by key.
pub(super) type Entries = BTreeMap<String, Vec<u8>>;

/// The objects of a pod's namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Objects {
    pub(super) config_maps: Vec<Arc<ConfigMap>>,
    pub(super) secrets: Vec<Arc<Secret>>,
    pub(super) services: Vec<Arc<Service>>,
}

impl Objects {
    /// A `ConfigMap`'s entries; none when it is missing and optional.
    pub(super) fn config_map(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Entries, WaitingReason> {
        let found = named(&self.config_maps, name).map(|map| {
            let text = map.data.into_iter().flatten();
            let binary = map.binary_data.into_iter().flatten();
            text.map(|(key, value)| (key, value.into_bytes()))
                .chain(binary.map(|(key, value)| (key, value.0)))
                .collect()
        });
        present(found, optional, || format!("configmap {name:?} not found"))
            .map(Option::unwrap_or_default)
    }

    /// A Secret's entries; none when it is missing and optional.
    pub(super) fn secret(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Entries, WaitingReason> {
        let found = named(&self.secrets, name).map(|secret| {
            let data = secret.data.into_iter().flatten();
            data.map(|(key, value)| (key, value.0)).collect()
        });
        present(found, optional, || format!("secret {name:?} not found"))
            .map(Option::unwrap_or_default)
    }
}

/// `value`, or a problem when it is missing and not optional.
pub(super) fn present<T>(
    value: Option<T>,
    optional: Option<bool>,
    missing: impl FnOnce() -> String,
) -> Result<Option<T>, WaitingReason> {
    if value.is_none() && optional != Some(true) {
        Err(WaitingReason::config(missing()))
    } else {
        Ok(value)
    }
}

fn named<K: Resource + Clone>(objects: &[Arc<K>], name: &str) -> Option<K> {
    let mut objects = objects.iter();
    let found = objects.find(|object| object.name_any() == name)?;
    Some((**found).clone())
}

/// The watched Secrets, `ConfigMap`s and Services of the whole cluster.
#[derive(Clone)]
pub(super) struct ObjectStore {
    config_maps: reflector::Store<ConfigMap>,
    secrets: reflector::Store<Secret>,
    pub(super) services: reflector::Store<Service>,
    changes: watch::Receiver<u64>,
}

impl ObjectStore {
    /// The store, and the future that updates it while it is polled.
    pub(super) fn watch(client: &Client) -> (Self, impl Future<Output = ()> + use<>) {
        let (counter, changes) = watch::channel(0);
        let counter = Arc::new(counter);
        let (config_maps, feed_config_maps) =
            feed(Api::<ConfigMap>::all(client.clone()), Arc::clone(&counter));
        let (secrets, feed_secrets) =
            feed(Api::<Secret>::all(client.clone()), Arc::clone(&counter));
        let (services, feed_services) = feed(Api::<Service>::all(client.clone()), counter);
        let feed = async { tokio::join!(feed_config_maps, feed_secrets, feed_services) };
        (
            Self {
                config_maps,
                secrets,
                services,
                changes,
            },
            async { _ = Box::pin(feed).await },
        )
    }

    /// Waits for the first complete list of each kind.
    pub(super) async fn listed(&self) {
        // Fails only when the future that updates the store is dropped, together with all hosted
        // pods.
        let _dropped = self.config_maps.wait_until_ready().await;
        let _dropped = self.secrets.wait_until_ready().await;
        let _dropped = self.services.wait_until_ready().await;
    }

    pub(super) fn objects(&self, namespace: &str) -> Objects {
        Objects {
            config_maps: in_namespace(&self.config_maps, namespace),
            secrets: in_namespace(&self.secrets, namespace),
            services: in_namespace(&self.services, namespace),
        }
    }

    /// A receiver that changes with every object.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.clone()
    }
}

fn feed<K>(
    api: Api<K>,
    counter: Arc<watch::Sender<u64>>,
) -> (reflector::Store<K>, impl Future<Output = ()>)
where
    K: Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Send
        + Sync
        + serde::de::DeserializeOwned
        + 'static,
{
    let (store, writer) = reflector::store();
    let stream = watcher(api, watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .touched_objects();
    let feed = stream.for_each(move |event| {
        match event {
            Ok(_) => counter.send_modify(|count| *count += 1),
            Err(error) => tracing::debug!(%error, kind = %K::kind(&()), "a watch was interrupted"),
        }
        std::future::ready(())
    });
    (store, feed)
}

fn in_namespace<K>(store: &reflector::Store<K>, namespace: &str) -> Vec<Arc<K>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let mut objects = store.state();
    objects.retain(|object| object.namespace().as_deref() == Some(namespace));
    objects
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_optional_object_may_be_missing() {
        let objects = Objects::default();
        assert_eq!(objects.secret("absent", Some(true)), Ok(Entries::new()));
        assert_eq!(objects.config_map("absent", Some(true)), Ok(Entries::new()));
        assert_eq!(
            objects.secret("absent", None).unwrap_err().message,
            "secret \"absent\" not found"
        );
        assert_eq!(
            objects.config_map("absent", None).unwrap_err().message,
            "configmap \"absent\" not found"
        );
    }
}
