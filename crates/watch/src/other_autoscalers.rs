//! Reads of the signs of other autoscalers.
//!
//! Objects of tenants are read one by one and without the fields that no sign has. Large objects are
//! left out, and of one namespace only two pods of a role count.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::core::ObjectMeta;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use view::{
    AutoscalerRole, EVENT_SELECTOR, LEASE_NAMES, ObjectKey, OtherAutoscaler, POD_SELECTORS,
};

use crate::cluster_rights::ClusterRights;
use crate::excluded_fields;
use crate::memory_limits::Limits;
use crate::reflector::{Source, list_once};
use crate::watch_error::WatchError;

/// Maximum number of objects that are read of one list.
const MOST_OBJECTS: usize = 500;
/// Number of pods of a role that count in one namespace.
const PODS_PER_NAMESPACE: usize = 2;
/// Time limit of one kind of sign.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Reader of the signs.
#[derive(Clone)]
pub struct OtherAutoscalers {
    client: Client,
    roles: Vec<AutoscalerRole>,
    /// Leases that this installation may hold.
    own_leases: Vec<ObjectKey>,
    /// The pod of this program.
    own_pod: Option<ObjectKey>,
}

/// The signs that were found in one look, and why these are not all.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundAutoscalers {
    /// The signs, in order and each once.
    pub found: Vec<OtherAutoscaler>,
    /// The error of each kind of sign that could not be read.
    pub errors: Vec<String>,
}

impl FoundAutoscalers {
    /// The signs by role, and the errors.
    pub fn by_role(self) -> (BTreeMap<&'static str, Vec<String>>, Vec<String>) {
        let mut by_role: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for OtherAutoscaler { role, sign } in self.found {
            by_role.entry(role.as_str()).or_default().push(sign);
        }
        (by_role, self.errors)
    }
}

impl OtherAutoscalers {
    /// Reads signs of these roles. `own_leases` are those that this installation may hold.
    pub fn new(
        client: Client,
        roles: impl Into<Vec<AutoscalerRole>>,
        own_leases: impl Into<Vec<ObjectKey>>,
    ) -> Self {
        Self {
            client,
            roles: roles.into(),
            own_leases: own_leases.into(),
            own_pod: None,
        }
    }

    /// Leaves out the pod of this program and its replicas, which have the labels of upstream's pods
    /// where the program replaces upstream's image in a Deployment.
    #[must_use]
    pub fn beside(self, own_pod: ObjectKey) -> Self {
        Self {
            own_pod: Some(own_pod),
            ..self
        }
    }

    /// Reads the signs for which programs hold. What may not be read, and kinds that are not
    /// installed, give none. A kind of sign that cannot be read does not hide the others.
    pub async fn read(&self, now: impl Fn() -> Timestamp) -> FoundAutoscalers {
        let mut errors = Vec::new();
        let (pods, leases) = tokio::join!(within_limit(self.pods()), within_limit(self.leases()));
        let pods = pods.unwrap_or_else(|error| {
            errors.push(format!("Pods: {error}"));
            Vec::new()
        });
        let leases = leases.unwrap_or_else(|error| {
            errors.push(format!("Leases: {error}"));
            Vec::new()
        });
        let mut rights = ClusterRights::new(self.client.clone());
        let mut found = Vec::new();
        let mut count = |other: OtherAutoscaler, may: Result<bool, WatchError>| match may {
            Ok(true) => found.push(other),
            Ok(false) => {}
            Err(error) => errors.push(format!("the rights of {}: {error}", other.sign)),
        };
        let own = replicas(&pods, self.own_pod.as_ref());
        let mut counted: BTreeMap<_, usize> = BTreeMap::new();
        for pod in &pods {
            let of_pod = OtherAutoscaler::of_pod(&pod.metadata);
            let Some((key, other)) = of_pod.filter(|(_, other)| self.roles.contains(&other.role))
            else {
                continue;
            };
            if own.contains(&key) {
                continue;
            }
            let of_namespace = counted.entry((key.namespace, other.role)).or_default();
            *of_namespace += 1;
            if *of_namespace <= PODS_PER_NAMESPACE {
                let may = within_limit(rights.of_pod(other.role, pod)).await;
                count(other, may);
            }
        }
        // The time of the API server is known after its first response.
        for (holder, other) in OtherAutoscaler::of_leases(&leases, &self.own_leases, now()) {
            if self.roles.contains(&other.role) {
                let may = within_limit(rights.of_holder(other.role, &holder)).await;
                count(other, may);
            }
        }
        found.sort();
        found.dedup();
        FoundAutoscalers { found, errors }
    }

    /// Reads the Events of other updaters. Each who may write Events in one namespace could forge
    /// them, so no program holds for them.
    pub async fn read_events(&self, now: impl Fn() -> Timestamp) -> FoundAutoscalers {
        let source = self
            .source::<Event>(excluded_fields::WHOLE)
            .with_fields(EVENT_SELECTOR);
        let events = within_limit(list_readable::<Event>(source)).await;
        let now = now();
        let mut all = FoundAutoscalers::default();
        match events {
            Ok(events) => {
                let found = events.iter();
                all.found = found
                    .filter_map(|event| OtherAutoscaler::of_event(event, now))
                    .collect();
                all.found.dedup();
            }
            Err(error) => all.errors.push(format!("Events: {error}")),
        }
        all
    }

    async fn pods(&self) -> Result<Vec<Pod>, WatchError> {
        let mut found = Vec::new();
        for selector in POD_SELECTORS {
            let source = self
                .source::<Pod>(excluded_fields::AUTOSCALER_PODS)
                .with_fields("status.phase=Running")
                .with_labels(selector);
            let pods = list_readable::<Pod>(source).await?;
            let running = |pod: &Pod| pod.metadata.deletion_timestamp.is_none();
            found.extend(pods.into_iter().filter(running));
        }
        Ok(found)
    }

    async fn leases(&self) -> Result<Vec<Lease>, WatchError> {
        let mut found = Vec::new();
        for name in LEASE_NAMES {
            let source = self
                .source::<Lease>(excluded_fields::LEASES)
                .with_fields(format!("metadata.name={name}"));
            found.extend(list_readable::<Lease>(source).await?);
        }
        Ok(found)
    }

    fn source<K: Resource<DynamicType = ()>>(
        &self,
        excluded: &'static [crate::splitter::ExcludedField],
    ) -> Source {
        Source::new::<K>(self.client.clone(), None, excluded).with_limits(Limits::SIGNS)
    }
}

/// The objects of a list; none if it may not be read, or the kind is not installed.
async fn list_readable<K>(source: Source) -> Result<Vec<K>, WatchError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Send,
{
    match list_once(&source, MOST_OBJECTS).await {
        Err(WatchError::Request(kube::Error::Api(status))) if [403, 404].contains(&status.code) => {
            tracing::debug!(status.message, "not looking for other autoscalers there");
            Ok(Vec::new())
        }
        list => list,
    }
}

async fn within_limit<T>(
    read: impl Future<Output = Result<T, WatchError>>,
) -> Result<T, WatchError> {
    timeout(READ_TIMEOUT, read).await?
}

/// A pod, and those with the same controller: other revisions of a Deployment, which may run another
/// program, have another `ReplicaSet`.
fn replicas(pods: &[Pod], pod: Option<&ObjectKey>) -> Vec<ObjectKey> {
    let pods = pods.iter().map(|pod| &pod.metadata);
    let is_pod = |other: &ObjectMeta| Some(&ObjectKey::from(other)) == pod;
    let own = pods.clone().find(|other| is_pod(other));
    let controller = own.and_then(controller_uid);
    let is_replica = |other: &&ObjectMeta| {
        is_pod(other) || (controller.is_some() && controller_uid(other) == controller)
    };
    pods.filter(is_replica).map(ObjectKey::from).collect()
}

fn controller_uid(pod: &ObjectMeta) -> Option<&str> {
    let mut owners = pod.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(&controller.uid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod of a `ReplicaSet` with this uid.
    fn pod(namespace: &str, name: &str, replica_set: &str) -> Pod {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set,
            "controller": true,
        });
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": [owner]});
        serde_json::from_value(json!({"metadata": metadata})).expect("a pod")
    }

    #[test]
    fn pods_of_the_own_replica_set_are_no_others() {
        let pods = [
            pod("kube-system", "vpa-updater-b-1", "b"),
            pod("kube-system", "vpa-updater-b-2", "b"),
            pod("kube-system", "vpa-updater-a-1", "a"),
            Pod::default(),
        ];
        let keys = |names: &[&str]| -> Vec<ObjectKey> {
            let key = |name: &&str| ObjectKey::new("kube-system", *name);
            names.iter().map(key).collect()
        };
        for (own, expected) in [
            (
                Some("vpa-updater-b-1"),
                &["vpa-updater-b-1", "vpa-updater-b-2"][..],
            ),
            (Some("vpa-updater-a-1"), &["vpa-updater-a-1"]),
            (Some("elsewhere"), &[]),
            (None, &[]),
        ] {
            let own = own.map(|name| ObjectKey::new("kube-system", name));
            assert_eq!(replicas(&pods, own.as_ref()), keys(expected), "{own:?}");
        }
        // A pod without a controller has no replicas.
        let alone = |name: &str| {
            let mut pod = pod("shop", name, "b");
            pod.metadata.owner_references = None;
            pod
        };
        let own = ObjectKey::new("shop", "a");
        assert_eq!(replicas(&[alone("a"), alone("b")], Some(&own)), [own]);
    }

    /// The signs with these answers, by the paths of the requests.
    async fn found(answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> FoundAutoscalers {
        let answer = std::sync::Mutex::new(answer);
        let answer = std::sync::Arc::new(answer);
        let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
            let (code, body) = (answer.lock().expect("whole"))(request.uri().path());
            let response = http::Response::builder().status(code);
            let body = kube::client::Body::from(body.into_bytes());
            std::future::ready(response.body(body).map_err(std::io::Error::other))
        });
        let others = OtherAutoscalers::new(
            Client::new(service, "suite"),
            [AutoscalerRole::Updater],
            Vec::new(),
        );
        others.read(|| Timestamp::UNIX_EPOCH).await
    }

    fn list(items: &[serde_json::Value]) -> (u16, String) {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        (200, list.to_string())
    }

    fn updater(namespace: &str, name: &str) -> serde_json::Value {
        json!({
            "metadata": {"namespace": namespace, "name": name, "resourceVersion": "1",
                         "labels": {"app": "vpa-updater"}},
            "spec": {"serviceAccountName": namespace},
        })
    }

    #[tokio::test]
    async fn a_tenant_hides_no_other_updater() {
        let mut pods: Vec<_> = (0..30)
            .map(|number| updater("aaa", &number.to_string()))
            .collect();
        pods.push(updater("kube-system", "real"));
        let found = found(move |path| match path {
            "/api/v1/pods" => list(&pods),
            path if path.ends_with("leases") => list(&[]),
            // Of the `ServiceAccount` of the tenant.
            _ => (
                201,
                json!({"spec": {}, "status": {"allowed": false}}).to_string(),
            ),
        });
        let found = found.await;
        let signs: Vec<_> = found.found.iter().map(|other| &*other.sign).collect();
        assert_eq!(
            (signs, found.errors),
            (vec!["the Pod kube-system/real"], vec![])
        );
    }

    #[tokio::test]
    async fn what_cannot_be_read_hides_nothing_else() {
        let found = found(|path| match path {
            "/api/v1/pods" => list(&[updater("kube-system", "real")]),
            _ => (
                500,
                json!({"kind": "Status", "code": 500, "message": "no"}).to_string(),
            ),
        });
        let found = found.await;
        assert_eq!((found.found.len(), found.errors.len()), (1, 1), "{found:?}");
    }

    #[tokio::test]
    async fn large_objects_are_left_out() {
        let mut large = updater("kube-system", "large");
        large["metadata"]["labels"]["x"] = json!("x".repeat(1_400_000));
        let found = found(move |path| match path {
            "/api/v1/pods" => list(&[large.clone(), updater("kube-system", "real")]),
            _ => list(&[]),
        });
        assert_eq!(found.await.found.len(), 1);
    }
}
