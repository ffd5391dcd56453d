//! Nodes with the sums over their pods, kept current by watches.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use model::{Cpu, Memory, Quantity, ResourceList, ResourceName};
use placement::peaks::PowerModel;
use placement::{
    Amounts, Commitment, Container, FreshLoad, LoadRiskCache, NodeState, PodKey, PodLevel, PodSpec,
    Reservations,
};
use view::{BoundPod, Change, ContainerKind, Node, Resources};

#[derive(Debug, Default)]
pub(super) struct NodeTable {
    nodes: HashMap<String, NodeRecord>,
    power_models: BTreeMap<String, PowerModel>,
    pub(super) reservations: Reservations,
}

#[derive(Debug, Default)]
struct NodeRecord {
    /// Whether the node exists; pods may be seen before their node.
    exists: bool,
    capacity: Amounts,
    allocatable: Amounts,
    power: Option<PowerModel>,
    load_risk: LoadRiskCache,
    pods: usize,
    /// Sum over the pods. Wide, so that adding and subtracting any requests is exact.
    sum: WideCommitment,
}

#[derive(Debug, Default)]
struct WideCommitment {
    requests: [i128; 2],
    limits: [i128; 2],
}

impl WideCommitment {
    fn add(&mut self, commitment: Commitment, factor: i128) {
        for (sum, amounts) in [
            (&mut self.requests, commitment.requests),
            (&mut self.limits, commitment.limits),
        ] {
            sum[0] += factor * i128::from(amounts.cpu_millicores);
            sum[1] += factor * i128::from(amounts.memory_bytes);
        }
    }

    fn get(&self) -> Commitment {
        let amount = |sum: i128| i64::try_from(sum).unwrap_or(i64::MAX);
        let amounts = |[cpu, memory]: [i128; 2]| Amounts {
            cpu_millicores: amount(cpu),
            memory_bytes: amount(memory),
        };
        Commitment {
            requests: amounts(self.requests),
            limits: amounts(self.limits),
        }
    }
}

impl NodeTable {
    pub(super) fn new(power_models: BTreeMap<String, PowerModel>) -> Self {
        Self {
            power_models,
            ..Self::default()
        }
    }

    pub(super) fn apply_node(&mut self, change: &Change<Node>) {
        if let Some(node) = &change.new {
            let power = self.power_models.get(&node.name).copied();
            let record = self.nodes.entry(node.name.clone()).or_default();
            record.exists = true;
            record.capacity = amounts(node.capacity);
            record.allocatable = amounts(node.allocatable);
            record.power = power;
        } else if let Some(node) = &change.old
            && let Some(record) = self.nodes.get_mut(&node.name)
        {
            record.exists = false;
            if record.pods == 0 {
                self.nodes.remove(&node.name);
            }
        }
    }

    /// Applies a change of a pod on a node. `load` is its predicted load, if it counts as a
    /// reservation.
    pub(super) fn apply_pod(
        &mut self,
        change: &Change<BoundPod>,
        load: Option<(Amounts, Timestamp)>,
        now: Timestamp,
    ) {
        if let Some(old) = &change.old {
            self.count(old, -1);
            let is_same = change.new.as_ref().is_some_and(|new| new.uid == old.uid);
            if !is_same && self.counts(old, now) {
                self.reservations.remove(key(old), now);
            }
        }
        if let Some(new) = &change.new {
            self.count(new, 1);
            if let Some((load, at)) = load {
                self.reservations.bind(key(new), &new.node, load, at, now);
            }
        }
    }

    /// Names of the nodes, with those that only pods name.
    pub(super) fn names(&self) -> Vec<String> {
        self.nodes.keys().cloned().collect()
    }

    /// Whether a pod was bound so lately that it counts as a reservation.
    pub(super) fn counts(&self, pod: &BoundPod, now: Timestamp) -> bool {
        pod.bound_at
            .is_none_or(|at| self.reservations.counts(at, now))
    }

    fn count(&mut self, pod: &BoundPod, factor: i128) {
        let spec = pod_spec(pod);
        let commitment = Commitment {
            requests: spec.requests(),
            limits: spec.limits(),
        };
        let record = self.nodes.entry(pod.node.clone()).or_default();
        record.sum.add(commitment, factor);
        if factor > 0 {
            record.pods += 1;
        } else {
            record.pods = record.pods.saturating_sub(1);
        }
        if record.pods == 0 && !record.exists {
            self.nodes.remove(&pod.node);
        }
    }

    /// State of a node for a pod; `None` for an unknown one.
    pub(super) fn state<'a>(
        &'a self,
        name: &str,
        pod: PodKey<'_>,
        load: Option<&FreshLoad<'a>>,
        now: Timestamp,
    ) -> Option<NodeState<'a>> {
        let record = self.nodes.get(name).filter(|record| record.exists)?;
        let measured = load.and_then(|load| load.node(name));
        let reserved = if self.reservations.is_empty() {
            Amounts::default()
        } else {
            let metrics_end = measured.map(|(end, _)| end);
            // A pod that is placed again does not compete with itself.
            self.reservations.reserved_for(pod, name, metrics_end, now)
        };
        Some(NodeState {
            capacity: record.capacity,
            allocatable: record.allocatable,
            commitment: record.sum.get(),
            pods: record.pods,
            load: measured.map(|(_, load)| load),
            reserved,
            power: record.power,
            load_risk: Some(&record.load_risk),
        })
    }
}

fn key(pod: &BoundPod) -> PodKey<'_> {
    PodKey {
        namespace: &pod.key.namespace,
        uid: &pod.uid,
    }
}

fn amounts(resources: Resources) -> Amounts {
    Amounts {
        cpu_millicores: resources.cpu.map_or(0, Cpu::millicores),
        memory_bytes: resources.memory.map_or(0, Memory::bytes),
    }
}

/// Requests and limits of a pod on a node.
pub(super) fn pod_spec(pod: &BoundPod) -> PodSpec {
    let mut spec = PodSpec {
        overhead: list(pod.overhead),
        pod_level: PodLevel {
            requests: list(pod.pod_level.requests),
            limits: list(pod.pod_level.limits),
        },
        ..PodSpec::default()
    };
    for written in &pod.containers {
        let container = Container {
            name: written.name.clone(),
            requests: list(written.resources.requests),
            limits: list(written.resources.limits),
        };
        match written.kind {
            ContainerKind::Init => spec.add_init_container(container, false),
            ContainerKind::Sidecar => spec.add_init_container(container, true),
            ContainerKind::App => spec.containers.push(container),
        }
    }
    spec
}

fn list(resources: Resources) -> ResourceList {
    let cpu = resources.cpu.map(Quantity::from);
    let memory = resources.memory.map(Quantity::from);
    let pairs = [(ResourceName::Cpu, cpu), (ResourceName::Memory, memory)];
    let set = |(name, quantity): (_, Option<_>)| Some((name, quantity?));
    pairs.into_iter().filter_map(set).collect()
}
