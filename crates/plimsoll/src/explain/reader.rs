//! Requests for the objects that explain a recommendation. Every list is bounded.

use std::cell::RefCell;

use anyhow::{anyhow, bail, ensure};
use api::checkpoint::{VerticalPodAutoscalerCheckpoint as Checkpoint, object_name};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy, SizingPolicyStatus};
use api::vpa::VerticalPodAutoscaler as Vpa;
use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope as Namespaced;
use k8s_openapi::api::core::v1::{Event, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ListParams;
use kube::core::DynamicObject;
use kube::{Api, ResourceExt as _};
use serde_json::Value;
use sizing::Config;

use super::Facts;
use super::ehpa::{self, EhpaFacts};
use super::policy::{self, PolicyFacts};
use super::steps;
use crate::cluster::{Cluster, Kind, Object, list};
use crate::failure::Failure;
use crate::json::{text, texts};
use crate::subject::{Subject, is_name};

const MAX_CHECKPOINTS: usize = 50;
const MAX_OWNERS: usize = 5;
/// Component that writes events about evictions and resizes.
const UPDATER: &str = "vpa-updater";

#[derive(Debug)]
pub(super) enum Found {
    Vpa(Box<Facts>),
    Ehpa(Box<EhpaFacts>),
}

/// An object as JSON, and the names of further ones with the same target.
pub(super) type WithOthers = (Value, Vec<String>);

pub(super) struct Reader<'a> {
    cluster: &'a Cluster,
    system_namespace: &'a str,
    namespace: &'a str,
    /// Parts that could not be read, one sentence each.
    pub(super) missing: RefCell<Vec<String>>,
}

pub(super) async fn read(
    cluster: &Cluster,
    system_namespace: &str,
    namespace: &str,
    subject: &Subject,
) -> anyhow::Result<Found> {
    if !is_name(namespace) {
        let message = format!("{namespace:?} is not the name of a namespace");
        bail!(Failure::Usage(message));
    }
    let reader = Reader {
        cluster,
        system_namespace,
        namespace,
        missing: RefCell::default(),
    };
    let (workloads, pod) = match subject {
        Subject::Vpa(name) => {
            let object = reader.untyped_object::<Vpa>("vpa", name).await?;
            return reader.read_vpa((object, Vec::new()), None, None).await;
        }
        Subject::Ehpa(name) => {
            let object = reader.untyped_object::<Ehpa>("ehpa", name).await?;
            return ehpa::read(reader, (object, Vec::new())).await;
        }
        Subject::Workload { .. } => (vec![subject.clone()], None),
        Subject::Pod(name) => {
            let pod: Pod = reader.get(reader.api(), "pod", name).await?;
            (reader.owners(&pod).await, Some(pod))
        }
    };
    let vpas = reader.untyped::<Vpa>("verticalpodautoscalers").await?;
    let of_ehpa = ehpa::of_workload(&reader, &workloads).await;
    if let Some(vpa) = oldest(&vpas, "targetRef", &workloads) {
        // An EHPA that the user may not read is no part of this explanation.
        let ehpa = of_ehpa.ok().flatten().map(|(ehpa, _)| name_of(&ehpa));
        return reader.read_vpa(vpa, pod, ehpa).await;
    }
    if let Some(ehpa) = of_ehpa? {
        return ehpa::read(reader, ehpa).await;
    }
    let named = match workloads.last() {
        Some(Subject::Workload { kind, name }) => format!("{kind}/{name}"),
        _ => "the pod's owner".to_owned(),
    };
    bail!(
        "no VPA and no EHPA in namespace {namespace} targets {named}; `kubectl get vpa,ehpa -n {namespace}` lists them"
    )
}

fn name_of(object: &Value) -> String {
    text(&object["metadata"]["name"]).to_owned()
}

/// The oldest object whose reference names one of the workloads, and the names of the others. Of
/// the workloads, the last one, which is the topmost owner, comes first.
pub(super) fn oldest(
    objects: &[Value],
    reference: &str,
    workloads: &[Subject],
) -> Option<WithOthers> {
    workloads.iter().rev().find_map(|workload| {
        let is_of = |object: &&Value| {
            let [kind, name] = texts(&object["spec"][reference], ["kind", "name"]);
            workload.is_target(kind, name)
        };
        let mut found: Vec<&Value> = objects.iter().filter(is_of).collect();
        found.sort_by_key(|object| {
            let created = object["metadata"]["creationTimestamp"].as_str();
            (created.map(str::to_owned), name_of(object))
        });
        let (first, others) = found.split_first()?;
        let others = others.iter().map(|it| name_of(it));
        Some(((*first).clone(), others.collect()))
    })
}

impl Reader<'_> {
    fn api<K: Kind<Scope = Namespaced>>(&self) -> Api<K> {
        self.cluster.within(self.namespace)
    }

    /// The objects, or none and a sentence: the other parts of the explanation stay.
    pub(super) async fn or_missing<T: Default>(
        &self,
        subject: &str,
        reading: impl Future<Output = anyhow::Result<T>>,
    ) -> T {
        reading.await.unwrap_or_else(|error| {
            let sentence = format!("Without {subject}: {error:#}.");
            self.missing.borrow_mut().push(sentence);
            T::default()
        })
    }

    async fn get<K: Object>(&self, api: Api<K>, kind: &str, name: &str) -> anyhow::Result<K> {
        let subject = format!("{kind}/{name} in namespace {}", self.namespace);
        api.get(name).await.map_err(self.cluster.failed(&subject))
    }

    pub(super) async fn list<K: Kind<Scope = Namespaced>>(
        &self,
        subject: &str,
        params: &ListParams,
    ) -> anyhow::Result<Vec<K>> {
        let found = list(&self.api(), params).await;
        found.map_err(self.cluster.failed(subject))
    }

    /// All objects of a kind as JSON: one that cannot be parsed does not matter to the others. None
    /// if the kind is not installed.
    pub(super) async fn untyped<K: Kind>(&self, subject: &str) -> anyhow::Result<Vec<Value>> {
        match list(&self.untyped_api::<K>(), &ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Vec::new()),
            found => {
                let found = found.map_err(self.cluster.failed(subject))?;
                found.iter().map(json).collect()
            }
        }
    }

    fn untyped_api<K: Kind>(&self) -> Api<DynamicObject> {
        self.cluster.untyped::<K>(Some(self.namespace))
    }

    async fn untyped_object<K: Kind>(&self, kind: &str, name: &str) -> anyhow::Result<Value> {
        json(&self.get(self.untyped_api::<K>(), kind, name).await?)
    }

    pub(super) async fn untyped_opt<K: Kind>(
        &self,
        subject: &str,
        name: &str,
    ) -> anyhow::Result<Option<Value>> {
        let found = self.untyped_api::<K>().get_opt(name).await;
        let found = found.map_err(self.cluster.failed(subject))?;
        found.as_ref().map(json).transpose()
    }

    /// The policy that manages the VPA, with its status if it can be read.
    async fn policy(&self, vpa: &Vpa) -> Option<PolicyFacts> {
        let owner = policy::owner(vpa)?;
        let status = self.policy_status(owner);
        Some(PolicyFacts {
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            status: self
                .or_missing("the status of the sizing policy", status)
                .await,
        })
    }

    async fn policy_status(
        &self,
        owner: &OwnerReference,
    ) -> anyhow::Result<Option<SizingPolicyStatus>> {
        let OwnerReference { kind, name, .. } = owner;
        ensure!(is_name(name), "the owner's name is invalid");
        let policies = if kind == "SizingPolicy" {
            self.untyped_api::<SizingPolicy>()
        } else {
            self.cluster.untyped::<ClusterSizingPolicy>(None)
        };
        let subject = format!("{kind}/{name}");
        let found = policies.get(name).await;
        let found = found.map_err(self.cluster.failed(&subject))?;
        let status = found.data.get("status").cloned();
        let status = status.map(serde_json::from_value).transpose();
        let status = status.map_err(|error| anyhow!("invalid status of {subject}: {error}"))?;
        Ok(status)
    }

    /// Reads the objects around a VPA. `ehpa` is the name of the EHPA of its target.
    async fn read_vpa(
        self,
        (object, others): WithOthers,
        pod: Option<Pod>,
        ehpa: Option<String>,
    ) -> anyhow::Result<Found> {
        let vpa = api::vpa::parse(object).map_err(|error| anyhow!("invalid object: {error}"))?;
        let pods = match pod {
            Some(pod) => vec![pod],
            None => self.or_missing("pods of the target", self.pods(&vpa)).await,
        };
        let policy = self.policy(&vpa).await;
        let checkpoints = self.or_missing("checkpoints", self.checkpoints(&vpa)).await;
        let (sizing, sizing_note) = if checkpoints.is_empty() {
            (Config::default(), None)
        } else {
            steps::settings(self.cluster, self.system_namespace).await
        };
        let all = ListParams::default();
        let budgets = self.list("poddisruptionbudgets", &all);
        let budgets = self.or_missing("disruption budgets", budgets).await;
        let events = self.or_missing("events", self.events(&vpa, &pods)).await;
        Ok(Found::Vpa(Box::new(Facts {
            vpa,
            others,
            ehpa,
            policy,
            checkpoints,
            sizing,
            sizing_note,
            now: Timestamp::now(),
            pods,
            budgets,
            events,
            missing: self.missing.into_inner(),
        })))
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
            if owners.len() == MAX_OWNERS {
                break;
            }
            let api = self
                .cluster
                .api_of(self.namespace, &owner.api_version, &owner.kind);
            if let Ok(api) = api.await
                && let Ok(above) = api.get(&owner.name).await
            {
                next = controller(above.owner_references()).cloned();
            }
        }
        owners
    }

    async fn pods(&self, vpa: &Vpa) -> anyhow::Result<Vec<Pod>> {
        let target = self.cluster.target(self.namespace, &vpa.spec.target_ref);
        let params = ListParams::default().labels(&target.await?.selector);
        self.list("pods", &params).await
    }

    async fn checkpoints(&self, vpa: &Vpa) -> anyhow::Result<Vec<Checkpoint>> {
        let name = vpa.name_any();
        let status = vpa.status.as_ref();
        let recommendation = status.and_then(|status| status.recommendation.as_ref());
        let containers = recommendation.map(|it| it.containers.as_slice());
        let mut checkpoints = Vec::new();
        for container in containers.unwrap_or_default().iter().take(MAX_CHECKPOINTS) {
            let container = &container.container_name;
            let key = object_name(&name, container);
            if !is_name(&key) {
                continue;
            }
            let found = self.api::<Checkpoint>().get_opt(&key).await;
            let found = found.map_err(self.cluster.failed("checkpoints"))?;
            // Two pairs of names can share the name of the checkpoint.
            checkpoints.extend(found.filter(|it| {
                it.spec.vpa_object_name == name && it.spec.container_name == *container
            }));
        }
        Ok(checkpoints)
    }

    /// Events about the VPA, and those of the updater about the pods.
    async fn events(&self, vpa: &Vpa, pods: &[Pod]) -> anyhow::Result<Vec<Event>> {
        let name = vpa.name_any();
        let of_vpa =
            format!("involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={name}");
        let params = ListParams::default().fields(&of_vpa);
        let mut events: Vec<Event> = self.list("events", &params).await?;
        let of_pods = format!("involvedObject.kind=Pod,source={UPDATER}");
        let params = ListParams::default().fields(&of_pods);
        let about_pods: Vec<Event> = self.list("events", &params).await?;
        let is_shown = |event: &Event| {
            let about = event.involved_object.name.as_deref();
            pods.iter().any(|pod| pod.metadata.name.as_deref() == about)
        };
        events.extend(about_pods.into_iter().filter(is_shown));
        Ok(events)
    }
}

fn json(object: &DynamicObject) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(object)?)
}

fn controller(owners: &[OwnerReference]) -> Option<&OwnerReference> {
    let mut owners = owners.iter();
    let owner = owners.find(|owner| owner.controller == Some(true));
    owner.filter(|owner| is_name(&owner.name))
}
