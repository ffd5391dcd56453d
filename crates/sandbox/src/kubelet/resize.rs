//! In-place resizes: limits do not apply to a process, so new resources are only reported, unless
//! the container asks for a restart when one of them changes (`resizePolicy`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::pod_context::PodContext;

/// Request and limit of each resource whose change needs a restart.
type Sensitive = BTreeMap<String, [Option<Quantity>; 2]>;

/// Waits until a change of the container's resources requires a restart.
pub(super) async fn restart_needed(context: &PodContext, container: &Container) {
    let started_with = sensitive(container_of(&context.pod(), &container.name));
    let mut pods = context.pods.clone();
    let changed = |pod: &Option<std::sync::Arc<Pod>>| {
        pod.as_ref()
            .is_some_and(|pod| sensitive(container_of(pod, &container.name)) != started_with)
    };
    if pods.wait_for(changed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn container_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    let spec = pod.spec.as_ref()?;
    spec.init_containers
        .iter()
        .flatten()
        .chain(&spec.containers)
        .find(|container| container.name == name)
}

fn sensitive(container: Option<&Container>) -> Sensitive {
    let Some(container) = container else {
        return Sensitive::new();
    };
    let resources = container.resources.clone().unwrap_or_default();
    let value = |map: &Option<BTreeMap<String, Quantity>>, name: &str| {
        map.as_ref().and_then(|map| map.get(name).cloned())
    };
    let policies = container
        .resize_policy
        .iter()
        .flatten()
        .filter(|policy| policy.restart_policy == "RestartContainer");
    let entry = |name: &String| {
        (
            name.clone(),
            [
                value(&resources.requests, name),
                value(&resources.limits, name),
            ],
        )
    };
    policies
        .map(|policy| entry(&policy.resource_name))
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
