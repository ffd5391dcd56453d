//! Idle nodes, as Crane's idle-node recommendation: nodes on which only pods of a `DaemonSet` run, and
//! nodes whose pods request little.
//!
//! Crane compares percentiles over seven days. These are the requests of the pods now. Usage is not
//! compared.

use std::collections::BTreeMap;

use clap::Args;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use replay::Resource;
use serde::Serialize;
use view::{BoundPod, Node, Requirements};

use crate::cluster::{Cluster, ClusterArgs, block_on, each};
use crate::output::Table;
use crate::usage::amount_of;

/// Limits of the requests on an idle node, Crane's; 0 is no limit.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct IdleNodeArgs {
    /// With --replicas: a node is idle if its pods request at most this share of its allocatable CPU
    /// in percent. 0 is off: only nodes without pods other than those of a
    /// `DaemonSet` are idle.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100), requires = "replicas")]
    pub(crate) idle_node_cpu_requests: u8,
    /// The same of memory. If both are set, both must be met.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100), requires = "replicas")]
    pub(crate) idle_node_memory_requests: u8,
}

impl IdleNodeArgs {
    pub(super) fn is_set(self) -> bool {
        self.idle_node_cpu_requests > 0 || self.idle_node_memory_requests > 0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct NodeLoad {
    /// Pods of a `DaemonSet`, and static pods.
    daemons: usize,
    /// All others.
    pods: usize,
    requests: Requirements,
}

impl NodeLoad {
    pub(crate) fn all_pods(&self) -> usize {
        self.daemons + self.pods
    }

    /// Requested share of the node's allocatable amount; `None` if that is unknown.
    pub(crate) fn share(&self, node: &Node, resource: Resource) -> Option<f64> {
        let total = amount_of(node.allocatable, resource).filter(|total| *total > 0.0)?;
        Some(amount_of(self.requests.requests, resource).unwrap_or(0.0) / total)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ScannedNodes {
    pub(super) total: usize,
    pub(super) idle: Vec<IdleNode>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IdleNode {
    node: String,
    /// Unfinished pods that are neither of a `DaemonSet` nor static.
    pods: usize,
    /// Pods of a `DaemonSet`, and static pods.
    daemon_pods: usize,
    /// Requested share of the allocatable CPU in percent; `None` if that is unknown.
    cpu_requests_percent: Option<f64>,
    /// Requested share of the allocatable memory in percent; `None` if that is unknown.
    memory_requests_percent: Option<f64>,
    reason: String,
}

/// Reads nodes and pods of the cluster, and judges them.
pub(super) fn read(args: &ClusterArgs, limits: IdleNodeArgs) -> anyhow::Result<ScannedNodes> {
    block_on(async {
        let (nodes, loads) = loads(&args.connect().await?).await?;
        Ok(idle_nodes(&nodes, &loads, limits))
    })
}

/// The nodes of the cluster, and the pods of each.
pub(crate) async fn loads(
    cluster: &Cluster,
) -> anyhow::Result<(Vec<Node>, BTreeMap<String, NodeLoad>)> {
    let all = ListParams::default();
    let mut nodes = Vec::new();
    let visit = |node| nodes.push(Node::from_k8s(node));
    let read = each(&cluster.all(), &all, visit).await;
    read.map_err(cluster.failed("nodes"))?;
    let mut loads = BTreeMap::new();
    let read = each(&cluster.all(), &all, |pod| add(&mut loads, pod)).await;
    read.map_err(cluster.failed("pods"))?;
    Ok((nodes, loads))
}

/// Adds a pod to the load of its node. Finished pods and those without a node do not count.
fn add(loads: &mut BTreeMap<String, NodeLoad>, pod: Pod) {
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let is_finished = matches!(phase, Some("Succeeded" | "Failed"));
    let requests = view::requests(&pod);
    let pod = BoundPod::from_k8s(pod);
    if pod.node.is_empty() || is_finished {
        return;
    }
    let load = loads.entry(pod.node.clone()).or_default();
    let owner = pod.owner.as_ref().map(|owner| owner.kind.as_str());
    // Static pods have the node as their owner.
    if matches!(owner, Some("DaemonSet" | "Node")) {
        load.daemons += 1;
    } else {
        load.pods += 1;
    }
    load.requests = load.requests.plus(requests);
}

fn idle_nodes(
    nodes: &[Node],
    loads: &BTreeMap<String, NodeLoad>,
    limits: IdleNodeArgs,
) -> ScannedNodes {
    let idle = nodes.iter().filter_map(|node| {
        let load = loads.get(&node.name).copied().unwrap_or_default();
        idle_node(node, load, limits)
    });
    let mut idle: Vec<IdleNode> = idle.collect();
    idle.sort_by(|one, other| one.node.cmp(&other.node));
    ScannedNodes {
        total: nodes.len(),
        idle,
    }
}

fn idle_node(node: &Node, load: NodeLoad, limits: IdleNodeArgs) -> Option<IdleNode> {
    let percent = |resource: Resource| Some(100.0 * load.share(node, resource)?);
    let [cpu, memory] = [Resource::Cpu, Resource::Memory].map(percent);
    let reason = if load.pods == 0 {
        "only pods of DaemonSets and static pods run on it".to_owned()
    } else {
        let shares = [
            ("CPU", cpu, limits.idle_node_cpu_requests),
            ("memory", memory, limits.idle_node_memory_requests),
        ];
        let set: Vec<_> = shares.iter().filter(|(_, _, limit)| *limit > 0).collect();
        // An unknown share meets no limit.
        let is_met = |share: Option<f64>, limit: u8| share.is_some_and(|it| it <= f64::from(limit));
        if set.is_empty() || !set.iter().all(|(_, share, limit)| is_met(*share, *limit)) {
            return None;
        }
        let texts = set.iter();
        let texts = texts.map(|(name, _, limit)| format!("{limit}% of its {name}"));
        let texts: Vec<String> = texts.collect();
        format!("its pods request at most {}", texts.join(" and "))
    };
    Some(IdleNode {
        node: node.name.clone(),
        pods: load.pods,
        daemon_pods: load.daemons,
        cpu_requests_percent: cpu.map(rounded),
        memory_requests_percent: memory.map(rounded),
        reason,
    })
}

/// One digit after the point.
fn rounded(percent: f64) -> f64 {
    (percent * 10.0).round() / 10.0
}

pub(super) fn table(nodes: &ScannedNodes) -> Table {
    Table::of(
        format!("Idle nodes ({} of {})", nodes.idle.len(), nodes.total),
        "Node=node| Pods=pods| DaemonSet pods=daemonPods| CPU requested=cpuRequestsPercent:1%\
         | Memory requested=memoryRequestsPercent:1%|Reason=reason",
        &nodes.idle,
    )
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn parse<T: DeserializeOwned>(object: Value) -> T {
        serde_json::from_value(object).expect("an object")
    }

    fn node(name: &str) -> Node {
        let allocatable = json!({"cpu": "4", "memory": "8Gi"});
        let node = json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}});
        Node::from_k8s(parse(node))
    }

    fn pod(node: &str, owner: Option<&str>, [cpu, memory]: [&str; 2], phase: &str) -> Pod {
        let owners: Vec<Value> = owner
            .iter()
            .map(|kind| {
                json!({"apiVersion": "v1", "kind": kind, "name": "a", "uid": "u", "controller": true})
            })
            .collect();
        let requests = json!({"requests": {"cpu": cpu, "memory": memory}});
        parse(json!({
            "metadata": {"name": "a", "ownerReferences": owners},
            "spec": {"nodeName": node, "containers": [{"name": "app", "resources": requests}]},
            "status": {"phase": phase},
        }))
    }

    fn found(limits: [u8; 2]) -> Vec<(String, usize, Option<f64>)> {
        let small = ["100m", "100Mi"];
        let pods = vec![
            pod("daemons", Some("DaemonSet"), ["3", "6Gi"], "Running"),
            pod("daemons", Some("Node"), small, "Running"),
            pod("daemons", Some("ReplicaSet"), ["3", "6Gi"], "Succeeded"),
            pod("small", Some("ReplicaSet"), ["300m", "4Gi"], "Running"),
            pod("small", Some("DaemonSet"), small, "Running"),
            pod("alone", None, ["2", "6Gi"], "Pending"),
            // Not scheduled yet.
            pod("", None, small, "Pending"),
        ];
        let mut loads = BTreeMap::new();
        for pod in pods {
            add(&mut loads, pod);
        }
        let nodes = ["small", "empty", "daemons", "alone"].map(node);
        let [cpu, memory] = limits;
        let limits = IdleNodeArgs {
            idle_node_cpu_requests: cpu,
            idle_node_memory_requests: memory,
        };
        let found = idle_nodes(&nodes, &loads, limits);
        assert_eq!(found.total, 4);
        let idle = found.idle.into_iter();
        idle.map(|it| (it.node, it.pods, it.cpu_requests_percent))
            .collect()
    }

    #[test]
    fn nodes_without_pods_but_of_daemon_sets_are_idle() {
        let expected = [
            ("daemons".to_owned(), 0, Some(77.5)),
            ("empty".to_owned(), 0, Some(0.0)),
        ];
        assert_eq!(found([0, 0]), expected);
    }

    #[test]
    fn all_limits_of_requests_that_are_set_must_be_met() {
        // 400m of 4 cores and 4196Mi of 8Gi on the node "small".
        for (limits, expected) in [
            ([10, 0], true),
            ([9, 0], false),
            ([0, 52], true),
            ([10, 51], false),
            ([10, 52], true),
        ] {
            let found = found(limits);
            let is_idle = found.iter().any(|(name, _, _)| name == "small");
            assert_eq!(is_idle, expected, "{limits:?} {found:?}");
            assert!(!found.iter().any(|(name, _, _)| name == "alone"));
        }
    }

    #[test]
    fn an_unknown_size_meets_no_limit() {
        let node = Node::from_k8s(parse(json!({"metadata": {"name": "new"}})));
        let load = NodeLoad {
            pods: 1,
            ..NodeLoad::default()
        };
        let limits = IdleNodeArgs {
            idle_node_cpu_requests: 100,
            idle_node_memory_requests: 0,
        };
        assert_eq!(idle_node(&node, load, limits), None);
    }

    #[test]
    fn requests_are_those_that_the_scheduler_counts() {
        let container = |cpu: &str| json!({"name": "a", "resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| {
            let mut container = container(cpu);
            container["restartPolicy"] = json!("Always");
            container
        };
        for (spec, expected) in [
            (
                json!({"containers": [container("100m"), container("50m")]}),
                0.15,
            ),
            (
                json!({"containers": [container("100m")], "initContainers": [sidecar("200m"), container("1")]}),
                1.2,
            ),
            (
                json!({"containers": [container("1")], "initContainers": [container("1"), sidecar("200m")]}),
                1.2,
            ),
            (
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "250m"}}),
                2.25,
            ),
            (json!({"containers": [container("wrong")]}), 0.0),
        ] {
            let pod: Pod = parse(json!({"metadata": {}, "spec": spec}));
            let found = amount_of(view::requests(&pod).requests, Resource::Cpu);
            let found = found.unwrap_or(0.0) / 1000.0;
            assert!((found - expected).abs() < 1e-9, "{spec}: {found}");
        }
    }
}
