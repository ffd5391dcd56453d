//! HPAs that scale workloads by utilization: a smaller request would mean more pods.

use std::collections::HashMap;

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use model::ResourceName;
use view::HpaTargets;

use crate::usage::ScaledBy;

/// HPAs by namespace and workload, such as `deployment/web`.
#[derive(Debug, Default)]
pub(super) struct Hpas(HashMap<(String, String), Vec<HpaTargets>>);

impl Hpas {
    pub(super) fn add(&mut self, hpa: HorizontalPodAutoscaler) {
        let hpa = HpaTargets::from_k8s(hpa);
        let target = &hpa.workload;
        let workload = format!("{}/{}", target.kind.to_lowercase(), target.name);
        let key = (target.namespace.clone(), workload);
        self.0.entry(key).or_default().push(hpa);
    }

    pub(super) fn scaling(&self, namespace: &str, workload: &str, container: &str) -> ScaledBy {
        let hpas = self.0.get(&(namespace.to_owned(), workload.to_owned()));
        let hpa = |resource: ResourceName| {
            let scales = |hpa: &&HpaTargets| {
                hpa.utilization.iter().any(|target| {
                    let of = target.container.as_deref();
                    target.resource == resource && of.is_none_or(|of| of == container)
                })
            };
            Some(hpas?.iter().find(scales)?.key.name.clone())
        };
        ScaledBy {
            cpu: hpa(ResourceName::Cpu),
            memory: hpa(ResourceName::Memory),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn hpas(metrics: &Value) -> Hpas {
        let hpa = json!({
            "metadata": {"namespace": "shop", "name": "web"},
            "spec": {
                "maxReplicas": 5,
                "scaleTargetRef": {"kind": "Deployment", "name": "web"},
                "metrics": metrics,
            },
        });
        let mut hpas = Hpas::default();
        hpas.add(serde_json::from_value(hpa).expect("an HPA"));
        hpas
    }

    fn check(metrics: &Value, container: &str, cpu: bool, memory: bool) {
        let found = hpas(metrics).scaling("shop", "deployment/web", container);
        let found = (found.cpu.is_some(), found.memory.is_some());
        assert_eq!(found, (cpu, memory), "{container}: {metrics}");
    }

    #[test]
    fn utilization_counts_for_its_resource_and_containers() {
        let resource = |name: &str, target: Value| json!([{"type": "Resource", "resource": {"name": name, "target": target}}]);
        let utilization = utilization_of(60);
        check(&resource("cpu", utilization.clone()), "app", true, false);
        check(&resource("memory", utilization.clone()), "app", false, true);
        let value = json!({"type": "AverageValue", "averageValue": "300m"});
        check(&resource("cpu", value), "app", false, false);
        let of_container = json!([{"type": "ContainerResource", "containerResource":
            {"name": "cpu", "container": "app", "target": utilization}}]);
        check(&of_container, "app", true, false);
        check(&of_container, "proxy", false, false);
        check(&json!([]), "app", false, false);
        // Another workload with the name.
        let other = hpas(&resource("cpu", utilization_of(60)));
        let found = other.scaling("shop", "statefulset/web", "app");
        assert_eq!(found, ScaledBy::default());
    }

    fn utilization_of(percent: i32) -> Value {
        json!({"type": "Utilization", "averageUtilization": percent})
    }
}
