//! The fifth step: pods of a Job are placed twice, by what is requested on the nodes and by what is
//! measured on them. One node is busy although little is requested there.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use api::pod_metrics::NodeMetrics;
use e2e::deployment::{EXTENDER, replicas, scrape, sum_with};
use e2e::scheduler::Scheduler;
use e2e::{create, eventually, node_of, repository};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;

use crate::observe::{self, NAMESPACE};

const JOB: &str = "tests/demo/render.yaml";
const NAME: &str = "render";
/// Pods of the Job, and the CPU that each of them uses.
const PODS: usize = 4;
const USED_BY_POD: f64 = 2000.0;
/// The node that is busy, by `workloads.yaml`.
const BUSY: &str = "node-0";

/// CPU of the busy node in percent: measured before the Job, and expected with its pods as each scheduler
/// placed them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placed {
    pub(crate) before: f64,
    pub(crate) by_requests: f64,
    pub(crate) by_load: f64,
}

pub(crate) async fn watch(client: &Client, load_aware: &Scheduler) -> Result<Placed> {
    println!(
        "\n5. Much is used on {BUSY}, although little is requested there. A Job of {PODS} pods is placed by kube-scheduler, without and with the extender.\n"
    );
    let nodes = eventually("the load of all nodes is measured", async || {
        let nodes = nodes(client).await?;
        let busy = nodes.get(BUSY).context("the busy node is not there")?;
        ensure!(busy.percent(0) > 50.0, "{busy:?}");
        Ok(nodes)
    })
    .await?;
    let by_requests = place(client, "default-scheduler").await?;
    let by_load = eventually("pods are placed by load", async || {
        let before = answers_by_load(client).await?;
        let placed = place(client, &load_aware.name).await?;
        let answers = answers_by_load(client).await? - before;
        ensure!(answers as usize >= PODS, "{answers} answers by load");
        Ok(placed)
    })
    .await?;
    println!(
        "  {:<8} {:>14} {:>9}    {:>22}    {:>22}",
        "NODE", "CPU REQUESTED", "CPU USED", "PODS BY REQUESTS", "PODS BY LOAD"
    );
    let count =
        |placed: &BTreeMap<String, usize>, node: &str| placed.get(node).copied().unwrap_or(0);
    for (name, node) in &nodes {
        let with = |placed| {
            let pods = count(placed, name);
            format!("{pods} pods: {:.0} % expected", node.percent(pods))
        };
        println!(
            "  {name:<8} {:>12.0} % {:>7.0} %    {:>22}    {:>22}",
            100.0 * node.requested / node.allocatable,
            node.percent(0),
            with(&by_requests),
            with(&by_load)
        );
    }
    let busy = nodes.get(BUSY).context("the busy node is not there")?;
    let placed = Placed {
        before: busy.percent(0),
        by_requests: busy.percent(count(&by_requests, BUSY)),
        by_load: busy.percent(count(&by_load, BUSY)),
    };
    ensure!(
        placed.by_load < placed.by_requests,
        "the extender did not keep {BUSY} cool: {placed:?}"
    );
    Ok(placed)
}

#[derive(Debug, Default)]
struct NodeCpu {
    allocatable: f64,
    requested: f64,
    used: f64,
}

impl NodeCpu {
    /// Measured usage and that of this number of pods of the Job, in percent.
    fn percent(&self, pods: usize) -> f64 {
        100.0 * (self.used + USED_BY_POD * pods as f64) / self.allocatable
    }
}

async fn nodes(client: &Client) -> Result<BTreeMap<String, NodeCpu>> {
    let all = ListParams::default();
    let mut found: BTreeMap<String, NodeCpu> = BTreeMap::new();
    for node in Api::<Node>::all(client.clone()).list(&all).await? {
        let status = serde_json::to_value(&node.status)?;
        let allocatable = observe::millicores(&status["allocatable"]["cpu"]);
        found.entry(node.name_any()).or_default().allocatable =
            allocatable.context("a node has no CPU")?;
    }
    for metrics in observe::metrics::<NodeMetrics>(client, "nodes").await? {
        let name = metrics.metadata.name.unwrap_or_default();
        let node = found.get_mut(&name).context("an unknown node")?;
        node.used = metrics
            .usage
            .cpu
            .context("the CPU is not measured")?
            .milli_value() as f64;
    }
    for pod in Api::<Pod>::all(client.clone()).list(&all).await? {
        if let Some(node) = found.get_mut(node_of(&pod)) {
            node.requested += observe::request(&pod).map_or(0.0, |request| request.cpu_millicores);
        }
    }
    Ok(found)
}

/// Creates the Job for a scheduler, waits until its pods are on nodes, deletes it and returns the
/// number of pods of each node.
async fn place(client: &Client, scheduler: &str) -> Result<BTreeMap<String, usize>> {
    let text = std::fs::read_to_string(repository().join(JOB)).context(JOB)?;
    let mut job: Value = serde_yaml_ng::from_str(&text).context(JOB)?;
    job["spec"]["template"]["spec"]["schedulerName"] = scheduler.into();
    let jobs = Api::<Job>::namespaced(client.clone(), NAMESPACE);
    create(&jobs, job).await?;
    let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
    let labels = ListParams::default().labels("app=render");
    let placed = eventually("the pods of the Job are on nodes", async || {
        let mut placed = BTreeMap::new();
        for pod in pods.list(&labels).await? {
            *placed.entry(node_of(&pod).to_owned()).or_insert(0) += 1;
        }
        let waiting = placed.remove("").unwrap_or(0);
        ensure!(placed.values().sum::<usize>() == PODS, "{waiting} wait");
        Ok(placed)
    })
    .await;
    jobs.delete(NAME, &DeleteParams::foreground()).await?;
    eventually("the Job is deleted", async || {
        let left = pods.list(&labels).await?.items.len();
        let is_gone = jobs.get_opt(NAME).await?.is_none();
        ensure!(left == 0 && is_gone, "{left} pods are left");
        Ok(())
    })
    .await?;
    placed
}

/// Answers of the extender that were given by load.
async fn answers_by_load(client: &Client) -> Result<f64> {
    let mut sum = 0.0;
    for replica in replicas(client, EXTENDER).await? {
        let text = scrape(&replica).await?;
        sum += sum_with(&text, "plimsoll_extender_answers_total", "basis=\"load\"");
    }
    Ok(sum)
}
