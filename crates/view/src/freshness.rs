//! Freshness of the view of one kind of object: whether it is synced, and the start of staleness.

use jiff::Timestamp;

/// The kinds of object that are watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Pods that are not Pending.
    Pods,
    Controllers(crate::WellKnown),
    Vpas,
    Checkpoints,
    LimitRanges,
    Namespaces,
    /// Pods that have not ended, by their labels.
    LabelledPods,
    PendingPods,
    /// Unfinished pods on nodes.
    BoundPods,
    Nodes,
    NodePools,
    NodeClaims,
    /// The status of cluster-autoscaler.
    AutoscaledGroups,
    /// Templates of `DaemonSet` objects in every namespace.
    Daemons,
    Quotas,
    Policies,
    ClusterPolicies,
    /// Events about evicted pods.
    Evictions,
    DisruptionBudgets,
    WebhookLeases,
    /// The stop switch `ConfigMap`.
    StopSwitches,
    Ehpas,
    Hpas,
    /// `HorizontalPodAutoscaler` objects, by their utilization targets.
    HpaTargets,
    Predictions,
    Substitutes,
}

impl Resource {
    /// The label value in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pods => "pods",
            Self::Controllers(kind) => kind.plural(),
            Self::Vpas => "verticalpodautoscalers",
            Self::Checkpoints => "verticalpodautoscalercheckpoints",
            Self::LimitRanges => "limitranges",
            Self::Namespaces => "namespaces",
            Self::LabelledPods => "pod_labels",
            Self::PendingPods => "pending_pods",
            Self::BoundPods => "bound_pods",
            Self::Nodes => "nodes",
            Self::NodePools => "nodepools",
            Self::NodeClaims => "nodeclaims",
            Self::AutoscaledGroups => "cluster_autoscaler_status",
            Self::Daemons => "daemonset_templates",
            Self::Quotas => "resourcequotas",
            Self::Policies => "sizingpolicies",
            Self::ClusterPolicies => "clustersizingpolicies",
            Self::Evictions => "events",
            Self::DisruptionBudgets => "poddisruptionbudgets",
            Self::WebhookLeases => "leases",
            Self::StopSwitches => "configmaps",
            Self::Ehpas => "effectivehorizontalpodautoscalers",
            Self::Hpas => "horizontalpodautoscalers",
            Self::HpaTargets => "hpa_targets",
            Self::Predictions => "timeseriespredictions",
            Self::Substitutes => "substitutes",
        }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Freshness {
    /// Whether the whole list was read at least once.
    pub synced: bool,
    /// Start of the time in which changes may have been missed; `None` while the watch is up.
    pub stale_since: Option<Timestamp>,
    /// Number of failures so far.
    pub errors: u64,
    /// Number of objects so far that did not parse and were skipped.
    pub rejected: u64,
}

impl Freshness {
    /// Records a complete list.
    pub fn listed(&mut self) {
        self.synced = true;
        self.stale_since = None;
    }

    /// Records that the watch resumed at the version where it broke off.
    pub fn resumed(&mut self) {
        self.stale_since = None;
    }

    /// Records a failed list or watch. Staleness starts with the first failure in a row.
    pub fn failed(&mut self, now: Timestamp) {
        self.errors += 1;
        self.stale_since.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staleness_begins_with_the_first_failure_in_a_row() {
        let second = |second| Timestamp::from_second(second).expect("in range");
        let mut freshness = Freshness::default();
        freshness.listed();
        freshness.failed(second(10));
        freshness.failed(second(20));
        assert_eq!(
            freshness,
            Freshness {
                synced: true,
                stale_since: Some(second(10)),
                errors: 2,
                rejected: 0
            }
        );
        freshness.resumed();
        assert_eq!(freshness.stale_since, None);
    }
}
