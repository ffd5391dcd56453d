//! HPAs that scale workloads by utilization: a smaller request would mean more pods.

use std::collections::HashMap;

use k8s_openapi::api::autoscaling::v2::{HorizontalPodAutoscaler, MetricSpec, MetricTarget};
use kube::ResourceExt as _;

use crate::usage::ScaledBy;

/// Metrics of HPAs by namespace and workload, such as `deployment/web`.
#[derive(Debug, Default)]
pub(super) struct Hpas(HashMap<(String, String), Vec<Utilization>>);

/// Utilization of a resource that an HPA scales by.
#[derive(Debug)]
struct Utilization {
    hpa: String,
    resource: String,
    /// The only container that counts; `None` for all containers.
    container: Option<String>,
}

impl Hpas {
    pub(super) fn add(&mut self, hpa: &HorizontalPodAutoscaler) {
        let target = &hpa.spec.scale_target_ref;
        let workload = format!("{}/{}", target.kind.to_lowercase(), target.name);
        let metrics = hpa.spec.metrics.iter().flatten();
        let utilizations = metrics.filter_map(|metric| {
            let (resource, container) = utilization(metric)?;
            Some(Utilization {
                hpa: hpa.name_any(),
                resource: resource.to_owned(),
                container: container.map(str::to_owned),
            })
        });
        let key = (hpa.namespace().unwrap_or_default(), workload);
        self.0.entry(key).or_default().extend(utilizations);
    }

    /// HPAs that scale a workload by the utilization of a container.
    pub(super) fn scaling(&self, namespace: &str, workload: &str, container: &str) -> ScaledBy {
        let metrics = self.0.get(&(namespace.to_owned(), workload.to_owned()));
        let hpa = |resource: &str| {
            let counts = |metric: &&Utilization| {
                let of = metric.container.as_deref();
                metric.resource == resource && of.is_none_or(|of| of == container)
            };
            let metric = metrics?.iter().find(counts)?;
            Some(metric.hpa.clone())
        };
        ScaledBy {
            cpu: hpa("cpu"),
            memory: hpa("memory"),
        }
    }
}

/// Resource and container of a metric with a target utilization.
fn utilization(metric: &MetricSpec) -> Option<(&str, Option<&str>)> {
    let is_utilization = |target: &MetricTarget| target.type_ == "Utilization";
    if let Some(resource) = &metric.resource {
        return is_utilization(&resource.target).then_some((&resource.name, None));
    }
    let resource = metric.container_resource.as_ref()?;
    is_utilization(&resource.target).then_some((&resource.name, Some(&resource.container)))
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
        hpas.add(&serde_json::from_value(hpa).expect("an HPA"));
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
