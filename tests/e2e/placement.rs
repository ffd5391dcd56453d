//! The extender with a real kube-scheduler and metrics-server: pods go where the measured load is
//! low, and scheduling goes on without metrics and without the extender.

mod fixture;

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::deployment::{EXTENDER, SYSTEM, replicas, scrape};
use e2e::{Namespace, Prometheus, eventually, kubectl_in, until};
use k8s_openapi::api::core::v1::ConfigMap;
use sandbox::Component;
use serde_json::{Value, json};
use tokio::time::Instant;

use fixture::{Cluster, HONEST, HOT_PERCENT, LOADED, NODES, Placement};

#[tokio::test]
async fn pods_go_where_the_measured_load_is_low() -> Result<()> {
    let cluster = Cluster::new().await?;
    load_is_served(&cluster).await?;
    policies_choose_their_nodes(&cluster).await?;
    nodes_above_the_threshold_are_left_out(&cluster).await?;
    a_burst_does_not_pile_up(&cluster).await?;
    load_is_spread(&cluster).await?;
    scheduling_goes_on_without_metrics(&cluster).await?;
    scheduling_goes_on_without_the_extender(&cluster).await?;
    prometheus_can_be_the_source(&cluster).await
}

/// Requests of load-watcher's clients, once the load of all nodes is known.
async fn load_is_served(cluster: &Cluster) -> Result<()> {
    let answer = eventually("the load of all nodes is known", async || {
        let (status, body) = cluster.load_watcher("/watcher").await?;
        ensure!(status == 200, "{status}: {body}");
        let answer: Value = serde_json::from_str(&body)?;
        let nodes = &answer["data"]["NodeMetricsMap"];
        let known = nodes.as_object().map_or(0, serde_json::Map::len);
        ensure!(known == usize::from(NODES), "{known} nodes");
        let load = cpu_percent(&nodes["node-0"])?;
        ensure!(load > 50.0, "the load of node-0 is {load} %");
        Ok(answer)
    })
    .await?;
    for field in ["start", "end"] {
        ensure!(answer["window"][field].is_i64(), "{}", answer["window"]);
    }
    ensure!(answer["timestamp"].is_i64() && answer["source"].is_string());
    let idle = cpu_percent(&answer["data"]["NodeMetricsMap"]["node-99"])?;
    ensure!(idle < 10.0, "the load of node-99 is {idle} %");

    let (status, body) = cluster.load_watcher("/watcher?host=node-0").await?;
    let one: Value = serde_json::from_str(&body)?;
    let names: Vec<_> = one["data"]["NodeMetricsMap"]
        .as_object()
        .context("a map")?
        .keys()
        .collect();
    ensure!(status == 200 && names == ["node-0"], "{status}: {names:?}");
    let (status, body) = cluster.load_watcher("/watcher?host=absent").await?;
    ensure!(status == 404, "{status}: {body}");
    let (status, _) = cluster.load_watcher("/watcher/health").await?;
    ensure!(status == 200, "health: {status}");
    Ok(())
}

/// Average CPU utilization of a node in an answer of load-watcher.
fn cpu_percent(node: &Value) -> Result<f64> {
    let metrics = node["metrics"].as_array().context("no metrics")?;
    let is_average = |metric: &&Value| metric["type"] == "CPU" && metric["operator"] != "STD";
    let metric = metrics.iter().find(is_average).context("no CPU")?;
    metric["value"].as_f64().context("no value")
}

/// The policies of profiles, which a scheduler asks for by its path, and of an annotation.
async fn policies_choose_their_nodes(cluster: &Cluster) -> Result<()> {
    let peaks = cluster.scheduler("peaks", "/profiles/peaks").await?;
    let low_risk = cluster.scheduler("low-risk", "/profiles/low-risk").await?;
    let packed = Some("TargetLoadPacking(targetUtilization=40)");
    let load_aware = &cluster.load_aware;
    for (scheduler, policy, among, expected) in [
        (load_aware, None, [90, 99], 99),
        (load_aware, packed, [90, 99], 90),
        (&peaks, None, [90, 91], 91),
    ] {
        cluster
            .always_chosen(scheduler, ("1", policy), among, expected)
            .await?;
    }
    // The reservations of the pods that make the load end a minute after their binding.
    eventually("the node that requests more than it uses", async || {
        cluster
            .always_chosen(&low_risk, ("1", None), 91..=HONEST, HONEST)
            .await
    })
    .await
}

/// The policy prefers a node that has 62.5 % of its CPU in use, but not for a pod with which it had more
/// than 80 %.
async fn nodes_above_the_threshold_are_left_out(cluster: &Cluster) -> Result<()> {
    let policy = Some("TargetLoadPacking(targetUtilization=90)");
    for (cpu, expected) in [("1", 0), ("5700m", 90)] {
        cluster
            .always_chosen(&cluster.load_aware, (cpu, policy), [0, 90], expected)
            .await?;
    }
    Ok(())
}

/// Prometheus says that the nodes with much load have little, and the others much.
async fn prometheus_can_be_the_source(cluster: &Cluster) -> Result<()> {
    let rules = (0..NODES).map(|number| {
        let ratio = if number < LOADED { 0.05 } else { 0.7 };
        json!({
            "record": "instance:node_cpu:ratio", "expr": format!("vector({ratio})"),
            "labels": {"instance": format!("node-{number}")},
        })
    });
    let rules: Vec<Value> = rules.collect();
    let group = json!({"name": "nodes", "interval": "1s", "rules": rules});
    let file = cluster.sandbox.prometheus_files().join("rules-nodes.yaml");
    fs::write(file, json!({"groups": [group]}).to_string())?;
    Prometheus::scrape_programs(&cluster.sandbox).await?;

    let system = Namespace::of(cluster.client.clone(), SYSTEM);
    // kustomize adds a hash to the name.
    let maps = system.list::<ConfigMap>().await?;
    let mut names = maps
        .iter()
        .filter_map(|map| map["metadata"]["name"].as_str());
    let name = names.find(|name| name.starts_with("plimsoll-extender-config"));
    let name = name.context("the extender has a file")?;
    let config = system.get::<ConfigMap>(name).await?;
    let config = config["data"]["config.yaml"].as_str().context("a file")?;
    let mut config: Value = serde_yaml_ng::from_str(config)?;
    config["load"]["metricProvider"] = json!({"type": "Prometheus"});
    config["prometheus"] = json!({
        "address": cluster.sandbox.prometheus_url(),
        "tlsConfig": {"caFile": cluster.sandbox.authority()},
    });
    let data = json!({"data": {"config.yaml": config.to_string()}});
    system.patch::<ConfigMap>(name, data).await?;
    let extender = "-n plimsoll-system deployment/plimsoll-extender";
    kubectl_in(&cluster.sandbox, &format!("scale {extender} --replicas=2")).await?;
    let status = format!("rollout status {extender} --timeout=10m");
    kubectl_in(&cluster.sandbox, &status).await?;

    let scheduler = cluster.scheduler("by-prometheus", "").await?;
    eventually("the load of Prometheus counts", async || {
        cluster
            .always_chosen(&scheduler, ("1", None), [0, 90], 0)
            .await
    })
    .await
}

/// One node is idle, and no metrics arrive during the burst: without reservations, all pods would go
/// to that node.
async fn a_burst_does_not_pile_up(cluster: &Cluster) -> Result<()> {
    cluster.sandbox.pause(Component::MetricsServer).await?;
    let started = Instant::now();
    let nodes = cluster.burst("burst", 100).await?;
    let took = started.elapsed();
    cluster.sandbox.resume(Component::MetricsServer).await?;
    let most = nodes.values().max().copied().unwrap_or_default();
    println!(
        "100 pods between two updates of the metrics: on {} nodes, at most {most} on one, in {took:.1?}",
        nodes.len()
    );
    ensure!(nodes.contains_key("node-99"), "the idle node has none");
    ensure!(most <= 8, "{nodes:?}");
    let loaded = |name: &String| (0..LOADED).any(|number| *name == format!("node-{number}"));
    let misplaced = nodes.keys().filter(|name| loaded(name)).count();
    ensure!(
        misplaced == 0,
        "{misplaced} loaded nodes have pods: {nodes:?}"
    );
    cluster.clear("burst").await
}

async fn load_is_spread(cluster: &Cluster) -> Result<()> {
    let with = cluster.place(&cluster.load_aware.name).await?;
    let without = cluster.place("default-scheduler").await?;
    for (scheduler, placement) in [("the extender", with), ("the default scheduler", without)] {
        let Placement {
            deviation,
            hot,
            max,
            mean,
        } = placement;
        println!(
            "400 pods on {NODES} nodes with {scheduler}: CPU utilization {mean:.1} %, standard deviation {deviation:.1}, \
             at most {max:.0} %, {hot} nodes above {HOT_PERCENT} %"
        );
    }
    // On a busy machine some scores are too late, and neutral.
    ensure!(with.deviation < 0.8 * without.deviation);
    ensure!(without.hot > 0 && with.hot < without.hot / 2);
    Ok(())
}

/// Once the measured load is too old, scores are by allocation.
async fn scheduling_goes_on_without_metrics(cluster: &Cluster) -> Result<()> {
    cluster.sandbox.stop(Component::MetricsServer).await?;
    let mut number = 0;
    eventually("scores are by allocation", async || {
        number += 1;
        cluster.burst(&format!("stale-{number}"), 2).await?;
        let metrics = scrape(&cluster.replica().await?).await?;
        let is_counted = |line: &str| {
            line.starts_with("plimsoll_extender_answers_total{")
                && line.contains("basis=\"allocation\"")
                && line.contains("prioritize")
        };
        ensure!(metrics.lines().any(is_counted), "none yet");
        Ok(())
    })
    .await?;
    let nodes = cluster.burst("without-metrics", 20).await?;
    println!("without metrics: 20 pods on {} nodes", nodes.len());
    Ok(())
}

/// The scores of the other plugins decide.
async fn scheduling_goes_on_without_the_extender(cluster: &Cluster) -> Result<()> {
    let scale = "-n plimsoll-system scale deployment plimsoll-extender --replicas=0";
    kubectl_in(&cluster.sandbox, scale).await?;
    until(
        "no replica is left",
        async || anyhow::Ok(replicas(&cluster.client, EXTENDER).await?.len()),
        |left| *left == 0,
    )
    .await?;
    let started = Instant::now();
    let nodes = cluster.burst("without-extender", 20).await?;
    println!(
        "without the extender: 20 pods on {} nodes in {:.1?}",
        nodes.len(),
        started.elapsed()
    );
    Ok(())
}
