//! Modes of VPA objects and sizing policies.

use std::collections::BTreeSet;

use api::sizing_policy::{ClusterSizingPolicy, SizingPolicy};
use api::vpa::{MODE_BEFORE_REVERT, VerticalPodAutoscaler as Vpa};
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;

const OFF: &str = "Off";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The mode is kept in an annotation.
    Off,
    /// The kept mode again, unless there is another one meanwhile.
    Back,
}

/// Changes the modes of VPA objects and of the policies that manage them. A sentence for each change.
pub(super) async fn change_modes(
    cluster: &Cluster,
    objects: &[DynamicObject],
    change: Change,
    is_dry_run: bool,
) -> anyhow::Result<Vec<String>> {
    let mut notes = Vec::new();
    let policies: BTreeSet<_> = objects.iter().filter_map(policy_of).collect();
    for (kind, namespace, name) in policies {
        let api = match &namespace {
            Some(namespace) => cluster.untyped::<SizingPolicy>(Some(namespace)),
            None => cluster.untyped::<ClusterSizingPolicy>(None),
        };
        let title = match namespace {
            Some(namespace) => format!("{kind} {namespace}/{name}, with all its workloads"),
            None => format!("{kind} {name}, with all its workloads"),
        };
        let policy = api.get(&name).await;
        let policy = policy.map_err(cluster.failed(&format!("{kind} {name}")))?;
        let mode = &policy.data["spec"]["updateMode"];
        let spec = |mode: Value| json!({"updateMode": mode});
        let done = write(&api, &policy, (mode, true), spec, change, is_dry_run).await;
        let done = done.map_err(cluster.failed(&format!("or change {kind} {name}")))?;
        notes.extend(done.map(|mode| format!("{title}: {mode}.")));
    }
    for object in objects {
        let namespace = object.namespace().unwrap_or_default();
        let name = object.name_any();
        let api = cluster.untyped::<Vpa>(Some(&namespace));
        let mode = &object.data["spec"]["updatePolicy"]["updateMode"];
        let spec = |mode: Value| json!({"updatePolicy": {"updateMode": mode}});
        let is_kept = policy_of(object).is_none();
        let done = write(&api, object, (mode, is_kept), spec, change, is_dry_run).await;
        let done = done.map_err(cluster.failed(&format!("or change the VPA object {name}")))?;
        notes.extend(done.map(|mode| format!("VerticalPodAutoscaler {namespace}/{name}: {mode}.")));
    }
    Ok(notes)
}

/// Kind, namespace and name of the policy that manages a VPA object.
fn policy_of(object: &DynamicObject) -> Option<(String, Option<String>, String)> {
    let mut owners = object.owner_references().iter();
    let owner = owners.find(|it| it.kind.ends_with("SizingPolicy"))?;
    let namespace = (owner.kind == "SizingPolicy").then(|| object.namespace());
    Some((owner.kind.clone(), namespace.flatten(), owner.name.clone()))
}

/// Writes the mode of an object, and keeps the mode before, or not: a policy gives it to its VPA objects.
/// Returns what was written, if that is a change.
async fn write(
    api: &Api<DynamicObject>,
    object: &DynamicObject,
    (mode, is_kept): (&Value, bool),
    spec: impl Fn(Value) -> Value,
    change: Change,
    is_dry_run: bool,
) -> kube::Result<Option<String>> {
    let kept = object.annotations().get(MODE_BEFORE_REVERT);
    let is_off = mode == OFF;
    let (annotation, mode, sentence) = match (change, kept) {
        (Change::Off, _) if is_off => return Ok(None),
        (Change::Off, _) => {
            let before = is_kept.then(|| mode.as_str().unwrap_or_default());
            (json!(before), json!(OFF), "the mode is Off".to_owned())
        }
        (Change::Back, None) => return Ok(None),
        (Change::Back, Some(before)) => {
            let before = Some(before).filter(|before| !before.is_empty());
            let mode = if is_off { json!(before) } else { mode.clone() };
            let shown = mode.as_str().unwrap_or("the default");
            let sentence = format!("the mode is {shown} again");
            (Value::Null, mode, sentence)
        }
    };
    let patch = json!({
        "metadata": {"annotations": {MODE_BEFORE_REVERT: annotation}},
        "spec": spec(mode),
    });
    let params = PatchParams {
        dry_run: is_dry_run,
        ..PatchParams::default()
    };
    api.patch(&object.name_any(), &params, &Patch::Merge(patch))
        .await?;
    let suffix = if is_dry_run { " (dry run)" } else { "" };
    Ok(Some(format!("{sentence}{suffix}")))
}
