//! Reports the control loop's work in metrics, events, logs and the health check.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use feed::client::Reports;
use jiff::Timestamp;
use rollout::{
    Action, ActionKind, ActionOutcome, ActionReason, PauseReason, Plan, PreemptionPlan,
    QuickOomKill, RebalancingReport, Refutation, Relocation, RollbackChange, Skip, SkipReason,
    Snapshot,
};
use runtime::Activity;
use runtime::metrics::count;
use tokio::sync::watch;
use tokio::time::Instant;
use view::{ObjectKey, View, Vpa};

use crate::application_reports::ApplicationReports;
use crate::events::{EventQueue, EventRecord};
use crate::metrics::{Metrics, SizeClasses};

/// The intervals without a pass after which the health check fails, as upstream's does.
const ACTIVITY_INTERVALS: u32 = 5;
/// The shortest time after which it fails: with a short interval, all objects must be read first.
const MIN_ACTIVITY_TIMEOUT: Duration = Duration::from_mins(1);

/// Destinations of reports. Clones share them.
#[derive(Clone)]
pub(crate) struct Outputs {
    pub(crate) metrics: Metrics,
    pub(crate) events: EventQueue,
    pub(crate) activity: Activity,
    /// Reports to the recommender; `None` without a feed.
    pub(crate) reports: Option<watch::Sender<Reports>>,
}

/// The reporter, with what it has reported already.
pub(super) struct Reporter {
    pub(super) outputs: Outputs,
    classes: SizeClasses,
    preemptions: Vec<PreemptionPlan>,
    /// Pods whose resize was known to be infeasible in the last pass, with their VPA objects.
    infeasible: BTreeSet<(ObjectKey, ObjectKey)>,
    /// Skipped rolling updates of the last pass that need the user.
    failed_replacements: BTreeSet<(ObjectKey, SkipReason)>,
    /// Pods whose annotation of rebalancing was invalid in the last report.
    invalid_annotations: BTreeSet<(ObjectKey, String)>,
    applications: ApplicationReports,
    pause: Option<PauseReason>,
    round: Option<Round>,
}

/// A time in which there have always been actions that wait or are in flight.
struct Round {
    began: Instant,
    decided: Instant,
}

impl Drop for Reporter {
    /// A standby is healthy without passes, shows no numbers and reports nothing.
    fn drop(&mut self) {
        if let Some(reports) = &self.outputs.reports {
            reports.send_replace(Reports::new());
        }
        self.outputs.activity.expect_nothing();
        // This replica counts from zero when it leads again, as after a restart.
        self.outputs.metrics.reset();
    }
}

impl Reporter {
    pub(super) fn new(outputs: Outputs, interval: Duration, started: Instant) -> Self {
        let timeout = (interval * ACTIVITY_INTERVALS).max(MIN_ACTIVITY_TIMEOUT);
        outputs.activity.expect_every(timeout, started.into_std());
        Self {
            applications: ApplicationReports::new(outputs.reports.clone()),
            outputs,
            classes: SizeClasses::default(),
            preemptions: Vec::new(),
            infeasible: BTreeSet::new(),
            failed_replacements: BTreeSet::new(),
            invalid_annotations: BTreeSet::new(),
            pause: None,
            round: None,
        }
    }

    pub(super) fn planned(&mut self, plan: &Plan, view: &View) {
        let metrics = &self.outputs.metrics;
        metrics.planned(plan, view, &mut self.classes);
        self.skipped_infeasible(&plan.skips, view);
        self.skipped_replacements(&plan.skips, view);
        if let Some(report) = &plan.rebalancing {
            self.rebalanced(report);
        }
    }

    /// Reports to the recommender whether pods have the recommended requests.
    pub(super) fn applied(&mut self, plan: &Plan, snapshot: &Snapshot<'_>, now: Timestamp) {
        self.applications
            .passed(plan, snapshot.pause, snapshot.view, now);
    }

    /// Reports hot nodes, and each pod once whose annotation of rebalancing is invalid.
    fn rebalanced(&mut self, report: &RebalancingReport) {
        let Outputs {
            metrics, events, ..
        } = &self.outputs;
        metrics.hot_nodes.set(count(report.hot_nodes));
        let invalid: BTreeSet<_> = report.invalid_annotations.iter().cloned().collect();
        let new = invalid.difference(&self.invalid_annotations);
        events.push(new.map(|(pod, uid)| EventRecord::invalid_annotation(pod, uid)));
        self.invalid_annotations = invalid;
    }

    /// Reports each pod once whose resize is known to be infeasible.
    fn skipped_infeasible(&mut self, skips: &[Arc<Skip>], view: &View) {
        let skips = skips.iter();
        let infeasible = skips.filter(|skip| skip.reason == SkipReason::KnownInfeasible);
        let infeasible = infeasible.map(|skip| (skip.pod.clone(), skip.vpa.clone()));
        let infeasible: BTreeSet<_> = infeasible.collect();
        for (key, vpa) in infeasible.difference(&self.infeasible) {
            self.outputs.metrics.infeasible(vpa, &self.classes);
            let pod = view.pods.get(key);
            let record = pod.map(|pod| EventRecord::resize_skipped(key, &pod.uid));
            self.outputs.events.push(record);
        }
        self.infeasible = infeasible;
    }

    /// Reports each VPA object once whose annotation of the replacement is invalid, or whose last
    /// rolling update was ineffective.
    fn skipped_replacements(&mut self, skips: &[Arc<Skip>], view: &View) {
        let failed = skips.iter().filter(|skip| {
            matches!(
                skip.reason,
                SkipReason::InvalidReplacement | SkipReason::RollingUpdateIneffective
            )
        });
        let failed: BTreeSet<_> = failed.map(|skip| (skip.vpa.clone(), skip.reason)).collect();
        for (key, reason) in failed.difference(&self.failed_replacements) {
            let record = if *reason == SkipReason::InvalidReplacement {
                EventRecord::invalid_replacement
            } else {
                EventRecord::roll_ineffective
            };
            let vpa = view.vpas.get(key);
            self.outputs.events.push(vpa.map(|vpa| record(vpa)));
        }
        self.failed_replacements = failed;
    }

    pub(super) fn paused(&mut self, pause: Option<PauseReason>) {
        self.outputs.metrics.paused(pause);
        if self.pause == pause {
            return;
        }
        if let Some(reason) = pause {
            tracing::warn!(reason = reason.as_str(), "pausing evictions and resizes");
        } else {
            tracing::info!("resuming evictions and resizes");
        }
        self.pause = pause;
    }

    /// Reports each preemption once, for as long as it stays the same.
    pub(super) fn preemptions(&mut self, preemptions: Vec<PreemptionPlan>, executes: bool) {
        let new = preemptions
            .iter()
            .filter(|it| !self.preemptions.contains(it));
        let records = new.map(|preemption| EventRecord::preemption(preemption, executes));
        self.outputs.events.push(records);
        self.preemptions = preemptions;
    }

    /// Reports a pass. A round begins with its first actions.
    pub(super) fn passed(&mut self, began: Instant, ended: Instant, has_actions: bool) {
        let Outputs {
            metrics, activity, ..
        } = &self.outputs;
        metrics.steps.observe("FilterPods", ended - began);
        activity.record(ended.into_std());
        if self.round.is_none() && has_actions {
            metrics.round(&mut self.classes);
            self.round = Some(Round {
                began,
                decided: ended,
            });
        }
    }

    /// Reports the numbers of actions. A round ends when there are none.
    pub(super) fn queue(&mut self, in_flight: usize, waiting: usize) {
        let metrics = &self.outputs.metrics;
        metrics.queue(in_flight, waiting);
        if in_flight == 0
            && waiting == 0
            && let Some(Round { began, decided }) = self.round.take()
        {
            metrics.steps.observe("EvictPods", decided.elapsed());
            metrics.steps.observe("total", began.elapsed());
        }
    }

    pub(super) fn oom_killed(&self, action: &Action, kill: &QuickOomKill, vpa: &Vpa) {
        let records = EventRecord::oom_killed(action, kill, vpa);
        self.outputs.events.push(records);
    }

    /// Reports an act whose effect did not come about.
    pub(super) fn refuted(&self, refutation: &Refutation, vpa: &Vpa) {
        tracing::warn!(
            pod = %refutation.pod,
            vpa = %refutation.vpa,
            container = refutation.container,
            act = refutation.act.as_str(),
            cause = refutation.cause.as_str(),
            limit = refutation.limit.as_ref().map(ToString::to_string),
            next = refutation.next.as_str(),
            "act had no effect"
        );
        self.outputs.metrics.refuted(refutation);
        let records = EventRecord::act_refuted(refutation, vpa);
        self.outputs.events.push(records);
    }

    pub(super) fn rolled_back(&self, change: &RollbackChange, vpa: Option<&Vpa>) {
        let vpa_key = &change.vpa;
        let Some(rollback) = &change.rollback else {
            tracing::info!(vpa = %vpa_key, "a recommendation is not rolled back any more");
            return;
        };
        let problem = &rollback.problem;
        tracing::warn!(vpa = %vpa_key, problem, "rolled back recommendation");
        let record = vpa.map(|vpa| EventRecord::rolled_back(vpa, problem));
        self.outputs.events.push(record);
    }

    /// Reports the outcome of an action. Returns whether it was accepted.
    pub(super) fn finished(
        &mut self,
        action: &Action,
        vpa: Option<&Vpa>,
        outcome: &ActionOutcome,
    ) -> bool {
        let Outputs {
            metrics, events, ..
        } = &self.outputs;
        metrics.finished(action, outcome, &mut self.classes);
        let (pod, uid) = (&action.pod, &action.pod_uid);
        if let Some(relocation) = &action.relocation {
            let is_accepted = matches!(outcome, ActionOutcome::Accepted { .. });
            if is_accepted {
                log_move(action, relocation);
                events.push([EventRecord::moved(action, relocation)]);
            }
            return is_accepted;
        }
        match (&action.kind, outcome, vpa) {
            (ActionKind::Evict, ActionOutcome::Accepted { .. }, Some(vpa)) => {
                tracing::info!(
                    %pod,
                    vpa = %action.vpa,
                    reason = action.reason.as_str(),
                    changes = changes(action),
                    "evicted pod"
                );
                events.push(EventRecord::evicted(pod, uid, &changes(action), vpa));
                true
            }
            (ActionKind::Resize { .. }, ActionOutcome::Accepted { .. }, _) => {
                tracing::info!(
                    %pod,
                    vpa = %action.vpa,
                    reason = action.reason.as_str(),
                    changes = changes(action),
                    "resized pod in place"
                );
                events.push([EventRecord::resized(pod, uid, &changes(action))]);
                if action.reason == ActionReason::Revert {
                    events.push([EventRecord::reverted(pod, uid)]);
                }
                true
            }
            (ActionKind::RollingUpdate(update), ActionOutcome::Accepted { .. }, Some(vpa)) => {
                tracing::info!(
                    deployment = %update.deployment,
                    vpa = %action.vpa,
                    reason = action.reason.as_str(),
                    changes = changes(action),
                    "began rolling update"
                );
                events.push(EventRecord::rolled(update, &changes(action), vpa));
                true
            }
            (
                ActionKind::RollingUpdate(update),
                ActionOutcome::RollingUpdateRefused(refusal),
                Some(vpa),
            ) => {
                tracing::info!(
                    deployment = %update.deployment,
                    vpa = %action.vpa,
                    reason = refusal.as_str(),
                    "refused rolling update"
                );
                events.push([EventRecord::roll_refused(update, *refusal, vpa)]);
                false
            }
            _ => false,
        }
    }
}

fn log_move(action: &Action, relocation: &Relocation) {
    tracing::info!(
        pod = %action.pod,
        reason = action.reason.as_str(),
        node = relocation.from,
        load_percent = relocation.load_percent,
        threshold_percent = relocation.threshold_percent,
        expected_node = relocation.to,
        gain = relocation.gain,
        "evicted pod for rebalancing"
    );
}

/// The changes of requests, for example
/// `app cpu request 100m -> 320m: below lower bound 300m; app memory request 1Gi -> 2Gi`.
fn changes(action: &Action) -> String {
    let changes: Vec<String> = action.changes.iter().map(ToString::to_string).collect();
    changes.join("; ")
}
