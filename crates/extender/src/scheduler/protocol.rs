//! JSON of kube-scheduler's extender protocol (`k8s.io/kube-scheduler/extender/v1`).
//!
//! The Go types have no JSON tags, so keys are the capitalised names of the fields, while the pod
//! and the nodes have the keys of the API. Lower-case keys are read too, as Go's decoder does.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write as _;

use model::{ResourceList, Workload};
use placement::{Container, PodKey, PodLevel, PodSpec};
use serde::Deserialize;
use serde_json::Value;

/// Annotation that users set on a pod: policy of its node scores; see docs/placement.md#policies.
pub(super) const POLICY_ANNOTATION: &str = "plimsoll.dev/placement-policy";

/// Longest namespace that Kubernetes allows.
const MAX_NAMESPACE_BYTES: usize = 63;
/// Longest UID: a UUID has 36 bytes.
const MAX_UID_BYTES: usize = 64;

#[derive(Debug, Deserialize)]
pub(super) struct ExtenderArgs<'a> {
    #[serde(rename = "Pod", alias = "pod")]
    pub(super) pod: Pod,
    /// Names of nodes, if `nodeCacheCapable` is true.
    #[serde(
        borrow,
        rename = "NodeNames",
        alias = "nodeNames",
        alias = "nodenames",
        default
    )]
    node_names: Option<Vec<Text<'a>>>,
    /// Full nodes, if `nodeCacheCapable` is false.
    #[serde(borrow, rename = "Nodes", alias = "nodes", default)]
    nodes: Option<NodeList<'a>>,
}

/// The body of a request is not `ExtenderArgs`.
#[derive(Debug, thiserror::Error)]
#[error("not ExtenderArgs: {0}")]
pub(super) struct InvalidArgs(String);

/// Text that is borrowed unless it has escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Debug, Deserialize)]
struct NodeList<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<Node<'a>>>,
}

#[derive(Debug, Deserialize)]
struct Node<'a> {
    #[serde(borrow)]
    metadata: NodeMetadata<'a>,
}

#[derive(Debug, Deserialize)]
struct NodeMetadata<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

/// Pod to place, reduced to what decisions read.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Pod {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default)]
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Metadata {
    pub(super) namespace: String,
    pub(super) uid: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerReference {
    api_version: String,
    kind: String,
    name: String,
    controller: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    containers: Option<Vec<WrittenContainer>>,
    init_containers: Option<Vec<WrittenContainer>>,
    overhead: Option<ResourceList>,
    resources: Option<Resources>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct WrittenContainer {
    name: String,
    resources: Option<Resources>,
    restart_policy: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Resources {
    requests: Option<ResourceList>,
    limits: Option<ResourceList>,
}

impl<'a> ExtenderArgs<'a> {
    /// Reads a request body. The error names the field.
    pub(super) fn parse(body: &'a [u8]) -> Result<Self, InvalidArgs> {
        let args: Self = serde_json::from_slice(body).map_err(|error| {
            // Following the path takes time, so only a body that is refused is read again.
            let mut again = serde_json::Deserializer::from_slice(body);
            match serde_path_to_error::deserialize::<_, ExtenderArgs<'_>>(&mut again) {
                Err(error) => InvalidArgs(error.to_string()),
                Ok(_) => InvalidArgs(error.to_string()),
            }
        })?;
        // Both are kept for minutes.
        let Metadata { namespace, uid, .. } = &args.pod.metadata;
        for (field, text, most) in [
            ("namespace", namespace, MAX_NAMESPACE_BYTES),
            ("uid", uid, MAX_UID_BYTES),
        ] {
            if text.len() > most {
                let text = format!("Pod.metadata.{field} has more than {most} bytes");
                return Err(InvalidArgs(text));
            }
        }
        Ok(args)
    }

    /// Names of the offered nodes, and whether the request has full nodes.
    pub(super) fn names(&self) -> (Vec<&str>, bool) {
        if let Some(names) = &self.node_names {
            return (names.iter().map(|name| &*name.0).collect(), false);
        }
        let items = self.nodes.iter().filter_map(|nodes| nodes.items.as_ref());
        let names = items.flatten().map(|node| &*node.metadata.name.0);
        (names.collect(), self.nodes.is_some())
    }
}

impl Pod {
    pub(super) fn key(&self) -> PodKey<'_> {
        PodKey {
            namespace: &self.metadata.namespace,
            uid: &self.metadata.uid,
        }
    }

    pub(super) fn label(&self, key: &str) -> Option<&str> {
        Some(self.metadata.labels.as_ref()?.get(key)?)
    }

    pub(super) fn policy(&self) -> Option<&str> {
        Some(self.metadata.annotations.as_ref()?.get(POLICY_ANNOTATION)?)
    }

    /// The owner with `controller: true`.
    pub(super) fn owner(&self) -> Option<Workload<'_>> {
        let mut owners = self.metadata.owner_references.iter().flatten();
        let owner = owners.find(|owner| owner.controller == Some(true))?;
        Some(Workload {
            api_version: &owner.api_version,
            kind: &owner.kind,
            namespace: &self.metadata.namespace,
            name: &owner.name,
        })
    }

    /// Takes requests and limits.
    pub(super) fn take_spec(&mut self) -> PodSpec {
        let spec = std::mem::take(&mut self.spec);
        let of = |written: WrittenContainer| {
            let resources = written.resources.unwrap_or_default();
            Container {
                name: written.name,
                requests: resources.requests.unwrap_or_default(),
                limits: resources.limits.unwrap_or_default(),
            }
        };
        let pod_level = spec.resources.unwrap_or_default();
        let mut pod = PodSpec {
            overhead: spec.overhead.unwrap_or_default(),
            pod_level: PodLevel {
                requests: pod_level.requests.unwrap_or_default(),
                limits: pod_level.limits.unwrap_or_default(),
            },
            ..PodSpec::default()
        };
        for written in spec.init_containers.into_iter().flatten() {
            let is_sidecar = written.restart_policy.as_deref() == Some("Always");
            pod.add_init_container(of(written), is_sidecar);
        }
        let containers = spec.containers.into_iter().flatten();
        pod.containers.extend(containers.map(of));
        pod
    }
}

/// `HostPriorityList` of names and their scores.
pub(super) fn host_priorities(names: &[&str], scores: impl Iterator<Item = i64>) -> Vec<u8> {
    let mut text = Vec::with_capacity(2 + 48 * names.len());
    text.push(b'[');
    for (name, score) in names.iter().zip(scores) {
        if text.len() > 1 {
            text.push(b',');
        }
        text.extend_from_slice(b"{\"Host\":");
        write_text(&mut text, name);
        // Writing to a vector cannot fail.
        let _ = write!(text, ",\"Score\":{score}}}");
    }
    text.push(b']');
    text
}

/// `ExtenderFilterResult`: the offered nodes without those that `reasons` names by their index.
///
/// Reasons are in `FailedAndUnresolvableNodes`: evicting pods with a lower priority does not help
/// before metrics show it, so preemption must not try.
pub(super) fn filter_result(
    names: &[&str],
    reasons: &BTreeMap<usize, String>,
    full_nodes: Option<Value>,
) -> Vec<u8> {
    let mut text = Vec::with_capacity(128 + 32 * names.len());
    if let Some(nodes) = full_nodes {
        text.extend_from_slice(b"{\"Nodes\":");
        // A `Value` has only keys that are texts, and writing to a vector cannot fail.
        let _ = serde_json::to_writer(&mut text, &without(nodes, reasons));
        text.extend_from_slice(b",\"NodeNames\":null");
    } else {
        text.extend_from_slice(b"{\"Nodes\":null,\"NodeNames\":[");
        let mut is_first = true;
        let kept = names.iter().enumerate();
        for (_, name) in kept.filter(|(index, _)| !reasons.contains_key(index)) {
            if !std::mem::take(&mut is_first) {
                text.push(b',');
            }
            write_text(&mut text, name);
        }
        text.push(b']');
    }
    text.extend_from_slice(b",\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{");
    for (number, (index, reason)) in reasons.iter().enumerate() {
        if number > 0 {
            text.push(b',');
        }
        write_text(&mut text, names.get(*index).copied().unwrap_or_default());
        text.push(b':');
        write_text(&mut text, reason);
    }
    text.extend_from_slice(b"},\"Error\":\"\"}");
    text
}

/// The full nodes of a request body, with all their fields.
pub(super) fn full_nodes(body: &[u8]) -> Result<Value, InvalidArgs> {
    #[derive(Deserialize)]
    struct Args {
        #[serde(rename = "Nodes", alias = "nodes", default)]
        nodes: Value,
    }
    serde_json::from_slice(body)
        .map(|args: Args| args.nodes)
        .map_err(|error| InvalidArgs(error.to_string()))
}

fn without(mut nodes: Value, reasons: &BTreeMap<usize, String>) -> Value {
    if let Some(items) = nodes.get_mut("items").and_then(Value::as_array_mut) {
        let mut index = 0;
        items.retain(|_| {
            index += 1;
            !reasons.contains_key(&(index - 1))
        });
    }
    nodes
}

fn write_text(to: &mut Vec<u8>, text: &str) {
    let is_plain = |byte: u8| byte >= 0x20 && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        to.push(b'"');
        to.extend_from_slice(text.as_bytes());
        to.push(b'"');
    } else {
        // Texts have a JSON form, and writing to a vector cannot fail.
        let _ = serde_json::to_writer(to, text);
    }
}
