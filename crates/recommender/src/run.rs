//! Starts everything: watches and ingestion in every replica, writing in the one that leads.

use anyhow::anyhow;
use cluster::Watches;
use futures::try_join;
use jiff::Timestamp;
use runtime::Chassis;
use sources::external_metrics::ExternalMetrics;
use sources::metrics_api::MetricsApi;
use tokio::sync::watch;

use crate::act::{Writer, Writes, checkpoint, effective, policy, prediction as predicted};
use crate::args::{Args, DEFAULT_MIN_CHECKPOINTS, DataSource, PredictionArgs, scope};
use crate::checkpoint::keep::Keeper;
use crate::division;
use crate::ehpa::gauges::Gauges;
use crate::ehpa::keep::Keeper as EffectiveKeeper;
use crate::ehpa::watch::watch as watch_effective;
use crate::history::Fetching;
use crate::ingest::{Ingest, Shared, waiting_kills};
use crate::metrics::Metrics;
use crate::predict::Book;
use crate::predict::gather::{Gather, Source};
use crate::predict::keep::Keeper as PredictionKeeper;
use crate::serve::Feed;
use crate::sizing_policies::keep::Keeper as PolicyKeeper;
use crate::sizing_policies::status::Speaker;
use crate::sizing_policies::watch::watch as watch_policies;
use crate::state::{Charge, State};
use crate::storage::Storage;
use crate::tell::Teller;
use crate::usage::Usage;

/// Of so many statuses that are written at the same time, one checkpoint is: nobody waits for checkpoints.
const CHECKPOINT_SHARE: usize = 4;
/// After so many rounds without usage it is said that predictions have none.
const ROUNDS_OF_PATIENCE: u32 = 5;

/// The recommender's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args {
        common,
        election,
        sizing,
        feed,
        history,
        external,
        schedulable,
        recommendation_metrics,
        crane_metrics,
        effective_hpa,
        prediction,
        recommender_name,
        recommender_interval,
        memory_saver,
        update_worker_count,
        storage,
        checkpoints_timeout,
        checkpoints_gc_interval,
        min_checkpoints,
        namespaces,
        shard,
        feature_gates,
    } = args;
    if min_checkpoints != DEFAULT_MIN_CHECKPOINTS {
        tracing::warn!("--min-checkpoints is deprecated and has no effect");
    }
    let scope = scope(namespaces, shard)?;
    let config = sizing.config(&feature_gates)?;
    let charge = Charge { recommender_name, memory_saver, patience: recommender_interval.0 };
    let external = external.names(&history.container_name_label)?;
    let store = || history.clone().settings(|name| std::env::var(name).ok());
    let (pace, query_concurrency) = (prediction.pace(), usize::from(prediction.prometheus_query_concurrency));
    let PredictionArgs { datasource, prediction_update_frequency_duration, .. } = prediction;
    let predicted_from = match (datasource, storage) {
        (DataSource::Prometheus, _) | (DataSource::LikeStorage, Storage::Prometheus) => Some(Box::new(store()?)),
        (DataSource::Usage, _) | (DataSource::LikeStorage, Storage::Checkpoint) => None,
    };
    let history = match storage {
        Storage::Prometheus => Some(store()?),
        Storage::Checkpoint => None,
    };
    let mut state = State::new(charge.clone(), config).map_err(|error| anyhow!("--{error}"))?;
    if history.is_some() {
        state.await_history(Timestamp::now());
    }
    let schedulable = schedulable.settings()?;
    if let Some(settings) = schedulable {
        state.cap_to_schedulable(settings);
    }

    let source = match external {
        None => Usage::MetricsApi(MetricsApi::new(chassis.client.clone(), scope.namespace.as_deref()).only({
            let scope = scope.clone();
            move |namespace| scope.includes(namespace)
        })),
        Some(names) => Usage::External(ExternalMetrics::new(chassis.client.clone(), names), recommender_interval.0),
    };
    let mut stored = Watches::new(chassis.client.clone(), scope.clone()).checkpoints();
    let policies = Watches::new(chassis.client.clone(), scope.clone());
    let horizontal = Watches::new(chassis.client.clone(), scope.clone());
    let watches = Watches::new(chassis.client.clone(), scope);
    let watches = match schedulable {
        Some(settings) => settings.watch(watches),
        None => watches,
    };
    let metrics =
        Metrics::register(&chassis.registry, vec![watches.view(), stored.view(), policies.view(), horizontal.view()])?;
    let metrics = match recommendation_metrics.limit() {
        Some(limit) => metrics.with_recommendations(&chassis.registry, limit)?,
        None => metrics,
    };
    let policy_keeper = PolicyKeeper {
        view: watches.view(),
        policies: policies.view(),
        questions: watches.scale_questions(),
        recommender: charge.recommender_name.clone(),
        speaker: Speaker { shard: shard.index(), shards: shard.count() },
        writer: policy::Writer::new(chassis.client.clone()),
        workers: usize::from(update_worker_count),
        metrics: metrics.clone(),
    };
    let effective_keeper = EffectiveKeeper {
        view: watches.view(),
        horizontal: horizontal.view(),
        recommender: charge.recommender_name.clone(),
        writer: effective::Writer::new(chassis.client.clone()),
        propagation: effective_hpa.propagation(),
        workers: usize::from(update_worker_count),
    };
    let gauges = Gauges {
        horizontal: horizontal.view(),
        recommender: charge.recommender_name.clone(),
        metrics: Metrics::with_cranes(&chassis.registry, crane_metrics.crane_metrics_limit as usize)?,
    };
    let (rounds, heard) = watch::channel(None);
    let gather = Gather {
        horizontal: horizontal.view(),
        recommender: charge.recommender_name.clone(),
        source: match predicted_from {
            Some(settings) => Source::Prometheus(settings),
            None => Source::Rounds(heard, recommender_interval.0 * ROUNDS_OF_PATIENCE),
        },
        pace,
        concurrency: query_concurrency,
        book: Book::default(),
        metrics: metrics.clone(),
    };
    let (kills, report) = waiting_kills(metrics.clone());
    let mut watches = watches.pods(report.clone()).evictions(report).controllers().autoscalers().scales();
    let shared = Shared::new(state);
    let ingest = Ingest {
        shared: shared.clone(),
        view: watches.view(),
        stored: stored.view(),
        kills,
        source,
        rounds,
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
        workers: workers.div_ceil(CHECKPOINT_SHARE),
        timeout: checkpoints_timeout.0,
        gc_interval: checkpoints_gc_interval.0,
        metrics: metrics.clone(),
    };
    chassis.tasks.spawn_until_shutdown("watches", async move { watches.ended().await });
    chassis.tasks.spawn_until_shutdown("checkpoint watch", async move { stored.ended().await });
    chassis.tasks.spawn_until_shutdown("policy watch", watch_policies(chassis.client.clone(), policies));
    let watch = watch_effective(chassis.client.clone(), horizontal);
    chassis.tasks.spawn_until_shutdown("effective autoscaler watch", watch);
    chassis.tasks.spawn_until_shutdown("ingest", ingest.run());

    let feed = Feed::start(feed, &shared, &chassis)?;
    let (publishers, address) =
        feed.map(|Feed { publisher, forecasts, address }| ((publisher, forecasts), address)).unzip();
    let (publisher, forecasts) = publishers.unzip();
    let prediction_keeper = PredictionKeeper {
        book: gather.book.clone(),
        horizontal: gather.horizontal.clone(),
        publisher: forecasts,
        writer: predicted::Writer::new(chassis.client.clone()),
        workers: usize::from(update_worker_count),
        frequency: prediction_update_frequency_duration.0,
        metrics: metrics.clone(),
    };
    chassis.tasks.spawn_until_shutdown("forecasts", gather.run());
    if let Some(settings) = history {
        let fetching = Fetching { settings, shared: shared.clone(), metrics: metrics.clone() };
        chassis.tasks.spawn_until_shutdown("history", fetching.run());
    }

    let (election, announcement) = division::stand(shard, election, address, &chassis)?;
    let status_writer = Writer::new(chassis.client.clone(), metrics.clone());
    let shutdown = chassis.shutdown.clone();
    chassis
        .lead(&election, &announcement, |leading| {
            // Readers are sent away when the term is over, and its work is dropped.
            let told = publisher.as_ref().map(|publisher| publisher.begin(leading.term()));
            let writes = Writes::new(status_writer.clone(), workers, leading.clone());
            let teller =
                Teller::new(shared.clone(), told, writes, metrics.clone(), leading.clone()).run(shutdown.clone());
            // Boxed, since it holds the writes of all workers.
            let checkpoints = Box::pin(keeper.clone().run(leading.clone(), shutdown.clone()));
            let policies = Box::pin(policy_keeper.clone().run(leading.clone(), shutdown.clone()));
            let effective = Box::pin(effective_keeper.clone().run(leading.clone(), shutdown.clone()));
            let predictions = Box::pin(prediction_keeper.clone().run(leading.clone(), shutdown.clone()));
            let gauges = gauges.clone().run(leading, shutdown.clone());
            async { try_join!(teller, checkpoints, policies, effective, predictions, gauges).map(|_| ()) }
        })
        .await
}
