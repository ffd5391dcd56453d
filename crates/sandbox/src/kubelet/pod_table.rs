//! The hosted pods of this sandbox for the proxy: address, ports, labels and readiness.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::{ContainerPort, Pod};
use kube::ResourceExt;
use parking_lot::Mutex;

use super::address::{PodAddress, Pool};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) namespace: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) address: PodAddress,
    pub(super) ports: Vec<ContainerPort>,
    /// Whether all its containers are ready and it is not being deleted.
    pub(super) ready: bool,
}

/// Hosted pods by uid.
#[derive(Debug)]
pub(super) struct PodTable(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    pool: Pool,
    pods: BTreeMap<String, Entry>,
}

impl PodTable {
    pub(super) fn new(pool: Pool) -> Self {
        Self(Mutex::new(Inner {
            pool,
            pods: BTreeMap::new(),
        }))
    }

    /// Adds a pod and gives it an address; `None` when no address is free.
    pub(super) fn admit(&self, pod: &Pod) -> Option<PodAddress> {
        let mut inner = self.0.lock();
        let address = inner.pool.take()?;
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let ports = containers.flat_map(|container| container.ports.iter().flatten());
        let entry = Entry {
            namespace: pod.namespace().unwrap_or_default(),
            labels: pod.labels().clone(),
            address,
            ports: ports.cloned().collect(),
            ready: false,
        };
        inner.pods.insert(pod.uid().unwrap_or_default(), entry);
        Some(address)
    }

    pub(super) fn update(&self, pod: &Pod, ready: bool) {
        let mut inner = self.0.lock();
        if let Some(entry) = inner.pods.get_mut(&pod.uid().unwrap_or_default()) {
            entry.labels.clone_from(pod.labels());
            entry.ready = ready && pod.metadata.deletion_timestamp.is_none();
        }
    }

    pub(super) fn remove(&self, uid: &str) {
        let mut inner = self.0.lock();
        if let Some(entry) = inner.pods.remove(uid) {
            inner.pool.release(entry.address);
        }
    }

    pub(super) fn ready(&self, namespace: &str, selector: &BTreeMap<String, String>) -> Vec<Entry> {
        let selected = |entry: &&Entry| {
            let mut labels = selector.iter();
            entry.ready
                && entry.namespace == namespace
                && !selector.is_empty()
                && labels.all(|(key, value)| entry.labels.get(key) == Some(value))
        };
        let inner = self.0.lock();
        inner.pods.values().filter(selected).cloned().collect()
    }

    /// The listening address of the pod with this address in its status.
    pub(super) fn on_loopback(&self, in_status: Ipv4Addr) -> Option<Ipv4Addr> {
        let inner = self.0.lock();
        let mut addresses = inner.pods.values().map(|entry| entry.address);
        addresses
            .find(|address| address.in_status() == in_status)
            .map(PodAddress::on_loopback)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kubelet::fixture::pod;

    #[test]
    fn a_service_selects_ready_pods_of_its_namespace() {
        let registry = PodTable::new(Pool::new(130));
        let web = pod(&json!({"metadata": {"labels": {"app": "web", "tier": "a"}}}));
        let address = registry.admit(&web).unwrap();
        let selected = |namespace: &str, key: &str, value: &str| {
            registry
                .ready(namespace, &[(key.to_owned(), value.to_owned())].into())
                .len()
        };
        assert_eq!(selected("default", "app", "web"), 0, "not ready yet");
        registry.update(&web, true);
        assert_eq!(selected("default", "app", "web"), 1);
        assert_eq!(selected("default", "app", "db"), 0);
        assert_eq!(selected("other", "app", "web"), 0);
        assert!(
            registry.ready("default", &BTreeMap::new()).is_empty(),
            "a Service without selector selects nothing"
        );
        assert_eq!(
            registry.on_loopback(address.in_status()),
            Some(Ipv4Addr::new(127, 130, 0, 1))
        );
        registry.remove("uid");
        assert_eq!(selected("default", "app", "web"), 0);
        assert_eq!(registry.on_loopback(address.in_status()), None);
    }

    #[test]
    fn a_pod_that_is_being_deleted_is_not_ready() {
        let registry = PodTable::new(Pool::new(130));
        let fields = json!({"metadata": {"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}});
        let leaving = pod(&fields);
        registry.admit(&leaving);
        registry.update(&leaving, true);
        assert!(registry.ready("default", leaving.labels()).is_empty());
    }
}
