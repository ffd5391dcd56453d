//! OOM kills, reported as by a kubelet.

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::container;

/// Ends the pod's first container by an OOM kill, when it had these resources.
pub async fn oom_kill(pods: &Api<Pod>, pod: &Pod, resources: &Value) -> Result<()> {
    let now = Timestamp::from_second(Timestamp::now().as_second())?.to_string();
    let status = container(pod).context("it has a container")?;
    let end = json!({
        "exitCode": 137, "reason": "OOMKilled", "startedAt": now, "finishedAt": now, "containerID": status.container_id,
    });
    let patch: json_patch::Patch = serde_json::from_value(json!([
        {"op": "replace", "path": "/status/containerStatuses/0/ready", "value": false},
        {"op": "add", "path": "/status/containerStatuses/0/resources", "value": resources},
        {"op": "replace", "path": "/status/containerStatuses/0/state", "value": {"terminated": end}},
    ]))?;
    let patch = Patch::Json::<()>(patch);
    pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch)
        .await?;
    Ok(())
}
