//! Reads of the signs of other autoscalers, in the namespaces of administrators alone: objects of
//! tenants are not read, so none of them can hide a sign or fill the memory.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::core::{ObjectList, ObjectMeta};
use kube::{Api, Client};
use tokio::time::timeout;
use view::{AUTOSCALER_NAMESPACES, ObjectKey, OtherAutoscaler, POD_SELECTORS};

/// Maximum number of objects that are read of one list.
const MOST_OBJECTS: u32 = 500;
const READ_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct OtherAutoscalers {
    client: Client,
    /// Leases that this installation may hold.
    own_leases: Vec<ObjectKey>,
    own_pod: Option<ObjectKey>,
}

/// The signs that were found in one look, and why these are not all.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FoundAutoscalers {
    /// The signs, in order and each once.
    pub found: Vec<OtherAutoscaler>,
    pub errors: Vec<String>,
}

impl FoundAutoscalers {
    pub fn by_role(self) -> (BTreeMap<&'static str, Vec<String>>, Vec<String>) {
        let mut by_role: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for OtherAutoscaler { role, sign } in self.found {
            by_role.entry(role.as_str()).or_default().push(sign);
        }
        (by_role, self.errors)
    }
}

impl OtherAutoscalers {
    /// `own_leases` are those that this installation may hold, by namespace and name.
    pub fn new<N: Into<String>>(
        client: Client,
        own_leases: impl IntoIterator<Item = (N, String)>,
    ) -> Self {
        let own_leases = own_leases.into_iter();
        Self {
            client,
            own_leases: own_leases
                .map(|(namespace, name)| ObjectKey::new(namespace, name))
                .collect(),
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

    /// Reads the signs. What may not be read, and namespaces that do not exist, show none. A list
    /// that cannot be read does not hide the others.
    pub async fn read(&self, now: impl Fn() -> Timestamp) -> FoundAutoscalers {
        let of_suite = self.own_leases.iter().chain(&self.own_pod);
        let of_suite = of_suite.map(|key| key.namespace.as_str());
        let namespaces: BTreeSet<&str> = of_suite.chain(AUTOSCALER_NAMESPACES).collect();
        let lists = namespaces.iter().map(async |namespace| {
            let pods = join_all(POD_SELECTORS.map(|labels| self.pods(namespace, labels)));
            tokio::join!(pods, self.leases(namespace))
        });
        let (mut pods, mut leases, mut errors) = (Vec::new(), Vec::new(), Vec::new());
        for (namespace, (pods_of, leases_of)) in namespaces.iter().zip(join_all(lists).await) {
            let mut failed = |kind: &str, error| {
                errors.push(format!("{kind} in {namespace}: {error}"));
            };
            for list in pods_of {
                list.map_or_else(|error| failed("Pods", error), |list| pods.extend(list));
            }
            leases_of.map_or_else(|error| failed("Leases", error), |list| leases.extend(list));
        }
        let own = replicas(&pods, self.own_pod.as_ref());
        let others = pods
            .iter()
            .filter(|pod| !own.contains(&ObjectKey::from(*pod)));
        let of_pods = others.filter_map(OtherAutoscaler::of_pod);
        // The time of the API server is known after its first response.
        let now = now();
        let others = leases
            .iter()
            .filter(|lease| !self.own_leases.contains(&ObjectKey::from(&lease.metadata)));
        let of_leases = others.filter_map(|lease| OtherAutoscaler::of_lease(lease, now));
        let mut found: Vec<_> = of_pods.chain(of_leases).collect();
        found.sort();
        found.dedup();
        FoundAutoscalers { found, errors }
    }

    /// The metadata of the running pods with these labels.
    async fn pods(&self, namespace: &str, labels: &str) -> Result<Vec<ObjectMeta>, String> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default()
            .labels(labels)
            .fields("status.phase=Running")
            .limit(MOST_OBJECTS);
        let pods = list_readable(api.list_metadata(&params)).await?;
        let pods = pods.into_iter().map(|pod| pod.metadata);
        Ok(pods
            .filter(|pod| pod.deletion_timestamp.is_none())
            .collect())
    }

    async fn leases(&self, namespace: &str) -> Result<Vec<Lease>, String> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), namespace);
        let params = ListParams::default().limit(MOST_OBJECTS);
        list_readable(api.list(&params)).await
    }
}

/// The objects of a list; none if it may not be read.
async fn list_readable<K: Clone>(
    list: impl Future<Output = kube::Result<ObjectList<K>>>,
) -> Result<Vec<K>, String> {
    match timeout(READ_TIMEOUT, list).await.map_err(text)? {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
            tracing::debug!(status.message, "not looking for other autoscalers there");
            Ok(Vec::new())
        }
        Err(error) => Err(text(error)),
    }
}

fn text(error: impl Display) -> String {
    error.to_string()
}

/// A pod, and those with the same controller: other revisions of a Deployment, which may run another
/// program, have another `ReplicaSet`.
fn replicas(pods: &[ObjectMeta], pod: Option<&ObjectKey>) -> Vec<ObjectKey> {
    let is_pod = |other: &ObjectMeta| Some(&ObjectKey::from(other)) == pod;
    let own = pods.iter().find(|other| is_pod(other));
    let controller = own.and_then(controller_uid);
    let is_replica = |other: &&ObjectMeta| {
        is_pod(other) || (controller.is_some() && controller_uid(other) == controller)
    };
    pods.iter()
        .filter(is_replica)
        .map(ObjectKey::from)
        .collect()
}

fn controller_uid(pod: &ObjectMeta) -> Option<&str> {
    let mut owners = pod.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(&controller.uid)
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use serde_json::{Value, json};
    use testing::{api_server, refusal};

    use super::*;

    fn pod(namespace: &str, name: &str, replica_set: &str) -> ObjectMeta {
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set,
            "controller": true,
        });
        let metadata = json!({"namespace": namespace, "name": name, "ownerReferences": [owner]});
        serde_json::from_value(metadata).expect("metadata")
    }

    #[test]
    fn pods_of_the_own_replica_set_are_no_others() {
        let pods = [
            pod("kube-system", "vpa-updater-b-1", "b"),
            pod("kube-system", "vpa-updater-b-2", "b"),
            pod("kube-system", "vpa-updater-a-1", "a"),
            ObjectMeta::default(),
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
            pod.owner_references = None;
            pod
        };
        let own = ObjectKey::new("shop", "a");
        assert_eq!(replicas(&[alone("a"), alone("b")], Some(&own)), [own]);
    }

    /// The signs with these answers, by the paths of the requests.
    async fn found(answer: fn(&str) -> (u16, Value)) -> FoundAutoscalers {
        let client = api_server(move |request| ready(answer(request.uri().path())));
        let own = [("suite", "vpa-updater".to_owned())];
        let others = OtherAutoscalers::new(client, own);
        let now = "2026-01-01T12:00:00Z".parse().expect("a time");
        others.read(|| now).await
    }

    fn list(items: &[Value]) -> (u16, Value) {
        let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
        (200, list)
    }

    fn updater(namespace: &str) -> Value {
        let labels = json!({"app": "vpa-updater"});
        json!({"metadata": {"namespace": namespace, "name": "real", "labels": labels}})
    }

    fn lease(namespace: &str) -> Value {
        json!({
            "metadata": {"namespace": namespace, "name": "vpa-updater"},
            "spec": {"holderIdentity": "a_1", "renewTime": "2026-01-01T11:59:50.000000Z"},
        })
    }

    fn signs(found: &FoundAutoscalers) -> Vec<&str> {
        found.found.iter().map(|other| &*other.sign).collect()
    }

    #[tokio::test]
    async fn signs_count_in_the_namespaces_of_administrators() {
        // Each namespace has a pod and a Lease, and a list of all has those of tenants.
        let found = found(|path| match path.split('/').collect::<Vec<_>>()[..] {
            [.., "namespaces", namespace, "pods"] => list(&[updater(namespace)]),
            [.., "namespaces", namespace, "leases"] => list(&[lease(namespace)]),
            _ => list(&[updater("tenant"), lease("tenant")]),
        });
        let found = found.await;
        let expected = [
            "the Lease crane-system/vpa-updater of a_1",
            "the Lease kube-system/vpa-updater of a_1",
            "the Lease vpa/vpa-updater of a_1",
            "the Pod crane-system/real",
            "the Pod kube-system/real",
            "the Pod suite/real",
            "the Pod vpa/real",
        ];
        assert_eq!((signs(&found), found.errors.len()), (expected.into(), 0));
    }

    #[tokio::test]
    async fn what_cannot_be_read_hides_nothing_else() {
        let found = found(|path| match path {
            "/api/v1/namespaces/vpa/pods" => list(&[updater("vpa")]),
            "/api/v1/namespaces/suite/pods" => refusal(500, "no"),
            _ => refusal(403, "no right"),
        });
        let found = found.await;
        assert_eq!(signs(&found), ["the Pod vpa/real"]);
        // By each selector.
        assert_eq!(found.errors.len(), 2, "{found:?}");
    }
}
