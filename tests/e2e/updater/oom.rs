//! A container that is OOM killed soon after its start.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::measuring::checks_latency;
use e2e::{Follow, eventually, follow, kubectl_in, oom_kill};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::watch;

use super::fixture::{Fixture, LARGE, PATIENCE, SMALL};

/// Least time between the kill in the pod's status and the pod's deletion. The updater waits for a
/// second after it sees the kill.
const LEAST_SHOWN: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oom_kill_is_seen_and_reported_before_its_pod_is_replaced() -> Result<()> {
    let fixture = Fixture::take("oom").await?;
    let heart = fixture.heart();
    let (shown, took) = replaced(&fixture, "web").await?;
    println!(
        "the status showed the OOM kill for {shown:.1?}; the pod was replaced after {took:.1?}"
    );
    ensure!(
        !checks_latency() || (shown >= LEAST_SHOWN && took < MOST),
        "shown for {shown:?}, replaced after {took:?}"
    );
    heart.stop().await
}

/// The time between the kill in the status and the deletion, and from the kill to the new pod.
async fn replaced(fixture: &Fixture, workload: &str) -> Result<(Duration, Duration)> {
    fixture
        .workload(
            workload,
            1,
            &json!({"sandbox.plimsoll.dev/back-off": "100ms"}),
        )
        .await?;
    // Without a kill nothing would be done.
    fixture
        .autoscale_within(
            workload,
            &json!({"updateMode": "Recreate", "minReplicas": 1}),
            ["50m", "300m"],
        )
        .await?;
    let of_workload = ListParams::default().labels(&format!("app={workload}"));
    let pod = fixture
        .pods
        .list(&of_workload)
        .await?
        .items
        .into_iter()
        .next()
        .context("it has a pod")?;
    let uid = pod.uid().context("it has one")?;
    let (mut seen, _watch) = watch_pod(fixture, &uid);
    let killed = Instant::now();
    oom_kill(&fixture.pods, &pod, &json!({"requests": {"cpu": SMALL}})).await?;
    eventually("a new pod has the large size", PATIENCE, async || {
        let sizes = fixture.sizes(workload).await?;
        ensure!(
            sizes
                .iter()
                .any(|(other, cpu)| cpu == LARGE && *other != uid),
            "{sizes:?}"
        );
        Ok(())
    })
    .await?;
    let took = killed.elapsed();
    let gone = tokio::time::timeout(PATIENCE, seen.wait_for(|seen| seen.gone.is_some()))
        .await??
        .clone();
    let shown = gone
        .shown
        .zip(gone.gone)
        .map(|(shown, gone)| gone - shown)
        .context("the kill was never seen")?;
    reported(fixture, &pod.name_any()).await?;
    Ok((shown, took))
}

/// Times at which a pod's status first shows a kill, and at which the pod is being deleted.
#[derive(Debug, Clone, Default)]
struct Seen {
    shown: Option<Instant>,
    gone: Option<Instant>,
}

fn watch_pod(fixture: &Fixture, uid: &str) -> (watch::Receiver<Seen>, Follow) {
    let (sender, seen) = watch::channel(Seen::default());
    let uid = uid.to_owned();
    let watch = follow(fixture.pods.clone(), move |event: Event<Pod>| {
        let is_deleted = matches!(event, Event::Delete(_));
        let (Event::Apply(pod) | Event::InitApply(pod) | Event::Delete(pod)) = event else {
            return;
        };
        if pod.metadata.uid.as_ref() != Some(&uid) {
            return;
        }
        let is_live = !is_deleted && pod.metadata.deletion_timestamp.is_none();
        sender.send_modify(|seen| {
            if is_live && shows_kill(&pod) {
                seen.shown.get_or_insert_with(Instant::now);
            }
            if !is_live {
                seen.gone.get_or_insert_with(Instant::now);
            }
        });
    });
    (seen, watch)
}

fn shows_kill(pod: &Pod) -> bool {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    let mut ends = statuses.filter_map(|status| {
        status
            .last_state
            .as_ref()?
            .terminated
            .as_ref()?
            .reason
            .as_deref()
    });
    ends.any(|reason| reason == "OOMKilled")
}

async fn reported(fixture: &Fixture, pod: &str) -> Result<()> {
    eventually("events tell of it", PATIENCE, async || {
        let columns = "custom-columns=REASON:.reason,KIND:.involvedObject.kind,MESSAGE:.message";
        let printed = kubectl_in(
            fixture.sandbox()?,
            &[
                "-n",
                &fixture.namespace,
                "get",
                "events",
                "-o",
                columns,
                "--no-headers",
            ],
        )
        .await?;
        let message = format!("Container app of Pod {pod} was OOM killed");
        for kind in [" Pod ", " VerticalPodAutoscaler "] {
            let is_told = printed
                .lines()
                .any(|line| line.contains(kind) && line.contains(&message));
            ensure!(
                is_told,
                "no event of a{kind}with {message:?} is in\n{printed}"
            );
        }
        Ok(())
    })
    .await
}
