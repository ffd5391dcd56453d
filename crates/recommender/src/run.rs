//! Starts everything: watches and ingestion in every replica, writing in the one that leads.

use std::pin::pin;
use std::time::Duration;

use anyhow::anyhow;
use cluster::Watches;
use feed::Term;
use futures::FutureExt as _;
use futures::future::{Fuse, FusedFuture as _, try_join};
use jiff::Timestamp;
use runtime::{Chassis, Leading};
use sources::metrics_api::MetricsApi;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::act::{Writer, checkpoint};
use crate::args::{Args, DEFAULT_MIN_CHECKPOINTS, scope};
use crate::checkpoint::keep::Keeper;
use crate::history::Fetching;
use crate::ingest::{Ingest, Shared};
use crate::metrics::Metrics;
use crate::serve::{self, Feed};
use crate::state::{Charge, State};
use crate::storage::Storage;

/// Kills that may wait to be taken up. Upstream's number.
const MAX_WAITING_KILLS: usize = 5000;
/// How soon writes that did not get through are tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The recommender's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args {
        common,
        election,
        sizing,
        feed,
        history,
        recommender_name,
        recommender_interval,
        memory_saver,
        update_worker_count,
        storage,
        checkpoints_timeout,
        checkpoints_gc_interval,
        min_checkpoints,
        vpa_object_namespace,
        ignored_vpa_object_namespaces,
        feature_gates,
    } = args;
    if min_checkpoints != DEFAULT_MIN_CHECKPOINTS {
        tracing::warn!("--min-checkpoints is deprecated and has no effect");
    }
    let scope = scope(&vpa_object_namespace, &ignored_vpa_object_namespaces)?;
    let config = sizing.config(&feature_gates)?;
    let charge = Charge { recommender_name, memory_saver, patience: recommender_interval.0 };
    let history = match storage {
        Storage::Prometheus => Some(history.settings(|name| std::env::var(name).ok())?),
        Storage::Checkpoint => None,
    };
    let mut state = State::new(charge, config).map_err(|error| anyhow!("--{error}"))?;
    if history.is_some() {
        state.await_history(Timestamp::now());
    }

    let source = MetricsApi::new(chassis.client.clone(), scope.namespace.as_deref());
    let (report_kill, kills) = mpsc::channel(MAX_WAITING_KILLS);
    let mut stored = Watches::new(chassis.client.clone(), scope.clone()).checkpoints();
    let mut watches =
        Watches::new(chassis.client.clone(), scope).pods(report_kill).controllers().autoscalers().scales();
    let metrics = Metrics::register(&chassis.registry, vec![watches.view(), stored.view()])?;
    let shared = Shared::new(state);
    let ingest = Ingest {
        shared: shared.clone(),
        view: watches.view(),
        stored: stored.view(),
        kills,
        source,
        metrics: metrics.clone(),
        interval: recommender_interval.0,
        activity: chassis.activity.clone(),
        synced: chassis.readiness.condition("watches"),
    };
    let workers = usize::from(update_worker_count);
    let keeper = Keeper {
        shared: shared.clone(),
        view: watches.view(),
        stored: stored.view(),
        writer: checkpoint::Writer::new(chassis.client.clone(), common.kube_api_qps, common.kube_api_burst),
        workers,
        timeout: checkpoints_timeout.0,
        gc_interval: checkpoints_gc_interval.0,
        metrics: metrics.clone(),
    };
    chassis.tasks.spawn_until_shutdown("watches", async move { watches.ended().await });
    chassis.tasks.spawn_until_shutdown("checkpoint watch", async move { stored.ended().await });
    chassis.tasks.spawn_until_shutdown("ingest", ingest.run());

    let feed = Feed::start(feed, &shared, &chassis)?;
    let (publisher, address) = feed.map(|Feed { publisher, address }| (publisher, address)).unzip();
    if let Some(settings) = history {
        let fetching = Fetching { settings, shared: shared.clone(), metrics: metrics.clone() };
        chassis.tasks.spawn_until_shutdown("history", fetching.run());
    }

    let writer = Writer::new(chassis.client.clone(), workers, metrics.clone());
    let shutdown = chassis.shutdown.clone();
    chassis
        .lead(&election, address.as_deref(), |leading| {
            // Readers are sent away when the term is over, and its work is dropped.
            let told = publisher.as_ref().map(|publisher| publisher.begin(leading.term()));
            let (state, writer, metrics) = (shared.clone(), writer.clone(), metrics.clone());
            let statuses = tell_changes(state, told, writer, metrics, leading.clone(), shutdown.clone());
            // Boxed, since it holds the writes of all workers.
            let checkpoints = Box::pin(keeper.clone().run(leading, shutdown.clone()));
            async { try_join(statuses, checkpoints).await.map(|((), ())| ()) }
        })
        .await
}

/// Decides after every change of the state, tells the readers of the feed and writes, for one term of leadership. Writes
/// take their time; what changes meanwhile is told at once, and written when they are done.
async fn tell_changes(
    shared: Shared,
    told: Option<Term>,
    writer: Writer,
    metrics: Metrics,
    leading: Leading,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let mut revisions = shared.revisions();
    if *revisions.borrow_and_update() > 0 {
        revisions.mark_changed();
    }
    let mut writing = pin!(Fuse::terminated());
    let mut changed_meanwhile = false;
    let mut retry_at = None;
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            changed = revisions.changed() => changed?,
            () = at(retry_at) => {}
            all_written = &mut writing => {
                let all_written: bool = all_written;
                retry_at = (!all_written).then(|| Instant::now() + RETRY);
                if !changed_meanwhile {
                    continue;
                }
            }
        }
        if told.is_none() && !writing.is_terminated() {
            changed_meanwhile = true;
            continue;
        }
        let steps = writing.is_terminated().then(|| metrics.steps());
        let decisions = block_in_place(|| shared.lock().decide(Timestamp::now()));
        metrics.decided(&decisions);
        if let Some(term) = told.as_ref().filter(|_| leading.holds(std::time::Instant::now())) {
            term.reset(decisions.iter().map(serve::recommendation), Timestamp::now());
        }
        changed_meanwhile = steps.is_none();
        if let Some(mut steps) = steps {
            retry_at = None;
            let (writer, leading) = (&writer, &leading);
            let write = async move {
                let all_written = writer.write(decisions, leading).await;
                steps.done("UpdateVPAs");
                all_written
            };
            writing.set(write.fuse());
        }
    }
}

async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
