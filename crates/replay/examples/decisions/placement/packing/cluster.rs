//! The replay of a workload on a number of nodes.

#[cfg(test)]
mod tests;

use jiff::Timestamp;
use placement::{
    Amounts, Deviation, HotNodeConfig, Mobility, PodKey, Policy, PressureTargets, Prioritizer,
    RebalancingConfig, RebalancingNode, RebalancingPod, Reservations, TargetLoadPacking, plan,
};
use replay::timestamp;

use super::life_cycle::LifeEvent;
use super::node::{NODE, Node};
use super::scheduler::{Candidate, Scheduler, commitment};
use super::score::PackingScore;
use super::workload::{RequestChange, Workload};

/// Seconds at the start that are not scored: eight days.
const WARM_UP: i64 = 8 * 86_400;
const NAMESPACE: &str = "replay";

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packing {
    pub(crate) nodes: usize,
    pub(crate) scheduler: Scheduler,
    /// Whether the updater's rebalancing moves pods away from hot nodes, with its defaults.
    pub(crate) rebalances: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay<'a> {
    pub(crate) packing: Packing,
    pub(crate) workload: &'a Workload,
    /// Requests of the pods, in the order of slots.
    pub(crate) requests: &'a [RequestChange],
    /// Arrivals and departures in order.
    pub(crate) life_cycle: &'a [LifeEvent],
    /// Seed of the choice between nodes with equal scores.
    pub(crate) seed: u64,
}

#[derive(Clone, Debug, Default)]
struct Pod {
    is_present: bool,
    node: Option<usize>,
    request: Amounts,
    recommended: Amounts,
    /// Slot since which the node has no room for the recommended request.
    deferred_since: Option<usize>,
    /// Identifies the pod since its last binding.
    uid: String,
    bindings: usize,
    moved_at: Option<Timestamp>,
}

struct State<'a> {
    replay: &'a Replay<'a>,
    nodes: Vec<Node>,
    pods: Vec<Pod>,
    pending: Vec<usize>,
    reservations: Reservations,
    hot_nodes: HotNodeConfig,
}

impl Replay<'_> {
    /// The scores of the first half without its first eight days, and of the second half.
    pub(crate) fn run(&self) -> [PackingScore; 2] {
        self.trace(|_, _| ())
    }

    fn trace(&self, mut report: impl FnMut(usize, &State<'_>)) -> [PackingScore; 2] {
        let Workload {
            slots, start, step, ..
        } = *self.workload;
        let warm_up = usize::try_from(WARM_UP / step).unwrap_or(usize::MAX);
        let mut scores = [PackingScore::new(step), PackingScore::new(step)];
        let mut state = State::new(self);
        let (mut requests, mut life_cycle) = (self.requests, self.life_cycle);
        for slot in 0..slots {
            let now = timestamp(start + step * slot as i64);
            let mut score = PackingScore::new(step);
            let arrivals = take(&mut life_cycle, |event| event.slot <= slot);
            let changes = take(&mut requests, |change| change.slot <= slot);
            state.begin(now);
            for event in arrivals.iter().filter(|event| !event.arrives) {
                state.depart(event.pod, now);
            }
            for change in changes {
                state.pods[change.pod].recommended = change.request;
                state.resize(change.pod, slot);
            }
            state.move_deferred(slot, now, &mut score);
            if self.packing.rebalances {
                state.rebalance(now, &mut score);
            }
            let arrivals = arrivals.iter().filter(|event| event.arrives);
            state.arrive(arrivals.map(|event| event.pod));
            state.place_pending(slot, now);
            state.serve(slot, &mut score);
            report(slot, &state);
            let half = usize::from(slot >= slots / 2);
            if slot >= warm_up || half == 1 {
                let sum = std::mem::replace(&mut scores[half], PackingScore::new(step));
                scores[half] = sum.plus(&score);
            }
        }
        scores
    }
}

/// Takes the items at the front that satisfy a condition.
fn take<'a, T>(items: &mut &'a [T], condition: impl Fn(&T) -> bool) -> &'a [T] {
    let count = items.iter().take_while(|item| condition(item)).count();
    let (taken, left) = items.split_at(count);
    *items = left;
    taken
}

impl<'a> State<'a> {
    fn new(replay: &'a Replay<'a>) -> Self {
        let node = |index| Node::new(format!("node-{index}"));
        Self {
            replay,
            nodes: (0..replay.packing.nodes).map(node).collect(),
            pods: vec![Pod::default(); replay.workload.pods()],
            pending: Vec::new(),
            reservations: Reservations::default(),
            hot_nodes: HotNodeConfig::default(),
        }
    }

    fn begin(&mut self, now: Timestamp) {
        self.reservations.prune(now);
        for node in &mut self.nodes {
            node.bindings = 0;
            node.observe_heat(now, &self.hot_nodes);
        }
    }

    fn depart(&mut self, pod: usize, now: Timestamp) {
        self.unbind(pod, now);
        self.pods[pod].is_present = false;
        self.pending.retain(|pending| *pending != pod);
    }

    fn arrive(&mut self, arrivals: impl Iterator<Item = usize>) {
        for pod in arrivals {
            self.pods[pod].is_present = true;
            self.pods[pod].moved_at = None;
            self.pending.push(pod);
        }
    }

    fn bind(&mut self, pod: usize, node: usize, now: Timestamp) {
        let bound = &mut self.pods[pod];
        bound.bindings += 1;
        bound.uid = format!("{pod}-{}", bound.bindings);
        bound.node = Some(node);
        bound.request = bound.recommended;
        bound.deferred_since = None;
        let (uid, load) = (bound.uid.as_str(), bound.request);
        let target = &mut self.nodes[node];
        target.requests = target.requests.plus(load);
        target.pods += 1;
        target.bindings += 1;
        let namespace = NAMESPACE;
        let key = PodKey { namespace, uid };
        // The load by which the scheduler placed the pod.
        let load = self.replay.packing.scheduler.expected_load(load);
        self.reservations.bind(key, &target.name, load, now, now);
    }

    fn unbind(&mut self, pod: usize, now: Timestamp) {
        let left = &mut self.pods[pod];
        let Some(node) = left.node.take() else {
            return;
        };
        left.deferred_since = None;
        let node = &mut self.nodes[node];
        node.requests = node.requests.minus(left.request);
        node.pods -= 1;
        let (namespace, uid) = (NAMESPACE, left.uid.as_str());
        self.reservations.remove(PodKey { namespace, uid }, now);
    }

    /// Changes the request of a pod in place, or defers the change until its node has room. Returns
    /// whether the pod has its recommended request.
    fn resize(&mut self, pod: usize, slot: usize) -> bool {
        let resized = &mut self.pods[pod];
        let Some(node) = resized.node else {
            return true;
        };
        let node = &mut self.nodes[node];
        let requests = node.requests.minus(resized.request);
        let requests = requests.plus(resized.recommended);
        // A smaller request is applied on any node.
        if requests.fits(NODE) || resized.recommended.fits(resized.request) {
            node.requests = requests;
            resized.request = resized.recommended;
            resized.deferred_since = None;
            true
        } else {
            resized.deferred_since.get_or_insert(slot);
            false
        }
    }

    /// Applies deferred changes where there is room by now, else moves the pods to other nodes.
    fn move_deferred(&mut self, slot: usize, now: Timestamp, score: &mut PackingScore) {
        for pod in 0..self.pods.len() {
            let is_due = self.pods[pod].deferred_since.is_some_and(|at| at < slot);
            if !is_due || self.resize(pod, slot) {
                continue;
            }
            if let Some(node) = self.choose(pod, slot, now) {
                self.unbind(pod, now);
                self.bind(pod, node, now);
                score.resize_moves += 1;
            }
        }
    }

    /// Evicts pods of hot nodes by the updater's plan.
    fn rebalance(&mut self, now: Timestamp, score: &mut PackingScore) {
        if !self.nodes.iter().any(|node| node.heat.is_hot()) {
            return;
        }
        let config = RebalancingConfig {
            cool_percent: self.hot_nodes.cool_percent,
            fragmented_percent: 0.0,
            ..RebalancingConfig::default()
        };
        let prioritizer = Prioritizer {
            policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
            targets: PressureTargets {
                memory_percent: Some(config.cool_percent as i64),
                ..PressureTargets::default()
            },
        };
        let share = |percent: f64, part: i64| (percent / 100.0 * part as f64) as i64;
        let nodes: Vec<RebalancingNode> = self
            .nodes
            .iter()
            .map(|node| {
                let [cpu, memory] = node.last().unwrap_or_default();
                RebalancingNode {
                    name: node.name.clone(),
                    is_hot: node.heat.is_hot(),
                    is_schedulable: true,
                    capacity: NODE,
                    allocatable: NODE,
                    usage: Amounts {
                        cpu_millicores: share(cpu, NODE.cpu_millicores),
                        memory_bytes: share(memory, NODE.memory_bytes),
                    },
                    deviation: Deviation::default(),
                }
            })
            .collect();
        let (mut indices, mut pods) = (Vec::new(), Vec::new());
        for (index, pod) in self.pods.iter().enumerate() {
            let Some(node) = pod.node else {
                continue;
            };
            // The usage of a node is divided in proportion to the requests.
            let (usage, requests) = (nodes[node].usage, self.nodes[node].requests);
            let of = |part: fn(Amounts) -> i64| {
                let percent = 100.0 * part(usage) as f64 / part(requests).max(1) as f64;
                share(percent, part(pod.request))
            };
            let load = Amounts {
                cpu_millicores: of(|amounts| amounts.cpu_millicores),
                memory_bytes: of(|amounts| amounts.memory_bytes),
            };
            indices.push(index);
            pods.push(RebalancingPod {
                uid: pod.uid.clone(),
                node,
                load,
                commitment: commitment(pod.request),
                mobility: Mobility::Movable,
                moved_at: pod.moved_at,
            });
        }
        for planned in plan(&nodes, &pods, &prioritizer, &config, now, |_, _| true) {
            let pod = indices[planned.pod];
            self.unbind(pod, now);
            self.pods[pod].moved_at = Some(now);
            self.pending.push(pod);
            score.rebalance_moves += 1;
        }
    }

    fn choose(&self, pod: usize, slot: usize, now: Timestamp) -> Option<usize> {
        let namespace = NAMESPACE;
        let uid = self.pods[pod].uid.as_str();
        let candidate = Candidate {
            request: self.pods[pod].recommended,
            key: PodKey { namespace, uid },
            seed: self.replay.seed ^ ((slot as u64) << 32 | pod as u64),
        };
        let scheduler = &self.replay.packing.scheduler;
        scheduler.choose(&candidate, &self.nodes, &self.reservations, now)
    }

    fn place_pending(&mut self, slot: usize, now: Timestamp) {
        for pod in std::mem::take(&mut self.pending) {
            match self.choose(pod, slot, now) {
                Some(node) => self.bind(pod, node, now),
                None => self.pending.push(pod),
            }
        }
    }

    fn serve(&mut self, slot: usize, score: &mut PackingScore) {
        let mut usage = vec![[0_u64; 2]; self.nodes.len()];
        for (index, pod) in self.pods.iter().enumerate() {
            score.pod_slots += u64::from(pod.is_present);
            if let Some(node) = pod.node {
                let [cpu, memory] = self.replay.workload.usage(slot, index);
                usage[node][0] += u64::from(cpu);
                usage[node][1] += u64::from(memory);
            }
        }
        score.slots += 1;
        score.pending_slots += self.pending.len() as u64;
        for (node, [millicores, mebibytes]) in self.nodes.iter_mut().zip(usage) {
            let bytes = (mebibytes << 20) as f64;
            let cpu = 100.0 * millicores as f64 / NODE.cpu_millicores as f64;
            let memory = 100.0 * bytes / NODE.memory_bytes as f64;
            if node.pods > 0 {
                score.add_node(cpu, memory > 100.0);
            }
            node.measure(slot, [cpu, memory]);
        }
    }
}
