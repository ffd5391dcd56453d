//! In-place resizes: limits do not apply to a process, so new resources are only reported, unless
//! the container asks for a restart when one of them changes (`resizePolicy`).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::pod_context::{PodContext, containers};

/// Request and limit of each resource whose change needs a restart.
type Sensitive = BTreeMap<String, [Option<Quantity>; 2]>;

/// Waits until a change of the container's resources requires a restart.
pub(super) async fn restart_needed(context: &PodContext, container: &Container) {
    let of = |pod: &Pod| sensitive(containers(pod).find(|it| it.name == container.name));
    let started_with = of(&context.pod());
    let mut pods = context.pods.clone();
    let changed = |pod: &Option<Arc<Pod>>| pod.as_ref().is_some_and(|pod| of(pod) != started_with);
    if pods.wait_for(changed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn sensitive(container: Option<&Container>) -> Sensitive {
    let Some(container) = container else {
        return Sensitive::new();
    };
    let resources = container.resources.clone().unwrap_or_default();
    let policies = container.resize_policy.iter().flatten();
    policies
        .filter(|policy| policy.restart_policy == "RestartContainer")
        .map(|policy| {
            let name = &policy.resource_name;
            let value = |map: &Option<BTreeMap<String, Quantity>>| map.as_ref()?.get(name).cloned();
            let values = [value(&resources.requests), value(&resources.limits)];
            (name.clone(), values)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(before: &Value, after: &Value, restart: bool) {
        let policy = json!([
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        ]);
        let of = |resources: &Value| {
            let container = json!({"name": "a", "resources": resources, "resizePolicy": policy});
            sensitive(Some(&serde_json::from_value(container).unwrap()))
        };
        assert_eq!(of(before) != of(after), restart, "{before} {after}");
    }

    #[test]
    fn only_resources_that_ask_for_it_restart_their_container() {
        let of = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
        check(&of("1", "1Gi"), &of("2", "1Gi"), false);
        check(&of("1", "1Gi"), &of("1", "2Gi"), true);
        check(
            &of("1", "1Gi"),
            &json!({"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}),
            true,
        );
    }
}
