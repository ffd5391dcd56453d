//! Node groups with and without nodes, and the nodes that they could add.

use std::sync::Arc;

use model::{Cpu, Memory};
use serde_json::{Value, json};
use view::AutoscaledGroups;

use super::*;

#[derive(Default)]
struct Cluster(View);

impl Cluster {
    fn node(mut self, name: &str, label: (&str, &str), cpu: &str, is_cordoned: bool) -> Self {
        let mut labels = json!({HOSTNAME: name});
        labels[label.0] = json!(label.1);
        let node = Node::from_k8s(parse(json!({
            "metadata": {"name": name, "labels": labels},
            "spec": {"unschedulable": is_cordoned},
            "status": {"allocatable": {"cpu": cpu, "memory": "8Gi"}},
        })));
        self.0.nodes.apply(Arc::new(node));
        self
    }

    fn pool(mut self, name: &str, limits: &Value, in_use: &Value) -> Self {
        let pool = NodePool::from_k8s(parse(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
            "spec": {"limits": limits}, "status": {"resources": in_use},
        })));
        self.0.node_pools.apply(Arc::new(pool));
        self
    }

    fn claim(mut self, name: &str, node: &str, deleted: Option<&str>) -> Self {
        let claim = NodeClaim::from_k8s(parse(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "batch"}, "deletionTimestamp": deleted},
            "spec": {}, "status": {"nodeName": node, "allocatable": {"cpu": "16", "memory": "64Gi"}},
        })));
        self.0.node_claims.apply(Arc::new(claim));
        self
    }

    /// Names of the cloud provider's groups with target and maximum size.
    fn autoscaler(mut self, groups: &[(&str, i64, i64)]) -> Self {
        let group = |(name, target, most): &(&str, i64, i64)| {
            let health =
                json!({"status": "Healthy", "cloudProviderTarget": target, "maxSize": most});
            json!({"name": name, "health": health})
        };
        let status = json!({"autoscalerStatus": "Running", "nodeGroups": groups.iter().map(group).collect::<Vec<_>>()});
        let metadata = json!({"namespace": "kube-system", "name": "cluster-autoscaler-status"});
        let object = parse(json!({"metadata": metadata, "data": {"status": status.to_string()}}));
        let groups = AutoscaledGroups::from_k8s(object).expect("JSON is YAML");
        self.0.autoscaled_groups.apply(Arc::new(groups));
        self
    }

    /// Expects these groups, with millicores. Shapes have millicores too.
    fn check(&self, shapes: &[(&str, i64)], expected: &[(&str, i64)]) {
        let node = |(group, millicores): &(&str, i64)| NodeInfo {
            allocatable: Amounts {
                cpu: Cpu::from_millicores(*millicores),
                memory: Memory::from_bytes(64 << 30),
            },
            ..new_node(group)
        };
        let settings = Settings {
            node_groups: shapes.iter().map(node).collect(),
            ..Settings::default()
        };
        let nodes = nodes_that_could_come(&self.0, &settings);
        let found = nodes.iter().map(|node| {
            assert!(node.could_come, "{node:?}");
            assert_eq!(node.labels.get(HOSTNAME), None, "{node:?}");
            (node.name.as_str(), node.allocatable.cpu.millicores())
        });
        assert_eq!(found.collect::<Vec<_>>(), expected, "{shapes:?}");
    }
}

fn parse<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object")
}

const EKS: &str = "eks.amazonaws.com/nodegroup";
const KARPENTER: &str = "karpenter.sh/nodepool";
const BIG: (&str, i64) = ("big", 16_000);

#[test]
fn a_shape_counts_unless_its_group_is_known_not_to_grow() {
    let big = &[("big", 16_000)][..];
    Cluster::default().check(&[], &[]);
    Cluster::default().check(&[BIG], big);
    for (groups, expected) in [
        (&[][..], big),
        (&[("eks-other-a1", 3, 3)], big),
        (&[("eks-big-a1", 0, 3)], big),
        (&[("eks-big-a1", 3, 3)], &[]),
        (&[("gke-c-big-a-grp", 3, 3), ("gke-c-big-b-grp", 2, 3)], big),
    ] {
        Cluster::default()
            .autoscaler(groups)
            .check(&[BIG], expected);
    }
    // The longer of two names is meant.
    let full = Cluster::default().autoscaler(&[("eks-very-big-a1", 3, 3)]);
    full.check(&[BIG, ("very-big", 32_000)], big);
    let limits = json!({"cpu": "20", "memory": "100Gi"});
    let pool = |used: Value| Cluster::default().pool("big", &limits, &used);
    pool(json!({})).check(&[BIG], big);
    pool(json!({"cpu": "4"})).check(&[BIG], big);
    pool(json!({"cpu": "5"})).check(&[BIG], &[]);
}

#[test]
fn a_pool_without_a_shape_counts_with_what_its_limits_leave() {
    for (limits, in_use, expected) in [
        (
            json!({"cpu": "64", "memory": "256Gi"}),
            json!({}),
            &[("batch", 64_000)][..],
        ),
        (
            json!({"cpu": "64", "memory": "256Gi"}),
            json!({"cpu": "60"}),
            &[("batch", 4000)],
        ),
        (json!({"cpu": "64"}), json!({}), &[]),
        (json!({}), json!({}), &[]),
    ] {
        let cluster = Cluster::default().pool("batch", &limits, &in_use);
        cluster.check(&[], expected);
    }
}

#[test]
fn a_claim_counts_until_its_node_is_there() {
    let check = |node: &str, deleted, expected: &[(&str, i64)]| {
        let cluster = Cluster::default().node("n1", (KARPENTER, "batch"), "16", false);
        cluster.claim("batch-1", node, deleted).check(&[], expected);
    };
    let batch = &[("batch", 16_000)];
    check("", None, batch);
    check("n2", None, batch);
    check("n1", None, &[]);
    check("", Some("2026-01-01T00:00:00Z"), &[]);
}

#[test]
fn a_cordoned_node_counts_as_the_shape_of_a_group_that_grows() {
    for (is_cordoned, groups, expected) in [
        (false, &[("eks-workers-a1", 1, 3)][..], &[][..]),
        (true, &[("eks-workers-a1", 1, 3)], &[("workers", 8000)]),
        (true, &[("eks-workers-a1", 3, 3)], &[]),
        (true, &[], &[]),
    ] {
        let cluster = Cluster::default().node("n1", (EKS, "workers"), "8", is_cordoned);
        cluster.autoscaler(groups).check(&[], expected);
    }
}

#[test]
fn the_number_of_objects_that_count_is_bounded() {
    let mut cluster = Cluster::default();
    for index in 0..=MAX_OBJECTS {
        cluster = cluster.claim(&format!("c{index}"), "", None);
        let limits = json!({"cpu": "1", "memory": "1Gi"});
        cluster = cluster.pool(&format!("p{index}"), &limits, &json!({}));
    }
    let nodes = nodes_that_could_come(&cluster.0, &Settings::default());
    assert_eq!(nodes.len(), 2 * MAX_OBJECTS);
}
