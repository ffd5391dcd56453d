//! Programs of the suite as the sandbox runs them: deployed from `deploy/`, their replicas, their
//! metrics and their processes.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use sandbox::Sandbox;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::{apply, eventually};

const NAMESPACE: &str = "plimsoll-system";
const LABEL: &str = "app.kubernetes.io/name=recommender";
const METRICS_PORT: u16 = 8942;
/// The labels of the updater's pods.
pub const UPDATER: &str = "app.kubernetes.io/name=updater";
/// The port of the updater's metrics.
pub const UPDATER_PORT: u16 = 8943;
/// A new pod of a program is ready well within this, also on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

/// Deploys the recommender by a kustomization of the repository, and waits until all its replicas
/// are ready.
pub async fn deploy(sandbox: &Sandbox, kustomization: &str) -> Result<()> {
    deploy_these(sandbox, kustomization, LABEL).await
}

/// The same for the Deployments with these labels.
pub async fn deploy_these(sandbox: &Sandbox, kustomization: &str, labels: &str) -> Result<()> {
    apply(sandbox, kustomization).await?;
    all_ready(&sandbox.client().await?, labels).await
}

/// Waits until all replicas of the recommender are ready, as they may not be after a test that
/// killed one.
pub async fn recovered(client: &Client) -> Result<()> {
    all_ready(client, LABEL).await
}

/// The same for the Deployments with these labels.
pub async fn all_ready(client: &Client, labels: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    eventually(
        &format!("all replicas of {labels} are ready"),
        PATIENCE,
        async || {
            let all = deployments
                .list(&ListParams::default().labels(labels))
                .await?;
            ensure!(!all.items.is_empty(), "it is not deployed");
            for deployment in all {
                let name = deployment.name_any();
                let status = deployment.status.unwrap_or_default();
                let (ready, wanted) = (
                    status.ready_replicas.unwrap_or(0),
                    status.replicas.unwrap_or(0),
                );
                ensure!(
                    wanted > 0 && ready == wanted,
                    "{ready} of {wanted} of {name} are ready"
                );
            }
            Ok(())
        },
    )
    .await
}

/// One replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// The name of its pod.
    pub pod: String,
    /// Listening address of its process: the address in the pod's status, in its loopback form.
    address: Ipv4Addr,
    /// Port of its metrics.
    port: u16,
}

impl Replica {
    /// Listening address of its process.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }
}

/// All replicas, whether they run or not.
pub async fn replicas(client: &Client) -> Result<Vec<Replica>> {
    replicas_of(client, LABEL, METRICS_PORT).await
}

/// All replicas with these labels, which serve metrics on this port.
pub async fn replicas_of(client: &Client, labels: &str, port: u16) -> Result<Vec<Replica>> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let list = pods.list(&ListParams::default().labels(labels)).await?;
    list.items
        .into_iter()
        .map(|pod| {
            let name = pod.name_any();
            let address: Ipv4Addr = pod
                .status
                .and_then(|status| status.pod_ip)
                .context("no address yet")?
                .parse()?;
            let [_, block, high, low] = address.octets();
            Ok(Replica {
                pod: name,
                address: Ipv4Addr::new(127, block, high, low),
                port,
            })
        })
        .collect()
}

/// The replica that writes.
pub async fn leader(client: &Client) -> Result<Replica> {
    leader_of(client, LABEL).await
}

/// The recommender's replica that writes, of those with these labels.
pub async fn leader_of(client: &Client, labels: &str) -> Result<Replica> {
    leader_with(client, labels, METRICS_PORT).await
}

/// The replica that writes, of those with these labels, which serve metrics on this port.
pub async fn leader_with(client: &Client, labels: &str, port: u16) -> Result<Replica> {
    eventually("a replica leads", PATIENCE, async || {
        for replica in replicas_of(client, labels, port).await? {
            if metric(&replica, "leader_election_master_status")
                .await
                .is_ok_and(|status| status > 0.0)
            {
                return Ok(replica);
            }
        }
        anyhow::bail!("none does")
    })
    .await
}

/// The sum over all series of a metric, of all replicas that answer: for what may have been counted
/// by a leader before this one.
pub async fn total(client: &Client, labels: &str, port: u16, name: &str) -> Result<f64> {
    let mut sum = 0.0;
    for replica in replicas_of(client, labels, port).await? {
        sum += metric(&replica, name).await.unwrap_or(0.0);
    }
    Ok(sum)
}

/// The sum over all series of a metric. It needs no API server.
pub async fn metric(replica: &Replica, name: &str) -> Result<f64> {
    let text = scrape(replica).await?;
    let series = text.lines().filter(|line| {
        line.strip_prefix(name)
            .is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' '))
    });
    let mut values = Vec::new();
    for line in series {
        values.push(line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?);
    }
    ensure!(!values.is_empty(), "{} has no metric {name}", replica.pod);
    Ok(values.iter().sum())
}

/// All metrics of a replica as text. It needs no API server.
pub async fn scrape(replica: &Replica) -> Result<String> {
    let mut connection = TcpStream::connect((replica.address, replica.port)).await?;
    connection
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .await?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no answer")?;
    ensure!(head.contains(" 200 "), "{head}");
    Ok(body.to_owned())
}

/// Restarts of the pod's container.
pub async fn restarts(client: &Client, replica: &Replica) -> Result<i32> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let status = pods
        .get_status(&replica.pod)
        .await?
        .status
        .unwrap_or_default();
    Ok(status
        .container_statuses
        .into_iter()
        .flatten()
        .map(|container| container.restart_count)
        .sum())
}

/// The process that runs the pod's container now.
pub async fn process(client: &Client, replica: &Replica) -> Result<u32> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let status = pods
        .get_status(&replica.pod)
        .await?
        .status
        .unwrap_or_default();
    let container = status
        .container_statuses
        .into_iter()
        .flatten()
        .next()
        .context("no container yet")?;
    let id = container.container_id.context("no container id")?;
    id.strip_prefix("process://")
        .context("not a process")?
        .parse()
        .context("not a number")
}
