//! Changes as manifests: partial objects, a Kustomize component, Helm values.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Map, Value, json};

use super::ContainerChange;

/// Groups and kinds whose pod templates may change; of version v1.
const KINDS: [(&str, &str); 4] = [
    ("batch", "CronJob"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "StatefulSet"),
];

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

fn by_workload(changes: &[ContainerChange]) -> BTreeMap<(&str, &str), Vec<&ContainerChange>> {
    let mut workloads: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for change in changes {
        workloads.entry(change.id.pod()).or_default().push(change);
    }
    workloads
}

/// A patch per workload, and a sentence for each workload that has none.
pub(super) fn patches(changes: &[ContainerChange]) -> (Vec<Value>, Vec<String>) {
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
) -> Result<Value, &'static str> {
    let (kind, name) = workload.split_once('/').ok_or("it has no kind")?;
    let known = KINDS.iter().find(|it| kind.eq_ignore_ascii_case(it.1));
    let (group, kind) =
        known.ok_or("its pod template cannot be changed, or its kind is not known")?;
    let mut names = containers.iter().map(|change| &change.id.container);
    if names.any(String::is_empty) {
        return Err("the usage does not name its containers");
    }
    let containers: Vec<Value> = containers
        .iter()
        .map(|change| json!({"name": change.id.container, "resources": resources(change)}))
        .collect();
    let mut spec = json!({"template": {"spec": {"containers": containers}}});
    if *kind == "CronJob" {
        spec = json!({"jobTemplate": {"spec": spec}});
    }
    let mut metadata = json!({"name": name});
    if !namespace.is_empty() {
        metadata["namespace"] = json!(namespace);
    }
    let version = format!("{group}/v1");
    Ok(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}))
}

pub(super) fn documents(patches: &[Value]) -> anyhow::Result<String> {
    let texts = patches.iter().map(serde_yaml_ng::to_string);
    let texts: Vec<String> = texts.collect::<Result<_, _>>()?;
    Ok(texts.join("---\n"))
}

pub(super) fn kustomize(patches: &[Value]) -> anyhow::Result<String> {
    let patches = patches.iter().map(|patch| {
        let mut target = patch["metadata"].clone();
        let version = patch["apiVersion"].as_str().unwrap_or_default();
        target["group"] = json!(version.trim_end_matches("/v1"));
        target["version"] = json!("v1");
        target["kind"] = patch["kind"].clone();
        let text = serde_yaml_ng::to_string(patch)?;
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
        let (namespace, container) = (&change.id.namespace, &change.id.container);
        let workload = &*change.id.workload;
        let name = workload.split_once('/').map_or(workload, |(_, name)| name);
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
    use crate::usage::ContainerId;

    fn change(workload: &str) -> ContainerChange {
        ContainerChange {
            id: ContainerId::new("shop", workload, "app"),
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
