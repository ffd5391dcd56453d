//! Changes as manifests: partial objects, a Kustomize component, Helm values.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Map, Value, json};

use super::ContainerChange;
use crate::usage::ContainerId;

/// Kinds whose pod templates may change: as in a workload's name, group, version, kind, and the path of
/// the pod template.
const KINDS: [(&str, [&str; 3], &[&str]); 4] = [
    (
        "cronjob",
        ["batch", "v1", "CronJob"],
        &["spec", "jobTemplate", "spec", "template"],
    ),
    (
        "daemonset",
        ["apps", "v1", "DaemonSet"],
        &["spec", "template"],
    ),
    (
        "deployment",
        ["apps", "v1", "Deployment"],
        &["spec", "template"],
    ),
    (
        "statefulset",
        ["apps", "v1", "StatefulSet"],
        &["spec", "template"],
    ),
];

/// A partial object with the changed resources of a workload.
pub(super) struct Patch {
    group_version_kind: [&'static str; 3],
    namespace: String,
    name: String,
    object: Value,
}

/// `resources` of a container.
fn resources(change: &ContainerChange) -> Value {
    let (mut requests, mut limits) = (Map::new(), Map::new());
    for (name, change) in change.resources() {
        requests.insert(name.to_owned(), change.new_request.clone().into());
        if let Some(limit) = &change.new_limit {
            limits.insert(name.to_owned(), limit.clone().into());
        }
    }
    if limits.is_empty() {
        json!({ "requests": requests })
    } else {
        json!({ "requests": requests, "limits": limits })
    }
}

/// Containers of each workload.
fn by_workload(changes: &[ContainerChange]) -> BTreeMap<(&str, &str), Vec<&ContainerChange>> {
    let mut workloads: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for change in changes {
        let ContainerId {
            namespace,
            workload,
            container: _,
        } = &change.id;
        let key = (namespace.as_str(), workload.as_str());
        workloads.entry(key).or_default().push(change);
    }
    workloads
}

/// A patch per workload, and a sentence for each workload that has none.
pub(super) fn patches(changes: &[ContainerChange]) -> (Vec<Patch>, Vec<String>) {
    let (mut patches, mut refused) = (Vec::new(), Vec::new());
    for ((namespace, workload), containers) in by_workload(changes) {
        match patch(namespace, workload, &containers) {
            Ok(patch) => patches.push(patch),
            Err(reason) => refused.push(format!("{namespace}/{workload}: {reason}")),
        }
    }
    (patches, refused)
}

fn patch(
    namespace: &str,
    workload: &str,
    containers: &[&ContainerChange],
) -> Result<Patch, &'static str> {
    let (kind, name) = workload.split_once('/').ok_or("it has no kind")?;
    let kind = kind.to_lowercase();
    let known = KINDS.iter().find(|(known, ..)| *known == kind);
    let (_, group_version_kind, path) =
        known.ok_or("its pod template cannot be changed, or its kind is not known")?;
    if containers
        .iter()
        .any(|change| change.id.container.is_empty())
    {
        return Err("the usage does not name its containers");
    }
    let containers: Vec<Value> = containers
        .iter()
        .map(|change| json!({"name": change.id.container, "resources": resources(change)}))
        .collect();
    let template = json!({"spec": {"containers": containers}});
    let mut object = path
        .iter()
        .rev()
        .fold(template, |inner, field| json!({ *field: inner }));
    let [group, version, kind] = *group_version_kind;
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(kind);
    object["metadata"] = json!({ "name": name });
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = json!(namespace);
    }
    Ok(Patch {
        group_version_kind: *group_version_kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        object,
    })
}

/// The patches as YAML documents.
pub(super) fn documents(patches: &[Patch]) -> anyhow::Result<String> {
    let texts = patches
        .iter()
        .map(|patch| serde_yaml_ng::to_string(&patch.object));
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

/// The patches as a component of Kustomize.
pub(super) fn kustomize(patches: &[Patch]) -> anyhow::Result<String> {
    let patches = patches.iter().map(|patch| {
        let [group, version, kind] = patch.group_version_kind;
        let mut target =
            json!({"group": group, "version": version, "kind": kind, "name": patch.name});
        if !patch.namespace.is_empty() {
            target["namespace"] = json!(patch.namespace);
        }
        let text = serde_yaml_ng::to_string(&patch.object)?;
        Ok(json!({"target": target, "patch": text}))
    });
    let patches: Vec<Value> = patches.collect::<anyhow::Result<_>>()?;
    Ok(serde_yaml_ng::to_string(&json!({
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "patches": patches,
    }))?)
}

/// `resources` by namespace, workload and container.
pub(super) fn helm_values(changes: &[ContainerChange]) -> anyhow::Result<String> {
    let mut values = json!({});
    for change in changes {
        let ContainerId {
            namespace,
            workload,
            container,
        } = &change.id;
        let name = workload
            .split_once('/')
            .map_or(&**workload, |(_, name)| name);
        let parts = [namespace.as_str(), name, container.as_str()];
        let mut place = &mut values;
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            place = &mut place[part];
        }
        ensure!(
            place["resources"].is_null(),
            "{namespace}: workloads of two kinds are named {name} and have a container {container}; \
             Helm values have one place for both, so print patches without --helm-values"
        );
        place["resources"] = resources(change);
    }
    Ok(serde_yaml_ng::to_string(&values)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::ResourceChange;

    fn change(workload: &str) -> ContainerChange {
        ContainerChange {
            id: ContainerId {
                namespace: "shop".to_owned(),
                workload: workload.to_owned(),
                container: "app".to_owned(),
            },
            cpu: Some(ResourceChange {
                request: None,
                new_request: "100m".to_owned(),
                limit: None,
                new_limit: None,
            }),
            memory: None,
        }
    }

    #[test]
    fn values_have_one_place_per_name() {
        let text = helm_values(&[change("deployment/web"), change("deployment/api")]);
        let values: Value = serde_yaml_ng::from_str(&text.expect("values")).expect("YAML");
        assert_eq!(
            values["shop"]["web"]["app"]["resources"]["requests"]["cpu"],
            "100m"
        );
        let error = helm_values(&[change("deployment/web"), change("cronjob/web")]);
        let error = error.expect_err("two kinds").to_string();
        assert!(
            error.starts_with("shop: workloads of two kinds are named web"),
            "{error}"
        );
    }
}
