//! A `DaemonSet`, reduced to the resources that its pod takes on each eligible node.

use k8s_openapi::api::apps::v1::DaemonSet;
use model::NodeConstraints;

use crate::effective_resources::Requirements;
use crate::pod_placement::PodPlacement;
use crate::table::ObjectKey;

#[derive(Debug, Clone, PartialEq)]
pub struct DaemonSetShare {
    pub key: ObjectKey,
    /// Constraints that select the nodes.
    pub constraints: NodeConstraints,
    /// Requests and limits of one pod.
    pub requirements: Requirements,
}

impl DaemonSetShare {
    pub fn from_k8s(object: DaemonSet) -> Self {
        let key = ObjectKey::of(object.metadata.namespace, object.metadata.name);
        let spec = object.spec.template.spec.unwrap_or_default();
        let containers = spec
            .containers
            .iter()
            .map(|container| Requirements::of(container.resources.as_ref()).or_limits())
            .fold(Requirements::default(), Requirements::plus);
        let placement = PodPlacement::from_k8s(None, &spec);
        Self {
            key,
            requirements: placement.total(containers),
            constraints: placement.constraints,
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Cpu, Memory};
    use serde_json::json;

    use super::*;
    use crate::effective_resources::Resources;

    #[test]
    fn a_template_gives_constraints_and_resources_of_its_pods() {
        let object = json!({
            "metadata": {"namespace": "kube-system", "name": "proxy"},
            "spec": {
                "selector": {},
                "template": {"spec": {
                    "nodeSelector": {"os": "linux"},
                    "containers": [
                        {"name": "a", "resources": {"requests": {"cpu": "100m"}}},
                        {"name": "b", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Mi"}}},
                    ],
                }},
            },
        });
        let daemon =
            DaemonSetShare::from_k8s(serde_json::from_value(object).expect("a daemon set"));
        assert_eq!(daemon.key, ObjectKey::new("kube-system", "proxy"));
        assert_eq!(daemon.constraints.selector.get("os"), Some("linux"));
        // A limit without a request is the request.
        let requests = Resources {
            cpu: Some(Cpu::from_millicores(1100)),
            memory: Some(Memory::from_bytes(1 << 20)),
        };
        assert_eq!(daemon.requirements.requests, requests);
    }
}
