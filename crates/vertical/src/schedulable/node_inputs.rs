//! Conversion of nodes, `DaemonSet`s and static pods to the inputs of the headroom formulas.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::vpa::{ContainerControlledValues, VerticalPodAutoscaler};
use sizing::{Amounts, ContainerRequests, DaemonSetInfo, NodeHeadrooms, NodeInfo, PodRequests};
use view::{Container, DaemonSetShare, Node, ObjectKey, Pod, Resources, View, WellKnown};

use super::capacity::nodes_that_could_come;
use super::settings::Settings;
use crate::resource_policy::integer_cpu;

/// Objects that determine the free resources of nodes.
#[derive(Debug, Default)]
pub(super) struct NodeInputs {
    nodes: Vec<Arc<Node>>,
    /// Nodes that node groups could add.
    could_come: Vec<NodeInfo>,
    daemons: Vec<Arc<DaemonSetShare>>,
    /// Requests of the largest pod of each `DaemonSet`, which may exceed those of the template.
    daemon_pods: BTreeMap<ObjectKey, Amounts>,
    /// Requests of static pods, by the name of their node.
    bound: BTreeMap<String, Amounts>,
}

/// Equal facts have the same free resources of nodes.
impl PartialEq for NodeInputs {
    fn eq(&self, other: &Self) -> bool {
        same(&self.nodes, &other.nodes)
            && self.could_come == other.could_come
            && same(&self.daemons, &other.daemons)
            && self.daemon_pods == other.daemon_pods
            && self.bound == other.bound
    }
}

impl NodeInputs {
    pub(super) fn of(view: &View, settings: &Settings) -> Self {
        let nodes = view.nodes.iter().filter(|node| !node.is_cordoned);
        let mut facts = Self {
            nodes: nodes.cloned().collect(),
            could_come: nodes_that_could_come(view, settings),
            daemons: view.daemons.iter().cloned().collect(),
            ..Self::default()
        };
        let pods = view.pods.iter().chain(view.pending_pods.iter());
        for pod in pods.filter(|pod| !pod.is_finished()) {
            let Some(owner) = &pod.owner else { continue };
            let requests = || amounts(pod.requirements().requests);
            if owner.kind == WellKnown::DaemonSet.kind() {
                let key = ObjectKey::new(&pod.key.namespace, &owner.name);
                let most = facts.daemon_pods.entry(key).or_default();
                *most = most.max(requests());
            } else if owner.kind == "Node" {
                let bound = facts.bound.entry(owner.name.clone()).or_default();
                *bound = *bound + requests();
            }
        }
        facts
    }

    pub(super) fn headrooms(&self, margin: f64) -> NodeHeadrooms {
        let nodes = self.nodes.iter().map(|node| NodeInfo {
            name: node.name.clone(),
            could_come: false,
            labels: node.labels.clone(),
            taints: node.taints.clone(),
            allocatable: amounts(node.allocatable),
            extended: node.extended.clone(),
            bound: self.bound.get(&node.name).copied().unwrap_or_default(),
        });
        let daemons = self.daemons.iter().map(|daemon| {
            let pods = self.daemon_pods.get(&daemon.key).copied();
            DaemonSetInfo {
                key: (daemon.key.namespace.clone(), daemon.key.name.clone()),
                constraints: daemon.constraints.clone(),
                requests: amounts(daemon.requirements.requests).max(pods.unwrap_or_default()),
            }
        });
        let nodes = nodes.chain(self.could_come.iter().cloned());
        NodeHeadrooms::new(nodes.collect(), daemons.collect(), margin)
    }
}

fn same<T>(a: &[Arc<T>], b: &[Arc<T>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// The amounts, zero where unset.
pub(super) fn amounts(resources: Resources) -> Amounts {
    Amounts {
        cpu: resources.cpu.unwrap_or_default(),
        memory: resources.memory.unwrap_or_default(),
    }
}

/// The shape of a pod that an object sizes. Containers without a limit get the default limit, as
/// after their next creation.
pub(super) fn pod_shape(
    pod: &Pod,
    object: &VerticalPodAutoscaler,
    default_limits: Resources,
    whole_cores: bool,
) -> PodRequests {
    let integer_cpu = if whole_cores {
        integer_cpu(object)
    } else {
        BTreeSet::new()
    };
    let container = |container: &Container| {
        let policy = object.spec.container_policy(&container.name);
        let values = policy
            .and_then(|policy| policy.controlled_values)
            .unwrap_or_default();
        ContainerRequests {
            name: container.name.clone(),
            requests: amounts(container.requests),
            limits: amounts(Resources {
                cpu: container.limits.cpu.or(default_limits.cpu),
                memory: container.limits.memory.or(default_limits.memory),
            }),
            limits_follow: values == ContainerControlledValues::RequestsAndLimits,
            whole_cores: integer_cpu.contains(&container.name),
        }
    };
    let placement = pod.placement.as_ref();
    let fixed = placement.map(|placement| placement.sidecars.plus(placement.overhead));
    let fixed = fixed.unwrap_or_default();
    PodRequests {
        containers: pod.containers.iter().map(container).collect(),
        fixed_requests: amounts(fixed.requests),
        fixed_limits: amounts(fixed.limits),
    }
}
