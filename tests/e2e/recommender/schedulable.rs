//! Recommendations limited to schedulable sizes: by the node that pods are pinned to, by a quota
//! and by a limit range. The limit shows in a condition, an event and a metric, and ends when there
//! is space again.

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::deployment::{self, RECOMMENDER, leader, metric};
use e2e::{another, eventually, requests, usage, workload};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::Client;
use serde_json::{Value, json};

use super::fixture::{Fixture, conditions, first_container};
use super::{CPU_OF_240M, PROVIDED};

/// A node of the sandbox has 32 cores, of which the margin of 5 % leaves 30.4.
const DAEMON_CPU: &str = "30150m";
pub(super) const LEFT_BY_DAEMON: &str = "250m";
const NODE: &str = "node-2";

/// A namespace whose workload `web`, on nodes with this label, shares a node with a daemon that leaves
/// little.
pub(super) async fn beside_a_daemon_set(
    client: Client,
    prefix: &str,
    node: &str,
    label: (&str, &str),
) -> Result<Fixture> {
    let fixture = Fixture::new(client, prefix).await?;
    let of = |name: &str, cpu: &str, label: (&str, &str)| {
        let (requests, usage) = (requests(cpu, "100Mi"), usage("240m", "300Mi"));
        let mut set = workload(name, 1, &requests, &usage);
        set["spec"]["template"]["spec"]["nodeSelector"] = json!({label.0: label.1});
        set
    };
    let mut heavy = of("heavy", DAEMON_CPU, ("kubernetes.io/hostname", node));
    heavy["spec"]["replicas"] = Value::Null;
    fixture.create::<DaemonSet>(heavy).await?;
    let web = of("web", "100m", label);
    fixture.create::<Deployment>(web).await?;
    fixture.autoscale("web", "web").await?;
    Ok(fixture)
}

async fn with_a_quota(client: Client) -> Result<Fixture> {
    let fixture = Fixture::new(client, "quota").await?;
    let spec = json!({"hard": {"requests.cpu": "400m"}});
    fixture.make::<ResourceQuota>("compute", spec).await?;
    fixture.deploy("web", 2, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    Ok(fixture)
}

async fn with_a_limit_range(client: Client) -> Result<Fixture> {
    let fixture = Fixture::new(client, "range").await?;
    let item = json!({"type": "Container", "max": {"cpu": "400m"}});
    let spec = json!({"limits": [item]});
    fixture.make::<LimitRange>("small", spec).await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    Ok(fixture)
}

/// Waits until the CPU target is limited to `cpu`, and checks the reports about it.
async fn check(fixture: &Fixture, cpu: &str, reason: &str, whose: &str) -> Result<()> {
    let message =
        format!("Capped to schedulable resources: cpu of container app to {cpu} by {whose}");
    let expected = [["RecommendationCapped", "True", reason, &message], PROVIDED];
    let is_held = |object: &Value| {
        let cpus = ["target", "uncappedTarget", "upperBound"]
            .map(|bound| &first_container(object)[bound]["cpu"]);
        cpus == [cpu, CPU_OF_240M, cpu] && conditions(object) == expected
    };
    fixture
        .when::<Vpa>("web", &format!("cpu is held to {cpu}: {message}"), is_held)
        .await
        .map(drop)
}

#[tokio::test]
async fn recommendations_are_held_to_what_can_be_scheduled_and_say_so() -> Result<()> {
    let sandbox = another("schedulable").await?;
    deployment::deploy(&sandbox, "tests/e2e/schedulable", RECOMMENDER.labels).await?;
    let client = sandbox.client().await?;
    let label = ("kubernetes.io/hostname", NODE);
    let node = beside_a_daemon_set(client.clone(), "node", NODE, label).await?;
    let quota = with_a_quota(client.clone()).await?;
    let range = with_a_limit_range(client.clone()).await?;

    check(&node, LEFT_BY_DAEMON, "Node", "Node").await?;
    // Two replicas share it.
    check(&quota, "200m", "ResourceQuota", "ResourceQuota compute").await?;
    // The limit is the range's default, four times the request, and follows it.
    check(&range, "100m", "LimitRange", "LimitRange small").await?;
    for fixture in [&node, &quota, &range] {
        fixture.await_event("web", "RecommendationCapped").await?;
    }
    eventually("a metric counts them", async || {
        let leader = leader(&client, RECOMMENDER).await?;
        let capped = metric(&leader, "vpa_recommender_capped_objects").await?;
        ensure!((capped - 3.0).abs() < 0.5, "{capped} objects are capped");
        Ok(())
    })
    .await?;

    node.delete::<DaemonSet>("heavy").await?;
    node.targets("web", "cpu", CPU_OF_240M).await?;
    node.await_conditions("web", &[PROVIDED]).await?;
    node.await_event("web", "RecommendationUncapped").await?;
    sandbox.down().await
}
