//! Caps that rise with nodes that Karpenter and cluster-autoscaler could add, and the sums of each
//! node group.

use anyhow::{Context as _, Result, ensure};
use api::cluster_autoscaler::{STATUS_NAME, STATUS_NAMESPACE};
use api::karpenter::{NodeClaim, NodePool};
use e2e::deployment::{self, RECOMMENDER, leader};
use e2e::{Namespace, another, eventually, is_established};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::CPU_OF_240M;
use super::fixture::Fixture;
use super::schedulable::{LEFT_BY_DAEMON, beside_a_daemon_set};

/// A workload `web` on the node of a group, with a daemon on that node that leaves little.
async fn group(client: &Client, node: &str, label: (&str, &str)) -> Result<Fixture> {
    let labels = json!({"metadata": {"labels": {label.0: label.1}}});
    let cluster = Namespace::cluster(client.clone());
    cluster.patch::<Node>(node, labels).await?;
    beside_a_daemon_set(client.clone(), label.1, node, label).await
}

/// The status of cluster-autoscaler with one group of this size, whose maximum is three.
fn autoscaler(target: usize) -> Value {
    let status = format!(
        "autoscalerStatus: Running\nnodeGroups:\n- name: eks-given-a1b2\n  health:\n    status: Healthy\n    cloudProviderTarget: {target}\n    minSize: 0\n    maxSize: 3\n"
    );
    json!({"metadata": {"name": STATUS_NAME}, "data": {"status": status}})
}

async fn check_metrics(client: &Client) -> Result<()> {
    eventually("metrics show the sums of each node group", async || {
        let text = deployment::scrape(&leader(client, RECOMMENDER).await?).await?;
        let value = |name: &str| -> Result<f64> {
            let name = format!("plimsoll_node_group_{name}_cpu_cores{{group=\"batch\"}}");
            let value = text.lines().find_map(|line| line.strip_prefix(&name));
            Ok(value.context(name)?.trim().parse()?)
        };
        let [recommended, requested] = [value("recommended")?, value("requested")?];
        // Other pods of the node, such as those of the daemon, have no recommendation.
        let more = recommended - requested;
        ensure!((more - 0.196).abs() < 0.001, "{recommended} {requested}");
        ensure!(requested > 30.2 && requested < 32.0, "{requested}");
        ensure!((value("allocatable")? - 32.0).abs() < 0.001, "{text}");
        Ok(())
    })
    .await
}

#[tokio::test]
async fn caps_rise_with_nodes_that_could_come_and_metrics_show_each_node_group() -> Result<()> {
    let sandbox = another("node-capacity").await?;
    let client = sandbox.client().await?;
    e2e::apply(&sandbox, "tests/e2e/node_capacity/karpenter.yaml").await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for name in ["nodepools.karpenter.sh", "nodeclaims.karpenter.sh"] {
        is_established(&definitions, name).await?;
    }
    deployment::deploy(&sandbox, "tests/e2e/node_capacity", RECOMMENDER.labels).await?;
    let cluster = Namespace::cluster(client.clone());
    let system = Namespace::of(client.clone(), STATUS_NAMESPACE);
    system.create::<ConfigMap>(autoscaler(3)).await?;
    let batch = group(&client, "node-1", ("karpenter.sh/nodepool", "batch")).await?;
    let given = group(&client, "node-2", ("eks.amazonaws.com/nodegroup", "given")).await?;
    batch.targets("web", "cpu", LEFT_BY_DAEMON).await?;
    // The flag gives a larger shape, but the group is at its maximum.
    given.targets("web", "cpu", LEFT_BY_DAEMON).await?;

    system
        .patch::<ConfigMap>(STATUS_NAME, autoscaler(2))
        .await?;
    given.targets("web", "cpu", CPU_OF_240M).await?;

    let labels = json!({"karpenter.sh/nodepool": "batch"});
    let size = json!({"cpu": "16", "memory": "64Gi"});
    let claim = json!({
        "metadata": {"name": "batch-1", "labels": labels},
        "spec": {}, "status": {"allocatable": size},
    });
    cluster.create::<NodeClaim>(claim).await?;
    batch.targets("web", "cpu", CPU_OF_240M).await?;
    check_metrics(&client).await?;
    cluster.delete::<NodeClaim>("batch-1").await?;
    batch.targets("web", "cpu", LEFT_BY_DAEMON).await?;

    let pool = json!({"metadata": {"name": "batch"}, "spec": {"limits": size}});
    cluster.create::<NodePool>(pool).await?;
    batch.targets("web", "cpu", CPU_OF_240M).await?;
    sandbox.down().await
}
