//! Model of the updater: a view that follows two watches, requests in flight, and decisions.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use model::{Cpu, Labels, Memory, Recommendation};
use placement::{HotNodeConfig, MeasuredLoad, Policy, TargetLoadPacking};
use rand::Rng as _;
use rand::rngs::StdRng;
use rollout::{
    Action, ActionKind, ActionOutcome, ActionReason, Disruption, PausePolicy, PauseReason, Plan,
    Preconditions, PreemptionMethod, PreemptionMode, RebalancingSettings, RolloutState, Settings,
    Snapshot, WebhookLiveness, check_preconditions, decide,
};
use view::{Freshness, Namespace, Node, Phase, Pod, Resource, Resources, View, WellKnown};

use super::cluster_model::{ClusterModel, Event, Known};

#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Served,
    /// It is done, but the answer is lost.
    DoneWithoutAnswer,
    /// It is not done, and there is no answer.
    Lost,
    /// The API server refuses it with 429.
    TooManyRequests,
}

/// A request under way, and what was known when it was decided on.
struct Request {
    action: Arc<Action>,
    fate: Fate,
    due: usize,
    known: Known,
    seen_ready: bool,
}

pub(super) struct UpdaterModel {
    state: RolloutState,
    /// The memory of an updater that decides about everything in each pass.
    full: RolloutState,
    pub(super) settings: Settings,
    view: View,
    feed: BTreeMap<String, Arc<Recommendation>>,
    seen_pods: usize,
    seen_budgets: usize,
    /// The version of the scales that were read last.
    scales: usize,
    requests: Vec<Request>,
    /// The step until which the watches are cut off, and whether the updater knows that.
    cut: (usize, bool),
    /// The number of pod events that a watch that was resumed has to catch up with.
    missed: Option<usize>,
    /// The same of the watch that was resumed last: whatever is decided after that is judged as if
    /// they were seen.
    resumed_at: usize,
    /// Until which step the API server does nothing.
    paused: usize,
    /// A load of the nodes for the next pass.
    node_load: Option<MeasuredLoad>,
    /// Whether the webhook's Lease has expired in the next pass, which then decides about relief only.
    is_webhook_lost: bool,
}

impl UpdaterModel {
    /// A replica that takes the lead lists everything anew before it decides.
    pub(super) fn new(cluster: &mut ClusterModel) -> Self {
        cluster.elect();
        let settings = Settings {
            eviction_tolerance: cluster.tolerance,
            rolling_updates: true,
            paces_restarts: cluster.tolerance > 0.5,
            rebalancing: Some(RebalancingSettings {
                hot_nodes: HotNodeConfig {
                    after: SignedDuration::from_secs(1),
                    ..HotNodeConfig::default()
                },
                fragmented_percent: 10.0,
                policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
                moves_per_minute: 20,
            }),
            preemption: if cluster.has_small_nodes() {
                PreemptionMode::On
            } else {
                PreemptionMode::Off
            },
            ..Settings::default()
        };
        let view = View::default();
        let feed = cluster.recommendations();
        let mut model = Self {
            state: RolloutState::default(),
            full: RolloutState::default(),
            settings,
            view,
            feed,
            seen_pods: 0,
            seen_budgets: 0,
            scales: 0,
            requests: Vec::new(),
            cut: (0, false),
            missed: None,
            resumed_at: 0,
            paused: 0,
            node_load: None,
            is_webhook_lost: false,
        };
        model.see_nodes(cluster);
        for vpa in cluster.fixture.view.vpas.iter() {
            model.view.vpas.apply(Arc::clone(vpa));
        }
        for kind in [WellKnown::Deployment, WellKnown::ReplicaSet, WellKnown::Job] {
            for controller in cluster.fixture.view.controllers(kind) {
                model
                    .view
                    .controllers_mut(kind)
                    .apply(Arc::clone(controller));
            }
        }
        model.see(cluster, usize::MAX, usize::MAX);
        model.read_scales(cluster);
        model
    }

    /// Reads the nodes and the namespace.
    fn see_nodes(&mut self, cluster: &ClusterModel) {
        for (node, millicores) in cluster.sizes.into_iter().enumerate() {
            let size = Resources {
                cpu: Some(Cpu::from_millicores(millicores)),
                memory: Some(Memory::from_bytes(64 << 30)),
            };
            self.view.nodes.apply(Arc::new(Node {
                name: format!("n{node}"),
                labels: Labels::default(),
                taints: Vec::new(),
                is_cordoned: false,
                capacity: size,
                allocatable: size,
                extended: model::ResourceList::new(),
                addresses: Vec::new(),
            }));
        }
        self.view.namespaces.apply(Arc::new(Namespace {
            name: "shop".to_owned(),
            labels: Labels::default(),
            annotations: BTreeMap::new(),
        }));
    }

    /// Reads the scales, with the pods that are seen now.
    fn read_scales(&mut self, cluster: &ClusterModel) {
        let (live, (scales, version)) = (self.view.live_pods_by_scale(), cluster.read_scales());
        for (key, scale) in scales {
            let pods = live.get(&key).copied().unwrap_or_default();
            self.view.apply_scale(key, scale, pods);
        }
        self.scales = version;
    }

    /// Marks the watch of pods as stale or current.
    fn set_stale(&mut self, is_stale: bool) {
        let stale_since = is_stale.then_some(Timestamp::UNIX_EPOCH);
        self.view.freshness.insert(
            Resource::Pods,
            Freshness {
                synced: true,
                stale_since,
                ..Freshness::default()
            },
        );
    }

    /// Takes in the next events of each watch.
    fn see(&mut self, cluster: &ClusterModel, pods: usize, budgets: usize) {
        let all = cluster.pod_events.iter().skip(self.seen_pods).take(pods);
        let budgets = cluster
            .budget_events
            .iter()
            .skip(self.seen_budgets)
            .take(budgets);
        let (mut seen_pods, mut seen_budgets) = (0, 0);
        for event in all
            .inspect(|_| seen_pods += 1)
            .chain(budgets.inspect(|_| seen_budgets += 1))
        {
            match event {
                Event::Pod(pod) => drop(self.view.pods.apply(Arc::clone(pod))),
                Event::Gone(key) => drop(self.view.pods.delete(key)),
                Event::Controller(kind, controller) => {
                    drop(
                        self.view
                            .controllers_mut(*kind)
                            .apply(Arc::clone(controller)),
                    );
                }
                Event::Vpa(vpa) => drop(self.view.vpas.apply(Arc::clone(vpa))),
                Event::Budget(budget) => {
                    drop(self.view.disruption_budgets.apply(Arc::clone(budget)));
                }
            }
        }
        self.seen_pods += seen_pods;
        self.seen_budgets += seen_budgets;
    }

    pub(super) fn step(
        &mut self,
        cluster: &mut ClusterModel,
        rng: &mut StdRng,
        step: usize,
        trouble: bool,
    ) {
        if trouble && rng.random_bool(0.03) {
            self.cut = (step + rng.random_range(1..20), rng.random_bool(0.3));
        }
        if trouble && rng.random_bool(0.02) {
            self.paused = step + rng.random_range(1..10);
        }
        self.watch(cluster, rng, step, trouble);
        if !trouble || step >= self.paused {
            self.answer(cluster, step);
        }
        if trouble && rng.random_bool(0.3) {
            // The pause between two passes is longer than this step.
            return;
        }
        self.node_load = (trouble && rng.random_bool(0.3)).then(|| cluster.node_load(rng));
        self.is_webhook_lost = trouble && rng.random_bool(0.1);
        let (plan, known) = self.pass(cluster);
        let before = self.state.clone();
        for action in plan.actions {
            self.check_size(cluster, &action, &before);
            self.check_source(&action);
            if trouble && rng.random_bool(0.3) {
                // It has to wait for the rate limit, and the plan is dropped.
                continue;
            }
            self.state.begin(&action, cluster.now);
            self.full.begin(&action, cluster.now);
            self.send(action, known, rng, step, trouble);
        }
        if !trouble || step >= self.paused {
            self.answer(cluster, step);
        }
    }

    /// Takes in events, unless the watches are cut off.
    fn watch(&mut self, cluster: &mut ClusterModel, rng: &mut StdRng, step: usize, trouble: bool) {
        let (cut_until, is_known) = self.cut;
        let is_cut = trouble && step < cut_until;
        if is_cut && is_known {
            self.missed = Some(usize::MAX);
            self.set_stale(true);
        }
        if !is_cut {
            if self.missed == Some(usize::MAX) {
                self.resumed_at = cluster.pod_events.len();
                self.missed = Some(self.resumed_at);
                cluster.count.resumed += 1;
            }
            let most = if trouble { 10 } else { usize::MAX };
            let (pods, budgets) = (rng.random_range(0..=most), rng.random_range(0..=most));
            self.see(cluster, pods, budgets);
            self.feed = cluster.recommendations();
            if !trouble || rng.random_bool(0.15) {
                self.read_scales(cluster);
            }
            // A resumed watch is current once it has delivered the missed events.
            if self.missed.is_some_and(|missed| self.seen_pods >= missed) {
                self.missed = None;
                self.set_stale(false);
            }
        }
    }

    /// Makes one pass, and the same by an updater that makes full passes only.
    fn pass(&mut self, cluster: &ClusterModel) -> (Plan, Known) {
        let nothing = View::default();
        let preconditions = Preconditions {
            view: &self.view,
            control: &nothing,
            webhook: &nothing,
            another_updater: Some(false),
        };
        let policy = PausePolicy {
            webhook_lease: None,
            stop_config_map: None,
        };
        let pause = check_preconditions(
            &preconditions,
            &policy,
            &mut WebhookLiveness::default(),
            cluster.now,
        )
        .err()
        .or(self
            .is_webhook_lost
            .then_some(PauseReason::WebhookLeaseExpired));
        let known = Known {
            events: self.seen_pods.max(self.resumed_at),
            scales: self.scales,
        };
        let snapshot = Snapshot {
            view: &self.view,
            recommendations: &self.feed,
            pause,
            health: &BTreeMap::new(),
            node_load: self.node_load.as_ref(),
        };
        let plan = decide(&snapshot, &mut self.state, &self.settings, cluster.now);
        self.full.forget_decisions();
        let full = decide(&snapshot, &mut self.full, &self.settings, cluster.now);
        assert_eq!(
            (without_notes(&plan), &plan.skips, &plan.pod_counts),
            (without_notes(&full), &full.skips, &full.pod_counts)
        );
        self.check_victims(&plan);
        (plan, known)
    }

    fn check_victims(&self, plan: &Plan) {
        for preemption in &plan.preemptions {
            let running = |pod| self.view.pods.get(pod)?.running.clone();
            let pending = running(&preemption.pod).expect("the pending pod");
            let PreemptionMethod::Victims(victims) = &preemption.method else {
                continue;
            };
            for victim in victims {
                let running = running(victim).expect("the victim");
                assert!(
                    running.node == pending.node
                        && running.priority <= pending.priority
                        && *victim != preemption.pod,
                    "{preemption:?}"
                );
            }
        }
    }

    /// Sends an action, which the API server answers at a later step.
    fn send(
        &mut self,
        action: Arc<Action>,
        known: Known,
        rng: &mut StdRng,
        step: usize,
        trouble: bool,
    ) {
        let fate = match rng.random_range(0..20) {
            0..=2 if trouble => Fate::DoneWithoutAnswer,
            3 | 4 if trouble => Fate::Lost,
            5..=7 if trouble => Fate::TooManyRequests,
            _ => Fate::Served,
        };
        let due = if trouble {
            step + rng.random_range(0..3)
        } else {
            step
        };
        let running = self
            .view
            .pods
            .get(&action.pod)
            .and_then(|pod| pod.running.as_ref());
        let seen_ready = running.is_some_and(|running| running.ready_since.is_some());
        self.requests.push(Request {
            action,
            fate,
            due,
            known,
            seen_ready,
        });
    }

    /// No pod is restarted for the size of a frozen recommendation.
    fn check_source(&self, action: &Action) {
        let Some(vpa) = self.view.vpas.get(&action.vpa) else {
            return;
        };
        let status = vpa.object.status.iter();
        let mut conditions = status.flat_map(|status| &status.conditions);
        let is_stale = conditions
            .any(|condition| condition.kind == "SourceStale" && condition.status == "True");
        let is_for_size = matches!(
            action.reason,
            ActionReason::OutsideBounds | ActionReason::Drift
        );
        assert!(
            !(is_stale && is_for_size),
            "the source is stale: {action:?}"
        );
    }

    /// No workload that is too small loses a pod.
    fn check_size(&self, cluster: &ClusterModel, action: &Action, before: &RolloutState) {
        let is_running = self
            .view
            .pods
            .get(&action.pod)
            .is_some_and(|pod| pod.phase == Phase::Running);
        if action.kind != ActionKind::Evict
            || before.pending_disruption(&action.pod_uid).is_some()
            || !is_running
        {
            return;
        }
        let is_evicted = |uid: &str| before.pending_disruption(uid) == Some(Disruption::Eviction);
        let live = self
            .view
            .pods
            .iter()
            .filter(|pod| pod.is_live() && !is_evicted(&pod.uid));
        let owner = |pod: &Pod| pod.owner.as_ref().map(|owner| owner.name.clone());
        let name = self.view.pods.get(&action.pod).and_then(|pod| owner(pod));
        let live = live.filter(|pod| owner(pod) == name).count();
        let least = cluster.min_replicas(&name.expect("it has an owner"));
        assert!(
            live >= least,
            "{live} of {least} are too few for {action:?}"
        );
    }

    /// The API server answers what is due.
    fn answer(&mut self, cluster: &mut ClusterModel, step: usize) {
        let all = std::mem::take(&mut self.requests);
        let (due, later): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|request| request.due <= step);
        self.requests = later;
        for Request {
            action,
            fate,
            due: _,
            known,
            seen_ready,
        } in due
        {
            let outcome = match fate {
                Fate::Served => cluster.execute(&action, known, seen_ready),
                Fate::DoneWithoutAnswer => {
                    cluster.execute(&action, known, seen_ready);
                    ActionOutcome::Unknown
                }
                Fate::Lost => ActionOutcome::Unknown,
                Fate::TooManyRequests => ActionOutcome::TooManyRequests { retry_after: None },
            };
            cluster.count.refused += u64::from(fate != Fate::Served);
            self.state.end(&action, &outcome, cluster.now);
            self.full.end(&action, &outcome, cluster.now);
        }
    }

    /// Ends at once. What it asked for is done, or is not, before the next leader begins.
    pub(super) fn die(&mut self, cluster: &mut ClusterModel, rng: &mut StdRng) {
        for Request {
            action,
            known,
            seen_ready,
            ..
        } in std::mem::take(&mut self.requests)
        {
            if rng.random_bool(0.5) {
                cluster.execute(&action, known, seen_ready);
            }
        }
    }
}

/// The actions of a plan without annotations, whose times are those of the decision.
fn without_notes(plan: &Plan) -> Vec<Action> {
    let actions = plan.actions.iter().map(|action| {
        let mut action = Action::clone(action);
        if let ActionKind::Resize { annotations, .. } = &mut action.kind {
            annotations.clear();
        }
        action
    });
    actions.collect()
}
