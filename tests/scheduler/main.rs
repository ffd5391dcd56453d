//! Pods per second of a real kube-scheduler with and without the extender, in one run.
//!
//! `NODES` nodes (1,000 if absent) and `PODS` pods (2,000 if absent) per round. Each configuration
//! is measured in every round, so that a change of the machine's load concerns all of them. The
//! pods request different amounts, as those of different workloads do: kube-scheduler places
//! identical pods in batches, but not with an extender (`IDENTICAL=1` measures these). The pods exist
//! before the scheduler starts; the time is from the first binding to the last. The
//! numbers are of the release build; `make bench-scheduler` makes it.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::{exit_code, in_sandbox, median, number};
use e2e::deployment::{EXTENDER, deploy, process, replicas, scrape, sum};
use e2e::process_usage::resident_text;
use e2e::scheduler::{Scheduler, defaults, with_extender};
use e2e::{
    Namespace, apply, bare_pod, eventually_within, follow, in_parallel, program, requests,
    until_within, usage,
};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher::Event;
use sandbox::{Options, Sandbox};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

const DEFAULT_NODES: usize = 1_000;
const DEFAULT_PODS: usize = 2_000;
const ROUNDS: usize = 3;
/// Requests under way at the same time.
const PARALLEL: usize = 32;
/// Label of the pods that make load.
const LOAD: &str = "load";
const PATIENCE: Duration = Duration::from_mins(10);

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

async fn run() -> Result<()> {
    let nodes = number("NODES")?.unwrap_or(DEFAULT_NODES);
    let pods = number("PODS")?.unwrap_or(DEFAULT_PODS);
    let options = Options {
        nodes: nodes.try_into().context("NODES is too large")?,
        ..Options::new("scheduler", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| measure(sandbox, nodes, pods).await).await
}

async fn measure(sandbox: &Sandbox, nodes: usize, pods: usize) -> Result<()> {
    apply(sandbox, "deploy/crds").await?;
    apply(sandbox, "deploy/base/namespace.yaml").await?;
    let client = sandbox.client().await?;
    deploy(sandbox, "tests/scheduler", EXTENDER.labels).await?;
    let replica = replicas(&client, EXTENDER).await?.pop();
    let replica = replica.context("no replica of the extender")?;
    let own = Namespace::new(client.clone(), "pods").await?;
    let identical = env::var_os("IDENTICAL").is_some_and(|value| !value.is_empty());
    make_load(&own, nodes).await?;
    eventually_within(PATIENCE, "the load of all nodes is known", async || {
        let metrics = scrape(&replica).await?;
        let known = sum(&metrics, "plimsoll_load_watcher_nodes").context("no metric")?;
        let unknown = sum(&metrics, "plimsoll_load_watcher_nodes_without_load");
        let found = known - unknown.context("no metric")?;
        ensure!(found as usize == nodes, "{found} of {nodes}");
        Ok(())
    })
    .await?;

    let extender = with_extender(sandbox, &replica).await?;
    let mut filter = extender.clone();
    filter["extenders"][0]["filterVerb"] = "filter".into();
    let configurations = [
        ("stock", defaults()),
        ("extender", extender),
        ("extender-filter", filter),
    ];
    println!("  {pods} pods per round on {nodes} nodes, pods per second:");
    let process = process(&client, &replica).await?;
    let mut rates: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        for (name, configuration) in &configurations {
            let pods = Pods {
                own: &own,
                count: pods,
                identical,
            };
            let rate = pods
                .rate(sandbox, &format!("{name}-{round}"), configuration)
                .await?;
            println!("    {name:<16} {rate:>7.1}");
            rates.entry(name).or_default().push(rate);
        }
    }
    let metrics = scrape(&replica).await?;
    println!("  answers of the extender, and seconds inside it:");
    for line in metrics.lines() {
        let is_duration = line.starts_with("plimsoll_extender_request_duration_seconds_sum")
            || line.starts_with("plimsoll_extender_request_duration_seconds_count");
        if is_duration || line.starts_with("plimsoll_extender_answers_total{") {
            println!("    {line}");
        }
    }
    let stock = median(rates["stock"].clone());
    println!("  median of pods per second, and difference from stock:");
    for (name, _) in &configurations {
        let rate = median(rates[name].clone());
        println!(
            "    {name:<16} {rate:>7.1} {:>+6.1} %",
            100.0 * (rate / stock - 1.0)
        );
    }
    let memory = resident_text(process)?;
    println!("  resident memory of the extender: {memory}");
    Ok(())
}

/// Creates a pod with load on each node: metrics-server does not report idle nodes.
async fn make_load(own: &Namespace, nodes: usize) -> Result<()> {
    let made = (0..nodes).map(|number| {
        let mut pod = pod(LOAD, number);
        let cores = (number % 20 + 1).to_string();
        pod["metadata"]["annotations"] = usage(&cores, "64Mi");
        pod["spec"]["nodeName"] = format!("node-{number}").into();
        own.create::<Pod>(pod)
    });
    Ok(in_parallel(PARALLEL, made).await?)
}

struct Pods<'a> {
    own: &'a Namespace,
    count: usize,
    /// Whether all request the same.
    identical: bool,
}

impl Pods<'_> {
    /// Pods per second of a scheduler with this configuration.
    async fn rate(&self, sandbox: &Sandbox, name: &str, configuration: &Value) -> Result<f64> {
        let made = (0..self.count).map(|number| self.own.create::<Pod>(self.pod(name, number)));
        in_parallel(PARALLEL, made).await?;
        let (sender, mut bindings) = watch::channel(Bindings::default());
        let _watch = follow(self.own.typed::<Pod>(), move |event| {
            if let Event::Apply(pod) | Event::InitApply(pod) = event
                && pod.labels().get("app").is_none_or(|app| app != LOAD)
            {
                sender.send_if_modified(|bindings| bindings.take(pod));
            }
        });
        let _scheduler = Scheduler::start(sandbox, name, configuration.clone())?;
        let all = bindings.wait_for(|bindings| bindings.pods.len() == self.count);
        let took = timeout(PATIENCE, all)
            .await
            .context("all pods are bound")??
            .took();
        self.delete().await?;
        Ok((self.count - 1) as f64 / took.context("no binding")?.as_secs_f64())
    }

    fn pod(&self, scheduler: &str, number: usize) -> Value {
        let mut pod = pod(scheduler, number);
        if !self.identical {
            let cpu = format!("{}m", 100 + number % 100);
            pod["spec"]["containers"][0]["resources"] = requests(&cpu, "64Mi");
        }
        pod
    }

    async fn delete(&self) -> Result<()> {
        let pods = self.own.typed::<Pod>();
        let params = ListParams::default().labels(&format!("app!={LOAD}"));
        pods.delete_collection(&DeleteParams::default(), &params)
            .await?;
        until_within(
            PATIENCE,
            "the pods are gone",
            async || anyhow::Ok(pods.list_metadata(&params).await?.items.len()),
            |left| *left == 0,
        )
        .await
    }
}

/// Bound pods by unique identifier, and the times of the first and the last binding.
#[derive(Debug, Default)]
struct Bindings {
    pods: BTreeSet<String>,
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Bindings {
    fn take(&mut self, pod: Pod) -> bool {
        let is_bound = pod.spec.is_some_and(|spec| spec.node_name.is_some());
        let is_new = is_bound && self.pods.insert(pod.metadata.uid.unwrap_or_default());
        if is_new {
            self.last = Some(Instant::now());
            self.first = self.first.or(self.last);
        }
        is_new
    }

    fn took(&self) -> Option<Duration> {
        Some(self.last?.duration_since(self.first?))
    }
}

/// A pod without a controller, for the scheduler of this name.
fn pod(scheduler: &str, number: usize) -> Value {
    let mut pod = bare_pod(scheduler, number, "100m");
    pod["spec"]["schedulerName"] = scheduler.into();
    pod
}
