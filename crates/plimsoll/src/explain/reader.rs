//! Requests for the objects that explain a recommendation. Every list is bounded.

use std::fmt::Debug;

use anyhow::anyhow;
use api::checkpoint::{VerticalPodAutoscalerCheckpoint as Checkpoint, object_name};
use api::vpa::VerticalPodAutoscaler as Vpa;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::api::ListParams;
use kube::core::{DynamicObject, GroupVersionKind, Selector};
use kube::{Api, ResourceExt as _, discovery};
use serde::de::DeserializeOwned;

use super::facts::Facts;
use super::subject::{Subject, is_name};
use crate::cluster::{Cluster, request_failure};
use crate::failure::Failure;

/// Objects per page.
const PAGE: u32 = 500;
/// Maximum number of pages of a list.
const MAX_PAGES: usize = 10;
/// Maximum number of checkpoints, one per container.
const MAX_CHECKPOINTS: usize = 50;
/// Maximum number of owners above a pod.
const MAX_OWNERS: usize = 5;
/// Component that writes events about evictions and resizes.
const UPDATER: &str = "vpa-updater";

/// Requests in a namespace.
struct Reader<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    missing: Vec<String>,
}

/// Reads the objects that explain a subject.
pub(super) async fn read(
    cluster: &Cluster,
    namespace: &str,
    subject: &Subject,
) -> Result<Facts, Failure> {
    if !is_name(namespace) {
        return Err(Failure::Usage(format!(
            "{namespace:?} is not the name of a namespace"
        )));
    }
    let mut reader = Reader {
        cluster,
        namespace,
        missing: Vec::new(),
    };
    let (vpa, others, pod) = reader.vpa(subject).await?;
    let pods = if let Some(pod) = pod {
        vec![pod]
    } else {
        let pods = reader.pods(&vpa).await;
        reader.or_missing("pods of the target", pods)
    };
    let checkpoints = reader.checkpoints(&vpa).await;
    let checkpoints = reader.or_missing("checkpoints", checkpoints);
    let all = ListParams::default();
    let budgets: Result<Vec<PodDisruptionBudget>, _> =
        reader.list("poddisruptionbudgets", &all).await;
    let budgets = reader.or_missing("disruption budgets", budgets);
    let events = reader.events(&vpa, &pods).await;
    let events = reader.or_missing("events", events);
    Ok(Facts {
        vpa,
        others,
        checkpoints,
        pods,
        budgets,
        events,
        missing: reader.missing,
    })
}

impl Reader<'_> {
    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.cluster.client.clone(), self.namespace)
    }

    /// The objects, or none and a sentence: the other parts of the explanation stay.
    fn or_missing<T>(&mut self, subject: &str, result: Result<Vec<T>, Failure>) -> Vec<T> {
        result.unwrap_or_else(|failure| {
            self.missing.push(format!("Without {subject}: {failure}."));
            Vec::new()
        })
    }

    async fn get<K>(&self, kind: &str, name: &str) -> Result<K, Failure>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let found = self.api::<K>().get(name).await;
        let subject = format!("{kind}/{name} in namespace {}", self.namespace);
        found.map_err(|error| request_failure(&subject, &self.cluster.server, error))
    }

    async fn list<K>(&self, subject: &str, params: &ListParams) -> Result<Vec<K>, Failure>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let api = self.api::<K>();
        let mut params = params.clone().limit(PAGE);
        let mut objects = Vec::new();
        for _ in 0..MAX_PAGES {
            let page = api.list(&params).await;
            let page =
                page.map_err(|error| request_failure(subject, &self.cluster.server, error))?;
            objects.extend(page.items);
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(objects),
            }
        }
        Err(Failure::Other(anyhow!(
            "there are more than {} {subject} in namespace {}",
            objects.len(),
            self.namespace
        )))
    }

    /// The VPA of the subject, further VPAs with the same target, and the pod if it is one.
    async fn vpa(&self, subject: &Subject) -> Result<(Vpa, Vec<String>, Option<Pod>), Failure> {
        let (workloads, pod) = match subject {
            Subject::Vpa(name) => return Ok((self.get("vpa", name).await?, Vec::new(), None)),
            Subject::Workload { .. } => (vec![subject.clone()], None),
            Subject::Pod(name) => {
                let pod: Pod = self.get("pod", name).await?;
                (self.owners(&pod).await, Some(pod))
            }
        };
        let vpas: Vec<Vpa> = self
            .list("verticalpodautoscalers", &ListParams::default())
            .await?;
        // The topmost owner comes first.
        for workload in workloads.iter().rev() {
            let is_of = |vpa: &&Vpa| {
                let target = &vpa.spec.target_ref;
                workload.is_target(&target.kind, &target.name)
            };
            let mut found: Vec<&Vpa> = vpas.iter().filter(is_of).collect();
            found.sort_by_key(|vpa| (vpa.creation_timestamp().map(|time| time.0), vpa.name_any()));
            if let Some((first, others)) = found.split_first() {
                let others = others.iter().map(|vpa| vpa.name_any()).collect();
                return Ok(((*first).clone(), others, pod));
            }
        }
        let named = match workloads.last() {
            Some(Subject::Workload { kind, name }) => format!("{kind}/{name}"),
            _ => "the pod's owner".to_owned(),
        };
        Err(Failure::Other(anyhow!(
            "no VPA in namespace {} targets {named}; `kubectl get vpa -n {0}` lists them",
            self.namespace
        )))
    }

    /// The controllers above a pod, the nearest one first.
    async fn owners(&self, pod: &Pod) -> Vec<Subject> {
        let mut owners = Vec::new();
        let mut next = controller(pod.owner_references()).cloned();
        while let Some(owner) = next.take() {
            let kind = owner.kind.to_lowercase();
            owners.push(Subject::Workload {
                kind: kind.strip_suffix('s').unwrap_or(&kind).to_owned(),
                name: owner.name.clone(),
            });
            if owners.len() < MAX_OWNERS
                && let Ok(object) = self
                    .object(&owner.api_version, &owner.kind, &owner.name)
                    .await
            {
                next = controller(object.owner_references()).cloned();
            }
        }
        owners
    }

    async fn object_api(
        &self,
        api_version: &str,
        kind: &str,
    ) -> Result<Api<DynamicObject>, Failure> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if !(group.is_empty() || is_name(group)) || !is_name(version) {
            return Err(Failure::Other(anyhow!(
                "invalid apiVersion {api_version:?}"
            )));
        }
        let kind_of = GroupVersionKind::gvk(group, version, kind);
        let resource = discovery::pinned_kind(&self.cluster.client, &kind_of).await;
        let (resource, _) =
            resource.map_err(|error| request_failure(kind, &self.cluster.server, error))?;
        let client = self.cluster.client.clone();
        Ok(Api::namespaced_with(client, self.namespace, &resource))
    }

    async fn object(
        &self,
        api_version: &str,
        kind: &str,
        name: &str,
    ) -> Result<DynamicObject, Failure> {
        let api = self.object_api(api_version, kind).await?;
        let found = api.get(name).await;
        found.map_err(|error| request_failure(kind, &self.cluster.server, error))
    }

    /// The pods that match the selector of the target.
    async fn pods(&self, vpa: &Vpa) -> Result<Vec<Pod>, Failure> {
        let target = &vpa.spec.target_ref;
        if !is_name(&target.name) {
            return Err(Failure::Other(anyhow!("targetRef.name is invalid")));
        }
        let api_version = target.api_version.as_str();
        let object = self.object(api_version, &target.kind, &target.name).await?;
        let written = &object.data["spec"]["selector"];
        let selector = match serde_json::from_value::<LabelSelector>(written.clone()) {
            Ok(selector) if selector != LabelSelector::default() => {
                let selector = Selector::try_from(selector);
                selector
                    .map_err(|error| anyhow!(error).context("spec.selector"))?
                    .to_string()
            }
            _ => {
                let api = self.object_api(api_version, &target.kind).await?;
                let scale = api.get_scale(&target.name).await;
                let scale = scale.map_err(|error| {
                    request_failure("the selector of the target", &self.cluster.server, error)
                })?;
                let selector = scale.status.and_then(|status| status.selector);
                selector.unwrap_or_default()
            }
        };
        if selector.is_empty() {
            return Err(Failure::Other(anyhow!("the target has no selector")));
        }
        let params = ListParams::default().labels(&selector);
        self.list("pods", &params).await
    }

    /// The checkpoints of the recommended containers.
    async fn checkpoints(&self, vpa: &Vpa) -> Result<Vec<Checkpoint>, Failure> {
        let name = vpa.name_any();
        let status = vpa.status.as_ref();
        let recommendation = status.and_then(|status| status.recommendation.as_ref());
        let containers = recommendation.map(|it| it.container_recommendations.as_slice());
        let mut checkpoints = Vec::new();
        for container in containers.unwrap_or_default().iter().take(MAX_CHECKPOINTS) {
            let container = &container.container_name;
            let key = object_name(&name, container);
            if !is_name(&key) {
                continue;
            }
            let found = self.api::<Checkpoint>().get_opt(&key).await;
            let found = found
                .map_err(|error| request_failure("checkpoints", &self.cluster.server, error))?;
            // Two pairs of names can share the name of the checkpoint.
            checkpoints.extend(found.filter(|it| {
                it.spec.vpa_object_name == name && it.spec.container_name == *container
            }));
        }
        Ok(checkpoints)
    }

    /// Events about the VPA, and those of the updater about the pods.
    async fn events(&self, vpa: &Vpa, pods: &[Pod]) -> Result<Vec<Event>, Failure> {
        let name = vpa.name_any();
        let of_vpa =
            format!("involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={name}");
        let mut events: Vec<Event> = self
            .list("events", &ListParams::default().fields(&of_vpa))
            .await?;
        let of_pods = format!("involvedObject.kind=Pod,source={UPDATER}");
        let about_pods: Vec<Event> = self
            .list("events", &ListParams::default().fields(&of_pods))
            .await?;
        let is_shown = |event: &Event| {
            let about = event.involved_object.name.as_deref();
            pods.iter().any(|pod| pod.metadata.name.as_deref() == about)
        };
        events.extend(about_pods.into_iter().filter(is_shown));
        Ok(events)
    }
}

fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    owners
        .iter()
        .find(|owner| owner.controller == Some(true))
        .filter(|owner| is_name(&owner.name))
}
