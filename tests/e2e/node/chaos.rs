//! The suite on a real node while kubelet, container runtime and its own containers are killed, a
//! program takes all memory that it can get, and etcd's disk is slow.
//!
//! Each round begins one or two faults and ends them. Then a workload that was created before them must
//! have the memory that it needs, and the settled workload, its history and the APIs must be as before.
//! `make chaos-node` sets the number of rounds (`PLIMSOLL_CHAOS_NODE_ROUNDS`), without which nothing
//! happens here; `PLIMSOLL_CHAOS_SEED` repeats their faults.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::benchmark::number;
use e2e::{LOAD_IMAGE, Signal, signal};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use sandbox::{Component, Sandbox};
use serde_json::json;
use tokio::time::sleep;

use super::failures::{Suite, nothing_is_lost, processes_of};
use super::fixture::{Fixture, container, or_skip};
use super::settled::Settled;

/// Limit of the probe's container, and memory that its program needs.
const LIMIT: &str = "100Mi";
const NEEDED_MIB: u64 = 150;
/// One stall of a slow disk, and the time to the next.
const STALL: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL of a component of the node, which is started again after half a second.
    Kill(Component),
    /// SIGKILL of the containers of some pods of the suite.
    KillPrograms(usize),
    /// A pod whose program takes more than its limit, again and again.
    MemoryHog,
    /// etcd stops again and again.
    SlowDisk,
}

impl Fault {
    fn any(rng: &mut StdRng) -> Self {
        let faults = [
            Self::Kill(Component::Kubelet),
            Self::Kill(Component::Containerd),
            Self::KillPrograms(rng.random_range(1..=10)),
            Self::KillPrograms(10),
            Self::MemoryHog,
            Self::SlowDisk,
        ];
        *faults.choose(rng).expect("there are faults")
    }

    async fn play(self, cluster: &Fixture, sandbox: &Sandbox, lasts: Duration) -> Result<()> {
        match self {
            Self::Kill(component) => {
                let process = sandbox.status(component)?.process;
                process.context("it runs")?.signal(Signal::KILL);
                sleep(lasts).await;
            }
            Self::KillPrograms(count) => {
                for pod in Suite::of(cluster).pods().await?.iter().take(count) {
                    for process in processes_of(pod)? {
                        // Another fault may have ended it before.
                        let _ = signal(process, Signal::KILL);
                    }
                }
            }
            Self::MemoryHog => {
                let resources =
                    json!({"requests": {"memory": "50Mi"}, "limits": {"memory": "500Mi"}});
                let hog = json!({
                    "name": "app",
                    "image": LOAD_IMAGE,
                    "args": ["--memory-mib=1000"],
                    "resources": resources,
                });
                let pod = json!({"metadata": {"name": "hog"}, "spec": {"containers": [hog]}});
                cluster.create::<Pod>(pod).await?;
                sleep(lasts).await;
                cluster.delete::<Pod>("hog").await?;
                cluster.gone::<Pod>("hog").await?;
            }
            Self::SlowDisk => {
                for _ in 0..=lasts.as_millis() / (2 * STALL).as_millis() {
                    sandbox.pause(Component::Etcd).await?;
                    sleep(STALL).await;
                    sandbox.resume(Component::Etcd).await?;
                    sleep(STALL).await;
                }
            }
        }
        Ok(())
    }
}

/// Creates a workload that the kernel kills, and its VPA object.
async fn create_probe(cluster: &Fixture, name: &str, mode: &str) -> Result<()> {
    let resources = json!({
        "requests": {"cpu": "10m", "memory": LIMIT},
        "limits": {"memory": LIMIT},
    });
    let flags = [
        format!("--memory-mib={NEEDED_MIB}"),
        "--memory-after-seconds=3".to_owned(),
    ];
    let app = container("app", &flags.each_ref().map(String::as_str), &resources);
    let pod = json!({"containers": [app], "terminationGracePeriodSeconds": 1});
    cluster.create_deployment(name, 2, &pod).await?;
    let policy = json!({"containerName": "*", "minAllowed": {"memory": LIMIT}});
    cluster.autoscale(name, mode, policy).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_keeps_its_promises_while_parts_of_the_node_fail() -> Result<()> {
    let Some(rounds) = number("PLIMSOLL_CHAOS_NODE_ROUNDS")? else {
        return Ok(());
    };
    let cluster = or_skip!(Fixture::alone("chaos"));
    let sandbox = cluster.sandbox();
    let seed = number("PLIMSOLL_CHAOS_SEED")?.unwrap_or_else(rand::random);
    println!("PLIMSOLL_CHAOS_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let settled = Settled::new(&cluster).await?;
    let before = settled.observed().await?;
    for round in 1..=rounds {
        let count = rng.random_range(1..=2);
        let mut faults: Vec<Fault> = (0..count).map(|_| Fault::any(&mut rng)).collect();
        faults.dedup_by_key(|fault| std::mem::discriminant(fault));
        let lasts = Duration::from_millis(rng.random_range(500..6_000));
        println!("round {round}: {faults:?} for {lasts:?}");
        let context = || format!("round {round} of seed {seed}: {faults:?}");
        let name = format!("probe-{round}");
        let mode = ["Recreate", "InPlaceOrRecreate"][usize::try_from(round % 2)?];
        create_probe(&cluster, &name, mode)
            .await
            .with_context(context)?;
        let played = faults.iter().map(|it| it.play(&cluster, sandbox, lasts));
        try_join_all(played).await.with_context(context)?;
        let healed = cluster.both_hold(&name, NEEDED_MIB).await;
        healed.with_context(context)?;
        nothing_is_lost(&settled, &before)
            .await
            .with_context(context)?;
        cluster.delete_workload(&name).await?;
    }
    Ok(())
}
