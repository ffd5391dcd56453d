//! Free resources of nodes for one pod: allocatable, less a margin, static pods, and the node's
//! `DaemonSet` pods.
//!
//! Other pods do not count: they can move, or a node of the same size may be added. Nodes that a
//! node group could add count for pods that need one node, and not for those of a `DaemonSet`.

use model::{Labels, NodeConstraints, NodeTraits, ResourceList, ResourceName, Taint};

use crate::amount::Amounts;

/// A schedulable node, or one that a node group could add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeInfo {
    /// Name of the node, or of the node group that could add it.
    pub name: String,
    /// Whether it is not there, but a node group could add it.
    pub could_come: bool,
    pub labels: Labels,
    pub taints: Vec<Taint>,
    pub allocatable: Amounts,
    pub extended: ResourceList,
    /// Requests of static pods, which cannot move.
    pub bound: Amounts,
}

/// A `DaemonSet`, with a pod on each node that its constraints allow.
#[derive(Clone, Debug)]
pub struct DaemonSetInfo {
    /// Namespace and name.
    pub key: (String, String),
    pub constraints: NodeConstraints,
    pub requests: Amounts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeHeadroom {
    /// Name of the node, or of the node group that could add it.
    pub node: String,
    pub left: Amounts,
}

#[derive(Clone, Debug, Default)]
pub struct NodeHeadrooms {
    nodes: Vec<(NodeInfo, NodeHeadroom)>,
    daemons: Vec<DaemonSetInfo>,
}

/// Free resources of the nodes for one workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CandidateNodes {
    /// A pod must fit on one of these nodes. Dominated nodes are left out.
    One(Vec<NodeHeadroom>),
    /// A pod must fit on every node: the one with the least free CPU, and the one with the least
    /// free memory.
    Every(NodeHeadroom, NodeHeadroom),
}

impl NodeHeadrooms {
    /// From nodes and the `DaemonSets` on them, with a margin as a share of allocatable.
    pub fn new(nodes: Vec<NodeInfo>, daemons: Vec<DaemonSetInfo>, margin: f64) -> Self {
        let nodes = nodes.into_iter().map(|node| {
            let Amounts { cpu, memory } = node.allocatable;
            let left = Amounts::new(keep(cpu.millicores(), margin), keep(memory.bytes(), margin));
            let left = daemons
                .iter()
                .filter(|daemon| node.admits(&daemon.constraints))
                .fold(left - node.bound, |left, daemon| left - daemon.requests);
            let room = NodeHeadroom {
                node: node.name.clone(),
                left,
            };
            (node, room)
        });
        Self {
            nodes: nodes.collect(),
            daemons,
        }
    }

    /// Free resources of the nodes allowed by these constraints.
    pub fn for_pods(&self, constraints: &NodeConstraints) -> CandidateNodes {
        let mut largest: Vec<NodeHeadroom> = Vec::new();
        let nodes = self.nodes.iter();
        for (_, room) in nodes.filter(|(node, _)| node.admits(constraints)) {
            if !largest.iter().any(|other| dominates(other, room)) {
                largest.retain(|other| !dominates(room, other));
                largest.push(room.clone());
            }
        }
        CandidateNodes::One(largest)
    }

    /// Free resources of a `DaemonSet`'s nodes without its own pods, of those with this label if one
    /// is given; `None` if the `DaemonSet` is unknown.
    pub fn for_daemon(
        &self,
        key: &(String, String),
        label: Option<(&str, &str)>,
    ) -> Option<CandidateNodes> {
        let daemon = self.daemons.iter().find(|daemon| daemon.key == *key)?;
        let rooms = self
            .nodes
            .iter()
            .filter(|(node, _)| {
                let has = |(name, value)| node.labels.get(name) == Some(value);
                !node.could_come && node.admits(&daemon.constraints) && label.is_none_or(has)
            })
            .map(|(_, room)| NodeHeadroom {
                node: room.node.clone(),
                left: room.left + daemon.requests,
            });
        let rooms: Vec<_> = rooms.collect();
        let least_cpu = rooms.iter().min_by_key(|room| room.left.cpu);
        let least_memory = rooms.iter().min_by_key(|room| room.left.memory);
        Some(match least_cpu.zip(least_memory) {
            Some((cpu, memory)) => CandidateNodes::Every(cpu.clone(), memory.clone()),
            None => CandidateNodes::One(Vec::new()),
        })
    }
}

impl NodeInfo {
    fn admits(&self, constraints: &NodeConstraints) -> bool {
        let Self {
            name,
            labels,
            taints,
            extended,
            ..
        } = self;
        // The name of a node that could come is unknown.
        let name = if self.could_come { "" } else { name };
        constraints.allow(NodeTraits {
            name,
            labels,
            taints,
            extended,
        })
    }
}

impl CandidateNodes {
    /// The nodes to judge by for pods with these requests, of which `fixed` cannot change; `None`
    /// without any room.
    pub(super) fn choose(
        &self,
        fixed: Amounts,
        wanted: Amounts,
    ) -> Option<(&NodeHeadroom, &NodeHeadroom)> {
        match self {
            Self::Every(cpu, memory) => Some((cpu, memory)),
            Self::One(rooms) => {
                let rank = |room| Some((room, rank(room, fixed, wanted)?));
                let ranked = rooms.iter().filter_map(rank);
                // The first of equally good ones.
                let best =
                    ranked.reduce(|best, next| if is_better(next, best) { next } else { best });
                best.map(|(room, _)| (room, room))
            }
        }
    }
}

/// The smaller and the larger satisfiable share of the requests; `None` if a resource cannot be
/// satisfied at all.
fn rank(room: &NodeHeadroom, fixed: Amounts, wanted: Amounts) -> Option<[f64; 2]> {
    let [cpu, memory] = [ResourceName::Cpu, ResourceName::Memory].map(|resource| {
        let left = room.left.of(&resource) - fixed.of(&resource);
        let wanted = wanted.of(&resource);
        match wanted {
            ..=0 => (left >= 0).then_some(1.0),
            _ if left <= 0 => None,
            _ => Some((left as f64 / wanted as f64).min(1.0)),
        }
    });
    let (cpu, memory) = (cpu?, memory?);
    Some([cpu.min(memory), cpu.max(memory)])
}

/// Orders by the smaller share, then by the larger one, then by free memory, then by free CPU.
fn is_better(a: (&NodeHeadroom, [f64; 2]), b: (&NodeHeadroom, [f64; 2])) -> bool {
    let order = a.1[0].total_cmp(&b.1[0]).then(a.1[1].total_cmp(&b.1[1]));
    order
        .then(a.0.left.memory.cmp(&b.0.left.memory))
        .then(a.0.left.cpu.cmp(&b.0.left.cpu))
        .is_gt()
}

fn keep(allocatable: i64, margin: f64) -> i64 {
    (allocatable as f64 * (1.0 - margin)).floor() as i64
}

/// Whether everything that fits into the second room fits into the first one.
fn dominates(first: &NodeHeadroom, second: &NodeHeadroom) -> bool {
    first.left.cpu >= second.left.cpu && first.left.memory >= second.left.memory
}

#[cfg(test)]
mod tests;
