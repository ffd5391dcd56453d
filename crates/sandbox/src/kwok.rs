//! KWOK's configuration: its options, the stages of its own module and ours, and the source of
//! usage. Stages leave pods alone that the sandbox hosts as processes.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::certificates::Identity;
use crate::kubelet::image::HOSTED_IMAGE_JQ;
use crate::kubelet::kwok_resources::ENABLED_CRDS;
use crate::ports::Ports;

/// Files of KWOK's module that are used as they are, except that hosted pods are left alone.
const MODULE_FILES: [&str; 6] = [
    "node-initialize.yaml",
    "node-heartbeat-with-lease.yaml",
    "pod-complete.yaml",
    "pod-delete.yaml",
    "metrics-resource.yaml",
    "usage-from-annotation.yaml",
];

/// Our stages; each file names what it simulates and the annotations that choose it.
const STAGES: [&str; 8] = [
    include_str!("../stages/pod-ready.yaml"),
    include_str!("../stages/pod-readiness.yaml"),
    include_str!("../stages/pod-resize.yaml"),
    include_str!("../stages/pod-resize-refused.yaml"),
    include_str!("../stages/pod-oom-kill.yaml"),
    include_str!("../stages/pod-crash.yaml"),
    include_str!("../stages/pod-back-off.yaml"),
    include_str!("../stages/pod-restart.yaml"),
];

/// Label of simulated nodes.
pub(crate) const NODE_LABEL: &str = "type=kwok";

/// A Job's pod with this annotation does not complete by itself.
const KEEP_RUNNING: &str = r#".metadata.annotations["sandbox.plimsoll.dev/keep-running"]"#;

/// The time that a pod takes to end. Its controller replaces it meanwhile.
const STOP_AFTER: &str = r#".metadata.annotations["sandbox.plimsoll.dev/stop-after"]"#;

/// The text of the configuration file. `files` is the folder of files from KWOK's module.
pub(crate) fn configuration(files: &Path, ports: &Ports, serving: &Identity) -> Result<String> {
    let mut documents = vec![options(ports, serving)];
    for file in MODULE_FILES {
        let path = files.join(file);
        documents.extend(parse(
            &fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?,
        )?);
    }
    for stage in STAGES {
        documents.extend(parse(stage)?);
    }
    documents.iter_mut().for_each(adapt_pod_stage);
    let texts: Vec<String> = documents
        .iter()
        .map(serde_yaml_ng::to_string)
        .collect::<Result<_, _>>()
        .context("render a KWOK document")?;
    Ok(texts.join("---\n"))
}

fn options(ports: &Ports, serving: &Identity) -> Value {
    json!({
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "metadata": {"name": "kwok"},
        "options": {
            "manageAllNodes": false,
            "manageNodesWithLabelSelector": NODE_LABEL,
            "cidr": "10.244.0.0/16",
            "nodeIP": "127.0.0.1",
            "nodePort": ports.kwok,
            "tlsCertFile": serving.certificate,
            "tlsPrivateKeyFile": serving.key,
            // A restarted KWOK waits until its leases have expired.
            "nodeLeaseDurationSeconds": 10,
            // Serves logs and port-forwards; like the next options, it has no default in a
            // configuration file.
            "enableDebuggingHandlers": true,
            // KWOK exits when one of these is zero.
            "nodeLeaseParallelism": 4,
            "nodePlayStageParallelism": 4,
            "podPlayStageParallelism": 16,
            "podsOnNodeSyncParallelism": 4,
            // `kubectl logs` and `kubectl port-forward` of hosted pods read custom resources that
            // `host` writes.
            "enableCRDs": ENABLED_CRDS,
        },
    })
}

fn parse(text: &str) -> Result<Vec<Value>> {
    serde_yaml_ng::Deserializer::from_str(text)
        .map(|document| Value::deserialize(document).context("parse a KWOK document"))
        .collect()
}

/// Leaves hosted pods alone, and adds our annotations to stages of KWOK's module.
fn adapt_pod_stage(document: &mut Value) {
    if document["kind"] != "Stage" || document["spec"]["resourceRef"]["kind"] != "Pod" {
        return;
    }
    let name = document["metadata"]["name"].clone();
    if name == "pod-delete" {
        document["spec"]["delay"] = json!({
            "durationMilliseconds": 0,
            "durationFrom": {"jq": {"expression": STOP_AFTER}},
        });
    }
    if let Some(Value::Array(conditions)) = document.pointer_mut("/spec/selector/matchExpressions")
    {
        conditions
            .push(json!({"jq": {"key": HOSTED_IMAGE_JQ, "operator": "NotIn", "values": ["true"]}}));
        if name == "pod-complete" {
            conditions.push(
                json!({"jq": {"key": KEEP_RUNNING, "operator": "NotIn", "values": ["true"]}}),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_stage_of_ours_leaves_hosted_pods_alone() {
        for stage in STAGES {
            let mut documents = parse(stage).unwrap();
            assert_eq!(documents.len(), 1);
            adapt_pod_stage(&mut documents[0]);
            let conditions = documents[0]
                .pointer("/spec/selector/matchExpressions")
                .unwrap()
                .as_array()
                .unwrap();
            assert!(
                conditions
                    .iter()
                    .any(|condition| condition["jq"]["key"] == HOSTED_IMAGE_JQ),
                "{}",
                documents[0]
            );
        }
    }
}
