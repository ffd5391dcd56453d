//! A kill that no recommender was there to see.

use anyhow::{Context as _, Result};
use e2e::deployment::{RECOMMENDER, process, replicas};
use e2e::{Signal, signal};

use crate::fixture::Fixture;
use crate::target_sources::Listening;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_before_the_start_of_the_recommender_counts() -> Result<()> {
    let fixture = Fixture::take("before").await?;
    let names = ["web".to_owned()];
    fixture.populate(&names, 300).await?;
    let listening = Listening::to(&fixture, &names).await?;
    let before = listening.status("web").context("it has a target")?;
    let mut processes = Vec::new();
    for replica in replicas(&fixture.client, RECOMMENDER).await? {
        processes.push(process(&fixture.client, &replica).await?);
    }
    // They see nothing any more, and end without having seen anything.
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::STOP))?;
    let killed = fixture.kill(&fixture.running("web").await?).await;
    let runs_again = fixture.running("web").await;
    processes
        .iter()
        .try_for_each(|process| signal(*process, Signal::KILL))?;
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
