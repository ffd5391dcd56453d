//! A container that is OOM killed soon after its start.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::{Follow, eventually, follow, kubectl_in, oom_kill};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use serde_json::json;
use tokio::sync::watch;

use super::fixture::{Fixture, LARGE, PATIENCE, SMALL};

/// For how long the kill is in the status of a pod that is not on its way out. The updater waits
/// for a second from when it sees it.
const LEAST_SHOWN: Duration = Duration::from_millis(800);
const MOST: Duration = Duration::from_secs(2);
/// Something else may keep the machine busy.
const TRIES: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_oom_kill_is_seen_and_told_before_its_pod_is_replaced_within_two_seconds() -> Result<()>
{
    let fixture = Fixture::take("oom").await?;
    let heart = fixture.heart();
    let mut found = Vec::new();
    for number in 0..TRIES {
        let (shown, took) = replaced(&fixture, &format!("web-{number}")).await?;
        println!("an OOM kill was shown for {shown:.1?}, and a new pod was there after {took:.1?}");
        found.push((shown, took));
        if shown >= LEAST_SHOWN && took < MOST {
            return heart.stop().await;
        }
    }
    anyhow::bail!("shown for and replaced after: {found:?}")
}

/// For how long a kill was shown, and how long it took from the kill to a new pod.
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
    told(fixture, &pod.name_any()).await?;
    Ok((shown, took))
}

/// When a pod's status first shows a kill, and when the pod is on its way out.
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

async fn told(fixture: &Fixture, pod: &str) -> Result<()> {
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
