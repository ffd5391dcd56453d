//! Reads of the signs of other autoscalers.

use std::collections::BTreeMap;

use api::checkpoint::VerticalPodAutoscalerCheckpoint;
use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::vpa::{DEFAULT_RECOMMENDER, VerticalPodAutoscaler};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, VersionMatch};
use kube::core::{ObjectList, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use view::{AutoscalerRole, EVENT_SELECTOR, ObjectKey, OtherAutoscaler, POD_SELECTORS};

use crate::cluster_rights::ClusterRights;

/// Number of objects of a kind whose writers are read.
const PAGE: u32 = 50;
/// Maximum number of Events that are read.
const EVENTS: u32 = 500;
/// Leases of nodes are many, and no sign.
const LEASES: &str = "metadata.namespace!=kube-node-lease";

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

    /// Reads the signs for which programs hold, by role.
    pub async fn by_role(
        &self,
        now: impl Fn() -> Timestamp,
    ) -> kube::Result<BTreeMap<&'static str, Vec<String>>> {
        let mut by_role: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for OtherAutoscaler { role, sign } in self.read(now).await? {
            by_role.entry(role.as_str()).or_default().push(sign);
        }
        Ok(by_role)
    }

    /// Reads the signs for which programs hold, in order and each once. What may not be read, and
    /// kinds that are not installed, give none.
    pub async fn read(&self, now: impl Fn() -> Timestamp) -> kube::Result<Vec<OtherAutoscaler>> {
        let (pods, leases, mut found) =
            tokio::try_join!(self.pods(), self.leases(), self.writers(&now))?;
        // The time of the API server is known after its first response.
        let now = now();
        let mut rights = ClusterRights::new(self.client.clone());
        let own = replicas(&pods, self.own_pod.as_ref());
        let running = pods.iter().filter(|pod| !own.contains(&key_of(pod)));
        let running = running.filter_map(OtherAutoscaler::of_pod);
        let held = OtherAutoscaler::of_leases(&leases, &self.own_leases, now);
        for (pod, other) in running.chain(held) {
            if self.roles.contains(&other.role) && rights.of_pod(other.role, &pod).await? {
                found.push(other);
            }
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Reads the Events of other updaters. Each who may write Events in one namespace could forge
    /// them, so no program holds for them.
    pub async fn read_events(
        &self,
        now: impl Fn() -> Timestamp,
    ) -> kube::Result<Vec<OtherAutoscaler>> {
        let api: Api<Event> = Api::all(self.client.clone());
        let params = ListParams::default().fields(EVENT_SELECTOR).limit(EVENTS);
        let events = readable(api.list(&params).await)?;
        let now = now();
        let found = events.iter();
        let mut found: Vec<OtherAutoscaler> = found
            .filter_map(|event| OtherAutoscaler::of_event(event, now))
            .collect();
        found.dedup();
        Ok(found)
    }

    async fn pods(&self) -> kube::Result<Vec<ObjectMeta>> {
        let api: Api<Pod> = Api::all(self.client.clone());
        let mut found = Vec::new();
        for selector in POD_SELECTORS {
            let params = cached().labels(selector).fields("status.phase=Running");
            let pods = readable(api.list_metadata(&params).await)?;
            let running = pods.into_iter().map(|pod| pod.metadata);
            found.extend(running.filter(|pod| pod.deletion_timestamp.is_none()));
        }
        Ok(found)
    }

    async fn leases(&self) -> kube::Result<Vec<Lease>> {
        let api = Api::all(self.client.clone());
        readable(api.list(&cached().fields(LEASES)).await)
    }

    /// Writers of the first objects of the kinds that the roles write.
    async fn writers(&self, now: &impl Fn() -> Timestamp) -> kube::Result<Vec<OtherAutoscaler>> {
        let mut found = Vec::new();
        let mut judge = |role, of, objects: &Page| {
            let metadata = objects.items.iter().map(|object| &object.metadata);
            let is_complete = objects.is_complete;
            let signs = OtherAutoscaler::of_writers(role, of, metadata, is_complete, now());
            found.extend(signs);
        };
        if self.roles.contains(&AutoscalerRole::Recommender) {
            let role = AutoscalerRole::Recommender;
            let mut vpas = self.page::<VerticalPodAutoscaler>().await?;
            vpas.items.retain(is_of_default_recommender);
            let mut checkpoints = self.page::<VerticalPodAutoscalerCheckpoint>().await?;
            checkpoints.items.retain(|checkpoint| {
                let name = checkpoint.data["spec"]["vpaObjectName"].as_str();
                let owner = |vpa: &DynamicObject| {
                    vpa.namespace() == checkpoint.namespace()
                        && vpa.metadata.name.as_deref() == name
                };
                vpas.items.iter().any(owner)
            });
            judge(role, ("VerticalPodAutoscaler", "status"), &vpas);
            judge(role, ("VerticalPodAutoscalerCheckpoint", ""), &checkpoints);
        }
        if self.roles.contains(&AutoscalerRole::EhpaController) {
            let ehpas = self.page::<EffectiveHorizontalPodAutoscaler>().await?;
            let of = ("EffectiveHorizontalPodAutoscaler", "status");
            judge(AutoscalerRole::EhpaController, of, &ehpas);
        }
        Ok(found)
    }

    async fn page<K: kube::Resource<DynamicType = ()>>(&self) -> kube::Result<Page> {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let list = readable_list(api.list(&ListParams::default().limit(PAGE)).await)?;
        let next = list
            .as_ref()
            .and_then(|list| list.metadata.continue_.clone());
        Ok(Page {
            items: list.map(|list| list.items).unwrap_or_default(),
            is_complete: next.is_none_or(|next| next.is_empty()),
        })
    }
}

/// A pod, and those with the same controller: other revisions of a Deployment, which may run another
/// program, have another `ReplicaSet`.
fn replicas(pods: &[ObjectMeta], pod: Option<&ObjectKey>) -> Vec<ObjectKey> {
    let own = pods.iter().find(|other| Some(&key_of(other)) == pod);
    let controller = own.and_then(controller_uid);
    let is_replica = |other: &&ObjectMeta| {
        Some(&key_of(other)) == pod || (controller.is_some() && controller_uid(other) == controller)
    };
    pods.iter().filter(is_replica).map(key_of).collect()
}

fn controller_uid(pod: &ObjectMeta) -> Option<&str> {
    let mut owners = pod.owner_references.iter().flatten();
    let controller = owners.find(|owner| owner.controller == Some(true))?;
    Some(&controller.uid)
}

fn key_of(object: &ObjectMeta) -> ObjectKey {
    let name = |part: &Option<String>| part.clone().unwrap_or_default();
    ObjectKey::new(name(&object.namespace), name(&object.name))
}

/// The first objects of a kind.
struct Page {
    items: Vec<DynamicObject>,
    /// Whether these are all.
    is_complete: bool,
}

fn is_of_default_recommender(vpa: &DynamicObject) -> bool {
    let recommenders = vpa.data["spec"]["recommenders"].as_array();
    recommenders.is_none_or(|all| {
        all.is_empty() || all.iter().any(|one| one["name"] == DEFAULT_RECOMMENDER)
    })
}

/// Parameters of a list out of the API server's cache.
fn cached() -> ListParams {
    ListParams {
        version_match: Some(VersionMatch::NotOlderThan),
        resource_version: Some("0".to_owned()),
        ..ListParams::default()
    }
}

/// The objects of a list; none if it may not be read, or the kind is not installed.
fn readable<T: Clone>(list: kube::Result<ObjectList<T>>) -> kube::Result<Vec<T>> {
    let list = readable_list(list)?;
    Ok(list.map(|list| list.items).unwrap_or_default())
}

fn readable_list<T: Clone>(
    list: kube::Result<ObjectList<T>>,
) -> kube::Result<Option<ObjectList<T>>> {
    match list {
        Ok(list) => Ok(Some(list)),
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
            tracing::debug!(status.message, "not looking for other autoscalers there");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod of a `ReplicaSet` with this uid.
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
        let alone = ObjectMeta {
            owner_references: None,
            ..pod("shop", "a", "b")
        };
        let other = ObjectMeta {
            owner_references: None,
            ..pod("shop", "b", "b")
        };
        let own = ObjectKey::new("shop", "a");
        assert_eq!(replicas(&[alone, other], Some(&own)), [own]);
    }
}
