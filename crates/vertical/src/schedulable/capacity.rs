//! Nodes that node groups could add: shapes given by flag, Karpenter's claims and pools, and groups
//! of cluster-autoscaler whose nodes are all cordoned.
//!
//! | group | nodes that count |
//! |---|---|
//! | with a shape by flag | one of that shape |
//! | a `NodePool` without a shape by flag | one with all that its limits leave, if CPU and memory have limits |
//! | a `NodeClaim` without a node | its node |
//! | any that is known to grow | its cordoned nodes |
//!
//! A group does not grow if its `NodePool` may not add a node of the shape, or if cluster-autoscaler
//! reports it as unhealthy or at its maximum.

use std::collections::{BTreeMap, BTreeSet};

use sizing::{Amounts, NodeInfo};
use view::{Node, NodeClaim, NodePool, View, node_group};

use super::node_group_shape::new_node;
use super::node_inputs::amounts;
use super::settings::Settings;

/// Maximum number of `NodePool` objects, and of `NodeClaim` objects without a node. Further ones, by
/// name, do not count.
const MAX_OBJECTS: usize = 1000;
/// Label that a new node does not share with the node that it is like.
const HOSTNAME: &str = "kubernetes.io/hostname";

/// Node groups that grow and those that do not.
struct Growth<'a> {
    view: &'a View,
    /// Groups of cluster-autoscaler, by the value of the nodes' label.
    autoscaled: BTreeMap<&'a str, bool>,
}

/// One node of each shape that node groups could add.
pub(super) fn nodes_that_could_come(view: &View, settings: &Settings) -> Vec<NodeInfo> {
    let growth = Growth::of(view, settings);
    let given = settings.node_groups.iter();
    let is_given = |group: &str| given.clone().any(|node| node.name == group);
    let pools = view.node_pools.iter().take(MAX_OBJECTS);
    let pools = pools.filter(|pool| !is_given(&pool.name));
    let claims = view.node_claims.iter();
    let missing = claims.filter(|claim| view.nodes.get(&claim.node).is_none());
    let coming = missing.filter(|claim| !claim.is_terminating);
    let cordoned = view.nodes.iter().filter(|node| node.is_cordoned);
    let cordoned = cordoned.filter_map(|node| {
        let group = node_group(&node.labels)?;
        let could_add = growth.could_add(group, amounts(node.allocatable));
        (could_add == Some(true)).then(|| like(node, group))
    });
    let given = given.clone().cloned();
    given
        .filter(|node| growth.could_add(&node.name, node.allocatable) != Some(false))
        .chain(pools.filter_map(|pool| largest_of_pool(pool)))
        .chain(coming.take(MAX_OBJECTS).map(|claim| of_claim(claim)))
        .chain(cordoned)
        .collect()
}

impl<'a> Growth<'a> {
    fn of(view: &'a View, settings: &'a Settings) -> Self {
        let given = settings.node_groups.iter().map(|node| node.name.as_str());
        let present = view
            .nodes
            .iter()
            .filter_map(|node| node_group(&node.labels));
        let known: BTreeSet<&str> = given.chain(present).collect();
        let mut autoscaled = BTreeMap::new();
        for group in view.autoscaled_groups.iter().flat_map(|all| &all.groups) {
            // Of pool and spot-pool, both of which may be in one name, the longer is meant.
            let labels = known.iter().filter(|label| group.may_be(label));
            if let Some(label) = labels.max_by_key(|label| label.len()) {
                *autoscaled.entry(*label).or_insert(false) |= group.can_grow;
            }
        }
        Self { view, autoscaled }
    }

    /// Whether a group could add a node of this size; `None` if nothing is known of it.
    fn could_add(&self, group: &str, size: Amounts) -> Option<bool> {
        match self.view.node_pools.get(group) {
            Some(pool) => Some(pool.may_add(size.cpu, size.memory)),
            None => self.autoscaled.get(group).copied(),
        }
    }
}

/// A node with all that the limits of a pool leave.
fn largest_of_pool(pool: &NodePool) -> Option<NodeInfo> {
    let (cpu, memory) = (pool.remaining.cpu?, pool.remaining.memory?);
    pool.can_grow.then(|| NodeInfo {
        labels: pool.labels.clone(),
        taints: pool.taints.clone(),
        allocatable: Amounts { cpu, memory },
        ..new_node(&pool.name)
    })
}

fn of_claim(claim: &NodeClaim) -> NodeInfo {
    NodeInfo {
        labels: claim.labels.clone(),
        taints: claim.taints.clone(),
        allocatable: amounts(claim.allocatable),
        extended: claim.extended.clone(),
        ..new_node(node_group(&claim.labels).unwrap_or(&claim.name))
    }
}

fn like(node: &Node, group: &str) -> NodeInfo {
    let labels = node.labels.iter().filter(|(key, _)| *key != HOSTNAME);
    NodeInfo {
        labels: labels.collect(),
        taints: node.taints.clone(),
        allocatable: amounts(node.allocatable),
        extended: node.extended.clone(),
        ..new_node(group)
    }
}

#[cfg(test)]
mod tests;
