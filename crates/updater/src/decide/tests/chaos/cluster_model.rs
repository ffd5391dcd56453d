//! A cluster as it really is: workloads, their pods, budgets, the kubelet, and an API server that checks what is done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Container, DisruptionBudget, ObjectKey, Owner, Phase, Pod, Running, Specified};
use jiff::Timestamp;
use model::{ContainerRecommendation, Cpu, Labels, Memory, Quantity, Recommendation, ResourceList, ResourceName};
use rand::Rng as _;
use rand::rngs::StdRng;
use serde_json::json;

use super::super::super::act::{Act, Outcome, What};
use super::super::super::moment::Moment;
use super::super::super::settings::Settings;
use super::super::world::World;
use super::Count;

/// What a watch tells.
#[derive(Clone)]
pub(super) enum Event {
    Pod(Arc<Pod>),
    Gone(ObjectKey),
    Budget(Arc<DisruptionBudget>),
}

/// A workload.
struct App {
    name: String,
    replicas: i64,
    min_replicas: i64,
    in_place: bool,
    restarts: bool,
    /// How many pods its budget demands, if it has one, and what the status of the budget says.
    desired_healthy: Option<i64>,
    healthy: i64,
    allowed: i64,
    disrupted: BTreeSet<String>,
    /// CPU that is recommended.
    target: i64,
}

// What is so and what is not.
#[allow(clippy::struct_excessive_bools)]
struct TruePod {
    app: usize,
    uid: String,
    is_running: bool,
    is_ready: bool,
    is_terminating: bool,
    /// A container is to be restarted, or is being.
    restarts: bool,
    cpu: i64,
    reported: i64,
    generation: i64,
    observed: i64,
}

impl TruePod {
    fn serves(&self) -> bool {
        self.is_running && self.is_ready && !self.is_terminating && !self.restarts
    }
}

pub(super) struct ClusterModel {
    seed: u64,
    apps: Vec<App>,
    pods: BTreeMap<String, TruePod>,
    /// Everything that ever happened to pods, and to budgets, in order: two watches.
    pub(super) pod_events: Vec<Event>,
    pub(super) budget_events: Vec<Event>,
    pub(super) now: Moment,
    pub(super) world: World,
    pub(super) tolerance: f64,
    next: usize,
    pub(super) count: Count,
}

impl ClusterModel {
    pub(super) fn new(rng: &mut StdRng, seed: u64) -> Self {
        let mut world = World::new();
        let mut apps = Vec::new();
        for index in 0..rng.random_range(1..=3) {
            let name = format!("app{index}");
            let replicas = rng.random_range(1..=9);
            let min_replicas = rng.random_range(1..=3);
            let in_place = rng.random_bool(0.4);
            let mode = if in_place { "InPlaceOrRecreate" } else { "Recreate" };
            world.workload(&name, replicas, &json!({"minReplicas": min_replicas, "updateMode": mode}));
            let desired_healthy = rng.random_bool(0.5).then(|| rng.random_range(0..=i64::from(replicas)));
            apps.push(App {
                name,
                replicas: i64::from(replicas),
                min_replicas,
                in_place,
                restarts: rng.random_bool(0.6),
                desired_healthy,
                healthy: 0,
                allowed: 0,
                disrupted: BTreeSet::new(),
                target: 1000,
            });
        }
        let now = world.now;
        let tolerance = [0.0, 0.2, 0.5, 0.5, 0.9, 1.0][rng.random_range(0..6)];
        let (pods, pod_events, budget_events) = (BTreeMap::new(), Vec::new(), Vec::new());
        let count = Count::default();
        let mut model = Self { seed, apps, pods, pod_events, budget_events, now, world, tolerance, next: 0, count };
        for app in 0..model.apps.len() {
            for _ in 0..model.apps[app].replicas {
                let name = model.make_pod(app, 100);
                let pod = model.pods.get_mut(&name).expect("made");
                (pod.is_running, pod.is_ready) = (true, true);
                model.tell(&name);
            }
            model.sync_budget(app);
        }
        model
    }

    /// What is recommended now, by autoscaler.
    pub(super) fn recommendations(&self) -> BTreeMap<String, Arc<Recommendation>> {
        let list = |cpu: i64| ResourceList::of(Cpu::from_millicores(cpu), Memory::from_bytes(100 << 20));
        let recommendation = |app: &App| {
            let container = ContainerRecommendation {
                container_name: "app".to_owned(),
                target: list(app.target),
                lower_bound: list(app.target),
                upper_bound: list(app.target),
                uncapped_target: list(app.target),
            };
            (format!("uid-{}", app.name), Arc::new(Recommendation { containers: vec![container] }))
        };
        self.apps.iter().map(recommendation).collect()
    }

    pub(super) fn jump_clock(&mut self, ahead: bool) {
        let hour = Duration::from_hours(1);
        self.now.wall = if ahead { self.now.wall + hour } else { self.now.wall - hour };
    }

    pub(super) fn want_other_sizes(&mut self, rng: &mut StdRng) {
        for app in &mut self.apps {
            app.target = rng.random_range(1..=4) * 500;
        }
    }

    /// Time passes: the kubelet, the controllers of workloads and that of budgets do some of their work.
    pub(super) fn step(&mut self, rng: &mut StdRng) {
        let pause = Duration::from_millis(rng.random_range(50..3000));
        self.now.steady += pause;
        self.now.wall += pause;
        let names: Vec<String> = self.pods.keys().cloned().collect();
        for name in names {
            if rng.random_bool(0.4) {
                self.kubelet(&name, rng);
            }
        }
        for app in 0..self.apps.len() {
            while self.live(app) < self.apps[app].replicas && rng.random_bool(0.7) {
                let name = self.make_pod(app, self.apps[app].target);
                self.tell(&name);
            }
            if rng.random_bool(0.3) {
                self.sync_budget(app);
            }
        }
    }

    fn kubelet(&mut self, name: &str, rng: &mut StdRng) {
        let pod = self.pods.get_mut(name).expect("it is there");
        if pod.is_terminating {
            if rng.random_bool(0.5) {
                self.pods.remove(name);
                self.pod_events.push(Event::Gone(ObjectKey::new("shop", name)));
            }
            return;
        }
        if !pod.is_running {
            pod.is_running = true;
        } else if pod.cpu != pod.reported && pod.restarts && pod.is_ready {
            pod.is_ready = false;
        } else if pod.cpu != pod.reported {
            (pod.reported, pod.observed) = (pod.cpu, pod.generation);
        } else if !pod.is_ready {
            (pod.is_ready, pod.restarts) = (true, false);
        } else {
            return;
        }
        self.tell(name);
    }

    fn live(&self, app: usize) -> i64 {
        self.pods.values().filter(|pod| pod.app == app && !pod.is_terminating).count() as i64
    }

    fn serving(&self, app: usize) -> i64 {
        self.pods.values().filter(|pod| pod.app == app && pod.serves()).count() as i64
    }

    fn make_pod(&mut self, app: usize, cpu: i64) -> String {
        self.next += 1;
        let name = format!("{}-{}", self.apps[app].name, self.next);
        let pod = TruePod {
            app,
            uid: format!("uid-{name}"),
            is_running: false,
            is_ready: false,
            is_terminating: false,
            restarts: false,
            cpu,
            reported: cpu,
            generation: 1,
            observed: 1,
        };
        self.pods.insert(name.clone(), pod);
        name
    }

    /// The controller of budgets counts anew.
    fn sync_budget(&mut self, app: usize) {
        let healthy =
            self.pods.values().filter(|pod| pod.app == app && pod.is_ready && !pod.is_terminating).count() as i64;
        let app = &mut self.apps[app];
        let Some(desired) = app.desired_healthy else { return };
        (app.healthy, app.allowed) = (healthy, (healthy - desired).max(0));
        app.disrupted.clear();
        self.budget_events.push(Event::Budget(Arc::new(app.budget(self.now.wall))));
    }

    /// Writes what became of a pod into the list of events.
    fn tell(&mut self, name: &str) {
        let pod = &self.pods[name];
        let list = |cpu: i64| ResourceList::of(Cpu::from_millicores(cpu), Memory::from_bytes(100 << 20));
        let app = &self.apps[pod.app];
        let running = Running {
            generation: Some(pod.generation),
            observed_generation: Some(pod.observed),
            node: Some("n1".to_owned()),
            is_terminating: pod.is_terminating,
            ready_since: pod.is_ready.then_some(Timestamp::UNIX_EPOCH),
            has_annotations: true,
            qos_class: "Burstable".to_owned(),
            containers: vec![Specified {
                name: "app".to_owned(),
                requests: Some(list(pod.cpu)),
                reported: Some([list(pod.reported), ResourceList::new()]),
                restarts_for: app.restarts.then_some(ResourceName::Cpu).into_iter().collect(),
                is_ready: pod.is_ready,
                ..Specified::default()
            }],
            ..Running::default()
        };
        let pod = Pod {
            key: ObjectKey::new("shop", name),
            uid: pod.uid.clone(),
            labels: Labels::from_iter([("app", app.name.as_str())]),
            phase: if pod.is_running { Phase::Running } else { Phase::Pending },
            owner: Some(Owner {
                api_version: "apps/v1".to_owned(),
                kind: "ReplicaSet".to_owned(),
                name: app.name.clone(),
                uid: String::new(),
            }),
            started_at: None,
            containers: Vec::<Container>::new(),
            init_containers: Vec::new(),
            sidecars: Vec::new(),
            requests: None,
            placement: None,
            running: Some(Arc::new(running)),
        };
        self.pod_events.push(Event::Pod(Arc::new(pod)));
    }

    /// The leader has decided: no workload that is too small may be among what it decided about.
    pub(super) fn check_decided(&self, act: &Act, is_retry: bool) {
        let Some(pod) = self.pods.get(&act.pod.name) else { return };
        if !is_retry && pod.is_running && act.what == What::Evict {
            let (live, app) = (self.live(pod.app), &self.apps[pod.app]);
            assert!(live >= app.min_replicas, "seed {}: {live} of {} are too few", self.seed, app.min_replicas);
        }
    }

    /// The API server does what it is asked for.
    pub(super) fn execute(&mut self, act: &Act) -> Outcome {
        let name = &act.pod.name;
        let Some(pod) = self.pods.get(name).filter(|pod| pod.uid == act.pod_uid) else { return Outcome::Gone };
        let (app, served) = (pod.app, pod.serves());
        match &act.what {
            What::Evict => {
                if pod.is_terminating {
                    return Outcome::Accepted { generation: None };
                }
                if pod.is_running && !self.spend(app, name) {
                    self.count.vain += 1;
                    return Outcome::TooMany { retry_after: None };
                }
                self.pods.get_mut(name).expect("it is there").is_terminating = true;
                self.tell(name);
                self.count.evictions += 1;
                self.check(app, served, act);
                Outcome::Accepted { generation: None }
            }
            What::Resize { resize, .. } => {
                let text = serde_json::to_value(resize).expect("a patch");
                let cpu = text
                    .as_array()
                    .expect("a list")
                    .iter()
                    .find(|add| add["path"].as_str().is_some_and(|path| path.ends_with("/cpu")));
                let cpu =
                    cpu.and_then(|add| add["value"].as_str()?.parse::<Quantity>().ok()).expect("CPU").milli_value();
                let restarts = self.apps[app].restarts;
                let pod = self.pods.get_mut(name).expect("it is there");
                if pod.is_terminating {
                    return Outcome::Rejected;
                }
                pod.generation += 1;
                pod.cpu = cpu;
                pod.restarts = restarts && pod.cpu != pod.reported;
                let generation = Some(pod.generation);
                self.tell(name);
                *(if restarts { &mut self.count.restarts } else { &mut self.count.resizes }) += 1;
                self.check(app, served && restarts, act);
                Outcome::Accepted { generation }
            }
        }
    }

    /// Upstream's rule of the eviction API; whether the pod may go.
    fn spend(&mut self, app: usize, name: &str) -> bool {
        let is_ready = self.pods[name].is_ready;
        let app = &mut self.apps[app];
        let Some(desired) = app.desired_healthy else { return true };
        if !is_ready && app.healthy >= desired && desired > 0 {
            return true;
        }
        if app.allowed == 0 {
            return false;
        }
        app.allowed -= 1;
        app.disrupted.insert(name.to_owned());
        self.budget_events.push(Event::Budget(Arc::new(app.budget(self.now.wall))));
        true
    }

    /// What must always hold once a pod was taken that served.
    fn check(&self, app: usize, took: bool, act: &Act) {
        if !took {
            return;
        }
        let (serving, app) = (self.serving(app), &self.apps[app]);
        let tolerated = ((app.replicas as f64 * self.tolerance) as i64).max(1);
        assert!(
            serving >= app.replicas - tolerated,
            "seed {}: {serving} of {} serve, {tolerated} may be away, after {act:?}",
            self.seed,
            app.replicas
        );
        let desired = app.desired_healthy.unwrap_or(0);
        assert!(serving >= desired, "seed {}: {serving} serve, {desired} must, after {act:?}", self.seed);
    }

    /// Whether a workload can get what is recommended at all.
    fn can_move(app: &App) -> bool {
        let budget = app.desired_healthy.is_none_or(|desired| desired < app.replicas);
        app.replicas >= app.min_replicas && (budget || (app.in_place && !app.restarts))
    }

    /// Whether all pods that can have what is recommended.
    pub(super) fn is_content(&self, _: &Settings) -> bool {
        let lacks = |pod: &TruePod| {
            let app = &self.apps[pod.app];
            Self::can_move(app) && (pod.cpu != app.target || !pod.serves())
        };
        !self.pods.values().any(lacks)
    }

    pub(super) fn check_content(&self, settings: &Settings) {
        let off: Vec<_> =
            self.pods.iter().filter(|(_, pod)| pod.cpu != self.apps[pod.app].target).map(|(name, _)| name).collect();
        assert!(self.is_content(settings), "seed {}: nothing moves any more: {off:?}", self.seed);
    }
}

impl App {
    fn budget(&self, now: Timestamp) -> DisruptionBudget {
        DisruptionBudget {
            key: ObjectKey::new("shop", &self.name),
            selector: format!("app={}", self.name).parse(),
            generation: 1,
            observed_generation: 1,
            disruptions_allowed: self.allowed as i32,
            current_healthy: self.healthy as i32,
            desired_healthy: self.desired_healthy.unwrap_or(0) as i32,
            disrupted: self.disrupted.iter().map(|name| (name.clone(), now)).collect(),
            gives_up_unhealthy: false,
        }
    }
}
