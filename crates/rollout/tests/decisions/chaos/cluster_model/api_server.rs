//! The API server, which checks the tolerance and the budget whenever a pod is taken.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::{Quantity, ResourceName};
use rollout::{Action, ActionKind, ActionOutcome, ActionReason, ClockReading};
use view::{DisruptionBudget, ObjectKey};

use super::memory::amount;
use super::{App, ClusterModel, Event, Kind, Known};

/// Properties that a replacement inherits from the evicted pod.
#[derive(Clone, Copy, Default)]
pub(super) struct Evicted {
    pub(super) node: usize,
    /// The time of the move, if it was one.
    pub(super) moved_at: Option<ClockReading>,
    pub(super) tries: Tries,
}

/// Evictions by this leader for one target.
#[derive(Clone, Copy, Default)]
pub(super) struct Tries {
    target: i64,
    count: u32,
}

impl ClusterModel {
    /// The API server does what it is asked for. `seen_ready` says whether the pod was ready as far
    /// as the leader knew: one that becomes ready meanwhile is no loss.
    pub(in crate::chaos) fn execute(
        &mut self,
        action: &Action,
        known: Known,
        seen_ready: bool,
    ) -> ActionOutcome {
        self.record_attained();
        if let ActionKind::RollingUpdate(update) = &action.kind {
            let name = &update.deployment.name;
            let app = self.apps.iter().position(|app| app.name == *name);
            return self.roll(app.expect("it is there"));
        }
        let name = &action.pod.name;
        let Some(pod) = self.pods.get(name).filter(|pod| pod.uid == action.pod_uid) else {
            return ActionOutcome::PodGone;
        };
        let (app, served) = (pod.app, pod.serves() && seen_ready);
        match &action.kind {
            ActionKind::RollingUpdate(_) => unreachable!("handled above"),
            ActionKind::Evict => {
                let rolls = self.apps[app].kind == Kind::Deployment;
                assert!(!rolls, "{name} is replaced by rolling updates");
                if pod.is_terminating {
                    return ActionOutcome::Accepted { generation: None };
                }
                if pod.is_running && !self.spend(app, name) {
                    self.count.vain += 1;
                    return ActionOutcome::TooManyRequests { retry_after: None };
                }
                self.terminate(name);
                self.count.evictions += 1;
                self.count.preempted += u64::from(action.reason == ActionReason::Preemption);
                if action.relocation.is_some() {
                    self.check_move(app, name);
                }
                let tries = self.try_size(action);
                let pod = &self.pods[name];
                self.apps[app].evicted.push_back(Evicted {
                    node: pod.node,
                    moved_at: action.relocation.as_ref().map(|_| self.now),
                    tries,
                });
                self.check(app, served, action, known);
                ActionOutcome::Accepted { generation: None }
            }
            ActionKind::Resize {
                patch, annotations, ..
            } => {
                let cpu = amount(patch, "/cpu").map(|cpu| cpu.milli_value());
                let restarts = self.apps[app].restarts;
                if pod.is_terminating {
                    return ActionOutcome::Rejected;
                }
                if self.apps[app].constraints.is_quota_full && cpu.is_some_and(|cpu| cpu > pod.cpu)
                {
                    return ActionOutcome::Forbidden;
                }
                let pod = self.pods.get_mut(name).expect("it is there");
                pod.generation += 1;
                pod.cpu = cpu.unwrap_or(pod.cpu);
                pod.memory.resize(patch, annotations);
                pod.restarts = restarts && pod.cpu != pod.reported;
                let generation = Some(pod.generation);
                self.publish_pod(name);
                *(if restarts {
                    &mut self.count.restarts
                } else {
                    &mut self.count.resizes
                }) += 1;
                self.check(app, served && restarts, action, known);
                ActionOutcome::Accepted { generation }
            }
        }
    }

    /// Checks that a pod and those that it replaces are evicted at most twice for one target, and counts
    /// the eviction.
    fn try_size(&mut self, action: &Action) -> Tries {
        let pod = self.pods.get_mut(&action.pod.name).expect("it is there");
        let container = action.recommendation.containers.first();
        let target = container
            .and_then(|it| it.target.get(&ResourceName::Cpu))
            .map_or(0, Quantity::milli_value);
        let is_for_size = matches!(
            action.reason,
            ActionReason::OutsideBounds | ActionReason::Drift
        );
        if pod.tries.target != target {
            pod.tries = Tries { target, count: 0 };
        }
        pod.tries.count += u32::from(is_for_size);
        assert!(pod.tries.count <= 2, "evicted in vain by {action:?}");
        pod.tries
    }

    /// Checks that no pod is moved twice within an hour.
    fn check_move(&mut self, app: usize, name: &str) {
        let (now, pod) = (self.now, &self.pods[name]);
        if let Some(before) = pod.moved_at {
            let waited = now.monotonic.saturating_sub(before.monotonic);
            let by_clock = now.wall.duration_since(before.wall);
            let has_rested =
                waited >= Duration::from_hours(1) || by_clock >= SignedDuration::from_hours(1);
            assert!(has_rested, "{name} was moved {waited:?} ago");
        }
        assert!(self.apps[app].may_move, "{name} may not be moved");
        self.count.moves += 1;
    }

    /// Upstream's rule of the eviction API; whether the pod may go.
    pub(super) fn spend(&mut self, app: usize, name: &str) -> bool {
        let is_ready = self.pods[name].is_ready;
        let app = &mut self.apps[app];
        let Some(desired) = app.desired_healthy else {
            return true;
        };
        if !is_ready && app.healthy >= desired && desired > 0 {
            return true;
        }
        if app.allowed == 0 {
            return false;
        }
        app.allowed -= 1;
        app.disrupted.insert(name.to_owned());
        self.budget_events
            .push(Event::Budget(Arc::new(app.budget(self.now.wall))));
        true
    }

    /// Checks the tolerance and the budget once a pod was taken that served. Losses to others that
    /// the leader could not know of when it decided are excused.
    fn check(&mut self, app: usize, took: bool, action: &Action, known: Known) {
        let (staying, serving) = (self.staying(app), self.serving(app));
        let app = &mut self.apps[app];
        if !took {
            return;
        }
        app.decided = app.decided.later(known);
        let known = app.decided;
        let unseen =
            |losses: &[Known]| losses.iter().filter(|loss| known.lacks(**loss)).count() as i64;
        let (excused, base) = (unseen(&app.losses), app.attained);
        let tolerated = ((base as f64 * self.tolerance) as i64).max(1);
        assert!(
            staying + excused >= base - tolerated,
            "{staying} of {base} serve and stay, {tolerated} may be away, {excused} are excused, after {action:?}",
        );
        let (excused, desired) = (
            unseen(&app.healthy_losses),
            app.desired_healthy.unwrap_or(0),
        );
        assert!(
            serving + excused >= desired,
            "{serving} serve, {desired} must, {excused} are excused, after {action:?}"
        );
    }
}

impl App {
    pub(super) fn budget(&self, now: Timestamp) -> DisruptionBudget {
        DisruptionBudget {
            key: ObjectKey::new("shop", &self.name),
            selector: format!("app={}", self.name).parse(),
            generation: 1,
            observed_generation: 1,
            disruptions_allowed: self.allowed as i32,
            current_healthy: self.healthy as i32,
            desired_healthy: self.desired_healthy.unwrap_or(0) as i32,
            disrupted: self
                .disrupted
                .iter()
                .map(|name| (name.clone(), now))
                .collect(),
            always_allows_unhealthy: false,
        }
    }
}
