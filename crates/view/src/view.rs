//! The watched state of the cluster, as plain tables.

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

use crate::bound_pod::BoundPod;
use crate::checkpoint::Checkpoint;
use crate::freshness::{Freshness, Resource};
use crate::hpa_targets::HpaTargets;
use crate::limits::DisruptionBudget;
use crate::limits::LimitRange;
use crate::limits::Quota;
use crate::memory_pressure_eviction::Eviction;
use crate::node::DaemonSetShare;
use crate::node::Node;
use crate::node_pool::{AutoscaledGroups, NodeClaim, NodePool};
use crate::oldest_wins::CronSchedule;
use crate::pod::{LabelledPod, Pod};
use crate::policy::Policy;
use crate::prediction::Prediction;
use crate::scale::{PodSet, ReadScale, Scale, ScaleKey};
use crate::table::{ObjectKey, ObjectName, Table};
use crate::updater_preconditions::{StopSwitch, WebhookLease};
use crate::vpa::Stripped;
use crate::vpa::Vpa;
use crate::workload_controller::{Controller, WellKnown};

/// The last observed state of the cluster. Each program fills only the tables that it watches, and
/// may keep several views, so that a busy kind does not wake the readers of another one. An object
/// that stops parsing keeps its last good state.
#[derive(Debug, Default)]
pub struct View {
    /// Pods: those that are not Pending in the recommender, unfinished ones in the updater.
    pub pods: Table<Pod>,
    /// `VerticalPodAutoscaler` objects, in the recommender, the updater and the webhook.
    pub vpas: Table<Vpa>,
    /// `VerticalPodAutoscalerCheckpoint` objects, in a view of its own of the recommender.
    pub checkpoints: Table<Checkpoint>,
    /// `LimitRange` objects, in the updater, the webhook and, for schedulable caps, the recommender.
    pub limit_ranges: Table<LimitRange>,
    /// Namespaces, in the updater and, for sizing policies, the recommender.
    pub namespaces: Table<Namespace>,
    /// Pending pods, in the recommender for schedulable caps.
    pub pending_pods: Table<Pod>,
    /// Unfinished pods on nodes, in the extender.
    pub bound_pods: Table<BoundPod>,
    /// Nodes, in the updater, the extender, for schedulable caps the recommender, and for node groups
    /// the webhook, with labels only.
    pub nodes: Table<Node>,
    /// Karpenter's `NodePool` objects, in the recommender for capacity that could come.
    pub node_pools: Table<NodePool>,
    /// Karpenter's `NodeClaim` objects, in the recommender for capacity that could come.
    pub node_claims: Table<NodeClaim>,
    /// Node groups of cluster-autoscaler, in the recommender for capacity that could come.
    pub autoscaled_groups: Table<AutoscaledGroups>,
    /// `DaemonSet` templates of every namespace, in the recommender for schedulable caps.
    pub daemons: Table<DaemonSetShare>,
    /// `ResourceQuota` objects, in the updater and, for schedulable caps, the recommender.
    pub quotas: Table<Quota>,
    /// `SizingPolicy` objects, in the recommender.
    pub policies: Table<Policy>,
    /// `ClusterSizingPolicy` objects, in the recommender.
    pub cluster_policies: Table<Policy>,
    /// `PodDisruptionBudget` objects, in the updater.
    pub disruption_budgets: Table<DisruptionBudget>,
    /// The Lease that the webhook renews, in a view of its own of the updater.
    pub webhook_leases: Table<WebhookLease>,
    /// The stop switch while it is on, in a view of its own of the updater.
    pub stop_switches: Table<StopSwitch>,
    /// `EffectiveHorizontalPodAutoscaler` objects, in the horizontal view of the recommender.
    pub ehpas: Table<Stripped<EffectiveHorizontalPodAutoscaler>>,
    /// `HorizontalPodAutoscaler` objects, in the horizontal view of the recommender.
    pub hpas: Table<Stripped<HorizontalPodAutoscaler>>,
    /// `HorizontalPodAutoscaler` objects reduced to their utilization targets, in the recommender.
    pub hpa_targets: Table<HpaTargets>,
    /// `TimeSeriesPrediction` objects, in the horizontal view of the recommender.
    pub predictions: Table<Stripped<TimeSeriesPrediction>>,
    /// `Substitute` objects, in the horizontal view of the recommender.
    pub substitutes: Table<Stripped<Substitute>>,
    /// `TimeSeriesPrediction` objects reduced to their samples, in the adapter and the extender.
    pub predicted_metrics: Table<Prediction>,
    /// `EffectiveHorizontalPodAutoscaler` objects reduced to their cron schedules, in the adapter.
    pub cron_schedules: Table<CronSchedule>,
    /// Unfinished pods reduced to labels and phase, in the adapter.
    pub labelled_pods: Table<LabelledPod>,
    /// Workloads whose scalable owners are read in addition to those of VPA targets. Set by sizing
    /// policies, in the recommender.
    pub scale_requests: BTreeSet<WorkloadRef>,
    /// Evictions under memory pressure whose event still exists, in the recommender.
    pub evictions: Table<Eviction>,
    /// Built-in controllers: all kinds in the recommender, the updater and the webhook; Deployments
    /// and `StatefulSets` in the adapter.
    pub(crate) controllers: BTreeMap<WellKnown, Table<Controller>>,
    /// Scale subresources of custom kinds, in the recommender, the updater and the webhook.
    pub scales: Table<ReadScale>,
    /// State of each watch. A new one makes the view unsynced; a removed one is not waited for.
    pub freshness: BTreeMap<Resource, Freshness>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    pub name: String,
    pub labels: Labels,
    /// Annotations with the prefix `plimsoll.dev/`.
    pub annotations: BTreeMap<String, String>,
}

impl Namespace {
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

impl View {
    pub fn controller<K: Hash + Equivalent<ObjectKey>>(
        &self,
        kind: WellKnown,
        key: &K,
    ) -> Option<&Arc<Controller>> {
        self.controllers.get(&kind)?.get(key)
    }

    /// Returns the controller that a workload of a well-known kind names.
    pub fn controller_of(&self, workload: Workload<'_>) -> Option<&Arc<Controller>> {
        let Workload {
            api_version,
            kind,
            namespace,
            name,
        } = workload;
        let kind = WellKnown::of(api_version, kind)?;
        self.controller(kind, &ObjectName { namespace, name })
    }

    /// Iterates over the controllers of a well-known kind, by namespace and name.
    pub fn controllers(&self, kind: WellKnown) -> impl Iterator<Item = &Arc<Controller>> {
        self.controllers
            .get(&kind)
            .into_iter()
            .flat_map(Table::iter)
    }

    pub fn controllers_mut(&mut self, kind: WellKnown) -> &mut Table<Controller> {
        self.controllers.entry(kind).or_default()
    }

    /// Returns the scale of an object of a custom kind; `None` before it was read.
    pub fn scale(&self, key: &ScaleKey) -> Option<&Scale> {
        self.scales.get(key).map(|read| &read.scale)
    }

    /// Returns the scale that was read while its owner had these live pods; `None` for others.
    pub fn scale_with(&self, key: &ScaleKey, pods: PodSet) -> Option<&Scale> {
        self.scales
            .get(key)
            .filter(|read| read.pods == pods)
            .map(|read| &read.scale)
    }

    /// Stores a scale that was requested while its owner had these live pods. Returns whether it
    /// differs from the previous one.
    pub fn apply_scale(&mut self, key: ScaleKey, scale: Scale, pods: PodSet) -> bool {
        self.scales
            .apply(Arc::new(ReadScale { key, scale, pods }))
            .is_some()
    }

    /// The live pods by their owners of custom kinds. Empty if pods have no [`Pod::running`].
    pub fn live_pods_by_scale(&self) -> HashMap<ScaleKey, PodSet> {
        by_scale(self.pods.iter())
    }

    /// The live pods of one namespace by their owners of custom kinds.
    pub fn live_pods_by_scale_in(&self, namespace: &str) -> HashMap<ScaleKey, PodSet> {
        by_scale(self.pods.in_namespace(namespace))
    }

    /// The VPAs that target a workload, whatever API group and version they or the workload name.
    pub fn vpas_of<'a>(
        &'a self,
        workload: Workload<'_>,
    ) -> impl Iterator<Item = &'a Arc<Vpa>> + use<'a> {
        self.vpas.by_workload(workload.of_any_version())
    }

    /// The HPAs that scale a workload, whatever API group and version they or the workload name.
    pub fn hpas_of<'a>(
        &'a self,
        workload: Workload<'_>,
    ) -> impl Iterator<Item = &'a Arc<HpaTargets>> + use<'a> {
        self.hpa_targets.by_workload(workload.of_any_version())
    }

    /// The limits of all `LimitRange`s of one namespace, in the order of their names.
    pub fn namespace_limits(&self, namespace: &str) -> NamespaceLimits {
        if self.limit_ranges.is_empty() {
            return NamespaceLimits::default();
        }
        let ranges = self.limit_ranges.in_namespace(namespace);
        NamespaceLimits::of(ranges.flat_map(|range| range.items.clone()).collect())
    }

    /// Whether every watched list was read at least once. Decide nothing before.
    pub fn is_synced(&self) -> bool {
        self.needed().all(|freshness| freshness.synced)
    }

    /// Start of the time in which any change may have been missed; `None` while all watches are up.
    pub fn stale_since(&self) -> Option<Timestamp> {
        self.needed()
            .filter_map(|freshness| freshness.stale_since)
            .min()
    }

    /// Whether all watches that decisions need are interrupted.
    pub fn is_cut_off(&self) -> bool {
        self.needed().next().is_some()
            && self
                .needed()
                .all(|freshness| freshness.stale_since.is_some())
    }

    /// The watches that decisions need. Events about evictions only add to what is known, and may live in
    /// an etcd of their own.
    fn needed(&self) -> impl Iterator<Item = &Freshness> {
        let watches = self.freshness.iter();
        watches
            .filter(|(resource, _)| **resource != Resource::Evictions)
            .map(|(_, freshness)| freshness)
    }
}

fn by_scale<'a>(pods: impl Iterator<Item = &'a Arc<Pod>>) -> HashMap<ScaleKey, PodSet> {
    let mut sets: HashMap<ScaleKey, PodSet> = HashMap::new();
    for pod in pods.filter(|pod| pod.is_live()) {
        let Some(owner) = &pod.owner else { continue };
        if WellKnown::of(&owner.api_version, &owner.kind).is_none()
            && let Ok(key) = ScaleKey::of(owner.workload(&pod.key.namespace))
        {
            sets.entry(key).or_default().add(&pod.uid);
        }
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_no_condition() {
        let mut view = View::default();
        view.freshness.entry(Resource::Pods).or_default().synced = true;
        let events = view.freshness.entry(Resource::Evictions).or_default();
        events.stale_since = Some(Timestamp::UNIX_EPOCH);
        assert!(view.is_synced());
        assert_eq!(view.stale_since(), None);
        view.freshness
            .entry(Resource::Vpas)
            .or_default()
            .stale_since = Some(Timestamp::UNIX_EPOCH);
        assert!(!view.is_synced());
        assert_eq!(view.stale_since(), Some(Timestamp::UNIX_EPOCH));
    }
}
