//! Rebalancing: evictions of pods from hot nodes, and from fragmented nodes that can be emptied.
//!
//! `placement::plan` chooses the moves. A pod may be moved if its annotation, or that of its
//! namespace, allows it, if its VPA object allows its eviction now, and within the eviction
//! tolerance of its group, its disruption budgets and the maintenance window. Pods that no VPA
//! object controls have the same limits. Evictions for sizes come first in a pass.
//!
//! The load of a pod is its share of the measured usage of its node, in proportion to the
//! recommended target or else the request of each pod there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use jiff::SignedDuration;
use model::{NodeTraits, Recommendation};
use placement::{
    Amounts, Commitment, Deviation, Fallback, LoadSource, MeasuredLoad, Mobility, Move, MoveReason,
    PodForecast, PodSpec, PredictionConfig, PressureTargets, Prioritizer, RebalancingConfig,
    RebalancingNode, RebalancingPod, WindowLoad,
};
use view::{Node, ObjectKey, Pod, Running, View};

use super::preemption::{amounts, requested};
use crate::action::{Action, ActionReason, Relocation};
use crate::plan::RebalancingReport;
use crate::plan_builder::{EvictablePod, PassContext, PlanBuilder};
use crate::settings::RebalancingSettings;
use crate::state::{COOLDOWN, RebalancingHistory, is_stale, part_before, timestamp};

/// The most pods with an invalid annotation that one pass reports.
const MAX_INVALID: usize = 20;

/// The most plans of one pass: bounds its time.
const MAX_PLANS: usize = 5;

/// Annotation that users set on a pod and a namespace: whether rebalancing may move pods; see
/// docs/rebalancing.md.
///
/// `true` or `false`. That of the pod takes precedence. Without one, a pod is not moved. That of the
/// namespace does not move pods of Jobs, pods with volumes or constraints that other nodes may not
/// satisfy, and pods that other tools may not evict.
pub const REBALANCE: &str = "plimsoll.dev/rebalance";

/// Plans moves with a new load of the nodes. `taken` are the unique identifiers of pods with an
/// action in this pass.
pub(crate) fn plan_moves(
    builder: &mut PlanBuilder,
    taken: &BTreeSet<String>,
    context: PassContext,
    settings: &RebalancingSettings,
    load: &MeasuredLoad,
) {
    let (view, now) = (context.snapshot.view, context.now);
    let history = &context.state.rebalancing;
    builder.plan.rebalancing = Some(RebalancingReport {
        hot_nodes: history.hot_nodes(),
        invalid_annotations: invalid_annotations(view),
    });
    let max_moves = history.moves_left(settings.moves_per_minute, now);
    if max_moves == 0 || is_stale(&load.load, now) {
        return;
    }
    let movable = movable(builder, taken, context);
    let mut nodes = nodes(view, &load.load, history);
    for (node, gone) in history.departed(load, now) {
        if let Some(node) = nodes.iter_mut().find(|it| it.state.name == node) {
            node.state.usage = node.state.usage.minus(gone);
        }
    }
    let pods = pods(view, &mut nodes, &movable, context, load);
    let mut config = RebalancingConfig {
        cool_percent: settings.hot_nodes.cool_percent,
        fragmented_percent: settings.fragmented_percent,
        max_moves,
        cooldown: SignedDuration::try_from(COOLDOWN).unwrap_or(SignedDuration::MAX),
        ..RebalancingConfig::default()
    };
    let prioritizer = Prioritizer {
        policy: settings.policy,
        targets: PressureTargets {
            memory_percent: Some(settings.hot_nodes.cool_percent as i64),
            ..PressureTargets::default()
        },
    };
    let mut states: Vec<RebalancingNode> = nodes.iter().map(|node| node.state.clone()).collect();
    let (pods, mut planned): (Vec<&Pod>, Vec<RebalancingPod>) = pods.into_iter().unzip();
    let now = timestamp(now.monotonic);
    let can_run = |pod: usize, node: usize| runs_on(pods[pod], nodes[node].node);
    // A plan does not know the limits that several pods share. Other pods may go in place of those
    // that a plan chose and that may not.
    for _ in 0..MAX_PLANS {
        let moves = placement::plan(&states, &planned, &prioritizer, &config, now, can_run);
        let mut is_refused = false;
        for planned_move in moves {
            let (pod, from, to) = (planned_move.pod, planned_move.from, planned_move.to);
            let evictable = movable.get(&planned[pod].uid);
            // Earlier moves of this pass have taken from the same group and budgets.
            let Some(evictable) =
                evictable.filter(|it| it.is_evictable(builder) && it.reserve(builder).is_ok())
            else {
                is_refused |= planned_move.reason == MoveReason::HotNode;
                continue;
            };
            let load = planned[pod].load;
            let relocated = (&nodes[from], &nodes[to], load);
            let action = action(evictable, &planned_move, relocated, settings);
            builder.plan.actions.push(Arc::new(action));
            states[from].usage = states[from].usage.minus(load);
            states[to].usage = states[to].usage.plus(load);
            (planned[pod].node, planned[pod].mobility) = (to, Mobility::Pinned);
            config.max_moves -= 1;
        }
        if !is_refused || config.max_moves == 0 {
            return;
        }
        for pod in &mut planned {
            let is_evictable = |it: &EvictablePod| it.is_evictable(builder);
            let may_go = movable.get(&pod.uid).is_some_and(is_evictable);
            if pod.mobility == Mobility::Movable && !may_go {
                pod.mobility = Mobility::Pinned;
            }
        }
    }
}

/// The eviction of a pod, with the node that it leaves, another node and its load.
fn action(
    evictable: &EvictablePod,
    planned_move: &Move,
    (from, to, load): (&MeasuredNode, &MeasuredNode, Amounts),
    settings: &RebalancingSettings,
) -> Action {
    let (reason, threshold_percent) = match planned_move.reason {
        MoveReason::HotNode => (ActionReason::HotNode, settings.hot_nodes.hot_percent),
        MoveReason::FragmentedNode => (ActionReason::FragmentedNode, settings.fragmented_percent),
    };
    let Pod { owner, uid, .. } = evictable.member.pod;
    let relocation = Relocation {
        from: from.state.name.clone(),
        to: to.state.name.clone(),
        load_percent: from.percent,
        threshold_percent,
        gain: planned_move.gain,
        load,
        owner_uid: owner.as_ref().map_or(uid, |owner| &owner.uid).clone(),
    };
    evictable.clone().into_action(reason, Some(relocation))
}

fn invalid_annotations(view: &View) -> Vec<(ObjectKey, String)> {
    let is_invalid = |pod: &&Arc<Pod>| {
        pod.is_live()
            && written_for(pod, view).is_some_and(|value| !matches!(value, "true" | "false"))
    };
    let invalid = view.pods.iter().filter(is_invalid);
    let invalid = invalid.map(|pod| (pod.key.clone(), pod.uid.clone()));
    invalid.take(MAX_INVALID).collect()
}

/// The pods that may be evicted now for a move, by their unique identifiers.
fn movable<'a>(
    builder: &mut PlanBuilder<'a>,
    taken: &BTreeSet<String>,
    context: PassContext,
) -> HashMap<String, EvictablePod<'a>> {
    let managed = builder.victims.iter().map(|victim| &victim.pod);
    let candidates: Vec<EvictablePod> = managed
        .chain(&builder.unmanaged)
        .filter(|candidate| {
            let pod = candidate.member.pod;
            opts_in(pod, context.snapshot.view)
                && !taken.contains(&pod.uid)
                && !context.is_backing_off(pod)
        })
        .cloned()
        .collect();
    candidates
        .into_iter()
        .filter(|candidate| candidate.is_evictable(builder))
        .map(|candidate| (candidate.member.pod.uid.clone(), candidate))
        .collect()
}

struct MeasuredNode<'a> {
    node: &'a Node,
    state: RebalancingNode,
    /// Utilization of CPU or memory, the higher one.
    percent: f64,
}

/// The nodes. The allocatable amounts count as the capacity.
fn nodes<'a>(
    view: &'a View,
    load: &WindowLoad,
    history: &RebalancingHistory,
) -> Vec<MeasuredNode<'a>> {
    let node = |node: &'a Arc<Node>| {
        let allocatable = amounts(node.allocatable);
        let measured = load.nodes.get(&node.name).copied().unwrap_or_default();
        let of = |amount: i64, usage: Option<placement::Usage>| {
            usage.map_or(0, |usage| {
                (amount as f64 * usage.average_percent / 100.0) as i64
            })
        };
        MeasuredNode {
            node,
            percent: measured.highest_percent().unwrap_or_default(),
            state: RebalancingNode {
                name: node.name.clone(),
                is_hot: history.is_hot(&node.name),
                is_schedulable: !node.is_cordoned && measured.cpu.is_some(),
                capacity: allocatable,
                allocatable,
                usage: Amounts {
                    cpu_millicores: of(allocatable.cpu_millicores, measured.cpu),
                    memory_bytes: of(allocatable.memory_bytes, measured.memory),
                },
                deviation: Deviation {
                    cpu_percent: measured.cpu.map_or(0.0, |usage| usage.deviation_percent),
                    memory_percent: measured.memory.map_or(0.0, |usage| usage.deviation_percent),
                },
            },
        }
    };
    view.nodes.iter().map(node).collect()
}

/// The live pods on the nodes. Adds to the usage of nodes what is not measured yet.
fn pods<'a>(
    view: &'a View,
    nodes: &mut [MeasuredNode],
    movable: &HashMap<String, EvictablePod>,
    context: PassContext,
    load: &MeasuredLoad,
) -> Vec<(&'a Pod, RebalancingPod)> {
    let PassContext { state, now, .. } = context;
    let history = &state.rebalancing;
    let names = nodes.iter().map(|node| node.state.name.clone());
    let indices: HashMap<String, usize> = names.zip(0..).collect();
    let mut pods = Vec::new();
    for pod in view.pods.iter().filter(|pod| pod.is_live()) {
        let Some(running) = pod.running.as_deref() else {
            continue;
        };
        let name = running.node.as_deref().unwrap_or_default();
        let Some(index) = indices.get(name).copied() else {
            continue;
        };
        let candidate = movable.get(&pod.uid);
        let recommendation = candidate.map(|candidate| &*candidate.recommendation);
        let (weight, is_recommended) = weight(running, recommendation);
        let mut requests = requested(pod);
        if is_recommended {
            requests = requests.max(weight);
        }
        let mobility = match pod.owner.as_ref().map(|owner| owner.kind.as_str()) {
            Some("DaemonSet" | "Node") => Mobility::PerNode,
            _ if candidate.is_some() => Mobility::Movable,
            _ => Mobility::Pinned,
        };
        let planned = RebalancingPod {
            uid: pod.uid.clone(),
            node: index,
            load: weight,
            commitment: Commitment {
                requests,
                limits: requests,
            },
            mobility,
            moved_at: history.moved_at(pod, running, state.first_seen(&pod.uid), now),
        };
        pods.push((&**pod, planned));
    }
    share_usage(nodes, &mut pods);
    for (pod, planned) in &pods {
        let created_at = pod.running.as_ref().and_then(|running| running.created_at);
        let part = created_at.map_or(0.0, |at| part_before(load, now.since(at), now));
        let node = &mut nodes[planned.node].state;
        if !node.is_hot {
            node.usage = node.usage.plus(planned.load.part(part));
        }
    }
    pods
}

/// The expected load of a pod on its own, and whether it is recommended.
fn weight(running: &Running, recommendation: Option<&Recommendation>) -> (Amounts, bool) {
    let containers = running.containers.iter();
    let sidecars = running.init_containers.iter();
    let containers = containers.chain(sidecars.filter(|container| container.is_sidecar));
    let spec = PodSpec {
        containers: containers
            .map(|container| placement::Container {
                name: container.name.clone(),
                requests: container.requests.clone().unwrap_or_default(),
                ..placement::Container::default()
            })
            .collect(),
        ..PodSpec::default()
    };
    let fallback = |default| Fallback::Limit {
        multiplier: 1.0,
        default,
    };
    let config = PredictionConfig {
        cpu: fallback(50),
        memory: fallback(64 << 20),
    };
    let recommendation = recommendation.filter(|all| !all.containers.is_empty());
    let found = placement::predict(&spec, recommendation, PodForecast::default(), &config);
    (found.load, found.cpu_source == LoadSource::Recommendation)
}

/// Divides the measured usage of each node among its pods, in proportion to their loads.
fn share_usage(nodes: &[MeasuredNode], pods: &mut [(&Pod, RebalancingPod)]) {
    let mut sums = vec![Amounts::default(); nodes.len()];
    for (_, pod) in pods.iter() {
        sums[pod.node] = sums[pod.node].plus(pod.load);
    }
    for (_, pod) in pods {
        let (usage, sum, part) = (nodes[pod.node].state.usage, sums[pod.node], pod.load);
        let share = |amount: fn(Amounts) -> i64| {
            let share = amount(usage) as f64 * amount(part) as f64 / amount(sum) as f64;
            if amount(sum) > 0 { share as i64 } else { 0 }
        };
        pod.load = Amounts {
            cpu_millicores: share(|it| it.cpu_millicores),
            memory_bytes: share(|it| it.memory_bytes),
        };
    }
}

fn runs_on(pod: &Pod, node: &Node) -> bool {
    pod.placement.as_ref().is_none_or(|placement| {
        placement.constraints.allow(NodeTraits {
            name: &node.name,
            labels: &node.labels,
            taints: &node.taints,
            extended: &node.extended,
        })
    })
}

/// The value of the annotation of a pod, or else of its namespace; `None` for neither.
pub(crate) fn written_for<'a>(pod: &'a Pod, view: &'a View) -> Option<&'a str> {
    let own = pod.running.as_deref()?.annotations.get(REBALANCE);
    let namespace = view.namespaces.get(&pod.key.namespace);
    let value = own.or_else(|| namespace?.annotations.get(REBALANCE));
    value.map(String::as_str)
}

/// Whether a pod may be moved, by its annotation, or by that of its namespace if nothing keeps it.
pub(crate) fn opts_in(pod: &Pod, view: &View) -> bool {
    let is_of_job = pod.owner.as_ref().is_some_and(|owner| owner.kind == "Job");
    let is_kept = |running: &Running| {
        let is_kept = is_of_job || running.is_tied || running.keeps_pod();
        is_kept && !running.annotations.contains_key(REBALANCE)
    };
    written_for(pod, view) == Some("true") && !pod.running.as_deref().is_some_and(is_kept)
}
