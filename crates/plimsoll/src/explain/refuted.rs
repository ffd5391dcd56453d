//! Resizes after which a pod was OOM killed again, by the pod itself.
//!
//! The rule is that of the updater, see docs/updating.md#acts-that-are-proven.

use api::pod_annotations::{OOM_RESIZE, OOM_RESIZE_EFFECT_WITHIN};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt as _;
use serde::Deserialize;

/// The value of the annotation, as far as it is read here.
#[derive(Deserialize)]
struct OomResize {
    at: Timestamp,
    act: String,
}

/// A sentence on each container that was OOM killed after the last resize had taken effect.
pub(super) fn refuted(pod: &Pod) -> Vec<String> {
    let last = pod.annotations().get(OOM_RESIZE);
    let last: Option<OomResize> = last.and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last else {
        return Vec::new();
    };
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let sentences = statuses.filter_map(|status| sentence(pod, status, &last));
    sentences.collect()
}

fn sentence(pod: &Pod, status: &ContainerStatus, last: &OomResize) -> Option<String> {
    let end = status.last_state.as_ref()?.terminated.as_ref()?;
    let (began, ended) = (end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0);
    let is_refuted = began.as_second() > last.at.as_second()
        || ended.duration_since(last.at) > OOM_RESIZE_EFFECT_WITHIN;
    if end.reason.as_deref() != Some("OOMKilled") || !is_refuted {
        return None;
    }
    let limits = status.resources.as_ref()?.limits.as_ref();
    let limit = limits.and_then(|limits| limits.get("memory"));
    Some(format!(
        "pod {}: container {} was OOM killed at {ended}, after the {} of {} (memory limit {})",
        pod.name_any(),
        status.name,
        last.act,
        last.at,
        limit.map_or("unset", |limit| limit.0.as_str()),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that was resized at noon, killed 9 s later in a run that began at `began`.
    fn check(began: &str, expected: &[&str]) {
        let note = r#"{"at":"2026-01-01T12:00:00Z","act":"resize"}"#;
        let end = json!({
            "exitCode": 137, "reason": "OOMKilled", "startedAt": began,
            "finishedAt": "2026-01-01T12:00:09Z",
        });
        let pod = json!({
            "metadata": {"name": "web-1", "annotations": {OOM_RESIZE: note}},
            "status": {"containerStatuses": [{
                "name": "app", "ready": true, "restartCount": 3, "image": "", "imageID": "",
                "resources": {"limits": {"memory": "512Mi"}}, "lastState": {"terminated": end},
            }]},
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(refuted(&pod), expected, "{began}");
    }

    #[test]
    fn only_a_kill_of_a_run_after_the_resize_is_named() {
        check("2026-01-01T11:59:59Z", &[]);
        let sentence = "pod web-1: container app was OOM killed at 2026-01-01T12:00:09Z, \
                        after the resize of 2026-01-01T12:00:00Z (memory limit 512Mi)";
        check("2026-01-01T12:00:01Z", &[sentence]);
    }
}
