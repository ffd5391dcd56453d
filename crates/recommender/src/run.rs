//! Start of the program: watches and ingestion in every replica, writes in the leader.

mod controllers;

use ::controllers::predictions::{DataSource, Source};
use ::watch::{MissingRights, Watches};
use anyhow::{Context as _, anyhow};
use futures::FutureExt as _;
use jiff::Timestamp;
use kube::Api;
use runtime::feature_gates::NATIVE_SIDECAR;
use runtime::own_pod::own_namespace;
use runtime::{FeatureGates, LeaderTasks, Manager, sharding};
use serving::certificates::FeedCertificates;
use sources::external_metrics::ExternalMetrics;
use sources::metrics_api::MetricsApi;
use sources::prometheus::HistorySettings;
use tokio::sync::watch;
use vertical::recommender_state::{RecommenderConfig, RecommenderState};
use vertical::schedulable::{CapSources, Settings};
use view::{OomKill, Scope, View};

use self::controllers::Controllers;
use crate::args::{Args, DEFAULT_MIN_CHECKPOINTS, Storage, scope};
use crate::backfill::HistoryBackfill;
use crate::config::{Config, DEFAULTS};
use crate::feed_server::FeedServer;
use crate::ingest::{Ingest, SharedState, oom_kill_queue};
use crate::metrics::Metrics;
use crate::usage_source::Usage;

/// The server of the feed, and its clients.
const FEED_PROGRAMS: [&str; 4] = [
    "plimsoll-recommender",
    "plimsoll-updater",
    "plimsoll-webhook",
    "plimsoll-adapter",
];
/// Number of missing rounds of usage after which predictions report that there are none.
const MAX_MISSING_ROUNDS: u32 = 5;

pub async fn run(args: Args, manager: Manager) -> anyhow::Result<()> {
    args.ignored_flags.warn();
    if args.min_checkpoints != DEFAULT_MIN_CHECKPOINTS {
        tracing::warn!("--min-checkpoints is deprecated and has no effect");
    }
    let scope = scope(args.namespaces.clone(), args.shard)?;
    let usage = usage(&args, &scope, &manager)?;
    let (past, predicted_from) = histories(&args)?;
    let config: Config = args.config.read(DEFAULTS)?;
    let schedulable = config.capping.clone().checked();
    let schedulable = schedulable.map_err(|error| anyhow!("--config: capping: {error}"))?;
    let mut sizing = args.sizing.clone().config(&args.feature_gates)?;
    sizing.without_usage = config.without_usage;
    let state = state(&args, sizing, past.is_some(), schedulable.clone())?;
    let shared = SharedState::new(state);
    // Their labels say which series predictions may read; a Role of one namespace allows none of
    // them.
    let sees_namespaces = predicted_from.is_some() && scope.namespace.is_none();
    let watches = AllWatches::new(&scope, schedulable.as_ref(), &manager)?;
    let mut metrics = Metrics::register(&manager.registry, watches.views())?;
    if config.recommendation_metrics {
        metrics = metrics.with_recommendations(&manager.registry)?;
    }
    let feed = FeedServer::start(config.feed.clone(), &shared, &manager)?;
    let (rounds, received) = watch::channel(None);
    let predicted_from = match predicted_from {
        Some(settings) => Source::Prometheus(Box::new(settings), metrics.history.observer()),
        None => Source::Rounds(received, args.recommender_interval.0 * MAX_MISSING_ROUNDS),
    };
    let controllers = Controllers {
        args: &args,
        config: &config,
        manager: &manager,
        watches: &watches,
        metrics: &metrics,
        shared: &shared,
    };
    let mut leader = LeaderTasks::new(manager.shutdown.clone());
    controllers.start(feed.as_ref(), predicted_from, &mut leader)?;
    // One shard is enough.
    if config.feed.manage_certificates && args.shard.index() == 0 {
        let manager = manager.clone();
        leader.add(move |_, shutdown| {
            let secrets = Api::namespaced(manager.client.clone(), &own_namespace());
            let certificates = FeedCertificates::new(secrets, &FEED_PROGRAMS);
            certificates.keep(manager.clock(), shutdown).map(Ok)
        });
    }

    let (kills, report) = oom_kill_queue(metrics.ingest.clone());
    let ingest = Ingest {
        shared: shared.clone(),
        view: watches.objects.view(),
        stored: watches.checkpoints.view(),
        kills,
        source: usage,
        rounds,
        metrics: metrics.ingest.clone(),
        interval: args.recommender_interval.0,
        activity: manager.activity.clone(),
        synced: manager.readiness.condition("watches"),
    };
    watches.spawn(report, sees_namespaces, &manager);
    manager.tasks.spawn_until_shutdown("ingest", ingest.run());
    if let Some(settings) = past {
        let backfill = HistoryBackfill {
            settings,
            shared,
            metrics: metrics.history,
        };
        manager
            .tasks
            .spawn_until_shutdown("history", backfill.run());
    }
    let address = feed.map(|feed| feed.address);
    let index_and_count = (args.shard.index(), args.shard.count());
    let (election, announcement) =
        sharding::election_config(index_and_count, args.election, address, &manager)?;
    manager
        .lead(&election, &announcement, |leading| leader.run(&leading))
        .await
}

fn state(
    args: &Args,
    config: sizing::Config,
    awaits_history: bool,
    schedulable: Option<Settings>,
) -> anyhow::Result<RecommenderState> {
    let gates = FeatureGates::parse(&args.feature_gates).context("--feature-gates")?;
    let recommender = RecommenderConfig {
        recommender_name: args.recommender_name.clone(),
        memory_saver: args.memory_saver,
        native_sidecars: gates.enabled(NATIVE_SIDECAR),
        usage_interval: args.recommender_interval.0,
    };
    let mut state =
        RecommenderState::new(recommender, config).map_err(|error| anyhow!("--{error}"))?;
    if awaits_history {
        state.await_history(Timestamp::now());
    }
    if let Some(settings) = schedulable {
        state.cap_to_schedulable(settings);
    }
    Ok(state)
}

/// The stores of usage history and of predicted series, where these are Prometheus.
fn histories(args: &Args) -> anyhow::Result<(Option<HistorySettings>, Option<HistorySettings>)> {
    let store = || {
        let history = args.history.clone();
        history.settings(|name| std::env::var(name).ok()).map(Some)
    };
    let predicted = match (args.prediction.datasource, args.storage) {
        (DataSource::Prometheus, _) | (DataSource::LikeStorage, Storage::Prometheus) => store()?,
        (DataSource::Usage, _) | (DataSource::LikeStorage, Storage::Checkpoint) => None,
    };
    let usage = match args.storage {
        Storage::Prometheus => store()?,
        Storage::Checkpoint => None,
    };
    Ok((usage, predicted))
}

fn usage(args: &Args, scope: &Scope, manager: &Manager) -> anyhow::Result<Usage> {
    let client = manager.client.clone();
    let container_label = &args.history.container_name_label;
    if let Some(names) = args.external.names(container_label)? {
        let metrics = ExternalMetrics::new(client, names);
        return Ok(Usage::External(metrics, args.recommender_interval.0));
    }
    let metrics = MetricsApi::new(client, scope.namespace.as_deref());
    let scope = scope.clone();
    Ok(Usage::MetricsApi(
        metrics.only(move |namespace| scope.includes(namespace)),
    ))
}

/// The watches of this program, each with a view of its own.
pub(super) struct AllWatches {
    /// Pods, workloads and VPA objects.
    pub(super) objects: Watches,
    pub(super) checkpoints: Watches,
    pub(super) policies: Watches,
    /// EHPAs, predictions, and the objects that EHPAs own.
    pub(super) horizontal: Watches,
}

impl AllWatches {
    /// Starts the watches of checkpoints, and of nodes, quotas and limit ranges for caps.
    fn new(
        scope: &Scope,
        schedulable: Option<&Settings>,
        manager: &Manager,
    ) -> anyhow::Result<Self> {
        let missing_rights = MissingRights::register(&manager.registry)?;
        let watches =
            || Watches::new(manager.client.clone(), scope.clone()).counting(&missing_rights);
        Ok(Self {
            objects: match schedulable {
                Some(settings) => watch_schedulable(settings, watches()),
                None => watches(),
            },
            checkpoints: watches().checkpoints(),
            policies: watches(),
            horizontal: watches(),
        })
    }

    fn views(&self) -> Vec<watch::Receiver<View>> {
        let watches = [
            &self.objects,
            &self.checkpoints,
            &self.policies,
            &self.horizontal,
        ];
        watches.map(Watches::view).to_vec()
    }

    /// Runs all watches until shutdown. Those of policies and EHPAs begin once their kinds are
    /// installed. `report` gets new OOM kills.
    fn spawn(
        self,
        report: impl Fn(OomKill) + Send + Sync + Clone + 'static,
        sees_namespaces: bool,
        manager: &Manager,
    ) {
        let Self {
            objects,
            mut checkpoints,
            policies,
            horizontal,
        } = self;
        let objects = objects
            .pods(report.clone())
            .evictions(report)
            .with_controller_labels();
        let mut objects = objects.controllers().vpas().hpa_targets().scales();
        let tasks = &manager.tasks;
        tasks.spawn_until_shutdown("watches", async move { objects.ended().await });
        tasks.spawn_until_shutdown("checkpoint watch", async move { checkpoints.ended().await });
        tasks.spawn_until_shutdown("policy watch", policies.run_policies());
        tasks.spawn_until_shutdown("EHPA watch", horizontal.run_horizontal(sees_namespaces));
    }
}

/// Adds the watches that capping needs. To be called before pods are watched.
fn watch_schedulable(settings: &Settings, watches: Watches) -> Watches {
    let CapSources {
        nodes,
        quotas,
        limit_ranges,
    } = settings.sources();
    let mut watches = watches.with_placements().pending_pods();
    if nodes {
        watches = watches.nodes().daemons();
    }
    if settings.capacity_from.karpenter {
        watches = watches.karpenter();
    }
    if settings.capacity_from.cluster_autoscaler {
        watches = watches.cluster_autoscaler();
    }
    if quotas {
        watches = watches.quotas();
    }
    if limit_ranges {
        watches = watches.limit_ranges();
    }
    watches
}
