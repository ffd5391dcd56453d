//! Programs of the suite as the sandbox runs them: deployed from `deploy/`, their replicas, their
//! metrics and their processes.

use std::net::Ipv4Addr;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, ToSocketAddrs};

use crate::{Namespace, apply, container, eventually, kubectl_in, process_of};

/// The namespace of the suite.
pub const SYSTEM: &str = "plimsoll-system";
pub const SUITE: &str = "app.kubernetes.io/part-of=plimsoll";

#[derive(Debug, Clone, Copy)]
pub struct Program<'a> {
    /// The labels of the Deployments and their pods.
    pub labels: &'a str,
    pub port: u16,
}

impl Program<'static> {
    const fn new(labels: &'static str, port: u16) -> Self {
        Self { labels, port }
    }
}

pub const RECOMMENDER: Program<'_> = Program::new("app.kubernetes.io/name=recommender", 8942);
pub const UPDATER: Program<'_> = Program::new("app.kubernetes.io/name=updater", 8943);
pub const WEBHOOK: Program<'_> = Program::new("app.kubernetes.io/name=webhook", 8944);
pub const ADAPTER: Program<'_> = Program::new("app.kubernetes.io/name=adapter", 8945);
pub const EXTENDER: Program<'_> = Program::new("app.kubernetes.io/name=extender", 8946);

pub fn system(client: &Client) -> Namespace {
    Namespace::of(client.clone(), SYSTEM)
}

/// Creates the namespace of the suite, and in it the `ConfigMap` `prometheus`: environment
/// variables of each of these programs, such as `ADAPTER`, with the address of the sandbox's Prometheus
/// and its authority.
pub async fn prometheus_variables(sandbox: &Sandbox, programs: &[&str]) -> Result<()> {
    apply(sandbox, "deploy/base/namespace.yaml").await?;
    let url = sandbox.prometheus_url().context("there is a Prometheus")?;
    let authority = sandbox.authority();
    let authority = authority.display();
    let literals = programs.iter().map(|program| {
        let literal = format!("--from-literal=PLIMSOLL_{program}_PROMETHEUS");
        format!("{literal}_ADDRESS={url} {literal}_CA_FILE={authority}")
    });
    let literals = literals.collect::<Vec<_>>().join(" ");
    let create = format!("-n {SYSTEM} create configmap prometheus {literals}");
    kubectl_in(sandbox, &create).await.map(drop)
}

/// Deploys programs by a kustomization of the repository, and waits until all replicas of the
/// Deployments with these labels are ready.
pub async fn deploy(sandbox: &Sandbox, kustomization: &str, labels: &str) -> Result<()> {
    apply(sandbox, kustomization).await?;
    all_ready(&sandbox.client().await?, labels).await
}

/// Waits until all replicas of the Deployments with these labels are ready, as they may not be after
/// a test that killed one.
pub async fn all_ready(client: &Client, labels: &str) -> Result<()> {
    let deployments: Api<Deployment> = system(client).typed();
    let params = ListParams::default().labels(labels);
    eventually(&format!("all replicas of {labels} are ready"), async || {
        let all = deployments.list(&params).await?;
        ensure!(!all.items.is_empty(), "it is not deployed");
        for deployment in all {
            let name = deployment.name_any();
            let status = deployment.status.unwrap_or_default();
            let ready = status.ready_replicas.unwrap_or(0);
            let wanted = status.replicas.unwrap_or(0);
            let is_ready = wanted > 0 && ready == wanted;
            ensure!(is_ready, "{ready} of {wanted} of {name} are ready");
        }
        Ok(())
    })
    .await
}

/// Waits for the event that the certificate of a pod expires soon. `pod` is the begin of its name.
pub async fn warns_of_expiry(client: &Client, pod: &str) -> Result<()> {
    eventually("an event says that the certificate expires", async || {
        let events = system(client).list::<Event>().await?;
        let is_warning = |event: &Value| {
            let regarding = event["regarding"]["name"].as_str().unwrap_or_default();
            event["reason"] == "CertificateExpiring" && regarding.starts_with(pod)
        };
        ensure!(
            events.iter().any(is_warning),
            "there is no such event about {pod}*"
        );
        Ok(())
    })
    .await
}

#[derive(Debug, Clone)]
pub struct Replica {
    pub pod: String,
    /// Listening address of its process: the address in the pod's status, in its loopback form.
    pub address: Ipv4Addr,
    port: u16,
}

/// All replicas of a program, whether they run or not.
pub async fn replicas(client: &Client, program: Program<'_>) -> Result<Vec<Replica>> {
    let pods: Api<Pod> = system(client).typed();
    let params = ListParams::default().labels(program.labels);
    let replica = |pod: Pod| {
        let name = pod.name_any();
        let address = pod.status.and_then(|status| status.pod_ip);
        let address: Ipv4Addr = address.context("no address yet")?.parse()?;
        let [_, block, high, low] = address.octets();
        Ok(Replica {
            pod: name,
            address: Ipv4Addr::new(127, block, high, low),
            port: program.port,
        })
    };
    pods.list(&params)
        .await?
        .items
        .into_iter()
        .map(replica)
        .collect()
}

pub async fn leader(client: &Client, program: Program<'_>) -> Result<Replica> {
    eventually("a replica leads", async || {
        for replica in replicas(client, program).await? {
            let status = metric(&replica, "leader_election_master_status").await;
            if status.is_ok_and(|status| status > 0.0) {
                return Ok(replica);
            }
        }
        anyhow::bail!("none does")
    })
    .await
}

/// The sum over all series of a metric, of all replicas that answer: for what may have been counted
/// by a leader before this one.
pub async fn total(client: &Client, program: Program<'_>, name: &str) -> Result<f64> {
    let mut sum = 0.0;
    for replica in replicas(client, program).await? {
        sum += metric(&replica, name).await.unwrap_or(0.0);
    }
    Ok(sum)
}

/// The sum over all series of a metric. It needs no API server.
pub async fn metric(replica: &Replica, name: &str) -> Result<f64> {
    let text = scrape(replica).await?;
    sum(&text, name).with_context(|| format!("{} has no metric {name}", replica.pod))
}

/// The sum over the series of a metric in a text, or the value of one series; `None` without any.
pub fn sum(text: &str, name: &str) -> Option<f64> {
    let values = text.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let is_whole = rest.starts_with('{') || rest.starts_with(' ');
        is_whole.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    });
    values.reduce(|sum, value| sum + value)
}

/// The sum over the series of a metric with this label, such as `basis="load"`; 0 without any.
pub fn sum_with(text: &str, name: &str, label: &str) -> f64 {
    let lines = text
        .lines()
        .filter(|line| line.starts_with(&format!("{name}{{")) && line.contains(label));
    let values = lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    values.sum()
}

/// All metrics of a replica as text. It needs no API server.
pub async fn scrape(replica: &Replica) -> Result<String> {
    scrape_at((replica.address, replica.port)).await
}

/// All metrics of a process with this listening address.
pub async fn scrape_at(address: impl ToSocketAddrs) -> Result<String> {
    let mut connection = TcpStream::connect(address).await?;
    connection
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}

pub async fn restarts(client: &Client, replica: &Replica) -> Result<i32> {
    let pod = pod(client, replica).await?;
    Ok(container(&pod).map_or(0, |container| container.restart_count))
}

/// The process that runs the pod's container now.
pub async fn process(client: &Client, replica: &Replica) -> Result<u32> {
    process_of(&pod(client, replica).await?)
}

async fn pod(client: &Client, replica: &Replica) -> kube::Result<Pod> {
    system(client).typed::<Pod>().get(&replica.pod).await
}
