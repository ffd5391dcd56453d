//! Reads of the signs of other autoscalers.

use std::collections::BTreeMap;

use api::vpa::DEFAULT_RECOMMENDER;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, VersionMatch};
use kube::core::{ObjectList, ObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use view::{AutoscalerRole, EVENT_SELECTOR, ObjectKey, OtherAutoscaler, POD_SELECTORS};

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
        }
    }

    /// Reads the signs once, by role.
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

    /// Reads the signs once, in order and each once. What may not be read, and kinds that are not
    /// installed, give none.
    pub async fn read(&self, now: impl Fn() -> Timestamp) -> kube::Result<Vec<OtherAutoscaler>> {
        let (pods, leases, events, written) =
            tokio::try_join!(self.pods(), self.leases(), self.events(), self.written(),)?;
        // The time of the API server is known after its first response.
        let now = now();
        let mut found: Vec<OtherAutoscaler> =
            pods.iter().filter_map(OtherAutoscaler::of_pod).collect();
        found.extend(OtherAutoscaler::of_leases(&leases, &self.own_leases, now));
        found.extend(
            events
                .iter()
                .filter_map(|event| OtherAutoscaler::of_event(event, now)),
        );
        found.extend(
            written
                .iter()
                .filter_map(|(role, kind, subresource, object)| {
                    OtherAutoscaler::of_writers(*role, kind, &object.metadata, subresource, now)
                }),
        );
        found.retain(|other| self.roles.contains(&other.role));
        found.sort();
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

    /// Events of updaters, if these matter.
    async fn events(&self) -> kube::Result<Vec<Event>> {
        if !self.roles.contains(&AutoscalerRole::Updater) {
            return Ok(Vec::new());
        }
        let api = Api::all(self.client.clone());
        let params = ListParams::default().fields(EVENT_SELECTOR).limit(EVENTS);
        readable(api.list(&params).await)
    }

    /// The first objects of the kinds that the roles write, with the subresource of the writes.
    async fn written(
        &self,
    ) -> kube::Result<Vec<(AutoscalerRole, &'static str, &'static str, DynamicObject)>> {
        let mut found = Vec::new();
        if self.roles.contains(&AutoscalerRole::Recommender) {
            let role = AutoscalerRole::Recommender;
            let mut vpas = self.page::<api::vpa::VerticalPodAutoscaler>().await?;
            vpas.retain(is_of_default_recommender);
            let mut checkpoints = self
                .page::<api::checkpoint::VerticalPodAutoscalerCheckpoint>()
                .await?;
            checkpoints.retain(|checkpoint| {
                let name = checkpoint.data["spec"]["vpaObjectName"].as_str();
                let owner = |vpa: &DynamicObject| {
                    vpa.namespace() == checkpoint.namespace()
                        && vpa.metadata.name.as_deref() == name
                };
                vpas.iter().any(owner)
            });
            found.extend(
                vpas.into_iter()
                    .map(|vpa| (role, "VerticalPodAutoscaler", "status", vpa)),
            );
            let kind = "VerticalPodAutoscalerCheckpoint";
            found.extend(
                checkpoints
                    .into_iter()
                    .map(|checkpoint| (role, kind, "", checkpoint)),
            );
        }
        if self.roles.contains(&AutoscalerRole::EhpaController) {
            let kind = "EffectiveHorizontalPodAutoscaler";
            let ehpas = self
                .page::<api::ehpa::EffectiveHorizontalPodAutoscaler>()
                .await?;
            let role = AutoscalerRole::EhpaController;
            found.extend(ehpas.into_iter().map(|ehpa| (role, kind, "status", ehpa)));
        }
        Ok(found)
    }

    async fn page<K: kube::Resource<DynamicType = ()>>(&self) -> kube::Result<Vec<DynamicObject>> {
        let resource = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        readable(api.list(&ListParams::default().limit(PAGE)).await)
    }
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
    match list {
        Ok(list) => Ok(list.items),
        Err(kube::Error::Api(status)) if [403, 404].contains(&status.code) => {
            tracing::debug!(status.message, "not looking for other autoscalers there");
            Ok(Vec::new())
        }
        Err(error) => Err(error),
    }
}
