//! What nodes have left for one pod: allocatable, less a margin, what is bound to the node, and the
//! `DaemonSet` pods that it gets.
//!
//! What other pods take does not count: they can be elsewhere, a node of the same size may come.
//! Neither do nodes that a cluster autoscaler could bring but has not.

use model::{Cpu, Labels, Memory, NodeConstraints, NodeTraits, ResourceList, ResourceName, Taint};

use super::pod_shape::of;
use crate::estimate::Amounts;

/// A node that takes new pods.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
    /// What pods may ask for in all.
    pub allocatable: Amounts,
    /// What pods may ask for of extended resources.
    pub extended: ResourceList,
    /// Requests of the pods that can be nowhere else (static pods).
    pub bound: Amounts,
}

/// A `DaemonSet`: a pod on each node that it is allowed on.
#[derive(Clone, Debug)]
pub struct DaemonFacts {
    /// Namespace and name.
    pub key: (String, String),
    /// Where its pods may run.
    pub constraints: NodeConstraints,
    /// Requests of one of its pods.
    pub requests: Amounts,
}

/// What one node has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The node's name.
    pub node: String,
    /// For one pod.
    pub left: Amounts,
    /// How many `DaemonSet` pods it has beside.
    pub daemons: usize,
}

/// What all nodes have left.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    nodes: Vec<(NodeFacts, Room)>,
    daemons: Vec<DaemonFacts>,
}

/// What the nodes have left that the pods of one workload may run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeRooms {
    /// A pod must fit on one of them. Rooms that are nowhere larger than another are left out.
    One(Vec<Room>),
    /// There is to be a pod on every one: the node with the least CPU left, and the one with the
    /// least memory.
    Every(Room, Room),
}

impl Rooms {
    /// Of these nodes, with these `DaemonSets` on them, keeping a margin free that is a share of
    /// what can be allocated.
    pub fn new(nodes: Vec<NodeFacts>, daemons: Vec<DaemonFacts>, margin: f64) -> Self {
        let nodes = nodes.into_iter().map(|node| {
            let left = Amounts {
                cpu: Cpu::from_millicores(keep(node.allocatable.cpu.millicores(), margin)),
                memory: Memory::from_bytes(keep(node.allocatable.memory.bytes(), margin)),
            };
            let beside: Vec<_> = daemons
                .iter()
                .filter(|daemon| node.admits(&daemon.constraints))
                .collect();
            let left = beside
                .iter()
                .fold(left - node.bound, |left, daemon| left - daemon.requests);
            let room = Room {
                node: node.name.clone(),
                left,
                daemons: beside.len(),
            };
            (node, room)
        });
        Self {
            nodes: nodes.collect(),
            daemons,
        }
    }

    /// Of the nodes that a pod with these constraints may run on.
    pub fn for_pods(&self, constraints: &NodeConstraints) -> NodeRooms {
        let mut largest: Vec<Room> = Vec::new();
        for (_, room) in self
            .nodes
            .iter()
            .filter(|(node, _)| node.admits(constraints))
        {
            if !largest.iter().any(|other| holds(other, room)) {
                largest.retain(|other| !holds(room, other));
                largest.push(room.clone());
            }
        }
        NodeRooms::One(largest)
    }

    /// Of the nodes that a `DaemonSet` has pods on, without its own; none if it is not known.
    pub fn for_daemon(&self, key: &(String, String)) -> Option<NodeRooms> {
        let daemon = self.daemons.iter().find(|daemon| daemon.key == *key)?;
        let mut rooms = self
            .nodes
            .iter()
            .filter(|(node, _)| node.admits(&daemon.constraints))
            .map(|(_, room)| {
                let left = room.left + daemon.requests;
                Room {
                    left,
                    daemons: room.daemons - 1,
                    ..room.clone()
                }
            });
        let Some(first) = rooms.next() else {
            return Some(NodeRooms::One(Vec::new()));
        };
        let (mut cpu, mut memory) = (first.clone(), first);
        for room in rooms {
            if room.left.memory < memory.left.memory {
                memory = room.clone();
            }
            if room.left.cpu < cpu.left.cpu {
                cpu = room;
            }
        }
        Some(NodeRooms::Every(cpu, memory))
    }
}

impl NodeFacts {
    fn admits(&self, constraints: &NodeConstraints) -> bool {
        let Self {
            name,
            labels,
            taints,
            extended,
            ..
        } = self;
        constraints.allow(NodeTraits {
            name,
            labels,
            taints,
            extended,
        })
    }
}

impl NodeRooms {
    /// The room to judge by for pods that ask for so much, of which `fixed` is not up for
    /// discussion; none where no node has any.
    pub(super) fn choose(&self, fixed: Amounts, wanted: Amounts) -> Option<(&Room, &Room)> {
        match self {
            Self::Every(cpu, memory) => Some((cpu, memory)),
            Self::One(rooms) => {
                let mut best: Option<(&Room, [f64; 2])> = None;
                for room in rooms {
                    let Some(rank) = rank(room, fixed, wanted) else {
                        continue;
                    };
                    if best.is_none_or(|(found, rank_found)| {
                        is_better((room, rank), (found, rank_found))
                    }) {
                        best = Some((room, rank));
                    }
                }
                best.map(|(room, _)| (room, room))
            }
        }
    }
}

/// The smaller and the larger share of what is wanted that can be had there; none where a resource
/// cannot be had at all.
fn rank(room: &Room, fixed: Amounts, wanted: Amounts) -> Option<[f64; 2]> {
    let [cpu, memory] = [ResourceName::Cpu, ResourceName::Memory].map(|resource| {
        let (left, wanted) = (
            of(&room.left, &resource) - of(&fixed, &resource),
            of(&wanted, &resource),
        );
        match wanted {
            ..=0 => (left >= 0).then_some(1.0),
            _ if left <= 0 => None,
            _ => Some((left as f64 / wanted as f64).min(1.0)),
        }
    });
    let (cpu, memory) = (cpu?, memory?);
    Some([cpu.min(memory), cpu.max(memory)])
}

/// The resource that is short loses the least there; then the other one; then there is the most
/// memory, then CPU, left.
fn is_better(a: (&Room, [f64; 2]), b: (&Room, [f64; 2])) -> bool {
    let order = a.1[0].total_cmp(&b.1[0]).then(a.1[1].total_cmp(&b.1[1]));
    order
        .then(a.0.left.memory.cmp(&b.0.left.memory))
        .then(a.0.left.cpu.cmp(&b.0.left.cpu))
        .is_gt()
}

fn keep(allocatable: i64, margin: f64) -> i64 {
    (allocatable as f64 * (1.0 - margin)).floor() as i64
}

/// Whether whatever fits into the second room fits into the first one.
fn holds(first: &Room, second: &Room) -> bool {
    first.left.cpu >= second.left.cpu && first.left.memory >= second.left.memory
}

#[cfg(test)]
mod tests;
