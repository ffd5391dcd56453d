//! Duration and memory of `plimsoll scan` over 1,000 workloads (`WORKLOADS`) of one pod and eight days
//! with a sample per minute, against a real control plane and a real Prometheus.
//!
//! The numbers are of the release build; `make bench-scan` makes it.

use std::fs;
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::{exit_code, in_sandbox, number};
use e2e::remote_write::Receiver;
use e2e::{Namespace, eventually_within, in_parallel, process_usage, program, requests, workload};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
use sandbox::{Options, Sandbox};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::Instant;

const DEFAULT_WORKLOADS: usize = 1_000;
const WORKLOADS_PER_NAMESPACE: usize = 50;
/// Requests under way at the same time.
const PARALLEL: usize = 16;
const DAYS: i64 = 8;
const PATIENCE: Duration = Duration::from_mins(10);
/// Time between two looks at the memory of the process.
const POLL: Duration = Duration::from_millis(20);

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run()).await
}

async fn run() -> Result<()> {
    let workloads = number("WORKLOADS")?.unwrap_or(DEFAULT_WORKLOADS);
    let options = Options {
        nodes: (workloads / 100 + 1).try_into().context("too many")?,
        prometheus: true,
        ..Options::new("scan", program("sandbox")?)
    };
    in_sandbox(options, async |sandbox| measure(sandbox, workloads).await).await
}

async fn measure(sandbox: &Sandbox, workloads: usize) -> Result<()> {
    let client = sandbox.client().await?;
    let prometheus = Receiver::of(sandbox)?;
    let mut left = workloads;
    while left > 0 {
        let own = Namespace::new(client.clone(), "scan").await?;
        let count = left.min(WORKLOADS_PER_NAMESPACE);
        left -= count;
        let made = (0..count).map(|number| {
            let resources = requests("1", "1Gi");
            own.create::<Deployment>(workload(&format!("w{number}"), 1, &resources, &json!({})))
        });
        in_parallel(PARALLEL, made).await?;
        let pods = eventually_within(PATIENCE, "all workloads have a pod", async || {
            let pods = own.typed::<k8s_openapi::api::core::v1::Pod>();
            let pods = pods
                .list_metadata(&kube::api::ListParams::default())
                .await?;
            ensure!(pods.items.len() == count, "{} of {count}", pods.items.len());
            Ok(pods.items)
        })
        .await?;
        let writing = pods.iter().map(|pod| {
            let (name, own, prometheus) = (pod.name_any(), &own, &prometheus);
            async move { write(prometheus, &own.namespace, &name).await }
        });
        in_parallel(PARALLEL, writing).await?;
    }
    println!("  {workloads} workloads and {DAYS} days with a sample per minute");
    scan(sandbox, workloads).await
}

/// Eight days of a pod with a peak each hour.
async fn write(prometheus: &Receiver, namespace: &str, pod: &str) -> Result<()> {
    let labels = [("namespace", namespace), ("pod", pod), ("container", "app")];
    let end = Timestamp::now().as_second() / 60 * 60;
    let times = || (end - DAYS * 86_400..=end).step_by(60);
    let mut seconds = 0.0;
    let counter = times().map(|at| {
        seconds += if at % 3600 < 300 { 30.0 } else { 6.0 };
        (at, seconds)
    });
    let cpu = "container_cpu_usage_seconds_total";
    prometheus.write(cpu, &labels, counter).await?;
    let memory = times().map(|at| (at, 2e8 + (at % 86_400) as f64 * 1e3));
    let name = "container_memory_working_set_bytes";
    prometheus.write(name, &labels, memory).await
}

async fn scan(sandbox: &Sandbox, workloads: usize) -> Result<()> {
    let url = sandbox.prometheus_url().context("a Prometheus")?;
    let output = sandbox.logs_dir().join("scan.json");
    let begun = Instant::now();
    let mut child = Command::new(program("plimsoll")?)
        .args(["scan", "-o", "json", "--prometheus-address", &url])
        .arg("--prometheus-ca-file")
        .arg(sandbox.authority())
        .env("KUBECONFIG", sandbox.kubeconfig())
        .stdin(Stdio::null())
        .stdout(fs::File::create(&output)?)
        .kill_on_drop(true)
        .spawn()?;
    let process = child.id().context("it runs")?;
    let mut peak: f64 = 0.0;
    let status = loop {
        // Fails when the process has ended.
        if let Ok((_, most)) = process_usage::resident(process) {
            peak = peak.max(most);
        }
        tokio::select! {
            status = child.wait() => break status?,
            () = tokio::time::sleep(POLL) => {}
        }
    };
    let took = begun.elapsed().as_secs_f64();
    let found: Value = serde_json::from_slice(&fs::read(&output)?)?;
    let containers = found["containers"].as_array().context("containers")?.len();
    ensure!(
        status.success() && containers == workloads,
        "{status}: {containers} containers"
    );
    println!("  {took:.1} s, {peak:.0} MB");
    Ok(())
}
