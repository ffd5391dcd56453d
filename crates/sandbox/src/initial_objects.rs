//! Objects of a new cluster: its nodes, the custom resources that KWOK reads, and metrics-server's
//! API registration.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{Scope, pinned_kind};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;
use tokio::time::sleep;

use crate::ports::Ports;

const MANAGER: &str = "plimsoll-sandbox";
/// Pause between two access reviews.
const POLL: Duration = Duration::from_millis(20);
/// Nodes that are created at the same time.
const PARALLEL: usize = 8;

/// Creates the simulated nodes `node-0`, `node-1`, ... With a taint, only pods that tolerate it go
/// there.
pub(crate) async fn create_nodes(client: &Client, count: u16, tainted: bool) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let made = (0..count).map(|number| {
        let nodes = nodes.clone();
        async move {
            nodes
                .create(&PostParams::default(), &node(number, tainted)?)
                .await
                .with_context(|| format!("create node {number}"))
        }
    });
    stream::iter(made)
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<_>>()
        .await
        .map(drop)
}

/// Waits until the controller manager has created the `ServiceAccount` without which no pod can be
/// created in namespace `default`.
pub(crate) async fn await_default_service_account(client: &Client) -> Result<()> {
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "default");
    let is_there = |account: Option<&ServiceAccount>| account.is_some();
    await_condition(accounts, "default", is_there)
        .await
        .context("wait for the default service account")
        .map(drop)
}

pub(crate) async fn await_nodes(
    client: &Client,
    names: impl IntoIterator<Item = String>,
) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    for name in names {
        await_condition(nodes.clone(), &name, is_ready)
            .await
            .with_context(|| format!("wait for {name}"))?;
    }
    Ok(())
}

fn is_ready(node: Option<&Node>) -> bool {
    let conditions = node
        .and_then(|node| node.status.as_ref())
        .and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
    })
}

pub(crate) fn node_name(number: u16) -> String {
    format!("node-{number}")
}

fn node(number: u16, tainted: bool) -> Result<Node> {
    let name = node_name(number);
    let taint = json!({"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"});
    let taints = if tainted { vec![taint] } else { Vec::new() };
    let size = json!({"cpu": "32", "memory": "128Gi", "ephemeral-storage": "1Ti", "pods": "1000"});
    // KWOK renews the status of a node that was not ready for a while, and removes addresses of a
    // node that lacks a hostname.
    let addresses = json!([{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]);
    let node = json!({
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "type": "kwok"},
            // Path at which metrics-server finds this node's usage at the kubelet that KWOK
            // simulates for all nodes.
            "annotations": {"metrics.k8s.io/resource-metrics-path": format!("/metrics/nodes/{name}/metrics/resource")},
        },
        "spec": {"taints": taints},
        "status": {"addresses": addresses, "allocatable": size, "capacity": size},
    });
    serde_json::from_value(node).context("build a node")
}

/// Defines the custom resources in these files and waits until they are served.
pub(crate) async fn define(client: &Client, files: &[&Path]) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client.clone());
    for file in files {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let definition: CustomResourceDefinition =
            serde_yaml_ng::from_str(&text).with_context(|| format!("parse {}", file.display()))?;
        let name = definition.name_any();
        api.patch(
            &name,
            &PatchParams::apply(MANAGER).force(),
            &Patch::Apply(&definition),
        )
        .await
        .with_context(|| format!("define {name}"))?;
        await_condition(api.clone(), &name, conditions::is_crd_established())
            .await
            .with_context(|| format!("wait for {name}"))?;
    }
    Ok(())
}

/// Gives metrics-server its rights and registers its API.
pub(crate) async fn register_metrics_server(
    client: &Client,
    ports: &Ports,
    authority_pem: &str,
) -> Result<()> {
    let authority = serde_json::to_string(&ByteString(authority_pem.as_bytes().to_vec()))
        .context("encode the authority")?;
    let text = include_str!("../manifests/metrics-server.yaml")
        .replace("{{port}}", &ports.metrics_server.to_string())
        .replace("{{ca}}", &authority);
    for document in serde_yaml_ng::Deserializer::from_str(&text) {
        let object =
            DynamicObject::deserialize(document).context("parse metrics-server's manifest")?;
        apply(client, &object).await?;
    }
    await_rights(client).await
}

/// The API server applies new rights after a moment; without them metrics-server ends at once.
async fn await_rights(client: &Client) -> Result<()> {
    let question: SubjectAccessReview = serde_json::from_value(json!({
        "spec": {
            "user": "metrics-server",
            "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "kube-system", "name": "extension-apiserver-authentication"},
        },
    }))
    .context("build an access review")?;
    let reviews = Api::<SubjectAccessReview>::all(client.clone());
    loop {
        let answer = reviews
            .create(&PostParams::default(), &question)
            .await
            .context("review metrics-server's rights")?;
        if answer.status.is_some_and(|status| status.allowed) {
            return Ok(());
        }
        sleep(POLL).await;
    }
}

async fn apply(client: &Client, object: &DynamicObject) -> Result<()> {
    let types = object.types.as_ref().context("an object without kind")?;
    let (resource, capabilities) = pinned_kind(client, &GroupVersionKind::try_from(types)?)
        .await
        .with_context(|| format!("find kind {}", types.kind))?;
    let api: Api<DynamicObject> = match (&capabilities.scope, object.namespace()) {
        (Scope::Namespaced, Some(namespace)) => {
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
        _ => Api::all_with(client.clone(), &resource),
    };
    let name = object.name_any();
    api.patch(
        &name,
        &PatchParams::apply(MANAGER).force(),
        &Patch::Apply(object),
    )
    .await
    .with_context(|| format!("apply {} {name}", types.kind))
    .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_tells_where_its_usage_is() {
        let node = node(7, false).unwrap();
        assert_eq!(
            node.annotations()["metrics.k8s.io/resource-metrics-path"],
            "/metrics/nodes/node-7/metrics/resource"
        );
        assert!(!is_ready(Some(&node)));
    }
}
