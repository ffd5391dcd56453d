//! Nodes with the sums over their pods, kept current by watches.

use std::collections::{BTreeMap, HashMap, HashSet};

use api::vpa::NodeGroup;
use jiff::Timestamp;
use model::{
    ContainerRecommendation, Cpu, Memory, Quantity, Recommendation, ResourceList, ResourceName,
    Workload,
};
use placement::peaks::PowerModel;
use placement::{
    Amounts, Commitment, Container, FreshLoad, LoadRiskCache, NodeState, PodForecast, PodKey,
    PodLevel, PodSpec, Reservations, forecast_per_pod,
};
use view::target::{selects, topmost};
use view::{
    BoundPod, Change, ContainerKind, Node, ObjectName, Prediction, Resources, View, Vpa, WellKnown,
};

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

/// Longest time ahead for which a forecast counts, in seconds.
const MAX_AHEAD_SECONDS: i64 = 3600;

/// Largest number of VPAs and of predictions of one workload that are compared. A tenant can write
/// many.
const MAX_OBJECTS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct WorkloadLoad {
    /// Recommendation of its oldest VPA.
    pub(super) recommendation: Option<Recommendation>,
    pub(super) forecast: PodForecast,
}

/// Load of the workload that a pod with this controller and these labels belongs to. Workloads of
/// custom kinds have none: their scale subresource is not read.
pub(super) fn of_workload<'a>(
    view: &View,
    owner: Workload<'_>,
    spec: &PodSpec,
    label: impl Fn(&str) -> Option<&'a str>,
    now: Timestamp,
) -> WorkloadLoad {
    let Ok(Some(top)) = topmost(view, owner) else {
        return WorkloadLoad::default();
    };
    let vpas = view.vpas_of(top).take(MAX_OBJECTS);
    let vpa = vpas
        .filter(|vpa| NodeGroup::includes(&vpa.object, &label))
        .filter(|vpa| selects(view, vpa.points_at(), &label))
        .min_by_key(|vpa| vpa.precedence());
    WorkloadLoad {
        recommendation: vpa.and_then(|vpa| recommendation(vpa, spec)),
        forecast: forecast(view, top, now),
    }
}

/// The targets of a VPA's status for the containers of a pod.
fn recommendation(vpa: &Vpa, spec: &PodSpec) -> Option<Recommendation> {
    let status = vpa.object.status.as_ref()?;
    let listed = &status.recommendation.as_ref()?.containers;
    let target = |container: &ContainerRecommendation| ContainerRecommendation {
        container_name: container.container_name.clone(),
        target: container.target.clone(),
        ..ContainerRecommendation::default()
    };
    let names: HashSet<&str> = spec.containers.iter().map(|it| it.name.as_str()).collect();
    let listed = listed.iter();
    let own = listed.filter(|container| names.contains(container.container_name.as_str()));
    Some(Recommendation {
        containers: own.map(target).collect(),
    })
}

/// The largest forecast within the prediction window, divided by the replicas.
fn forecast(view: &View, top: Workload<'_>, now: Timestamp) -> PodForecast {
    let name = ObjectName {
        namespace: top.namespace,
        name: top.name,
    };
    let replicas = WellKnown::of(top.api_version, top.kind)
        .and_then(|kind| view.controller(kind, &name))
        .and_then(|controller| controller.replicas)
        .and_then(|replicas| u32::try_from(replicas).ok());
    let Some(replicas) = replicas else {
        return PodForecast::default();
    };
    let of = |identifier: &str, factor: f64| {
        // A prediction of another namespace must not change this one's pods.
        let predictions = view.predicted_metrics.by_workload(top.of_any_version());
        let own = predictions.filter(|object| object.key.namespace == top.namespace);
        own.take(MAX_OBJECTS)
            .find_map(|object| per_pod(object, identifier, replicas, now))
            .map(|value| (value * factor) as i64)
    };
    PodForecast {
        cpu_millicores: of("resource.cpu", 1000.0),
        memory_bytes: of("resource.memory", 1.0),
    }
}

fn per_pod(object: &Prediction, identifier: &str, replicas: u32, now: Timestamp) -> Option<f64> {
    let metric = object
        .metrics
        .iter()
        .find(|metric| metric.ready && &*metric.identifier == identifier)?;
    let [series] = metric.series.as_slice() else {
        return None;
    };
    let from = now.as_second();
    let ahead = i64::from(object.window_seconds).clamp(0, MAX_AHEAD_SECONDS);
    forecast_per_pod(series.iter().copied(), from, from + ahead + 1, replicas)
}
