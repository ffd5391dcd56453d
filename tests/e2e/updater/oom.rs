//! A container that is OOM killed soon after its start.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::benchmark::checks_latency;
use e2e::{Follow, PATIENCE, container, eventually, follow, oom_kill};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;

use super::fixture::{Fixture, LARGE, SMALL};

/// Least time between the kill in the pod's status and the pod's deletion. The updater waits for a
/// second after it sees the kill.
const LEAST_SHOWN: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oom_kill_is_seen_and_reported_before_its_pod_is_replaced() -> Result<()> {
    let fixture = Fixture::alone("oom").await?;
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
    let quick = json!({"sandbox.plimsoll.dev/back-off": "100ms"});
    fixture.workload(workload, 1, &quick).await?;
    // Without a kill nothing would be done.
    let policy = json!({"updateMode": "Recreate", "minReplicas": 1});
    fixture
        .autoscale_within(workload, &policy, ["50m", "300m"])
        .await?;
    let pods = fixture.pods_of(workload).await?;
    let pod = pods.first().context("it has a pod")?;
    let uid = pod.uid().context("it has one")?;
    let (mut seen, _watch) = watch_pod(fixture, &uid);
    let killed = Instant::now();
    oom_kill(&fixture.typed(), pod, &json!({"requests": {"cpu": SMALL}})).await?;
    eventually("a new pod has the large size", async || {
        let sizes = fixture.sizes(workload).await?;
        let is_new = |(other, cpu): &(String, String)| cpu == LARGE && *other != uid;
        ensure!(sizes.iter().any(is_new), "{sizes:?}");
        Ok(())
    })
    .await?;
    let took = killed.elapsed();
    let gone = timeout(PATIENCE, seen.wait_for(|seen| seen.gone.is_some())).await??;
    let (shown, gone) = gone
        .shown
        .zip(gone.gone)
        .context("the kill was never seen")?;
    let shown = gone - shown;
    let message = format!("Container app of Pod {} was OOM killed", pod.name_any());
    fixture
        .reported(
            "REASON:.reason,KIND:.involvedObject.kind,MESSAGE:.message",
            &[&[" Pod ", &message], &[" VerticalPodAutoscaler ", &message]],
        )
        .await?;
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
    let watch = follow(fixture.typed(), move |event: Event<Pod>| {
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
    let last = container(pod).and_then(|status| status.last_state.as_ref()?.terminated.as_ref());
    last.is_some_and(|end| end.reason.as_deref() == Some("OOMKilled"))
}
