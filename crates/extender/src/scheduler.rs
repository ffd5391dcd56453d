//! The extender protocol of kube-scheduler: filter and prioritize.
//!
//! | path | call |
//! |---|---|
//! | `/filter`, `/profiles/NAME/filter` | removes nodes whose load would be above a threshold |
//! | `/prioritize` | scores nodes by the default policy |
//! | `/profiles/NAME/prioritize` | scores nodes by the policy of a profile |
//!
//! The annotation `plimsoll.dev/placement-policy` of a pod replaces the policy. Scores are by
//! measured load; by requests when it is missing; equal when the deadline passes. The response
//! header `plimsoll-placement` names which.

mod decide;
mod handler;
mod node_table;
mod protocol;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::watch::Watches;
use jiff::{SignedDuration, Timestamp};
use model::Workload;
use parking_lot::RwLock;
use placement::peaks::PowerModel;
use placement::{
    Amounts, FallbackReason, LoadFilter, PodSpec, Policy, PredictedLoad, PredictionConfig,
    Prioritizer, predict,
};
use prometheus::{HistogramVec, IntCounter, IntCounterVec, IntGauge, Registry};
use runtime::Manager;
use tokio::sync::watch;
use view::{BoundPod, Change, Node, Scope, View};

use crate::load_watcher::{Clock, Snapshots};
use node_table::{NodeTable, WorkloadLoad};

pub use handler::router;

const PRUNE_INTERVAL: Duration = Duration::from_secs(10);

/// Configuration of filter and prioritize.
#[derive(Debug, Clone)]
pub struct SchedulerConfig {
    /// Policy of /prioritize, and targets for other resources of every policy.
    pub prioritizer: Prioritizer,
    pub profiles: BTreeMap<String, Policy>,
    pub power_models: BTreeMap<String, PowerModel>,
    pub filter: LoadFilter,
    /// Age above which measured load is stale.
    pub max_age: SignedDuration,
    /// Smallest share of the offered nodes with measured load, in percent.
    pub min_coverage_percent: usize,
    /// Score of the best node, 10 to 100.
    pub max_score: i64,
    /// Time after which scores are equal.
    pub deadline: Duration,
    /// Largest request body in bytes.
    pub max_body_bytes: usize,
    /// Largest number of requests at a time; others wait until the deadline.
    pub max_requests: usize,
}

/// State of filter and prioritize. Clones share it.
#[derive(Clone)]
pub struct Scheduler {
    config: Arc<SchedulerConfig>,
    nodes: Arc<RwLock<NodeTable>>,
    /// Controllers, VPAs and predictions, for the load of pods. May be incomplete.
    workloads: watch::Receiver<View>,
    snapshots: Snapshots,
    is_synced: Arc<AtomicBool>,
    clock: Clock,
    metrics: Metrics,
}

impl Scheduler {
    /// State without watches: the caller applies changes of nodes and pods. All nodes get equal
    /// scores before [`Scheduler::set_synced`].
    pub fn new(
        config: SchedulerConfig,
        snapshots: Snapshots,
        workloads: watch::Receiver<View>,
        clock: Clock,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let nodes = NodeTable::new(config.power_models.clone());
        Ok(Self {
            config: Arc::new(config),
            nodes: Arc::new(RwLock::new(nodes)),
            workloads,
            snapshots,
            is_synced: Arc::default(),
            clock,
            metrics: Metrics::register(registry)?,
        })
    }

    /// Starts the watches of nodes, pods, controllers, VPAs and predictions.
    ///
    /// The condition `scheduler_watches` of the readiness waits for nodes and pods. Until then all
    /// nodes get equal scores. VPAs and predictions are optional, since their CRDs are. The watches of
    /// nodes and pods are added to `cluster`.
    pub fn start(
        config: SchedulerConfig,
        snapshots: Snapshots,
        cluster: Watches,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        let mut workloads = Watches::new(manager.client.clone(), Scope::default())
            .controllers()
            .vpas()
            .predictions();
        let clock = manager.clock();
        let clock: Clock = Arc::new(move || clock.timestamp());
        let view = workloads.view();
        let scheduler = Self::new(config, snapshots, view, clock, &manager.registry)?;
        let watching = async move { workloads.ended().await };
        manager
            .tasks
            .spawn_until_shutdown("workload watches", watching);
        scheduler.watch_nodes(cluster, manager);
        scheduler.watch_load(manager);
        Ok(scheduler)
    }

    fn watch_nodes(&self, cluster: Watches, manager: &Manager) {
        let (on_node, on_pod) = (self.clone(), self.clone());
        let mut watches = cluster
            .reported_nodes(move |change| on_node.apply_node(change))
            .bound_pods(move |change| on_pod.apply_pod(change));
        let mut view = watches.view();
        let watching = async move { watches.ended().await };
        manager.tasks.spawn_until_shutdown("node watches", watching);
        let condition = manager.readiness.condition("scheduler_watches");
        let scheduler = self.clone();
        let syncing = async move {
            if view.wait_for(View::is_synced).await.is_ok() {
                scheduler.set_synced();
                condition.ready();
            }
            loop {
                tokio::time::sleep(PRUNE_INTERVAL).await;
                scheduler.prune();
            }
        };
        manager.tasks.spawn_until_shutdown("reservations", syncing);
    }

    /// Prepares scores of `LowRiskOverCommitment` whenever the measured load changes, if
    /// [`SchedulerConfig`] has this policy.
    fn watch_load(&self, manager: &Manager) {
        let configured = std::iter::once(&self.config.prioritizer.policy);
        let mut configured = configured.chain(self.config.profiles.values());
        let plugin = configured.find_map(|policy| match policy {
            Policy::LowRiskOverCommitment(plugin) => Some(*plugin),
            _ => None,
        });
        let Some(plugin) = plugin else {
            return;
        };
        let scheduler = self.clone();
        let mut snapshots = self.snapshots.clone();
        let caching = async move {
            while snapshots.changed().await.is_ok() {
                let scheduler = scheduler.clone();
                let work = move || scheduler.cache_load_risks(&plugin);
                if let Err(error) = tokio::task::spawn_blocking(work).await {
                    tracing::error!(%error, "load risks were not computed");
                }
            }
            // The end of a task ends the program.
            std::future::pending::<()>().await;
        };
        manager.tasks.spawn_until_shutdown("load risks", caching);
    }

    fn prune(&self) {
        let mut nodes = self.nodes.write();
        nodes.reservations.prune((self.clock)());
        let (len, evicted) = (nodes.reservations.len(), nodes.reservations.evicted());
        drop(nodes);
        let len = i64::try_from(len).unwrap_or(i64::MAX);
        self.metrics.reservations.set(len);
        let counter = &self.metrics.evicted_reservations;
        counter.inc_by(evicted.saturating_sub(counter.get()));
    }

    pub fn set_synced(&self) {
        self.is_synced.store(true, Ordering::Release);
    }

    pub fn apply_node(&self, change: &Change<Node>) {
        self.nodes.write().apply_node(change);
    }

    pub fn apply_pod(&self, change: &Change<BoundPod>) {
        let now = (self.clock)();
        let new = change.new.as_deref();
        let new = new.filter(|pod| self.nodes.read().counts(pod, now));
        // Computed without the lock: it reads other objects.
        let load = new.map(|pod| (self.bound_load(pod, now), pod.bound_at.unwrap_or(now)));
        self.nodes.write().apply_pod(change, load, now);
    }

    fn bound_load(&self, pod: &BoundPod, now: Timestamp) -> Amounts {
        let owner = pod.owner.as_ref().map(|owner| Workload {
            api_version: &owner.api_version,
            kind: &owner.kind,
            namespace: &pod.key.namespace,
            name: &owner.name,
        });
        let spec = node_table::pod_spec(pod);
        let policy = &self.config.prioritizer.policy;
        self.predict(&spec, owner, |key| pod.labels.get(key), policy, now)
            .load
    }

    /// Load of a pod before it runs, as the policy expects it.
    fn predict<'a>(
        &self,
        spec: &PodSpec,
        owner: Option<Workload<'_>>,
        label: impl Fn(&str) -> Option<&'a str>,
        policy: &Policy,
        now: Timestamp,
    ) -> PredictedLoad {
        let workload = owner.map(|owner| {
            let view = self.workloads.borrow();
            node_table::of_workload(&view, owner, spec, label, now)
        });
        let WorkloadLoad {
            recommendation,
            forecast,
        } = workload.unwrap_or_default();
        let config = PredictionConfig::of(policy);
        predict(spec, recommendation.as_ref(), forecast, &config)
    }
}

/// Limits of the buckets in seconds: from a tenth of the goal for 5,000 nodes to the timeout.
const BUCKETS: [f64; 11] = [
    0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 1.0, 5.0,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Filter,
    Prioritize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Basis {
    Load,
    /// Requests, since load is missing.
    Allocation(FallbackReason),
    /// None: all nodes are equal.
    Neutral(NeutralReason),
}

/// Reason for equal scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NeutralReason {
    Deadline,
    /// The view of the cluster is not complete yet.
    NotSynced,
    /// The filter has no thresholds.
    Off,
}

runtime::metrics! {
    struct Metrics {
        answers: IntCounterVec { verb, basis, reason } = "plimsoll_extender_answers_total",
            "Answers to kube-scheduler by verb, basis (load, allocation, neutral) and reason.";
        refusals: IntCounterVec { verb, reason } = "plimsoll_extender_refused_requests_total",
            "Requests that were refused, by verb and reason.";
        duration: HistogramVec { verb } [BUCKETS] = "plimsoll_extender_request_duration_seconds",
            "Time from the headers of a request to its answer, by verb.";
        suspended_filters: IntCounter = "plimsoll_extender_suspended_filters_total",
            "Requests without removals since too many nodes were above a threshold.";
        unknown_nodes: IntCounter = "plimsoll_extender_unknown_nodes_total",
            "Offered nodes that the extender does not know.";
        invalid_policies: IntCounter = "plimsoll_extender_invalid_policies_total",
            "Pods to place whose annotation plimsoll.dev/placement-policy is invalid.";
        reservations: IntGauge = "plimsoll_extender_reservations",
            "Pods whose load is reserved on a node, and pods that ended lately.";
        evicted_reservations: IntCounter = "plimsoll_extender_evicted_reservations_total",
            "Reservations that made room for others at the limit.";
    }
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
        }
    }
}

impl Basis {
    /// Value of the response header, and label.
    fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Allocation(_) => "allocation",
            Self::Neutral(_) => "neutral",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Load => "",
            Self::Allocation(FallbackReason::NoMetrics) => "no_metrics",
            Self::Allocation(FallbackReason::StaleMetrics { .. }) => "stale_metrics",
            Self::Allocation(FallbackReason::LowCoverage { .. }) => "low_coverage",
            Self::Neutral(NeutralReason::Deadline) => "deadline",
            Self::Neutral(NeutralReason::NotSynced) => "not_synced",
            Self::Neutral(NeutralReason::Off) => "off",
        }
    }
}

impl Metrics {
    fn record(&self, verb: Verb, basis: Basis, took: Duration) {
        let labels = [verb.name(), basis.name(), basis.reason()];
        self.answers.with_label_values(&labels).inc();
        let duration = self.duration.with_label_values(&[verb.name()]);
        duration.observe(took.as_secs_f64());
    }

    /// Records a refused request. `reason`: `too_large`, `invalid`, `overloaded` or `unknown_profile`.
    fn refuse(&self, verb: Verb, reason: &str) {
        let labels = [verb.name(), reason];
        self.refusals.with_label_values(&labels).inc();
    }
}
