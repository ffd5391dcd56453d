//! Time from the kernel's OOM kill until a container of the workload holds the memory, by shape of the
//! pod and by method. `make bench-node` measures; other runs do nothing here.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use e2e::benchmark::checks_latency;
use e2e::oom_kills_of;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::fixture::{Fixture, Load, container, or_skip};

/// Kills that are measured of each shape and method: Deployments of two pods each.
const DEPLOYMENTS: usize = 10;
/// Memory that the program needs: one bump above the limit of 200 MiB.
const NEEDED_MIB: u64 = 300;
/// Time between the start of the program and the memory that it takes.
const DELAY_MS: i64 = 3000;

/// Specifications of pods with a container `app` that is killed at 200 MiB.
fn shapes() -> BTreeMap<&'static str, Value> {
    // The least CPU that is recommended, so that pods are updated for their memory only.
    let limited = |memory: &str| json!({"requests": {"cpu": "25m", "memory": memory}, "limits": {"memory": memory}});
    let flags = [
        format!("--memory-mib={NEEDED_MIB}"),
        format!("--memory-after-seconds={}", DELAY_MS / 1000),
    ];
    let app = container(
        "app",
        &flags.each_ref().map(String::as_str),
        &limited("200Mi"),
    );
    let other = |resources: Value| container("other", &["--port=8081"], &resources);
    let mut unprobed = other(limited("50Mi"));
    unprobed["readinessProbe"] = Value::Null;
    let mut unlimited = other(json!({"requests": {"cpu": "10m"}}));
    unlimited["readinessProbe"] = Value::Null;
    let mut sidecar = unprobed.clone();
    sidecar["restartPolicy"] = json!("Always");
    let init = json!({
        "name": "first",
        "image": format!("ghcr.io/plimsoll/plimsoll:{}", env!("CARGO_PKG_VERSION")),
        "args": ["--version"],
        "resources": limited("50Mi"),
    });
    BTreeMap::from([
        ("one container", json!({"containers": [app]})),
        ("all with limits", json!({"containers": [app, unprobed]})),
        ("some with limits", json!({"containers": [app, unlimited]})),
        (
            "with a sidecar",
            json!({"containers": [app], "initContainers": [sidecar]}),
        ),
        (
            "with an init container",
            json!({"containers": [app], "initContainers": [init]}),
        ),
    ])
}

#[tokio::test]
async fn from_an_oom_kill_to_usable_memory_in_place() -> Result<()> {
    measure_shapes("InPlaceOrRecreate").await
}

#[tokio::test]
async fn from_an_oom_kill_to_usable_memory_by_eviction() -> Result<()> {
    measure_shapes("Recreate").await
}

/// Prints the times of each shape with this mode.
async fn measure_shapes(mode: &str) -> Result<()> {
    if !checks_latency() {
        return Ok(());
    }
    let cluster = or_skip!(Fixture::alone("heal-times"));
    for (shape, mut pod) in shapes() {
        pod["terminationGracePeriodSeconds"] = json!(1);
        let mut times = Vec::new();
        for number in 0..DEPLOYMENTS {
            let name = format!("{}-{number}", shape.replace(' ', "-"));
            times.extend(measure(&cluster, &name, mode, &pod).await?);
        }
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let (p50, p99) = (at(50), at(99));
        println!(
            "{mode}, {shape}: {} kills, p50 {p50} ms, p99 {p99} ms",
            times.len()
        );
    }
    Ok(())
}

/// The times of the two pods of a new Deployment, in milliseconds, without the delay of the program.
async fn measure(cluster: &Fixture, name: &str, mode: &str, pod: &Value) -> Result<Vec<i64>> {
    cluster.create_deployment(name, 2, pod).await?;
    let policies = json!([
        {"containerName": "app", "minAllowed": {"memory": "200Mi"}},
        {"containerName": "*", "mode": "Off"},
    ]);
    cluster.all_available(name, 2).await?;
    let first = cluster.pods_of(name).await?;
    cluster.autoscale_with(name, mode, policies).await?;
    let loads = cluster.both_hold(name, NEEDED_MIB).await?;
    let mut kills = Vec::new();
    for pod in first {
        let of_pod = oom_kills_of(&pod.uid().unwrap_or_default())?;
        kills.push(*of_pod.last().context("the kernel killed it")?);
    }
    let held = |load: &Load| load.held_since_unix_ms.context("it holds the memory");
    let mut held = loads.iter().map(held).collect::<Result<Vec<_>>>()?;
    // A replacement belongs to the pod that was killed before it.
    kills.sort_unstable();
    held.sort_unstable();
    cluster.delete_workload(name).await?;
    kills
        .iter()
        .zip(held)
        .map(|(kill, held)| Ok(i64::try_from(held)? - kill - DELAY_MS))
        .collect()
}
