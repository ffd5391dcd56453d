//! Metrics of the updater. Names, labels and buckets are upstream's where it has the same metric
//! (`pkg/utils/metrics/updater/updater.go`).
//!
//! Upstream never removes series. Here the series of a VPA object, of all its size classes, are
//! removed with it.

mod classes;
mod families;
mod reasons;
mod rebalancing;
mod refuted_acts;
mod rolling_updates;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Registry};
use rollout::{
    Action, ActionKind, ActionOutcome, PauseReason, Plan, PodCounts, RecentPods, SkipReason,
};
use runtime::StepLatency;
use view::{ObjectKey, View};

use classes::{Class, LARGEST, mode, size_class};
use families::{CLASS, Families, MODE_VPA, REASON_MODE_VPA, REASON_VPA, SIZE, VPA};
use reasons::{
    EVICTION_ERROR, RESIZE_ERROR, RESIZE_INFEASIBLE, UNBOOST_ERROR, paused_vpa, resize_failure,
    skipped,
};

pub(crate) use classes::SizeClasses;
pub(crate) use rebalancing::RebalancingMetrics;
use refuted_acts::RefutedActs;
use rolling_updates::RollingUpdateMetrics;

/// All metrics of the updater. Clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    controlled: IntGaugeVec,
    evictable: IntGaugeVec,
    with_evictable: IntGaugeVec,
    with_evicted: IntGaugeVec,
    evicted: IntCounterVec,
    failed_evictions: IntCounterVec,
    resizable: IntGaugeVec,
    with_resizable: IntGaugeVec,
    with_resized: IntGaugeVec,
    resized: IntCounterVec,
    failed_resizes: IntCounterVec,
    infeasible: IntCounterVec,
    skipped: IntGaugeVec,
    recent: IntGaugeVec,
    paused: IntGaugeVec,
    webhook_invalid: IntCounterVec,
    paused_vpas: IntGaugeVec,
    in_flight: IntGauge,
    waiting: IntGauge,
    steps: StepLatency,
    pub(crate) rebalancing: RebalancingMetrics,
    rolling_updates: RollingUpdateMetrics,
    pub(crate) refuted_acts: RefutedActs,
}

fn webhook_invalid(families: &Families<'_>) -> Result<IntCounterVec, prometheus::Error> {
    families.counter(
        "admission_controller_status_invalid_total",
        "Passes without evictions since the webhook's Lease was missing (error) or expired (invalid).",
        &["reason"],
    )
}

impl Metrics {
    /// Registers the metrics.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let families = Families(registry);
        let metrics = Self {
            controlled: families.gauge(
                "controlled_pods_total",
                "Pods controlled by VPA objects.",
                &CLASS,
            )?,
            evictable: families.gauge(
                "evictable_pods_total",
                "Pods that match the eviction criteria.",
                &CLASS,
            )?,
            with_evictable: families.gauge(
                "vpas_with_evictable_pods_total",
                "VPA objects with at least one evictable pod.",
                &CLASS,
            )?,
            with_evicted: families.gauge(
                "vpas_with_evicted_pods_total",
                "VPA objects with at least one pod evicted in this round.",
                &CLASS,
            )?,
            evicted: families.counter(
                "evicted_pods_total",
                "Pods evicted to apply a recommendation.",
                &MODE_VPA,
            )?,
            failed_evictions: families.counter(
                "failed_eviction_attempts_total",
                "Evictions that the API server refused or did not answer.",
                &REASON_MODE_VPA,
            )?,
            resizable: families.gauge(
                "in_place_updatable_pods_total",
                "Pods that match the criteria of in-place resizes.",
                &SIZE,
            )?,
            with_resizable: families.gauge(
                "vpas_with_in_place_updatable_pods_total",
                "VPA objects with at least one pod that may be resized in place.",
                &SIZE,
            )?,
            with_resized: families.gauge(
                "vpas_with_in_place_updated_pods_total",
                "VPA objects with at least one pod resized in place in this round.",
                &SIZE,
            )?,
            resized: families.counter(
                "in_place_updated_pods_total",
                "Pods resized in place to apply a recommendation.",
                &VPA,
            )?,
            failed_resizes: families.counter(
                "failed_in_place_update_attempts_total",
                "In-place resizes that the API server refused or did not answer.",
                &REASON_VPA,
            )?,
            infeasible: families.counter(
                "in_place_infeasible_skip_pods_total",
                "Resizes skipped because the same or a smaller one was infeasible on the node.",
                &VPA,
            )?,
            skipped: families.gauge(
                "skipped_pods",
                "Pods whose update is delayed or blocked, by reason.",
                &["reason"],
            )?,
            recent: families.gauge(
                "recent_pods",
                "Pods of VPA objects created within ten minutes, by whether the webhook reviewed them.",
                &["reviewed"],
            )?,
            paused_vpas: families.gauge(
                "paused_vpas",
                "VPA objects whose pods are not updated for now, by reason.",
                &["reason"],
            )?,
            paused: families.gauge(
                "paused",
                "1 while all evictions and resizes are paused, by reason.",
                &["reason"],
            )?,
            webhook_invalid: webhook_invalid(&families)?,
            in_flight: families.number(
                "actions_in_flight",
                "Evictions and resizes sent to the API server, without an answer yet.",
            )?,
            waiting: families.number(
                "actions_waiting",
                "Evictions and resizes that wait for a rate limit.",
            )?,
            steps: StepLatency::register(registry, "vpa_updater_execution_latency_seconds")?,
            rebalancing: RebalancingMetrics::register(&families)?,
            rolling_updates: RollingUpdateMetrics::register(&families)?,
            refuted_acts: RefutedActs::register(registry)?,
        };
        metrics.start_at_zero();
        Ok(metrics)
    }

    /// Creates the series of reasons and size classes: a rate needs a first value.
    fn start_at_zero(&self) {
        self.paused(None);
        self.recent(RecentPods::default());
        for gauge in [&self.resizable, &self.with_resizable, &self.with_resized] {
            zero(gauge);
        }
    }

    fn recent(&self, pods: RecentPods) {
        for (reviewed, pods) in [("true", pods.reviewed), ("false", pods.unreviewed)] {
            self.recent.with_label_values(&[reviewed]).set(count(pods));
        }
    }

    /// Sets the reason for which a pass pauses all actions, if any, and counts it.
    pub(crate) fn paused(&self, pause: Option<PauseReason>) {
        for reason in [
            PauseReason::Stopped,
            PauseReason::AnotherUpdater,
            PauseReason::WebhookLeaseExpired,
            PauseReason::ViewStale,
        ] {
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

    /// Sets the numbers of actions in flight and waiting.
    pub(crate) fn queue(&self, in_flight: usize, waiting: usize) {
        self.in_flight.set(count(in_flight));
        self.waiting.set(count(waiting));
    }

    /// Observes the length of a step.
    pub(crate) fn step(&self, step: &str, took: Duration) {
        self.steps.observe(step, took);
    }

    /// Sets the numbers of a plan, and removes the series of deleted VPA objects.
    pub(crate) fn planned(&self, plan: &Plan, view: &View, classes: &mut SizeClasses) {
        for gauge in [
            &self.controlled,
            &self.evictable,
            &self.with_evictable,
            &self.paused_vpas,
        ] {
            gauge.reset();
        }
        for gauge in [&self.resizable, &self.with_resizable] {
            zero(gauge);
        }
        let mut sums: BTreeMap<Class, [i64; 5]> = BTreeMap::new();
        let mut recent = RecentPods::default();
        for counts in &plan.pod_counts {
            let mode = view.vpas.get(&counts.vpa).map_or("", |vpa| {
                mode(
                    vpa.object
                        .spec
                        .update_policy
                        .as_ref()
                        .and_then(|policy| policy.update_mode),
                )
            });
            recent.reviewed += counts.recent.reviewed;
            recent.unreviewed += counts.recent.unreviewed;
            let class = Class {
                size: size_class(counts.controlled),
                mode,
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
        self.recent(recent);
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
        for (reason, paused) in counts(plan.paused.iter().map(|paused| paused_vpa(&paused.reason)))
        {
            self.paused_vpas.with_label_values(&[reason]).set(paused);
        }
        let reasons = SkipReason::ALL
            .into_iter()
            .map(|reason| (skipped(reason), 0));
        let mut skips: BTreeMap<_, i64> = reasons.collect();
        for skip in &plan.skips {
            *skips.entry(skipped(skip.reason)).or_default() += 1;
        }
        for (reason, count) in skips {
            self.skipped.with_label_values(&[reason]).set(count);
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
        self.evicted
            .with_label_values(&[&size, class.mode, name, namespace]);
        self.failed_evictions.with_label_values(&[
            &size,
            class.mode,
            EVICTION_ERROR,
            name,
            namespace,
        ]);
        self.resized.with_label_values(&[&size, name, namespace]);
        self.failed_resizes
            .with_label_values(&[&size, RESIZE_ERROR, name, namespace]);
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

    /// Counts the outcome of an action.
    pub(crate) fn finished(
        &self,
        action: &Action,
        outcome: &ActionOutcome,
        classes: &mut SizeClasses,
    ) {
        if action.relocation.is_some() {
            return self.rebalancing.finished(action, outcome);
        }
        if matches!(action.kind, ActionKind::RollingUpdate(_)) {
            return self.rolling_updates.finished(outcome);
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

    /// Resets all metrics when this replica stops leading: it counts from zero when it leads again,
    /// as after a restart.
    pub(crate) fn stand_down(&self) {
        self.webhook_invalid.reset();
        self.paused(None);
        self.recent(RecentPods::default());
        self.queue(0, 0);
        self.rebalancing.stand_down();
        self.rolling_updates.stand_down();
        self.refuted_acts.stand_down();
        for gauge in [
            &self.controlled,
            &self.evictable,
            &self.with_evictable,
            &self.with_evicted,
            &self.skipped,
            &self.paused_vpas,
        ] {
            gauge.reset();
        }
        for gauge in [&self.resizable, &self.with_resizable, &self.with_resized] {
            zero(gauge);
        }
        for counter in [
            &self.evicted,
            &self.failed_evictions,
            &self.resized,
            &self.failed_resizes,
            &self.infeasible,
        ] {
            counter.reset();
        }
    }

    /// Begins a round.
    pub(crate) fn round(&self, classes: &mut SizeClasses) {
        classes.evicted.clear();
        classes.resized.clear();
        self.with_evicted.reset();
        zero(&self.with_resized);
    }
}

/// The number of occurrences of each label.
fn counts(labels: impl Iterator<Item = &'static str>) -> BTreeMap<&'static str, i64> {
    let mut counts = BTreeMap::new();
    labels.for_each(|label| *counts.entry(label).or_default() += 1);
    counts
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn zero(gauge: &IntGaugeVec) {
    for power in 0..LARGEST {
        gauge.with_label_values(&[&power.to_string()]).set(0);
    }
}
