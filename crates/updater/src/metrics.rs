//! Metrics of the updater. Names, labels and buckets are upstream's where it has the same metric
//! (`pkg/utils/metrics/updater/updater.go`).
//!
//! Upstream never removes series. Here the series of a VPA object, of all its size classes, are
//! removed with it.

mod classes;
mod reasons;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec};
use rollout::{
    Action, ActionKind, ActionOutcome, ActionReason, PauseReason, Plan, PodCounts, RecentPods,
    Refutation, RefutationCause, RefutedAct, SkipReason,
};
use runtime::StepLatency;
use runtime::metrics::count;
use view::{ObjectKey, View};

use classes::{Class, SIZES, mode, size_class};
use reasons::{
    ERROR, EVICTION_ERROR, PAUSED_VPAS, RESIZE_ERROR, RESIZE_INFEASIBLE, UNBOOST_ERROR, paused_vpa,
    refused_reasons, resize_failure,
};

pub(crate) use classes::SizeClasses;

const PAUSES: [PauseReason; 4] = [
    PauseReason::Stopped,
    PauseReason::AnotherUpdater,
    PauseReason::WebhookLeaseExpired,
    PauseReason::ViewStale,
];
const MOVES: [ActionReason; 2] = [ActionReason::HotNode, ActionReason::FragmentedNode];

runtime::metrics! {
    /// All metrics of the updater. Clones share them.
    pub struct Metrics {
        controlled: IntGaugeVec { vpa_size_log2, update_mode } = "vpa_updater_controlled_pods_total",
            "Pods controlled by VPA objects.";
        evictable: IntGaugeVec { vpa_size_log2, update_mode } = "vpa_updater_evictable_pods_total",
            "Pods that match the eviction criteria.";
        with_evictable: IntGaugeVec { vpa_size_log2, update_mode }
            = "vpa_updater_vpas_with_evictable_pods_total",
            "VPA objects with at least one evictable pod.";
        with_evicted: IntGaugeVec { vpa_size_log2, update_mode }
            = "vpa_updater_vpas_with_evicted_pods_total",
            "VPA objects with at least one pod evicted in this round.";
        evicted: IntCounterVec { vpa_size_log2, update_mode, vpa_name, vpa_namespace }
            = "vpa_updater_evicted_pods_total",
            "Pods evicted to apply a recommendation.";
        failed_evictions: IntCounterVec { vpa_size_log2, update_mode, reason, vpa_name, vpa_namespace }
            = "vpa_updater_failed_eviction_attempts_total",
            "Evictions that the API server refused or did not answer.";
        resizable: IntGaugeVec { vpa_size_log2: SIZES } = "vpa_updater_in_place_updatable_pods_total",
            "Pods that match the criteria of in-place resizes.";
        with_resizable: IntGaugeVec { vpa_size_log2: SIZES }
            = "vpa_updater_vpas_with_in_place_updatable_pods_total",
            "VPA objects with at least one pod that may be resized in place.";
        with_resized: IntGaugeVec { vpa_size_log2: SIZES }
            = "vpa_updater_vpas_with_in_place_updated_pods_total",
            "VPA objects with at least one pod resized in place in this round.";
        resized: IntCounterVec { vpa_size_log2, vpa_name, vpa_namespace }
            = "vpa_updater_in_place_updated_pods_total",
            "Pods resized in place to apply a recommendation.";
        failed_resizes: IntCounterVec { vpa_size_log2, reason, vpa_name, vpa_namespace }
            = "vpa_updater_failed_in_place_update_attempts_total",
            "In-place resizes that the API server refused or did not answer.";
        infeasible: IntCounterVec { vpa_size_log2, vpa_name, vpa_namespace }
            = "vpa_updater_in_place_infeasible_skip_pods_total",
            "Resizes skipped because the same or a smaller one was infeasible on the node.";
        skipped: IntGaugeVec { reason } = "vpa_updater_skipped_pods",
            "Pods whose update is delayed or blocked, by reason.";
        recent: IntGaugeVec { reviewed: ["true", "false"] } = "vpa_updater_recent_pods",
            "Pods of VPA objects created within ten minutes, by whether the webhook reviewed them.";
        paused_vpas: IntGaugeVec { reason: PAUSED_VPAS } = "vpa_updater_paused_vpas",
            "VPA objects whose pods are not updated for now, by reason.";
        paused: IntGaugeVec { reason: PAUSES.map(PauseReason::as_str) } = "vpa_updater_paused",
            "1 while all evictions and resizes are paused, by reason.";
        webhook_invalid: IntCounterVec { reason: ["error", "invalid"] }
            = "vpa_updater_admission_controller_status_invalid_total",
            "Passes without evictions since the webhook's Lease was missing (error) or expired (invalid).";
        in_flight: IntGauge = "vpa_updater_actions_in_flight",
            "Evictions and resizes sent to the API server, without an answer yet.";
        waiting: IntGauge = "vpa_updater_actions_waiting",
            "Evictions and resizes that wait for a rate limit.";
        pub(crate) steps: StepLatency { step } = "vpa_updater_execution_latency_seconds",
            "Duration of the steps of the main loop, in seconds.";
        moved: IntCounterVec { reason: MOVES.map(ActionReason::as_str) }
            = "vpa_updater_rebalanced_pods_total",
            "Pods evicted to move them to another node, by reason.";
        failed_moves: IntCounterVec { reason: MOVES.map(ActionReason::as_str) }
            = "vpa_updater_failed_rebalancing_attempts_total",
            "Evictions for moves that the API server refused or did not answer, by reason.";
        pub(crate) hot_nodes: IntGauge = "vpa_updater_hot_nodes", "Nodes that are hot.";
        load_reads: IntCounterVec { result: ["success", "error"] } = "vpa_updater_node_load_reads_total",
            "Reads of the node load from the load-watcher, by result.";
        rolling_updates: IntCounter = "vpa_updater_rolling_updates_total",
            "Rolling updates of Deployments begun to apply a recommendation.";
        refused_rolling_updates: IntCounterVec { reason: refused_reasons() }
            = "vpa_updater_refused_rolling_updates_total",
            "Rolling updates that the state of the Deployment did not allow, or the API server refused, by reason.";
        refuted_acts: IntCounterVec {
            act: RefutedAct::ALL.map(RefutedAct::as_str),
            cause: RefutationCause::ALL.map(RefutationCause::as_str),
        } = "plimsoll_updater_refuted_acts_total",
            "Resizes and evictions after which a container was OOM killed again, or whose limit is not in effect, by act and cause.";
    }
}

impl Metrics {
    /// Sets the reason for which a pass pauses all actions, if any, and counts it.
    pub(crate) fn paused(&self, pause: Option<PauseReason>) {
        for reason in PAUSES {
            let is_paused = pause.is_some_and(|pause| pause.as_str() == reason.as_str());
            self.paused
                .with_label_values(&[reason.as_str()])
                .set(i64::from(is_paused));
        }
        for (label, reason) in [
            ("error", PauseReason::WebhookLeaseMissing),
            ("invalid", PauseReason::WebhookLeaseExpired),
        ] {
            let passes = self.webhook_invalid.with_label_values(&[label]);
            passes.inc_by(u64::from(pause == Some(reason)));
        }
    }

    pub(crate) fn queue(&self, in_flight: usize, waiting: usize) {
        self.in_flight.set(count(in_flight));
        self.waiting.set(count(waiting));
    }

    /// Sets the numbers of a plan, and removes the series of deleted VPA objects.
    pub(crate) fn planned(&self, plan: &Plan, view: &View, classes: &mut SizeClasses) {
        for gauge in [&self.controlled, &self.evictable, &self.with_evictable] {
            gauge.reset();
        }
        zero(&self.resizable);
        zero(&self.with_resizable);
        let mut sums: BTreeMap<Class, [i64; 5]> = BTreeMap::new();
        let mut recent = RecentPods::default();
        for counts in &plan.pod_counts {
            recent += counts.recent;
            let class = Class {
                size: size_class(counts.controlled),
                mode: view.vpas.get(&counts.vpa).map_or("", |vpa| mode(vpa)),
            };
            let PodCounts {
                controlled,
                evictable,
                resizable,
                ..
            } = **counts;
            let counted = [
                count(controlled),
                count(evictable),
                i64::from(evictable > 0),
                count(resizable),
                i64::from(resizable > 0),
            ];
            let sums = sums.entry(class).or_default();
            sums.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
            if classes.of.get(&counts.vpa) != Some(&class) {
                classes.of.insert(counts.vpa.clone(), class);
                let known = classes.known.entry(counts.vpa.clone()).or_default();
                if known.insert(class) {
                    self.remember(&counts.vpa, class);
                }
            }
        }
        for (reviewed, pods) in [("true", recent.reviewed), ("false", recent.unreviewed)] {
            self.recent.with_label_values(&[reviewed]).set(count(pods));
        }
        for (class, sums) in sums {
            let size = class.size.to_string();
            let (both, size) = ([size.as_str(), class.mode], [size.as_str()]);
            let series: [(_, &[&str]); 5] = [
                (&self.controlled, &both),
                (&self.evictable, &both),
                (&self.with_evictable, &both),
                (&self.resizable, &size),
                (&self.with_resizable, &size),
            ];
            for ((gauge, labels), sum) in series.into_iter().zip(sums) {
                gauge.with_label_values(labels).add(sum);
            }
        }
        let mut pauses = BTreeMap::from(PAUSED_VPAS.map(|reason| (reason, 0)));
        pauses.extend(counts(plan.paused.iter().map(|it| paused_vpa(&it.reason))));
        for (reason, vpas) in pauses {
            self.paused_vpas.with_label_values(&[reason]).set(vpas);
        }
        let reasons = SkipReason::ALL.map(|reason| (reason.as_str(), 0));
        let mut skips = BTreeMap::from(reasons);
        skips.extend(counts(plan.skips.iter().map(|skip| skip.reason.as_str())));
        for (reason, pods) in skips {
            self.skipped.with_label_values(&[reason]).set(pods);
        }
        classes.known.retain(|key, known| {
            let is_there = view.vpas.get(key).is_some();
            if !is_there {
                for class in known.iter().copied() {
                    self.forget(key, class);
                }
                classes.of.remove(key);
            }
            is_there
        });
    }

    /// Creates the counters of a VPA object at zero: a rate needs a first value.
    fn remember(&self, ObjectKey { namespace, name }: &ObjectKey, class: Class) {
        let size = class.size.to_string();
        let (size, mode) = (size.as_str(), class.mode);
        let failed = [size, mode, EVICTION_ERROR, name, namespace];
        self.evicted
            .with_label_values(&[size, mode, name, namespace]);
        self.failed_evictions.with_label_values(&failed);
        self.resized.with_label_values(&[size, name, namespace]);
        let failed = [size, RESIZE_ERROR, name, namespace];
        self.failed_resizes.with_label_values(&failed);
    }

    fn forget(&self, ObjectKey { namespace, name }: &ObjectKey, class: Class) {
        let size = &class.size.to_string();
        let remove = |counter: &IntCounterVec, labels: &[&str]| {
            // A missing series is no error.
            counter.remove_label_values(labels).ok();
        };
        remove(&self.evicted, &[size, class.mode, name, namespace]);
        remove(&self.resized, &[size, name, namespace]);
        remove(&self.infeasible, &[size, name, namespace]);
        let failed = [size, class.mode, EVICTION_ERROR, name, namespace];
        remove(&self.failed_evictions, &failed);
        for reason in [RESIZE_ERROR, RESIZE_INFEASIBLE, UNBOOST_ERROR] {
            remove(&self.failed_resizes, &[size, reason, name, namespace]);
        }
    }

    /// Counts a resize that is known to be infeasible.
    pub(crate) fn infeasible(&self, vpa: &ObjectKey, classes: &SizeClasses) {
        if let Some(class) = classes.of.get(vpa) {
            let size = class.size.to_string();
            let labels = [size.as_str(), vpa.name.as_str(), vpa.namespace.as_str()];
            self.infeasible.with_label_values(&labels).inc();
        }
    }

    pub(crate) fn finished(
        &self,
        action: &Action,
        outcome: &ActionOutcome,
        classes: &mut SizeClasses,
    ) {
        if action.relocation.is_some() {
            return self.finished_move(action, outcome);
        }
        if matches!(action.kind, ActionKind::RollingUpdate(_)) {
            return self.finished_rolling_update(outcome);
        }
        let Some(Class { size, mode }) = classes.of.get(&action.vpa).copied() else {
            return;
        };
        let (size, ObjectKey { namespace, name }) = (&size.to_string(), &action.vpa);
        let count = |counter: &IntCounterVec, labels: &[&str]| {
            counter.with_label_values(labels).inc();
        };
        match (&action.kind, outcome) {
            (ActionKind::RollingUpdate(_), _) | (_, ActionOutcome::PodGone) => {}
            (ActionKind::Evict, ActionOutcome::Accepted { .. }) => {
                count(&self.evicted, &[size, mode, name, namespace]);
                if classes.evicted.insert(action.vpa.clone()) {
                    self.with_evicted.with_label_values(&[size, mode]).inc();
                }
            }
            (ActionKind::Evict, _) => {
                let labels = [size, mode, EVICTION_ERROR, name, namespace];
                count(&self.failed_evictions, &labels);
            }
            (ActionKind::Resize { .. }, ActionOutcome::Accepted { .. }) => {
                count(&self.resized, &[size, name, namespace]);
                if classes.resized.insert(action.vpa.clone()) {
                    self.with_resized.with_label_values(&[size]).inc();
                }
            }
            (ActionKind::Resize { .. }, _) => {
                let reason = resize_failure(action, outcome);
                count(&self.failed_resizes, &[size, reason, name, namespace]);
            }
        }
    }

    fn finished_move(&self, action: &Action, outcome: &ActionOutcome) {
        let counter = match outcome {
            ActionOutcome::PodGone => return,
            ActionOutcome::Accepted { .. } => &self.moved,
            _ => &self.failed_moves,
        };
        counter.with_label_values(&[action.reason.as_str()]).inc();
    }

    fn finished_rolling_update(&self, outcome: &ActionOutcome) {
        let reason = match outcome {
            ActionOutcome::Accepted { .. } => return self.rolling_updates.inc(),
            ActionOutcome::PodGone => return,
            ActionOutcome::RollingUpdateRefused(refusal) => refusal.as_str(),
            _ => ERROR,
        };
        let refused = &self.refused_rolling_updates;
        refused.with_label_values(&[reason]).inc();
    }

    pub(crate) fn load_read(&self, is_read: bool) {
        let result = if is_read { "success" } else { ERROR };
        self.load_reads.with_label_values(&[result]).inc();
    }

    pub(crate) fn refuted(&self, refutation: &Refutation) {
        let labels = [refutation.act.as_str(), refutation.cause.as_str()];
        self.refuted_acts.with_label_values(&labels).inc();
    }

    pub(crate) fn round(&self, classes: &mut SizeClasses) {
        classes.evicted.clear();
        classes.resized.clear();
        self.with_evicted.reset();
        zero(&self.with_resized);
    }
}

fn counts(labels: impl Iterator<Item = &'static str>) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    labels.for_each(|label| *counts.entry(label).or_default() += 1);
    counts
}

fn zero(gauge: &IntGaugeVec) {
    for size in SIZES {
        gauge.with_label_values(&[size]).set(0);
    }
}
