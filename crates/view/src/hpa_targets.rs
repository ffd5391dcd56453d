//! A `HorizontalPodAutoscaler` (HPA) reduced to the resources by whose utilization it scales.
//!
//! A target of `averageUtilization` is a share of the pods' requests, so it moves with them. One of
//! `averageValue` does not, and is left out. HPAs of KEDA and of EHPAs are HPAs like any other.

use std::collections::BTreeSet;

use api::ehpa::{Adopter, EffectiveHorizontalPodAutoscaler};
use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricTarget};
use kube::{Resource as _, ResourceExt as _};
use model::{ResourceName, WorkloadRef};

use crate::table::ObjectKey;
use crate::workload_controller::Owner;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HpaTargets {
    pub key: ObjectKey,
    pub workload: WorkloadRef,
    /// Name of the EHPA that created or adopted it.
    pub ehpa: Option<String>,
    pub utilization: BTreeSet<UtilizationTarget>,
}

/// CPU or memory by whose utilization an HPA scales.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtilizationTarget {
    pub resource: ResourceName,
    /// The container; `None` for all containers of a pod together.
    pub container: Option<String>,
}

impl HpaTargets {
    pub fn from_k8s(object: HorizontalPodAutoscaler) -> Self {
        let adopter = Adopter::of(object.annotations()).map(|adopter| adopter.name.to_owned());
        let HorizontalPodAutoscaler { metadata, spec, .. } = object;
        let key = ObjectKey::of(metadata.namespace, metadata.name);
        let ehpa = match Owner::controller(metadata.owner_references) {
            Some(owner) => {
                (owner.kind == EffectiveHorizontalPodAutoscaler::kind(&())).then_some(owner.name)
            }
            None => adopter,
        };
        let target = spec.scale_target_ref;
        let by_utilization = |target: &MetricTarget| target.average_utilization.is_some();
        let resource = |name: String, container: Option<String>| {
            let resource = ResourceName::from(name.as_str());
            matches!(resource, ResourceName::Cpu | ResourceName::Memory).then_some(
                UtilizationTarget {
                    resource,
                    container,
                },
            )
        };
        let metrics = spec.metrics.into_iter().flatten();
        let utilization = metrics.filter_map(|metric| match metric.type_.as_str() {
            "Resource" => metric
                .resource
                .filter(|source| by_utilization(&source.target))
                .and_then(|source| resource(source.name, None)),
            "ContainerResource" => metric
                .container_resource
                .filter(|source| by_utilization(&source.target))
                .and_then(|source| resource(source.name, Some(source.container))),
            _ => None,
        });
        Self {
            workload: WorkloadRef {
                api_version: target.api_version.unwrap_or_default(),
                kind: target.kind,
                namespace: key.namespace.clone(),
                name: target.name,
            },
            key,
            ehpa,
            utilization: utilization.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(metadata: &Value, metrics: &Value) -> HpaTargets {
        let mut object = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 9,
                "metrics": metrics,
            },
        });
        for (key, value) in metadata.as_object().into_iter().flatten() {
            object["metadata"][key] = value.clone();
        }
        HpaTargets::from_k8s(serde_json::from_value(object).expect("an HPA"))
    }

    #[test]
    fn only_utilization_of_cpu_and_memory_depends_on_the_requests() {
        let utilization = json!({"type": "Utilization", "averageUtilization": 60});
        let value = json!({"type": "AverageValue", "averageValue": "1"});
        let resource = |name: &str, target: &Value| json!({"type": "Resource", "resource": {"name": name, "target": target}});
        let container = |name: &str, target: &Value| json!({"type": "ContainerResource", "containerResource": {"name": name, "container": "app", "target": target}});
        let external =
            json!({"type": "External", "external": {"metric": {"name": "q"}, "target": value}});
        for (metrics, expected) in [
            (json!(null), &[][..]),
            (json!([external]), &[]),
            (json!([resource("cpu", &value)]), &[]),
            (json!([container("memory", &value)]), &[]),
            (json!([resource("ephemeral-storage", &utilization)]), &[]),
            (
                json!([
                    resource("memory", &utilization),
                    resource("cpu", &utilization),
                    resource("cpu", &utilization),
                    container("cpu", &utilization),
                ]),
                &[("cpu", None), ("cpu", Some("app")), ("memory", None)],
            ),
        ] {
            let found = read(&json!({}), &metrics);
            let found: Vec<_> = found
                .utilization
                .iter()
                .map(|target| (target.resource.as_str(), target.container.as_deref()))
                .collect();
            assert_eq!(found, expected, "{metrics}");
        }
    }

    #[test]
    fn the_ehpa_is_the_controller_or_the_adopter() {
        let owner = |kind: &str| json!([{"apiVersion": "x/v1", "kind": kind, "name": "mine", "uid": "u", "controller": true}]);
        let adopted = json!({"plimsoll.dev/adopted-by": "other/u1"});
        for (metadata, expected) in [
            (json!({}), None),
            (json!({"annotations": adopted}), Some("other")),
            (
                json!({"ownerReferences": owner("EffectiveHorizontalPodAutoscaler"), "annotations": adopted}),
                Some("mine"),
            ),
            (
                json!({"ownerReferences": owner("ScaledObject"), "annotations": adopted}),
                None,
            ),
        ] {
            let found = read(&metadata, &json!(null));
            assert_eq!(found.ehpa.as_deref(), expected, "{metadata}");
        }
    }
}
