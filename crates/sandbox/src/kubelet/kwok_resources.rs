//! A `Logs` and a `PortForward` resource (group `kwok.x-k8s.io`) per hosted pod, owned by the pod.
//! From them KWOK's fake kubelet serves `kubectl logs` and `kubectl port-forward`. KWOK must run
//! with `enableCRDs: [Logs, PortForward]`. It does not know when a container has ended, so `kubectl
//! logs --follow` goes on until it is interrupted.

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

use super::logs;
use super::pod_context::{PodContext, containers};

/// Custom resources for KWOK's option `enableCRDs`.
pub(crate) const ENABLED_CRDS: [&str; 2] = ["Logs", "PortForward"];

const MANAGER: &str = "sandbox-host";

/// Writes both resources.
pub(super) async fn publish(client: &Client, context: &PodContext) -> Result<(), kube::Error> {
    let pod = context.pod();
    let logs = json!({"logs": log_entries(&pod, context)});
    apply(client, &pod, "Logs", "logs", logs).await?;
    let forwards = forwards(&pod, &context.address.on_loopback().to_string());
    if forwards.is_empty() {
        return Ok(());
    }
    let forwards = json!({"forwards": forwards});
    apply(client, &pod, "PortForward", "portforwards", forwards).await
}

async fn apply(
    client: &Client,
    pod: &Pod,
    kind: &str,
    plural: &str,
    spec: Value,
) -> Result<(), kube::Error> {
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("kwok.x-k8s.io", "v1alpha1", kind),
        plural,
    );
    let namespace = pod.namespace().unwrap_or_default();
    let api = Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource);
    let object = json!({
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {"name": pod.name_any(), "ownerReferences": pod.owner_ref(&()).map(|owner| [owner])},
        "spec": spec,
    });
    api.patch(
        &pod.name_any(),
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(&object),
    )
    .await
    .map(drop)
}

fn log_entries(pod: &Pod, context: &PodContext) -> Vec<Value> {
    let entry = |container: &Container| {
        let folder = context.logs(&container.name);
        json!({"containers": [container.name], "logsFile": logs::current(&folder), "previousLogsFile": logs::previous(&folder)})
    };
    containers(pod).map(entry).collect()
}

fn forwards(pod: &Pod, address: &str) -> Vec<Value> {
    let ports = containers(pod).flat_map(|container| container.ports.iter().flatten());
    ports
        .map(|port| port.container_port)
        .map(|port| json!({"ports": [port], "target": {"address": address, "port": port}}))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::fixture::pod;

    #[test]
    fn every_container_port_is_forwarded_to_the_same_port_of_the_pod() {
        let ports = json!([{"containerPort": 8942}, {"containerPort": 8443}]);
        let pod =
            pod(&json!({"spec": {"containers": [{"name": "a", "ports": ports}, {"name": "b"}]}}));
        let forward =
            |port: u16| json!({"ports": [port], "target": {"address": "127.1.2.3", "port": port}});
        assert_eq!(forwards(&pod, "127.1.2.3"), [forward(8942), forward(8443)]);
    }
}
