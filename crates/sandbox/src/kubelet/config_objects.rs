//! The Secrets, `ConfigMap`s and Services that pods use, from watches that all hosted pods share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use tokio::sync::watch;

use super::WaitingReason;
use super::pod_context::containers;

/// Contents of an object by key.
pub(super) type Entries = BTreeMap<String, Vec<u8>>;

/// Objects that one pod uses, without those that do not exist.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Objects {
    /// `ConfigMap`s of the pod's namespace.
    pub(super) config_maps: BTreeMap<String, ConfigMap>,
    /// Secrets of the pod's namespace.
    pub(super) secrets: BTreeMap<String, Secret>,
    /// All Services of the pod's namespace.
    pub(super) services: Vec<Arc<Service>>,
}

impl Objects {
    /// A `ConfigMap`'s entries; none when it is missing and optional.
    pub(super) fn config_map(
        &self,
        name: &str,
        optional: Option<bool>,
    ) -> Result<Entries, WaitingReason> {
        let found = self.config_maps.get(name).cloned().map(|map| {
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
        let found = self.secrets.get(name).cloned().map(|secret| {
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

/// Names of the objects that a pod refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct References {
    config_maps: BTreeSet<String>,
    secrets: BTreeSet<String>,
}

impl References {
    /// All references in volumes and environments.
    pub(super) fn of(pod: &Pod) -> Self {
        let (mut maps, mut secrets) = (BTreeSet::new(), BTreeSet::new());
        for container in containers(pod) {
            for source in container.env_from.iter().flatten() {
                maps.extend(source.config_map_ref.iter().map(|it| it.name.clone()));
                secrets.extend(source.secret_ref.iter().map(|it| it.name.clone()));
            }
            let variables = container.env.iter().flatten();
            for source in variables.filter_map(|variable| variable.value_from.as_ref()) {
                maps.extend(source.config_map_key_ref.iter().map(|it| it.name.clone()));
                secrets.extend(source.secret_key_ref.iter().map(|it| it.name.clone()));
            }
        }
        let volumes = pod.spec.iter().flat_map(|spec| &spec.volumes).flatten();
        for volume in volumes {
            maps.extend(volume.config_map.iter().map(|it| it.name.clone()));
            let secret = volume.secret.as_ref();
            secrets.extend(secret.and_then(|it| it.secret_name.clone()));
            let projected = volume.projected.iter().flat_map(|it| &it.sources);
            for source in projected.flatten() {
                maps.extend(source.config_map.iter().map(|it| it.name.clone()));
                secrets.extend(source.secret.iter().map(|it| it.name.clone()));
            }
        }
        Self {
            config_maps: maps,
            secrets,
        }
    }
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

    /// The current objects that a pod of this namespace refers to, and the namespace's Services.
    pub(super) fn objects(&self, namespace: &str, references: &References) -> Objects {
        let mut services = self.services.state();
        services.retain(|service| service.namespace().as_deref() == Some(namespace));
        Objects {
            config_maps: select(&self.config_maps, namespace, &references.config_maps),
            secrets: select(&self.secrets, namespace, &references.secrets),
            services,
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

fn select<K>(
    store: &reflector::Store<K>,
    namespace: &str,
    names: &BTreeSet<String>,
) -> BTreeMap<String, K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    let find = |name: &String| {
        store
            .get(&ObjectRef::new(name).within(namespace))
            .map(|found| (name.clone(), (*found).clone()))
    };
    names.iter().filter_map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::fixture::pod;

    #[test]
    fn every_place_that_names_an_object_counts() {
        let pod = pod(&serde_json::json!({"spec": {
            "initContainers": [{"name": "init", "envFrom": [{"secretRef": {"name": "s1"}}, {"configMapRef": {"name": "c1"}}]}],
            "containers": [{"name": "main", "env": [
                {"name": "A", "valueFrom": {"secretKeyRef": {"name": "s2", "key": "k"}}},
                {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "c2", "key": "k"}}},
            ]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "s3"}},
                {"name": "b", "configMap": {"name": "c3"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "s4"}}, {"configMap": {"name": "c4"}}]}},
            ],
        }}));
        let References {
            config_maps,
            secrets,
        } = References::of(&pod);
        assert_eq!(
            config_maps,
            ["c1", "c2", "c3", "c4"].map(str::to_owned).into()
        );
        assert_eq!(secrets, ["s1", "s2", "s3", "s4"].map(str::to_owned).into());
    }

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
