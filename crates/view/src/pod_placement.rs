//! Scheduling constraints of a pod and its requests outside the app containers. Kept only where
//! recommendations are capped at what can be scheduled, since clusters have many pods.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1;
use model::{Effect, Labels, NodeConstraints, NodeTerm, Requirement, Taint, Toleration};

use crate::effective_resources::{Requirements, Resources, extended};

/// Scheduling-related part of a pod's specification.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodPlacement {
    pub created_at: Option<Timestamp>,
    pub constraints: NodeConstraints,
    pub priority_class: Option<String>,
    pub has_deadline: bool,
    /// Requests and limits of its native sidecars.
    pub sidecars: Requirements,
    /// Maximum of requests and limits while its init containers run.
    pub start: Requirements,
    /// Overhead of its runtime class.
    pub overhead: Requirements,
    /// Name of its node; `None` before there is one.
    pub node: Option<String>,
}

impl PodPlacement {
    pub(crate) fn from_k8s(created_at: Option<Timestamp>, spec: &v1::PodSpec) -> Self {
        let (sidecars, start) = init_containers(spec);
        let overhead = Requirements {
            requests: Resources::of(spec.overhead.as_ref()),
            ..Requirements::default()
        };
        Self {
            created_at,
            constraints: constraints(spec),
            priority_class: spec.priority_class_name.clone(),
            has_deadline: spec.active_deadline_seconds.is_some(),
            sidecars,
            start,
            overhead,
            node: spec.node_name.clone().filter(|node| !node.is_empty()),
        }
    }

    /// Requests and limits of the whole pod, from those of its app containers and those of the pod, which
    /// replace sums. Source: `PodRequests` in `k8s.io/component-helpers/resource`.
    pub fn total(&self, containers: Requirements, of_pod: Requirements) -> Requirements {
        let all = containers.plus(self.sidecars).max(self.start);
        of_pod.or(all).plus(self.overhead)
    }
}

/// Requests and limits of a whole pod, as the scheduler counts them.
pub fn requests(pod: &v1::Pod) -> Requirements {
    let Some(spec) = &pod.spec else {
        return Requirements::default();
    };
    let containers = spec.containers.iter().map(|it| it.resources.as_ref());
    let sum = containers.fold(Requirements::default(), |sum, asked| {
        sum.plus(Requirements::of(asked))
    });
    let of_pod = Requirements::of(spec.resources.as_ref());
    PodPlacement::from_k8s(None, spec).total(sum, of_pod)
}

/// Sum over the native sidecars, and the maximum while the pod starts. Init containers run one
/// after the other, each alongside the sidecars started before it.
fn init_containers(spec: &v1::PodSpec) -> (Requirements, Requirements) {
    let (mut sidecars, mut start) = (Requirements::default(), Requirements::default());
    for container in spec.init_containers.iter().flatten() {
        let asked = Requirements::of(container.resources.as_ref());
        if container.restart_policy.as_deref() == Some("Always") {
            sidecars = sidecars.plus(asked);
        } else {
            start = start.max(asked.plus(sidecars));
        }
    }
    (sidecars, start)
}

/// Constraints on the node of a pod with this specification, but for the node that it is bound to.
pub(crate) fn constraints(spec: &v1::PodSpec) -> NodeConstraints {
    let affinity = spec
        .affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref());
    let required = affinity.and_then(|node| {
        node.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    NodeConstraints {
        selector: spec
            .node_selector
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect::<Labels>(),
        terms: required.map(|required| required.node_selector_terms.iter().map(term).collect()),
        tolerations: spec
            .tolerations
            .iter()
            .flatten()
            .filter_map(toleration)
            .collect(),
        extended: extended(
            spec.containers
                .iter()
                .filter_map(|container| container.resources.as_ref()?.requests.as_ref()),
        ),
    }
}

fn term(term: &v1::NodeSelectorTerm) -> NodeTerm {
    let all = |list: &Option<Vec<v1::NodeSelectorRequirement>>| {
        list.iter().flatten().map(requirement).collect()
    };
    NodeTerm {
        labels: all(&term.match_expressions),
        fields: all(&term.match_fields),
    }
}

fn requirement(requirement: &v1::NodeSelectorRequirement) -> Requirement {
    let key = requirement.key.clone();
    let values = requirement.values.iter().flatten();
    let number = || values.clone().next()?.parse().ok();
    let found = match requirement.operator.as_str() {
        "In" => Some(Requirement::In(key.clone(), values.cloned().collect())),
        "NotIn" => Some(Requirement::NotIn(key.clone(), values.cloned().collect())),
        "Exists" => Some(Requirement::Exists(key.clone())),
        "DoesNotExist" => Some(Requirement::DoesNotExist(key.clone())),
        "Gt" => number().map(|number| Requirement::GreaterThan(key.clone(), number)),
        "Lt" => number().map(|number| Requirement::LessThan(key.clone(), number)),
        _ => None,
    };
    // The API server rejects unknown operators; a newer one matches no node.
    found.unwrap_or_else(|| Requirement::In(key, BTreeSet::new()))
}

/// Converts a toleration; `None` for passing conditions, and for an unknown operator or effect.
fn toleration(toleration: &v1::Toleration) -> Option<Toleration> {
    let key = toleration.key.clone().unwrap_or_default();
    let value = match toleration.operator.as_deref() {
        None | Some("" | "Equal") => Some(toleration.value.clone().unwrap_or_default()),
        Some("Exists") => None,
        Some(_) => return None,
    };
    let effect = match toleration.effect.as_deref() {
        None | Some("") => None,
        Some(text) => Some(effect(text)?),
    };
    (!is_momentary(&key)).then_some(Toleration { key, value, effect })
}

/// Converts a taint; `None` if it marks a passing condition or has no hard effect.
pub(crate) fn taint(taint: v1::Taint) -> Option<Taint> {
    let effect = effect(&taint.effect)?;
    (!is_momentary(&taint.key)).then_some(Taint {
        key: taint.key,
        value: taint.value.unwrap_or_default(),
        effect,
    })
}

fn effect(text: &str) -> Option<Effect> {
    match text {
        "NoSchedule" => Some(Effect::NoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

/// Whether a taint marks a passing condition of the node. Its capacity still counts.
fn is_momentary(key: &str) -> bool {
    key.starts_with("node.kubernetes.io/") || key.starts_with("node.cloudprovider.kubernetes.io/")
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory};
    use serde_json::{Value, json};

    use super::*;
    use crate::effective_resources::Resources;

    fn placement(spec: Value) -> PodPlacement {
        let spec = serde_json::from_value(spec).expect("a specification");
        PodPlacement::from_k8s(None, &spec)
    }

    fn cpu(millicores: i64) -> Resources {
        Resources {
            cpu: Some(Cpu::from_millicores(millicores)),
            memory: None,
        }
    }

    /// Checks the CPU request of a pod whose containers request 100m.
    fn check(init: &Value, overhead: &Value, expected: i64) {
        let placement =
            placement(json!({"containers": [], "initContainers": init, "overhead": overhead}));
        let containers = Requirements {
            requests: cpu(100),
            limits: Resources::default(),
        };
        let total = placement.total(containers, Requirements::default());
        assert_eq!(total.requests, cpu(expected), "{init}");
    }

    #[test]
    fn requests_are_the_maximum_of_containers_and_start() {
        let once = |cpu: &str| json!({"name": "once", "resources": {"requests": {"cpu": cpu}}});
        let sidecar = json!({"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}});
        check(&json!([]), &json!({}), 100);
        check(&json!([once("70m")]), &json!({}), 100);
        let overhead = json!({"cpu": "10m"});
        check(&json!([once("300m"), once("200m")]), &overhead, 310);
        check(&json!([sidecar]), &json!({}), 150);
        check(&json!([sidecar, once("300m")]), &json!({}), 350);
        check(&json!([once("300m"), sidecar]), &json!({}), 300);
    }

    #[test]
    fn limits_are_added_up_like_requests() {
        let asked = json!({"requests": {"memory": "1Mi"}, "limits": {"memory": "2Mi"}});
        let sidecar = json!({"name": "side", "restartPolicy": "Always", "resources": asked});
        let total = placement(json!({"containers": [], "initContainers": [sidecar, sidecar]}))
            .total(Requirements::default(), Requirements::default());
        assert_eq!(total.limits.memory, Some(Memory::from_bytes(4 << 20)));
    }

    #[test]
    fn scheduling_constraints_are_kept() {
        let expression =
            |operator: &str| json!({"key": "cores", "operator": operator, "values": ["8"]});
        let term =
            json!({"matchExpressions": [expression("Gt")], "matchFields": [expression("Newer")]});
        let tolerations = json!([
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "gpu", "value": "a", "effect": "NoSchedule"},
            {"operator": "Exists"},
            {"key": "spot", "operator": "Exists", "effect": "PreferNoSchedule"},
        ]);
        let constraints = placement(json!({
            "containers": [
                {"name": "a", "resources": {"requests": {"cpu": "1", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "1"}}},
                {"name": "b", "resources": {"requests": {"memory": "1Gi", "nvidia.com/gpu": "2"}}},
            ],
            "nodeSelector": {"pool": "big"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}},
            "tolerations": tolerations,
        }))
        .constraints;
        let gpus = "3".parse().expect("a quantity");
        let extended = [("nvidia.com/gpu".into(), gpus)];
        assert_eq!(constraints.extended, extended.into_iter().collect());
        assert_eq!(constraints.selector, Labels::from_iter([("pool", "big")]));
        let cores = || "cores".to_owned();
        let expected = NodeTerm {
            labels: vec![Requirement::GreaterThan(cores(), 8)],
            fields: vec![Requirement::In(cores(), BTreeSet::new())],
        };
        assert_eq!(constraints.terms, Some(vec![expected]));
        let gpu = Toleration {
            key: "gpu".to_owned(),
            value: Some("a".to_owned()),
            effect: Some(Effect::NoSchedule),
        };
        let all = Toleration {
            key: String::new(),
            value: None,
            effect: None,
        };
        assert_eq!(constraints.tolerations, [gpu, all]);
    }
}
