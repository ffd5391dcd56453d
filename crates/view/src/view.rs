//! Everything that is known of the cluster, as plain tables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use api::ehpa::EffectiveHorizontalPodAutoscaler;
use api::prediction::TimeSeriesPrediction;
use api::substitute::Substitute;
use hashbrown::Equivalent;
use jiff::Timestamp;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1;
use model::{Labels, NamespaceLimits, Workload, WorkloadRef};

use crate::autoscaler::Autoscaler;
use crate::budget::DisruptionBudget;
use crate::checkpoint::Checkpoint;
use crate::controller::{Controller, WellKnown};
use crate::cron_schedule::CronSchedule;
use crate::daemon::Daemon;
use crate::eviction::Eviction;
use crate::freshness::{Freshness, Resource};
use crate::labelled::LabelledPod;
use crate::limit_range::LimitRange;
use crate::node::Node;
use crate::owner::Owner;
use crate::pod::Pod;
use crate::policy::Policy;
use crate::prediction::Prediction;
use crate::quota::Quota;
use crate::scale::{PodSet, ReadScale, Scale, ScaleKey};
use crate::stop_switch::StopSwitch;
use crate::stripped::Stripped;
use crate::table::{Entry, ObjectKey, Table};
use crate::webhook_lease::WebhookLease;

/// The cluster as last seen.
#[derive(Debug, Default)]
pub struct View {
    /// Pods that are not Pending; or those that have not ended, Pending ones too, where pods are to
    /// be moved.
    pub pods: Table<Pod>,
    /// `VerticalPodAutoscaler` objects. One that stops parsing stays as it last was.
    pub autoscalers: Table<Autoscaler>,
    /// `VerticalPodAutoscalerCheckpoint` objects. One that stops parsing stays as it last was.
    pub checkpoints: Table<Checkpoint>,
    /// `LimitRange` objects.
    pub limit_ranges: Table<LimitRange>,
    /// Namespaces.
    pub namespaces: Table<Namespace>,
    /// Pods that are Pending.
    pub pending_pods: Table<Pod>,
    /// Nodes.
    pub nodes: Table<Node>,
    /// `DaemonSet` objects of every namespace, by their templates.
    pub daemons: Table<Daemon>,
    /// `ResourceQuota` objects.
    pub quotas: Table<Quota>,
    /// `SizingPolicy` objects. One that stops parsing stays as it last was.
    pub policies: Table<Policy>,
    /// `ClusterSizingPolicy` objects. One that stops parsing stays as it last was.
    pub cluster_policies: Table<Policy>,
    /// `PodDisruptionBudget` objects.
    pub disruption_budgets: Table<DisruptionBudget>,
    /// Leases by which services say that they live.
    pub webhook_leases: Table<WebhookLease>,
    /// Switches that are on.
    pub stop_switches: Table<StopSwitch>,
    /// `EffectiveHorizontalPodAutoscaler` objects. One that stops parsing stays as it last was, as
    /// do the following.
    pub ehpas: Table<Stripped<EffectiveHorizontalPodAutoscaler>>,
    /// `HorizontalPodAutoscaler` objects.
    pub horizontal_autoscalers: Table<Stripped<HorizontalPodAutoscaler>>,
    /// `TimeSeriesPrediction` objects.
    pub predictions: Table<Stripped<TimeSeriesPrediction>>,
    /// `Substitute` objects.
    pub substitutes: Table<Stripped<Substitute>>,
    /// `TimeSeriesPrediction` objects by the numbers in them.
    pub predicted_metrics: Table<Prediction>,
    /// `EffectiveHorizontalPodAutoscaler` objects by their windows of time.
    pub cron_schedules: Table<CronSchedule>,
    /// Pods that have not ended, by their labels.
    pub labelled_pods: Table<LabelledPod>,
    /// Workloads of which it is asked whether something above them can be scaled, besides the
    /// targets of autoscalers.
    pub scale_requests: BTreeSet<WorkloadRef>,
    /// Evictions for want of memory that the API server still remembers.
    pub evictions: Table<Eviction>,
    pub(crate) controllers: BTreeMap<WellKnown, Table<Controller>>,
    pub(crate) scales: Table<ReadScale>,
    pub(crate) freshness: BTreeMap<Resource, Freshness>,
}

/// A namespace that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Those of its annotations that are ours.
    pub annotations: BTreeMap<String, String>,
}

impl Namespace {
    /// Keeps what can change a decision.
    pub fn from_k8s(object: v1::Namespace) -> Self {
        let annotations = object.metadata.annotations.into_iter().flatten();
        Self {
            name: object.metadata.name.unwrap_or_default(),
            labels: object.metadata.labels.unwrap_or_default().into(),
            annotations: annotations
                .filter(|(key, _)| key.starts_with("plimsoll.dev/"))
                .collect(),
        }
    }
}

impl Entry for Namespace {
    type Key = String;

    fn key(&self) -> &String {
        &self.name
    }
}

impl View {
    /// The controller of a well-known kind.
    pub fn controller<K: Hash + Equivalent<ObjectKey>>(
        &self,
        kind: WellKnown,
        key: &K,
    ) -> Option<&Arc<Controller>> {
        self.controllers.get(&kind)?.get(key)
    }

    /// All controllers of a well-known kind, by namespace and name.
    pub fn controllers(&self, kind: WellKnown) -> impl Iterator<Item = &Arc<Controller>> {
        self.controllers
            .get(&kind)
            .into_iter()
            .flat_map(Table::iter)
    }

    /// The controllers of one kind, to change them.
    pub fn controllers_mut(&mut self, kind: WellKnown) -> &mut Table<Controller> {
        self.controllers.entry(kind).or_default()
    }

    /// What the scale subresource of an object of another kind said; none before it was asked.
    pub fn scale(&self, key: &ScaleKey) -> Option<&Scale> {
        self.scales.get(key).map(|read| &read.scale)
    }

    /// The answer of a scale subresource that was read when its owner had these live pods; none
    /// where they changed since.
    pub fn scale_with(&self, key: &ScaleKey, pods: PodSet) -> Option<&Scale> {
        self.scales
            .get(key)
            .filter(|read| read.pods == pods)
            .map(|read| &read.scale)
    }

    /// Stores the answer of a scale subresource that was asked for when its owner had these live
    /// pods. Returns whether it differs from the one before.
    pub fn apply_scale(&mut self, key: ScaleKey, scale: Scale, pods: PodSet) -> bool {
        self.scales
            .apply(Arc::new(ReadScale { key, scale, pods }))
            .is_some()
    }

    /// The answers of all scale subresources.
    pub fn scales(&self) -> impl Iterator<Item = &Arc<ReadScale>> {
        self.scales.iter()
    }

    /// Forgets the answer of a scale subresource. Returns whether there was one.
    pub fn delete_scale(&mut self, key: &ScaleKey) -> bool {
        self.scales.delete(key).is_some()
    }

    /// The live pods by their owners of other than well-known kinds. None where pods are kept
    /// without what they say while they run.
    pub fn live_pods_by_scale(&self) -> HashMap<ScaleKey, PodSet> {
        by_scale(self.pods.iter())
    }

    /// The same for the pods of one namespace.
    pub fn live_pods_by_scale_in(&self, namespace: &str) -> HashMap<ScaleKey, PodSet> {
        by_scale(self.pods_in(namespace))
    }

    /// The pods of one namespace that are not Pending.
    pub fn pods_in<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<Pod>> {
        self.pods
            .starting_at(ObjectKey::new(namespace, ""))
            .take_while(move |pod| pod.key.namespace == namespace)
    }

    /// The pods of one namespace that have not ended, by their labels.
    pub fn labelled_pods_in<'a>(
        &'a self,
        namespace: &'a str,
    ) -> impl Iterator<Item = &'a Arc<LabelledPod>> {
        let pods = self
            .labelled_pods
            .starting_at(ObjectKey::new(namespace, ""));
        pods.take_while(move |pod| pod.key.namespace == namespace)
    }

    /// The autoscalers that point at a workload, whatever group and version they or the workload
    /// name.
    pub fn autoscalers_of<'a>(
        &'a self,
        workload: Workload<'_>,
    ) -> impl Iterator<Item = &'a Arc<Autoscaler>> + use<'a> {
        self.autoscalers.about(workload.of_any_version())
    }

    /// The `LimitRange`s of one namespace.
    pub fn limit_ranges_in(&self, namespace: &str) -> Vec<&LimitRange> {
        if self.limit_ranges.is_empty() {
            return Vec::new();
        }
        let ranges = self
            .limit_ranges
            .starting_at(ObjectKey::new(namespace, ""))
            .map(Arc::as_ref);
        ranges
            .take_while(|range| range.key.namespace == namespace)
            .collect()
    }

    /// What all `LimitRange`s of one namespace ask of its pods together.
    pub fn namespace_limits(&self, namespace: &str) -> NamespaceLimits {
        LimitRange::together(&self.limit_ranges_in(namespace))
    }

    /// Whether every watched list was read at least once. Nothing should be decided before.
    pub fn is_synced(&self) -> bool {
        self.freshness.values().all(|freshness| freshness.synced)
    }

    /// Since when changes of anything may have been missed; none while all watches are up.
    pub fn stale_since(&self) -> Option<Timestamp> {
        self.freshness
            .values()
            .filter_map(|freshness| freshness.stale_since)
            .min()
    }

    /// The state of one watch; none if there is none.
    pub fn freshness_of(&self, resource: Resource) -> Option<&Freshness> {
        self.freshness.get(&resource)
    }

    /// The state of one watch, to change it. The view is not synced before a new one is.
    pub fn freshness_mut(&mut self, resource: Resource) -> &mut Freshness {
        self.freshness.entry(resource).or_default()
    }

    /// Sets the state of one watch.
    pub fn set_freshness(&mut self, resource: Resource, freshness: Freshness) {
        self.freshness.insert(resource, freshness);
    }

    /// The state of each watch.
    pub fn freshness(&self) -> impl Iterator<Item = (Resource, &Freshness)> {
        self.freshness
            .iter()
            .map(|(resource, freshness)| (*resource, freshness))
    }
}

fn by_scale<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> HashMap<ScaleKey, PodSet> {
    let mut sets: HashMap<ScaleKey, PodSet> = HashMap::new();
    for pod in pods.filter(|pod| pod.is_live()) {
        let Some(Owner {
            api_version,
            kind,
            name,
            uid: _,
        }) = &pod.owner
        else {
            continue;
        };
        if WellKnown::of_kind(kind).is_none()
            && let Ok(key) = ScaleKey::of(Workload {
                api_version,
                kind,
                namespace: &pod.key.namespace,
                name,
            })
        {
            sets.entry(key).or_default().add(&pod.uid);
        }
    }
    sets
}
