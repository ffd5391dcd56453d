//! OOM kills, reported as by a kubelet, and as the kernel logs them.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;

use anyhow::{Context as _, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};
use rustix::fs::OFlags;
use rustix::time::{ClockId, clock_gettime};
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

/// Longest record of the kernel's log.
const RECORD_BYTES: usize = 8192;

/// Times of the kernel's OOM kills in the cgroup of a pod, in milliseconds since 1970, in order.
pub fn oom_kills_of(pod_uid: &str) -> Result<Vec<i64>> {
    let mut log = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open("/dev/kmsg")
        .context("open /dev/kmsg")?;
    let since_boot_ms = |at: rustix::time::Timespec| at.tv_sec * 1000 + at.tv_nsec / 1_000_000;
    let boot_ms = since_boot_ms(clock_gettime(ClockId::Realtime))
        - since_boot_ms(clock_gettime(ClockId::Boottime));
    let mut kills = Vec::new();
    let mut record = [0; RECORD_BYTES];
    loop {
        match log.read(&mut record) {
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]);
                if text.contains("oom-kill:") && text.contains(pod_uid) {
                    // Priority, number, microseconds since boot, flags; then the text.
                    let microseconds = text.split(',').nth(2).and_then(|it| it.parse::<i64>().ok());
                    kills.extend(microseconds.map(|it| boot_ms + it / 1000));
                }
            }
            // Records that were overwritten meanwhile.
            Err(error) if error.raw_os_error() == Some(32) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(kills),
            Err(error) => return Err(error).context("read /dev/kmsg"),
        }
    }
}
