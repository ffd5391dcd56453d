//! Start of the program: watches and ingestion in every replica, writes in the leader.

mod leader;
mod parts;
mod schedulable;

use std::time::Duration;

use ::watch::Watches;
use anyhow::anyhow;
use jiff::Timestamp;
use runtime::Chassis;
use sources::external_metrics::{ExternalMetricNames, ExternalMetrics};
use sources::metrics_api::MetricsApi;
use tokio::sync::watch;
use vertical::state::{RecommenderConfig, RecommenderState};
use view::Scope;

use self::leader::Leader;
use self::parts::Parts;
use self::schedulable::watch_schedulable;
use crate::act::{Writer, checkpoint};
use crate::args::{
    Args, DEFAULT_MIN_CHECKPOINTS, DataSource, HistoryArgs, HistorySettings, MetricRulesArgs, scope,
};
use crate::checkpoints::CheckpointController;
use crate::ehpa::rule_file::{RulesReceiver, follow};
use crate::ehpa::watch::watch as watch_ehpas;
use crate::feed_server::FeedServer;
use crate::history::HistoryBackfill;
use crate::ingest::{Ingest, SharedState, oom_kill_queue};
use crate::metrics::Metrics;
use crate::predictions::collector::Source;
use crate::sharding;
use crate::sizing_policies::watch::watch as watch_policies;
use crate::storage::Storage;
use crate::usage::Usage;

/// Concurrent status writes per concurrent checkpoint write: checkpoints are not urgent.
const CHECKPOINT_SHARE: usize = 4;
/// Number of missing rounds of usage after which predictions report that there are none.
const MAX_MISSING_ROUNDS: u32 = 5;

/// Runs the recommender until shutdown.
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
        metric_rules,
        prediction,
        recommender_name,
        recommender_interval,
        memory_saver,
        native_sidecars,
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
    let recommender = RecommenderConfig {
        recommender_name,
        memory_saver,
        native_sidecars,
        usage_interval: recommender_interval.0,
    };
    let external = external.names(&history.container_name_label)?;
    let (past, predicted_from) = pasts(&history, storage, prediction.datasource)?;
    let schedulable = schedulable.settings()?;
    let state = state(&recommender, config, past.is_some(), schedulable)?;

    // Their labels say which series predictions may read; a Role of one namespace allows none of
    // them.
    let sees_namespaces = predicted_from.is_some() && scope.namespace.is_none();
    let source = usage(external, &scope, recommender_interval.0, &chassis);
    let namespace = scope.namespace.clone();
    let new_watches = || Watches::new(chassis.client.clone(), scope.clone());
    let (stored, policies, horizontal) =
        (new_watches().checkpoints(), new_watches(), new_watches());
    let watches = match schedulable {
        Some(settings) => watch_schedulable(settings, new_watches()),
        None => new_watches(),
    };
    let views = [&watches, &stored, &policies, &horizontal].map(Watches::view);
    let mut metrics = Metrics::register(&chassis.registry, views.to_vec())?;
    if let Some(limit) = recommendation_metrics.limit() {
        metrics = metrics.with_recommendations(&chassis.registry, limit)?;
    }
    let workers = usize::from(update_worker_count);
    let parts = Parts {
        client: &chassis.client,
        recommender: &recommender.recommender_name,
        watches: &watches,
        horizontal: &horizontal,
        workers,
        metrics: &metrics,
    };
    let policy_keeper = parts.policies(&policies, shard);
    let rules = follow_rules(metric_rules, &chassis, &metrics)?;
    let ehpas = parts.ehpas(effective_hpa, rules.clone());
    let crane_metrics = parts.crane_metrics(&chassis.registry, &crane_metrics)?;
    let (rounds, received) = watch::channel(None);
    let predicted_from = match predicted_from {
        Some(settings) => Source::Prometheus(Box::new(settings)),
        None => Source::Rounds(received, recommender_interval.0 * MAX_MISSING_ROUNDS),
    };
    let collector = parts.collector(predicted_from, &prediction, rules);
    let shared = SharedState::new(state);
    let feed = FeedServer::start(feed, &shared, &chassis)?;
    let publisher = feed.as_ref().map(|feed| feed.publisher.clone());
    let forecasts = feed.as_ref().map(|feed| feed.forecasts.clone());
    let address = feed.map(|feed| feed.address);
    let predictions = parts.predictions(
        collector.store.clone(),
        prediction.prediction_update_frequency_duration.0,
        forecasts,
    );

    let (kills, report) = oom_kill_queue(metrics.ingest.clone());
    let watches = watches
        .pods(report.clone())
        .evictions(report)
        .with_controller_labels();
    let watches = watches.controllers().autoscalers().scales();
    let ingest = Ingest {
        shared: shared.clone(),
        view: watches.view(),
        stored: stored.view(),
        kills,
        source,
        rounds,
        metrics: metrics.ingest.clone(),
        interval: recommender_interval.0,
        activity: chassis.activity.clone(),
        synced: chassis.readiness.condition("watches"),
    };
    let checkpoints = CheckpointController {
        shared: shared.clone(),
        view: watches.view(),
        stored: stored.view(),
        writer: checkpoint::Writer::new(
            chassis.client.clone(),
            common.kube_api_qps,
            common.kube_api_burst,
        ),
        workers: workers.div_ceil(CHECKPOINT_SHARE),
        timeout: checkpoints_timeout.0,
        gc_interval: checkpoints_gc_interval.0,
        metrics: metrics.checkpoints.clone(),
    };
    let all = AllWatches {
        watches,
        stored,
        policies,
        horizontal,
    };
    all.spawn(&chassis, namespace, sees_namespaces);
    chassis.tasks.spawn_until_shutdown("ingest", ingest.run());
    chassis
        .tasks
        .spawn_until_shutdown("forecasts", collector.run());
    if let Some(settings) = past {
        backfill(settings, &shared, &metrics, &chassis);
    }

    let (election, announcement) = sharding::election_config(shard, election, address, &chassis)?;
    let leader = Leader {
        shared,
        publisher,
        writer: Writer::new(chassis.client.clone(), metrics.publish.clone()),
        workers,
        checkpoints,
        policies: policy_keeper,
        ehpas,
        predictions,
        crane_metrics,
        metrics: metrics.publish,
        shutdown: chassis.shutdown.clone(),
    };
    chassis
        .lead(&election, &announcement, |leading| leader.work(leading))
        .await
}

fn state(
    recommender: &RecommenderConfig,
    config: sizing::Config,
    awaits_history: bool,
    schedulable: Option<vertical::schedulable::Settings>,
) -> anyhow::Result<RecommenderState> {
    let mut state =
        RecommenderState::new(recommender.clone(), config).map_err(|error| anyhow!("--{error}"))?;
    if awaits_history {
        state.await_history(Timestamp::now());
    }
    if let Some(settings) = schedulable {
        state.cap_to_schedulable(settings);
    }
    Ok(state)
}

/// Follows the file of rules for the history of metrics, if there is one.
fn follow_rules(
    args: MetricRulesArgs,
    chassis: &Chassis,
    metrics: &Metrics,
) -> anyhow::Result<Option<RulesReceiver>> {
    let Some(settings) = args.settings()? else {
        return Ok(None);
    };
    let (rules, following) = follow(settings, chassis.client.clone(), metrics.forecasts.clone());
    chassis.tasks.spawn_until_shutdown("rules", following);
    Ok(Some(rules))
}

/// Reads usage from before the start.
fn backfill(settings: HistorySettings, shared: &SharedState, metrics: &Metrics, chassis: &Chassis) {
    let backfill = HistoryBackfill {
        settings,
        shared: shared.clone(),
        metrics: metrics.history.clone(),
    };
    chassis
        .tasks
        .spawn_until_shutdown("history", backfill.run());
}

/// The watches of this program, each with a view of its own.
struct AllWatches {
    /// Pods, workloads and VPA objects.
    watches: Watches,
    /// Checkpoints.
    stored: Watches,
    policies: Watches,
    /// EHPAs, predictions, and the objects that EHPAs own.
    horizontal: Watches,
}

impl AllWatches {
    /// Runs them until shutdown. Those of policies and EHPAs begin once their kinds are installed.
    fn spawn(self, chassis: &Chassis, namespace: Option<String>, sees_namespaces: bool) {
        let Self {
            mut watches,
            mut stored,
            policies,
            horizontal,
        } = self;
        let (tasks, client) = (&chassis.tasks, &chassis.client);
        tasks.spawn_until_shutdown("watches", async move { watches.ended().await });
        tasks.spawn_until_shutdown("checkpoint watch", async move { stored.ended().await });
        let policies = watch_policies(client.clone(), namespace.clone(), policies);
        tasks.spawn_until_shutdown("policy watch", policies);
        let ehpas = watch_ehpas(client.clone(), namespace, horizontal, sees_namespaces);
        tasks.spawn_until_shutdown("EHPA watch", ehpas);
    }
}

/// The stores of usage history and of predicted series, where these are Prometheus.
fn pasts(
    history: &HistoryArgs,
    storage: Storage,
    datasource: DataSource,
) -> anyhow::Result<(Option<HistorySettings>, Option<HistorySettings>)> {
    let store = || history.clone().settings(|name| std::env::var(name).ok());
    let predicted = match (datasource, storage) {
        (DataSource::Prometheus, _) | (DataSource::LikeStorage, Storage::Prometheus) => {
            Some(store()?)
        }
        (DataSource::Usage, _) | (DataSource::LikeStorage, Storage::Checkpoint) => None,
    };
    let usage = match storage {
        Storage::Prometheus => Some(store()?),
        Storage::Checkpoint => None,
    };
    Ok((usage, predicted))
}

fn usage(
    external: Option<ExternalMetricNames>,
    scope: &Scope,
    interval: Duration,
    chassis: &Chassis,
) -> Usage {
    let client = chassis.client.clone();
    match external {
        None => Usage::MetricsApi(MetricsApi::new(client, scope.namespace.as_deref()).only({
            let scope = scope.clone();
            move |namespace| scope.includes(namespace)
        })),
        Some(names) => Usage::External(ExternalMetrics::new(client, names), interval),
    }
}
