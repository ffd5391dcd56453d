//! A kill that no recommender was there to see.

use anyhow::{Context as _, Result};
use e2e::deployed::{process, replicas};

use crate::listening::Listening;
use crate::stage::{Stage, signal};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_the_start_of_the_recommender_counts() -> Result<()> {
    let stage = Stage::take("before").await?;
    let names = ["web".to_owned()];
    stage.populate(&names, 300).await?;
    let listening = Listening::to(&stage, &names).await?;
    let before = listening.status("web").context("it has a target")?;
    let mut processes = Vec::new();
    for replica in replicas(&stage.client).await? {
        processes.push(process(&stage.client, &replica).await?);
    }
    // They see nothing any more, and end without having seen anything.
    processes
        .iter()
        .try_for_each(|process| signal(*process, "-STOP"))?;
    let killed = stage.kill(&stage.running("web").await?, 300).await;
    let runs_again = stage.running("web").await;
    processes
        .iter()
        .try_for_each(|process| signal(*process, "-KILL"))?;
    killed?;
    let last = runs_again?
        .status
        .and_then(|status| status.container_statuses?.pop()?.last_state?.terminated);
    assert_eq!(
        last.and_then(|end| end.reason).as_deref(),
        Some("OOMKilled")
    );
    listening.status_above("web", before).await?;
    listening.feed_above("web", before).await.map(drop)
}
