//! From the kernel's OOM kill to a container that holds the memory. The kernel's log says when it killed,
//! and the program says when it held what it needs.

use anyhow::{Context as _, Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{eventually, oom_kills_of};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Patch, PatchParams};
use model::{Memory, Quantity};
use serde_json::{Value, json};

use super::fixture::{Fixture, container, or_skip};

/// Limit of the program at first.
const LIMIT_MIB: u64 = 200;
/// Memory that the program needs: three times its limit.
const NEEDED_MIB: u64 = 600;

fn limited() -> Value {
    let memory = format!("{LIMIT_MIB}Mi");
    json!({"requests": {"cpu": "10m", "memory": memory}, "limits": {"memory": memory}})
}

/// A container that takes its memory this time after its start.
fn hungry(seconds: u64) -> Value {
    let flags = [
        format!("--memory-mib={NEEDED_MIB}"),
        format!("--memory-after-seconds={seconds}"),
    ];
    container("app", &flags.each_ref().map(String::as_str), &limited())
}

/// Creates two pods with these containers and a VPA object. Waits until both hold the memory.
async fn heal(cluster: &Fixture, name: &str, containers: Value, mode: &str) -> Result<()> {
    let pod = json!({"containers": containers, "terminationGracePeriodSeconds": 1});
    cluster.create_deployment(name, 2, &pod).await?;
    let policy = json!({"containerName": "*", "minAllowed": {"memory": format!("{LIMIT_MIB}Mi")}});
    cluster.autoscale(name, mode, policy).await?;
    cluster.both_hold(name, NEEDED_MIB).await.map(drop)
}

/// The recommended memory of the container `app`.
async fn target(cluster: &Fixture, name: &str) -> Result<i64> {
    let vpa = cluster.get::<Vpa>(name).await?;
    let targets = vpa["status"]["recommendation"]["containerRecommendations"].clone();
    let own = targets
        .as_array()
        .into_iter()
        .flatten()
        .find(|it| it["containerName"] == "app")
        .context("a recommendation")?;
    let target: Quantity = own["target"]["memory"]
        .as_str()
        .context("memory")?
        .parse()?;
    Ok(Memory::from(&target).bytes())
}

/// A kill at a limit shows only that a container needs more. So the target is at most a bump of a fifth
/// and the margin of 15 % above the largest limit that was too small, which is below the need.
fn ensure_sound(target_bytes: i64) -> Result<()> {
    let most = i64::try_from(NEEDED_MIB)? * 1024 * 1024 * 144 / 100;
    ensure!(
        target_bytes <= most,
        "target {target_bytes} is above 1.44 times {NEEDED_MIB} MiB"
    );
    Ok(())
}

#[tokio::test]
async fn an_oom_kill_is_healed_in_place() -> Result<()> {
    let cluster = or_skip!(Fixture::new("oom"));
    heal(&cluster, "slow", json!([hungry(5)]), "InPlaceOrRecreate").await?;
    ensure_sound(target(&cluster, "slow").await?)?;
    for pod in cluster.pods_of("slow").await? {
        ensure!(
            pod.annotations().contains_key("vpaInPlaceUpdated"),
            "{} was replaced",
            pod.name_any()
        );
        let kills = oom_kills_of(&pod.uid().unwrap_or_default())?;
        ensure!(
            (1..=4).contains(&kills.len()),
            "killed {} times",
            kills.len()
        );
    }
    Ok(())
}

/// A program that takes its memory at its start is killed before a resize can reach it, again and again.
#[tokio::test]
async fn a_program_that_needs_its_memory_at_once_is_healed() -> Result<()> {
    let cluster = or_skip!(Fixture::new("oom-fast"));
    heal(&cluster, "fast", json!([hungry(0)]), "InPlaceOrRecreate").await?;
    ensure_sound(target(&cluster, "fast").await?)
}

/// Restarts of the container so far, if it waits for the next one.
fn restarts_of_waiting(pod: &Pod) -> Option<i32> {
    let status = e2e::container(pod)?;
    let reason = status.state.as_ref()?.waiting.as_ref()?.reason.as_deref();
    (reason == Some("CrashLoopBackOff")).then_some(status.restart_count)
}

/// A resize that reached the pod while its container was stopped: spec and status have the new limit, the
/// cgroup of the pod has the old one.
#[tokio::test]
async fn a_resize_without_effect_is_followed_by_another_act() -> Result<()> {
    let cluster = or_skip!(Fixture::new("oom-effect"));
    let pod = json!({"containers": [hungry(2)], "terminationGracePeriodSeconds": 1});
    cluster.create_deployment("refuted", 2, &pod).await?;
    let enough = format!("{}Mi", NEEDED_MIB + 100);
    let resources = json!({"requests": {"memory": enough}, "limits": {"memory": enough}});
    let resize = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
    // The kubelet restarts a container at once at first, later after 10 s, 20 s and more. A resize that
    // reaches a container that runs again has its effect, so the other pod is next then.
    eventually("a resize reaches a stopped container", async || {
        let pods = cluster.pods_of("refuted").await?;
        let (pod, restarts) = pods
            .iter()
            .find_map(|pod| Some((pod, restarts_of_waiting(pod).filter(|it| *it > 1)?)))
            .context("none waits for its third restart")?;
        let pods = cluster.typed::<Pod>();
        let (name, params) = (pod.name_any(), PatchParams::default());
        let resize = Patch::Strategic(&resize);
        pods.patch_subresource("resize", &name, &params, &resize)
            .await?;
        let now = restarts_of_waiting(&pods.get(&name).await?);
        ensure!(now == Some(restarts), "{name} was restarted meanwhile");
        Ok(())
    })
    .await?;
    // After a resize of CPU the memory counts as in effect, and no act is refuted.
    let policy = json!({
        "containerName": "*",
        "controlledResources": ["memory"],
        "minAllowed": {"memory": enough},
        "maxAllowed": {"memory": enough},
    });
    cluster
        .autoscale("refuted", "InPlaceOrRecreate", policy)
        .await?;
    cluster.both_hold("refuted", NEEDED_MIB).await?;
    cluster.await_event("refuted", "ActRefuted").await
}
