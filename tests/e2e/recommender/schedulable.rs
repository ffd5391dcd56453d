//! Recommendations limited to schedulable sizes: by the node that pods are pinned to, by a quota
//! and by a limit range. The limit shows in a condition, an event, a metric and the feed, and ends
//! when there is space again.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use e2e::{FEED_SERVER, another, eventually, feed_certificates, kubectl_in};
use feed::Explained;
use feed::proto::ExplainRequest;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{LimitRange, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use model::{Bound, Cap, ResourceName};
use runtime::follow_leader;
use rustls_pki_types::ServerName;
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::deployed::{leader, metric};
use super::fixture::{Fixture, PATIENCE, conditions, first_container};
use super::{CPU_OF_240M, PROVIDED, deployment};

/// A node of the sandbox has 32 cores, of which the margin of 5 % leaves 30.4.
const DAEMON_CPU: &str = "30150m";
const LEFT_BY_DAEMON: &str = "250m";
const NODE: &str = "node-2";

fn pod(name: &str, cpu: &str, node: Option<&str>) -> Value {
    let usage = json!({"kwok.x-k8s.io/usage-cpu": "240m", "kwok.x-k8s.io/usage-memory": "300Mi"});
    let resources = json!({"requests": {"cpu": cpu, "memory": "100Mi"}});
    let container =
        json!({"name": "app", "image": "registry.example.com/app", "resources": resources});
    let selector = node.map_or(json!({}), |node| json!({"kubernetes.io/hostname": node}));
    json!({
        "metadata": {"labels": {"app": name}, "annotations": usage},
        "spec": {"containers": [container], "nodeSelector": selector},
    })
}

async fn deploy(fixture: &Fixture, replicas: u32, node: Option<&str>) -> Result<()> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let spec =
        json!({"replicas": replicas, "selector": selector, "template": pod("web", "100m", node)});
    let object = json!({"metadata": {"name": "web"}, "spec": spec});
    let deployments: Api<Deployment> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    deployments
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    fixture
        .autoscale("web", deployment("web"), &json!({}))
        .await
}

/// A namespace whose workload shares the node with a daemon that leaves little.
async fn with_a_daemon_set(client: Client) -> Result<Fixture> {
    let fixture = Fixture::new(client, "node").await?;
    let selector = json!({"matchLabels": {"app": "heavy"}});
    let spec = json!({"selector": selector, "template": pod("heavy", DAEMON_CPU, Some(NODE))});
    let object = json!({"metadata": {"name": "heavy"}, "spec": spec});
    let daemons: Api<DaemonSet> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    daemons
        .create(&PostParams::default(), &serde_json::from_value(object)?)
        .await?;
    deploy(&fixture, 1, Some(NODE)).await?;
    Ok(fixture)
}

async fn with_a_quota(client: Client) -> Result<Fixture> {
    let fixture = Fixture::new(client, "quota").await?;
    let quota =
        json!({"metadata": {"name": "compute"}, "spec": {"hard": {"requests.cpu": "400m"}}});
    let quotas: Api<ResourceQuota> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    quotas
        .create(&PostParams::default(), &serde_json::from_value(quota)?)
        .await?;
    deploy(&fixture, 2, None).await?;
    Ok(fixture)
}

async fn with_a_limit_range(client: Client) -> Result<Fixture> {
    let fixture = Fixture::new(client, "range").await?;
    let item = json!({"type": "Container", "max": {"cpu": "400m"}});
    let range = json!({"metadata": {"name": "small"}, "spec": {"limits": [item]}});
    let ranges: Api<LimitRange> = Api::namespaced(fixture.client.clone(), &fixture.namespace);
    ranges
        .create(&PostParams::default(), &serde_json::from_value(range)?)
        .await?;
    deploy(&fixture, 1, None).await?;
    Ok(fixture)
}

/// Waits until the CPU target is limited to `cpu`, and checks the reports about it.
async fn check(fixture: &Fixture, cpu: &str, reason: &str, whose: &str) -> Result<()> {
    let message =
        format!("Held to what can be scheduled: cpu of container app to {cpu} by {whose}");
    let expected = [["RecommendationCapped", "True", reason, &message], PROVIDED];
    let is_held = |object: &Value| {
        let cpu_of = |bound: &str| first_container(object)[bound]["cpu"].clone();
        (
            cpu_of("target"),
            cpu_of("uncappedTarget"),
            cpu_of("upperBound"),
        ) == (cpu.into(), CPU_OF_240M.into(), cpu.into())
            && conditions(object) == expected
    };
    fixture
        .object_when("web", &format!("cpu is held to {cpu}: {message}"), is_held)
        .await
        .map(drop)
}

async fn await_event(sandbox: &Sandbox, fixture: &Fixture, reason: &str) -> Result<()> {
    eventually("an event tells of it", PATIENCE, async || {
        let path =
            "jsonpath={range .items[*]}{.reason} {.regarding.kind}/{.regarding.name}{'\\n'}{end}";
        let printed = kubectl_in(
            sandbox,
            &[
                "get",
                "events.events.k8s.io",
                "-n",
                &fixture.namespace,
                "-o",
                path,
            ],
        )
        .await?;
        let expected = format!("{reason} VerticalPodAutoscaler/web");
        ensure!(printed.lines().any(|line| line == expected), "{printed}");
        Ok(())
    })
    .await
}

/// The explanation over the feed.
async fn explain(fixture: &Fixture) -> Result<Explained> {
    let config = feed_certificates(&fixture.client).await?;
    let tls: feed::client::CurrentTls = Arc::new(move || Arc::clone(&config));
    let name = ServerName::try_from(FEED_SERVER)?;
    let (found, mut leader) = watch::channel(None);
    let leases: Api<Lease> = Api::namespaced(fixture.client.clone(), "kube-system");
    let following = tokio::spawn(follow_leader(leases, "vpa-recommender-lease", found));
    timeout(PATIENCE, leader.wait_for(Option::is_some)).await??;
    let namespace = fixture.namespace.clone();
    let explained = eventually("the feed explains", PATIENCE, async || {
        let address = leader
            .borrow()
            .clone()
            .context("the Lease tells the leader's address")?;
        let mut client = feed::client::client(&address, &tls, &name).await?;
        let request = ExplainRequest {
            namespace: namespace.clone(),
            name: "web".to_owned(),
            container: "app".to_owned(),
        };
        Ok(Explained::try_from(
            client.explain(request).await?.into_inner(),
        )?)
    })
    .await;
    following.abort();
    explained
}

#[tokio::test]
async fn recommendations_are_held_to_what_can_be_scheduled_and_say_so() -> Result<()> {
    let sandbox = another("schedulable").await?;
    e2e::deployed::deploy(&sandbox, "tests/e2e/schedulable").await?;
    let client = sandbox.client().await?;
    let node = with_a_daemon_set(client.clone()).await?;
    let quota = with_a_quota(client.clone()).await?;
    let range = with_a_limit_range(client.clone()).await?;

    check(&node, LEFT_BY_DAEMON, "Node", "Node").await?;
    // Two replicas share it.
    check(&quota, "200m", "ResourceQuota", "ResourceQuota compute").await?;
    // The limit is the range's default, four times the request, and follows it.
    check(&range, "100m", "LimitRange", "LimitRange small").await?;
    for fixture in [&node, &quota, &range] {
        await_event(&sandbox, fixture, "RecommendationCapped").await?;
    }
    eventually("a metric counts them", PATIENCE, async || {
        let capped = metric(&leader(&client).await?, "vpa_recommender_capped_objects").await?;
        ensure!((capped - 3.0).abs() < 0.5, "{capped} objects are capped");
        Ok(())
    })
    .await?;

    let explained = explain(&node).await?;
    let numbers = explained.explanation.numbers.iter();
    let target = numbers
        .filter(|number| number.resource == ResourceName::Cpu && number.bound == Bound::Target);
    let found: Vec<_> = target
        .map(|number| {
            (
                number.in_whole_units.to_string(),
                number.capped.to_string(),
                number.capped_by,
                &number.capped_because,
            )
        })
        .collect();
    let because =
        format!("node {NODE} has {LEFT_BY_DAEMON} cpu left for one pod after 1 DaemonSet pods");
    assert_eq!(
        found,
        [(
            CPU_OF_240M.to_owned(),
            LEFT_BY_DAEMON.to_owned(),
            Some(Cap::Node),
            &Some(because)
        )]
    );

    let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), &node.namespace);
    daemons.delete("heavy", &DeleteParams::default()).await?;
    node.object_with_target("web", "cpu", CPU_OF_240M).await?;
    node.await_conditions("web", &[PROVIDED]).await?;
    await_event(&sandbox, &node, "RecommendationUncapped").await?;
    sandbox.down().await
}
