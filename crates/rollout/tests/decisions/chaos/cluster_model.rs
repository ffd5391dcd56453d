//! Model of a cluster: workloads, their pods, budgets, the kubelet, and an API server that checks
//! every disruption.
//!
//! An eviction or a restart is judged by what the leader could know when it decided: what others
//! took since then is excused.

mod api_server;
mod content;
mod events;
mod faults;
mod memory;
mod nodes;
mod rolling_updates;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use model::Recommendation;
use rand::Rng as _;
use rand::rngs::StdRng;
use rollout::{ClockReading, REPLACEMENT};
use serde_json::json;
use view::{Controller, DisruptionBudget, ObjectKey, Pod, Vpa, WellKnown};

use super::super::fixture::{Fixture, recommendation_of};
use super::Count;
use api_server::{Evicted, Tries};
use faults::{Constraints, WebhookFate};
use memory::{MemoryNeed, PodMemory};
use rolling_updates::DeploymentModel;

#[derive(Clone)]
pub(super) enum Event {
    Pod(Arc<Pod>),
    Gone(ObjectKey),
    Controller(WellKnown, Arc<Controller>),
    Budget(Arc<DisruptionBudget>),
    Vpa(Arc<Vpa>),
}

/// The kind of the owner of a workload's pods.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    ReplicaSet,
    /// Its pods are replaced by rolling updates.
    Deployment,
    Job,
    /// A kind whose number of replicas is read from its scale subresource.
    CloneSet,
}

impl Kind {
    const ALL: [Self; 4] = [
        Self::ReplicaSet,
        Self::Job,
        Self::CloneSet,
        Self::Deployment,
    ];

    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::ReplicaSet | Self::Deployment => ("apps/v1", "ReplicaSet"),
            Self::Job => ("batch/v1", "Job"),
            Self::CloneSet => ("apps.kruise.io/v1alpha1", "CloneSet"),
        }
    }
}

/// A workload.
// What is so and what is not.
#[allow(clippy::struct_excessive_bools)]
struct App {
    name: String,
    kind: Kind,
    /// Of a Job: how many pods it has at a time.
    replicas: i64,
    /// Pods that still have to succeed, where it is a Job.
    to_succeed: i64,
    min_replicas: i64,
    in_place: bool,
    restarts: bool,
    deployment: DeploymentModel,
    /// Whether a VPA object sizes its pods, and whether they may be moved.
    is_sized: bool,
    may_move: bool,
    priority: i32,
    constraints: Constraints,
    /// Evicted pods whose replacements are to come.
    evicted: VecDeque<Evicted>,
    /// The pods that its budget requires, if it has one, and the status of the budget.
    desired_healthy: Option<i64>,
    healthy: i64,
    allowed: i64,
    disrupted: BTreeSet<String>,
    /// CPU that is recommended.
    target: i64,
    memory: MemoryNeed,
    /// The most of its wanted pods that served at a time, as far as they are still wanted.
    attained: i64,
    /// Losses to others, of the pods that stay, and of those that a budget counts.
    losses: Vec<Known>,
    healthy_losses: Vec<Known>,
    /// The leader's knowledge at its last decision that was carried out.
    decided: Known,
}

/// A point in what a leader can know: pod events before this number, and scales up to this version.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Known {
    pub(super) events: usize,
    pub(super) scales: usize,
}

impl Known {
    /// Whether a leader that knows so much does not know of something that happened then.
    fn lacks(self, happened: Self) -> bool {
        happened.events >= self.events || happened.scales > self.scales
    }

    fn later(self, other: Self) -> Self {
        if other.events >= self.events {
            other
        } else {
            self
        }
    }
}

impl App {
    fn wanted(&self) -> i64 {
        self.replicas.min(self.to_succeed)
    }
}

// What is so and what is not.
#[allow(clippy::struct_excessive_bools)]
struct TruePod {
    app: usize,
    /// The number of its `ReplicaSet`, of a Deployment.
    revision: usize,
    uid: String,
    node: usize,
    is_running: bool,
    is_ready: bool,
    is_terminating: bool,
    /// The controller has chosen it for a scale-down, and deletes it within `steps_left`.
    is_doomed: bool,
    steps_left: u32,
    /// A container is to be restarted, or is being.
    restarts: bool,
    cpu: i64,
    reported: i64,
    memory: PodMemory,
    generation: i64,
    observed: i64,
    /// The kubelet's reason for not carrying out a resize.
    refusal: Option<&'static str>,
    created_at: Timestamp,
    is_reviewed: bool,
    /// The time of the move that it replaces a pod after.
    moved_at: Option<ClockReading>,
    /// Evictions of it and of those that it replaces.
    tries: Tries,
}

impl TruePod {
    fn serves(&self) -> bool {
        self.is_running
            && self.is_ready
            && !self.is_terminating
            && !self.restarts
            && self.memory.run_began.is_some()
    }
}

pub(super) struct ClusterModel {
    apps: Vec<App>,
    pods: BTreeMap<String, TruePod>,
    /// Everything that ever happened to pods and their controllers, and to budgets, in order: two
    /// watches.
    pub(super) pod_events: Vec<Event>,
    pub(super) budget_events: Vec<Event>,
    /// Changes of scales so far.
    scales: usize,
    pub(super) now: ClockReading,
    pub(super) fixture: Fixture,
    pub(super) tolerance: f64,
    percents: [f64; NODES],
    /// CPU of the nodes in millicores.
    pub(super) sizes: [i64; NODES],
    /// Whether the scheduler sends replacements back to the nodes of the evicted pods.
    sends_back: bool,
    next: usize,
    pub(super) count: Count,
}

pub(super) const NODES: usize = 4;
/// CPU of the templates in millicores.
const SMALL: i64 = 100;
/// Steps after which a controller has deleted all pods that it chose for a scale-down.
const DELETION_STEPS: u32 = 8;

impl ClusterModel {
    pub(super) fn new(rng: &mut StdRng, count: Count) -> Self {
        let mut fixture = Fixture::new();
        let mut apps = Vec::new();
        let sizes = nodes::sizes(rng);
        let has_small_nodes = nodes::has_small(&sizes);
        for index in 0..rng.random_range(1..=4) {
            let name = format!("app{index}");
            let kind = Kind::ALL[rng.random_range(0..4)];
            let replicas = rng.random_range(1..=9);
            let rolls = kind == Kind::Deployment;
            let is_sized = rolls || rng.random_bool(0.75);
            // Without a VPA object, the flag counts.
            let min_replicas = if is_sized { rng.random_range(1..=3) } else { 2 };
            let in_place =
                is_sized && !rolls && rng.random_bool(if has_small_nodes { 0.7 } else { 0.4 });
            let mode = if !is_sized {
                "Off"
            } else if in_place {
                "InPlaceOrRecreate"
            } else {
                "Recreate"
            };
            let policy = json!({"minReplicas": min_replicas, "updateMode": mode});
            let to_succeed = if kind == Kind::Job {
                rng.random_range(5..60)
            } else {
                i64::MAX
            };
            match kind {
                Kind::ReplicaSet => fixture.workload(&name, replicas, &policy),
                Kind::Deployment => {
                    fixture.workload(&name, replicas, &policy);
                    fixture.annotate(&name, REPLACEMENT, "RollingUpdate");
                }
                Kind::Job => {
                    let spec = json!({"parallelism": replicas, "completions": to_succeed});
                    fixture.job(&name, &spec, 0);
                    fixture.vpa_of("batch/v1", "Job", &name, &policy);
                }
                Kind::CloneSet => fixture.vpa_of(kind.name().0, "CloneSet", &name, &policy),
            }
            fixture.made_at(&name, "2026-01-01T07:00:00Z");
            let has_budget = rng.random_bool(0.5);
            let desired_healthy = has_budget.then(|| rng.random_range(0..=i64::from(replicas)));
            apps.push(App {
                name,
                kind,
                memory: MemoryNeed::new(in_place && !has_small_nodes && rng.random_bool(0.8)),
                replicas: i64::from(replicas),
                to_succeed,
                min_replicas,
                in_place,
                restarts: rng.random_bool(0.5),
                deployment: DeploymentModel::new(i64::from(replicas), rng),
                is_sized,
                may_move: rng.random_bool(0.7),
                priority: rng.random_range(-1..=1),
                constraints: Constraints::default(),
                evicted: VecDeque::new(),
                desired_healthy,
                healthy: 0,
                allowed: 0,
                disrupted: BTreeSet::new(),
                target: 1000,
                attained: 0,
                losses: Vec::new(),
                healthy_losses: Vec::new(),
                decided: Known::default(),
            });
        }
        let now = fixture.now;
        let tolerance = [0.0, 0.2, 0.5, 0.5, 0.9, 1.0][rng.random_range(0..6)];
        let mut model = Self {
            apps,
            pods: BTreeMap::new(),
            pod_events: Vec::new(),
            budget_events: Vec::new(),
            scales: 0,
            now,
            fixture,
            tolerance,
            percents: [95.0, 5.0, 2.0, 2.0],
            sizes,
            sends_back: rng.random_bool(0.3),
            next: 0,
            count,
        };
        for app in 0..model.apps.len() {
            for _ in 0..model.apps[app].wanted() {
                let name = model.make_pod(app, rng);
                let pod = model.pods.get_mut(&name).expect("made");
                (pod.cpu, pod.reported) = (SMALL, SMALL);
                (pod.is_running, pod.is_ready) = (true, true);
                pod.created_at = now.wall - Duration::from_hours(rng.random_range(0..=4));
                model.publish_pod(&name);
            }
            model.sync_budget(app);
        }
        model
    }

    /// A new leader: nothing that it did not decide counts as its own.
    pub(super) fn elect(&mut self) {
        for app in &mut self.apps {
            app.decided = Known::default();
            for evicted in &mut app.evicted {
                evicted.tries = Tries::default();
            }
        }
        for pod in self.pods.values_mut() {
            pod.tries = Tries::default();
        }
    }

    /// All that there is to know now.
    fn happening(&self) -> Known {
        Known {
            events: self.pod_events.len(),
            scales: 0,
        }
    }

    fn record_attained(&mut self) {
        for app in 0..self.apps.len() {
            let (serving, app) = (self.staying(app), &mut self.apps[app]);
            app.attained = app.attained.max(serving).min(app.wanted());
        }
    }

    /// The recommendations by the unique identifiers of VPA objects.
    pub(super) fn recommendations(&self) -> BTreeMap<String, Arc<Recommendation>> {
        let named = |app: &App| {
            (
                format!("uid-{}", app.name),
                Arc::new(recommendation_of(app.target, app.memory.target)),
            )
        };
        self.apps.iter().map(named).collect()
    }

    pub(super) fn jump_clock(&mut self, ahead: bool) {
        let hour = Duration::from_hours(1);
        let wall = self.now.wall;
        self.now.wall = if ahead { wall + hour } else { wall - hour };
    }

    pub(super) fn want_other_sizes(&mut self, rng: &mut StdRng) {
        for app in &mut self.apps {
            app.target = rng.random_range(1..=4) * 500;
        }
    }

    /// Time passes: the kubelet, the controllers of workloads and that of budgets do some of their
    /// work.
    pub(super) fn step(&mut self, rng: &mut StdRng) {
        let pause = Duration::from_millis(rng.random_range(50..3000));
        self.now.monotonic += pause;
        self.now.wall += pause;
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            let pod = self.pods.get_mut(&name).expect("it is there");
            pod.steps_left = pod.steps_left.saturating_sub(1);
            if pod.is_doomed && !pod.is_terminating && (pod.steps_left == 0 || rng.random_bool(0.2))
            {
                self.record_loss(&name);
                self.terminate(&name);
            }
            if rng.random_bool(0.4) {
                self.kubelet(&name, rng);
            }
        }
        for app in 0..self.apps.len() {
            let is_job = self.apps[app].kind == Kind::Job;
            if self.present(app, is_job) >= self.apps[app].wanted() {
                self.apps[app].evicted.clear();
            }
            if self.apps[app].kind == Kind::Deployment {
                self.sync_deployment(app, rng);
                continue;
            }
            // A Job waits until the pods that it lost have ended.
            while self.present(app, is_job) < self.apps[app].wanted()
                && rng.random_bool(if is_job { 0.3 } else { 0.7 })
            {
                if self.apps[app].constraints.is_quota_full {
                    break;
                }
                let name = self.make_pod(app, rng);
                self.publish_pod(&name);
            }
            if rng.random_bool(0.3) {
                self.sync_budget(app);
            }
            if is_job && rng.random_bool(0.3) {
                self.publish_controller(app);
            }
        }
        self.record_attained();
    }

    fn terminate(&mut self, name: &str) {
        self.pods.get_mut(name).expect("it is there").is_terminating = true;
        self.publish_pod(name);
    }

    fn remove(&mut self, name: &str) {
        self.pods.remove(name);
        self.pod_events
            .push(Event::Gone(ObjectKey::new("shop", name)));
    }

    /// Pods that stay: neither on their way out nor, where `with_ending` is not said, among those
    /// that are to go.
    fn present(&self, app: usize, with_ending: bool) -> i64 {
        let stays = |pod: &&TruePod| {
            pod.app == app && (with_ending || !(pod.is_terminating || pod.is_doomed))
        };
        self.pods.values().filter(stays).count() as i64
    }

    fn serving(&self, app: usize) -> i64 {
        self.pods
            .values()
            .filter(|pod| pod.app == app && pod.serves())
            .count() as i64
    }

    fn staying(&self, app: usize) -> i64 {
        self.pods
            .values()
            .filter(|pod| pod.app == app && pod.serves() && !pod.is_doomed)
            .count() as i64
    }

    fn make_pod(&mut self, app: usize, rng: &mut StdRng) -> String {
        self.next += 1;
        let evicted = self.apps[app].evicted.pop_front();
        let state = &self.apps[app];
        let name = format!("{}-{}", state.name, self.next);
        let webhook = state.constraints.webhook;
        let cpu = match webhook {
            WebhookFate::Applied => state.target,
            WebhookFate::NotCalled | WebhookFate::Reverted => SMALL,
        };
        let node = match evicted.filter(|_| self.sends_back) {
            Some(evicted) => evicted.node,
            None => self.schedule(cpu, rng),
        };
        let pod = TruePod {
            app,
            revision: self.apps[app].deployment.revision,
            uid: format!("uid-{name}"),
            node,
            is_running: false,
            is_ready: false,
            is_terminating: false,
            is_doomed: false,
            steps_left: 0,
            restarts: false,
            cpu,
            reported: cpu,
            memory: PodMemory::new(self.apps[app].memory.target, self.now.wall),
            generation: 1,
            observed: 1,
            refusal: None,
            created_at: self.now.wall,
            is_reviewed: webhook != WebhookFate::NotCalled,
            moved_at: evicted.and_then(|evicted| evicted.moved_at),
            tries: evicted.map_or(Tries::default(), |evicted| evicted.tries),
        };
        self.pods.insert(name.clone(), pod);
        name
    }

    /// The least number of live pods with which a workload may lose one.
    pub(super) fn min_replicas(&self, name: &str) -> usize {
        let app = self
            .apps
            .iter()
            .find(|app| app.name == name)
            .expect("a workload");
        app.min_replicas as usize
    }
}
