//! The amount of CPU and memory that is missing on a node.

use std::collections::BTreeSet;

use view::{Pod, Requirements, View};

use crate::limits::disruption_limit::Disruption;
use crate::plan_builder::EvictablePod;
use crate::resize::pod_size::sized_containers;
use crate::state::RolloutState;

/// CPU in millicores and memory in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NodeShortage {
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

impl NodeShortage {
    pub(super) fn requested(asked: Requirements) -> Self {
        let requests = asked.requests;
        Self {
            cpu: requests.cpu.map_or(0, model::Cpu::millicores),
            memory: requests.memory.map_or(0, model::Memory::bytes),
        }
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    pub(super) fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    pub(super) fn fits_in(self, other: Self) -> bool {
        self.cpu <= other.cpu.max(0) && self.memory <= other.memory.max(0)
    }
}

/// The requests on the node of `pending`, beyond what is allocatable there. Pods that terminate, are
/// being evicted or are `taken` count as gone. `None` if the node is not known.
pub(super) fn missing_on_node(
    pending: &EvictablePod,
    view: &View,
    state: &RolloutState,
    taken: &BTreeSet<String>,
) -> Option<NodeShortage> {
    let name = pending.running.node.as_ref()?;
    let node = view.nodes.get(name)?;
    let allocatable = NodeShortage::requested(Requirements {
        requests: node.allocatable,
        limits: node.allocatable,
    });
    let stays = |pod: &Pod| {
        let is_evicted = state.pending_disruption(&pod.uid) == Some(Disruption::Eviction);
        let is_here = pod
            .running
            .as_ref()
            .is_some_and(|running| running.node.as_ref() == Some(name) && !running.is_terminating);
        is_here && !is_evicted && !taken.contains(&pod.uid) && pod.uid != pending.pod.uid
    };
    let others = view.pods.iter().filter(|pod| stays(pod));
    let used = others.fold(NodeShortage::default(), |sum, pod| {
        sum.plus(NodeShortage::requested(pod.requirements()))
    });
    let wanted =
        sized_containers(pending.running, true).filter_map(|container| container.requests.as_ref());
    let wanted = wanted.fold(NodeShortage::default(), |sum, requests| {
        sum.plus(NodeShortage {
            cpu: requests.cpu().map_or(0, model::Cpu::millicores),
            memory: requests.memory().map_or(0, model::Memory::bytes),
        })
    });
    let missing = used.plus(wanted).minus(allocatable);
    Some(NodeShortage {
        cpu: missing.cpu.max(0),
        memory: missing.memory.max(0),
    })
}
