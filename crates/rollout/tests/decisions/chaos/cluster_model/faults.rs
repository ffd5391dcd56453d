//! Changes by others: workloads are scaled, pods of Jobs succeed, nodes are lost, and pods
//! are evicted.

use std::sync::Arc;

use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::json;
use view::ObjectKey;

use super::{ClusterModel, DELETION_STEPS, Event, Kind, Known, NODES, TruePod};

/// Obstacles to a workload's sizes.
#[derive(Clone, Copy, Default)]
pub(super) struct Constraints {
    pub(super) webhook: WebhookFate,
    /// Whether a quota allows neither pods nor more CPU.
    pub(super) is_quota_full: bool,
    /// Whether the source of its usage does not answer.
    is_stale: bool,
}

/// The fate of the webhook's patch of a new pod.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum WebhookFate {
    /// The pod has the recommended size.
    #[default]
    Applied,
    /// The API server does not call the webhook.
    NotCalled,
    /// Another program puts the size of the template back.
    Reverted,
}

impl ClusterModel {
    /// Others do what they like: workloads are scaled, pods of Jobs succeed, nodes are lost, and
    /// pods are evicted.
    pub(in crate::chaos) fn trouble(&mut self, rng: &mut StdRng) {
        self.need_more_memory(rng);
        self.trouble_constraints(rng);
        for app in 0..self.apps.len() {
            match self.apps[app].kind {
                Kind::Deployment => self.trouble_deployment(app, rng),
                Kind::Job if rng.random_bool(0.1) => self.succeed(app, rng),
                Kind::ReplicaSet | Kind::CloneSet if rng.random_bool(0.04) => {
                    let replicas = rng.random_range(1..=12);
                    self.scale(app, replicas);
                }
                _ => {}
            }
        }
        if rng.random_bool(0.02) {
            let node = rng.random_range(0..NODES);
            let lost: Vec<String> = self
                .pods
                .iter()
                .filter(|(_, pod)| pod.node == node)
                .map(|(name, _)| name.clone())
                .collect();
            for name in lost {
                self.record_loss(&name);
                self.remove(&name);
                self.count.lost += 1;
            }
        }
        if rng.random_bool(0.05) {
            let live: Vec<String> = self
                .pods
                .iter()
                .filter(|(_, pod)| !pod.is_terminating)
                .map(|(name, _)| name.clone())
                .collect();
            if live.is_empty() {
                return;
            }
            // A drain, or another updater.
            let name = live[rng.random_range(0..live.len())].clone();
            let pod = &self.pods[&name];
            if !pod.is_running || self.spend(pod.app, &name) {
                self.record_loss(&name);
                self.terminate(&name);
                self.count.lost += 1;
            }
        }
    }

    /// Webhooks, quotas and sources of usage come and go.
    fn trouble_constraints(&mut self, rng: &mut StdRng) {
        let toggles =
            |is_on: bool, rng: &mut StdRng| rng.random_bool(if is_on { 0.2 } else { 0.03 });
        for app in 0..self.apps.len() {
            let constraints = &mut self.apps[app].constraints;
            // Long enough for a third try, if there was one.
            if rng.random_bool(0.03) {
                constraints.webhook = match constraints.webhook {
                    WebhookFate::Applied if rng.random_bool(0.5) => WebhookFate::NotCalled,
                    WebhookFate::Applied => WebhookFate::Reverted,
                    WebhookFate::NotCalled | WebhookFate::Reverted => WebhookFate::Applied,
                };
            }
            constraints.is_quota_full ^= toggles(constraints.is_quota_full, rng);
            let is_stale = constraints.is_stale;
            if toggles(is_stale, rng) {
                self.set_stale(app, !is_stale);
            }
        }
    }

    /// The source of a workload's usage answers or not, so its recommendation may be frozen.
    fn set_stale(&mut self, app: usize, is_stale: bool) {
        let app = &mut self.apps[app];
        app.constraints.is_stale = is_stale;
        let name = app.name.clone();
        let status = if is_stale { "True" } else { "False" };
        self.fixture.edit_vpa(&name, |object| {
            object["status"]["conditions"] = json!([{"type": "SourceStale", "status": status}]);
        });
        let key = ObjectKey::new("shop", &name);
        let vpa = self.fixture.view.vpas.get(&key).expect("it is there");
        self.pod_events.push(Event::Vpa(Arc::clone(vpa)));
    }

    /// All Deployments go on, webhook, quotas and sources are well, and other sizes are recommended.
    pub(in crate::chaos) fn calm(&mut self) {
        for app in 0..self.apps.len() {
            let state = &mut self.apps[app];
            state.deployment.resume();
            state.constraints = Constraints::default();
            // One that was never tried before.
            state.target = state.target % 2000 + 550;
            self.set_stale(app, false);
        }
    }

    /// Others are about to take a pod; the event about it comes next.
    pub(super) fn record_loss(&mut self, name: &str) {
        let (happened, pod) = (self.happening(), &self.pods[name]);
        let app = &mut self.apps[pod.app];
        if pod.serves() {
            app.healthy_losses.push(happened);
            app.deployment.lost += 1;
            if !pod.is_doomed {
                app.losses.push(happened);
            }
        }
    }

    /// A pod of a Job succeeds, which the status of the Job says before or after the pod is gone.
    fn succeed(&mut self, app: usize, rng: &mut StdRng) {
        let done = self
            .pods
            .iter()
            .find(|(_, pod)| pod.app == app && pod.serves())
            .map(|(name, _)| name.clone());
        let Some(name) = done.filter(|_| self.apps[app].to_succeed > 0) else {
            return;
        };
        self.apps[app].to_succeed -= 1;
        self.count.completed += 1;
        if rng.random_bool(0.5) {
            self.publish_controller(app);
        }
        self.record_loss(&name);
        self.remove(&name);
        self.record_attained();
    }

    /// A workload is scaled. The controller chooses at once which pods go, those first that do not
    /// serve, and deletes them one by one.
    fn scale(&mut self, app: usize, replicas: i64) {
        self.scales += 1;
        let mut happened = self.happening();
        if self.apps[app].kind == Kind::CloneSet {
            happened = Known {
                events: 0,
                scales: self.scales,
            };
        }
        self.count.scaled_down += u64::from(replicas < self.apps[app].replicas);
        self.apps[app].replicas = replicas;
        let mut stay: Vec<&mut TruePod> = self
            .pods
            .values_mut()
            .filter(|pod| pod.app == app && !pod.is_terminating && !pod.is_doomed)
            .collect();
        stay.sort_by_key(|pod| pod.serves());
        let surplus = stay.len().saturating_sub(replicas as usize);
        for pod in stay.into_iter().take(surplus) {
            (pod.is_doomed, pod.steps_left) = (true, DELETION_STEPS);
            if pod.serves() {
                self.apps[app].losses.push(happened);
            }
        }
        self.publish_controller(app);
        self.record_attained();
    }
}
