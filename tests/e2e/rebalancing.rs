//! Rebalancing: pods leave a node that is hot by their real usage, as metrics-server measures it. A
//! small server in this process turns the node metrics into the answers of a load-watcher.

mod make_room;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::deployment::{SYSTEM, UPDATER, deploy, leader, scrape};
use e2e::{
    AvailabilityWatch, Namespace, Turns, another, eventually, free_address, kubectl_in, until,
    until_within, usage, with,
};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, Client};
use sandbox::Sandbox;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::updater::fixture::Fixture;

const HOT: &str = "node-0";
const OTHERS: [&str; 2] = ["node-1", "node-2"];
/// CPUs of a node of the sandbox.
const CPUS: f64 = 32.0;
/// By the defaults of the updater.
const HOT_PERCENT: f64 = 80.0;
const COOL_PERCENT: f64 = 65.0;
const REPLICAS: usize = 3;
const LIMIT: Duration = Duration::from_mins(3);
/// Twice the time for which a new leader leaves new pods alone: that time begins with its first pass,
/// which on a busy machine is seconds after it acquired the Lease.
const HANDOVER: SignedDuration = SignedDuration::from_mins(2);

static SANDBOX: Turns<Sandbox> = Turns::new();
/// The address of the load-watcher, which only runs during the test that needs it.
static LOAD_WATCHER: OnceLock<Result<SocketAddr>> = OnceLock::new();

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_leave_a_hot_node_within_their_budgets_and_none_is_moved_twice() -> Result<()> {
    let fixture = alone("hot").await?;
    let address = LOAD_WATCHER.get().and_then(|it| it.as_ref().ok());
    let listener = TcpListener::bind(address.context("the updater has no address")?).await?;
    tokio::spawn(serve(listener, fixture.client.clone()));
    let term = outlive_handover(&fixture.client).await?;
    cordon(&fixture, "cordon").await?;
    let annotations = with(
        usage("4500m", "200Mi"),
        json!({"plimsoll.dev/rebalance": "true"}),
    );
    for name in ["plain", "sized"] {
        fixture.workload(name, REPLICAS, &annotations).await?;
        fixture.protect(name, REPLICAS - 1).await?;
    }
    let stays = usage("2", "200Mi");
    fixture.workload("pinned", REPLICAS - 1, &stays).await?;
    // Its pods are within the bounds, so that only the load moves them.
    let policy = json!({"updateMode": "Recreate"});
    fixture
        .autoscale_within("sized", &policy, ["50m", "500m"])
        .await?;
    cordon(&fixture, "uncordon").await?;
    let pinned = fixture.uids("pinned").await?;
    let mut before = BTreeSet::new();
    for name in ["plain", "sized"] {
        before.extend(fixture.uids(name).await?);
    }
    let watching = AvailabilityWatch::of(fixture.typed()).await?;
    let percent = async |node: &str| node_percent(&fixture.client, node).await;
    until(
        "the node is hot",
        async || percent(HOT).await,
        |found| *found > HOT_PERCENT,
    )
    .await?;
    let began = Instant::now();
    let cooled = until_within(
        LIMIT,
        "the node cools",
        async || percent(HOT).await,
        |found| *found < COOL_PERCENT,
    )
    .await;
    // In a new term, also of the same replica, no pod that exists is moved for an hour.
    let now = leadership(&fixture.client).await?;
    ensure!(now == term, "{now:?} follows {term:?}: {cooled:?}");
    if let Err(error) = cooled {
        let leader = leader(&fixture.client, UPDATER).await?;
        return Err(error.context(scrape(&leader).await?));
    }
    eprintln!("the hot node cooled in {:.0?}", began.elapsed());
    // An idle node may have no metrics.
    for (node, found) in node_percents(&fixture.client).await? {
        ensure!(found < COOL_PERCENT, "{node} is at {found} %");
    }
    let columns = "REASON:.reason,NOTE:.message";
    let words = ["EvictedForRebalancing", HOT, "threshold is 80%"];
    fixture.reported(columns, &[&words]).await?;
    check_moves(&fixture, &before).await?;
    for name in ["plain", "sized"] {
        let now = fixture.uids(name).await?;
        let fewest = watching.fewest(name, &now).await?;
        ensure!(fewest >= REPLICAS - 1, "{name}: {fewest} were left");
    }
    ensure!(fixture.uids("pinned").await? == pinned, "it did not opt in");
    Ok(())
}

/// Checks that each move replaced one of the pods of before, and that nothing more is moved by the
/// next loads.
async fn check_moves(fixture: &Fixture, before: &BTreeSet<String>) -> Result<()> {
    const READS: &str = "vpa_updater_node_load_reads_total{result=\"success\"}";
    let reads = fixture.total(READS).await?;
    until(
        "three more loads were read",
        async || fixture.total(READS).await,
        |found| *found >= reads + 3.0,
    )
    .await?;
    let mut now = BTreeSet::new();
    for name in ["plain", "sized"] {
        now.extend(fixture.uids(name).await?);
    }
    let moves = fixture.total("vpa_updater_rebalanced_pods_total").await?;
    let replaced = before.difference(&now).count();
    ensure!(
        replaced > 0 && (replaced as f64 - moves).abs() < 0.5,
        "{moves} moves, {replaced} pods"
    );
    Ok(())
}

/// The sandbox for one test at a time, with rebalancing and preemption.
async fn alone(prefix: &str) -> Result<Fixture> {
    let sandbox = SANDBOX.alone(make).await?;
    let own = Namespace::new(sandbox.client().await?, prefix).await?;
    Ok(Fixture { sandbox, own })
}

async fn make() -> Result<Sandbox> {
    let sandbox = another("rebalancing").await?;
    e2e::apply(&sandbox, "deploy/base/namespace.yaml").await?;
    let address = *LOAD_WATCHER
        .get_or_init(free_address)
        .as_ref()
        .map_err(|error| anyhow!("{error:#}"))?;
    kubectl_in(&sandbox, &create_config(address)).await?;
    deploy(&sandbox, "tests/e2e/rebalancing", UPDATER.labels).await?;
    Ok(sandbox)
}

fn create_config(address: SocketAddr) -> String {
    let rebalancing = json!({"loadWatcherAddress": format!("http://{address}"), "hotFor": "10s"});
    let config = json!({"rebalancing": rebalancing});
    format!("-n {SYSTEM} create configmap load-watcher --from-literal=config.yaml={config}")
}

/// Waits until the leader has led for so long that it knows which pods are new. Returns its term.
async fn outlive_handover(client: &Client) -> Result<(String, Timestamp)> {
    eventually("the leader has led for long enough", async || {
        let (leader, since) = leadership(client).await?;
        let led = Timestamp::now().duration_since(since);
        ensure!(led >= HANDOVER, "{led}");
        Ok((leader, since))
    })
    .await
}

/// The identity of the leader, and when it began to lead.
async fn leadership(client: &Client) -> Result<(String, Timestamp)> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), "plimsoll-system");
    let lease = leases.get("vpa-updater").await?.spec.unwrap_or_default();
    let since = lease.acquire_time.context("no leader")?.0;
    Ok((lease.holder_identity.unwrap_or_default(), since))
}

/// Cordons or uncordons all nodes but one.
async fn cordon(fixture: &Fixture, verb: &str) -> Result<()> {
    let nodes = OTHERS.join(" ");
    let command = format!("{verb} {nodes}");
    kubectl_in(&fixture.sandbox, &command).await.map(drop)
}

/// Usage of CPU of each node by metrics.k8s.io, in percent of its capacity.
async fn node_percents(client: &Client) -> Result<Vec<(String, f64)>> {
    let request = http::Request::get("/apis/metrics.k8s.io/v1beta1/nodes").body(Vec::new())?;
    let list: Value = client.request(request).await?;
    let nodes = list["items"].as_array().context("no list")?.iter();
    nodes
        .map(|node| {
            let name = node["metadata"]["name"].as_str().context("no name")?;
            let text = node["usage"]["cpu"].as_str().context("no CPU")?;
            let units = [("n", 1e-9), ("u", 1e-6), ("m", 1e-3), ("", 1.0)];
            let (unit, factor) = units
                .iter()
                .find(|(unit, _)| text.ends_with(unit))
                .context("unit")?;
            let cores = text.trim_end_matches(unit).parse::<f64>()? * factor;
            Ok((name.to_owned(), 100.0 * cores / CPUS))
        })
        .collect()
}

async fn node_percent(client: &Client, node: &str) -> Result<f64> {
    let all = node_percents(client).await?;
    let found = all.into_iter().find(|(name, _)| name == node);
    found.map(|(_, percent)| percent).context("no metrics yet")
}

/// Answers every request as a load-watcher answers `GET /watcher`, with the metrics of now.
async fn serve(listener: TcpListener, client: Client) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let client = client.clone();
        // A client that sends nothing delays no other.
        tokio::spawn(async move {
            if let Err(error) = answer(stream, &client).await {
                eprintln!("the load-watcher of the test: {error:#}");
            }
        });
    }
}

async fn answer(mut stream: TcpStream, client: &Client) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    ensure!(head.starts_with(b"GET /watcher HTTP/1.1\r\n"), "{head:?}");
    let now = Timestamp::now().as_second();
    let nodes = node_percents(client).await?.into_iter();
    let nodes = nodes.map(|(name, percent)| {
        let metric = json!({
            "name": "", "type": "CPU", "operator": "Latest", "rollup": "", "value": percent,
        });
        (
            name,
            json!({"metrics": [metric], "tags": {}, "metadata": {"dataCenter": ""}}),
        )
    });
    let body = json!({
        "timestamp": now, "window": {"duration": "15m", "start": now - 900, "end": now},
        "source": "KubernetesMetricsServer",
        "data": {"NodeMetricsMap": nodes.collect::<serde_json::Map<_, _>>()},
    })
    .to_string();
    let length = body.len();
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n{body}"
    );
    stream.write_all(text.as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
