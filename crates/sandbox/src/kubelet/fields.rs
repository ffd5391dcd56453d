//! The downward API: fields of a pod in environment variables and volumes (`fieldRef`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::WaitingReason;
use super::address::PodAddress;

/// Address of every node of a sandbox, as the API server knows it.
pub(super) const NODE_IP: &str = "127.0.0.1";

/// The value of one field. `status.podIP` is the address on which the pod's processes can listen
/// and be reached.
pub(super) fn field(pod: &Pod, address: PodAddress, path: &str) -> Result<String, WaitingReason> {
    let spec = pod.spec.as_ref();
    if let Some((map, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        return map_field(pod, map)
            .and_then(|map| map.get(key).cloned().or(Some(String::new())))
            .ok_or_else(|| unknown(path));
    }
    match path {
        "metadata.name" => Ok(pod.name_any()),
        "metadata.namespace" => Ok(pod.namespace().unwrap_or_default()),
        "metadata.uid" => Ok(pod.uid().unwrap_or_default()),
        "metadata.labels" => Ok(lines(pod.labels())),
        "metadata.annotations" => Ok(lines(pod.annotations())),
        "spec.nodeName" => Ok(spec
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default()),
        "spec.serviceAccountName" => Ok(spec
            .and_then(|spec| spec.service_account_name.clone())
            .unwrap_or_default()),
        "status.podIP" | "status.podIPs" => Ok(address.on_loopback().to_string()),
        "status.hostIP" | "status.hostIPs" => Ok(NODE_IP.to_owned()),
        _ => Err(unknown(path)),
    }
}

fn map_field<'a>(pod: &'a Pod, map: &str) -> Option<&'a BTreeMap<String, String>> {
    match map {
        "metadata.labels" => Some(pod.labels()),
        "metadata.annotations" => Some(pod.annotations()),
        _ => None,
    }
}

fn unknown(path: &str) -> WaitingReason {
    WaitingReason::unsupported(format!("fieldPath {path:?}"))
}

/// Formats one `key="value"` line per entry, as in a downwardAPI volume.
fn lines(map: &BTreeMap<String, String>) -> String {
    let lines: Vec<String> = map
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubelet::fixture::{address, pod};

    #[track_caller]
    fn check(path: &str, expected: &str) {
        let pod = pod(&serde_json::json!({
            "metadata": {"labels": {"app": "web", "tier": "a \"b\""}, "annotations": {"x/y": "z"}},
            "spec": {"nodeName": "node-0", "serviceAccountName": "robot"},
        }));
        assert_eq!(field(&pod, address(), path).unwrap(), expected, "{path}");
    }

    #[test]
    fn a_pod_knows_itself() {
        check("metadata.name", "pod");
        check("metadata.namespace", "default");
        check("metadata.uid", "uid");
        check("spec.nodeName", "node-0");
        check("spec.serviceAccountName", "robot");
        check("status.hostIP", "127.0.0.1");
    }

    #[test]
    fn the_pods_address_is_one_it_can_listen_on() {
        check("status.podIP", "127.130.0.1");
    }

    #[test]
    fn labels_and_annotations_come_singly_or_together() {
        check("metadata.labels['app']", "web");
        check("metadata.labels['absent']", "");
        check("metadata.annotations['x/y']", "z");
        check("metadata.labels", "app=\"web\"\ntier=\"a \\\"b\\\"\"");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        for path in ["spec.containers", "spec.labels['a']"] {
            assert_eq!(
                field(&Pod::default(), address(), path).unwrap_err().message,
                format!("fieldPath {path:?} is not supported in a hosted pod")
            );
        }
    }
}
