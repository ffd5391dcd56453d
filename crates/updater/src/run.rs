//! The wiring of the updater.
//!
//! Only the leader watches the cluster. Objects that it read before it led could be older than the
//! actions of its predecessor.

use anyhow::Context as _;
use feed::client::{ReportPace, Reports};
use feed::{Reader, Subscription};
use rollout::WebhookLiveness;
use runtime::client;
use runtime::own_pod::{hostname, own_namespace};
use runtime::rate_limiter::Throttle;
use runtime::{Announcement, Hold, Holds, LeaderElectionArgs, Leading, Manager, Namespaces};
use serving::FeedReader;
use tokio::sync::watch::{Receiver, Sender};
use tokio::time::Instant;
use view::{AutoscalerRole, ObjectKey, Scope, Shard};
use watch::{MissingRights, OtherAutoscalers, Watches};

use crate::args::Args;
use crate::config::{Config, Configured, DEFAULTS};
use crate::control_loop::{ControlLoop, Inputs, LoopConfig, Outputs};
use crate::events::EventQueue;
use crate::feed_overlay::FeedOverlay;
use crate::metrics::Metrics;
use crate::node_load;
use crate::pod_writer::PodWriter;

/// The divisor of `--kube-api-burst` that gives the part reserved for urgent actions.
const URGENT_SHARE: u32 = 4;

pub async fn run(args: Args, manager: Manager) -> anyhow::Result<()> {
    args.ignored_flags.warn();
    let (common, election) = (args.common, args.election);
    let Namespaces { only, ignored } = args.namespaces.namespaces()?;
    let config: Config = args.config.read(DEFAULTS)?;
    let looks = config.other_autoscalers.looks(only.is_none());
    let (holds, another_updater, others) = other_updaters(looks, &election, &manager)?;
    let scope = Scope {
        namespace: only,
        ignored,
        shard: Shard::default(),
    };
    let requests = Throttle::new(common.kube_api_qps, common.kube_api_burst);
    let feed = config.feed.clone();
    let Configured {
        settings,
        load_watcher,
        health,
    } = config.settings(&args.rollout.settings()?)?;
    let config = LoopConfig {
        settings,
        policy: args.pause.policy(&own_namespace()),
        limit: args.rate_limits.limit(),
        interval: args.updater_interval.0,
        health,
        requests: requests.reserving(common.kube_api_burst / URGENT_SHARE),
    };
    let missing_rights = MissingRights::register(&manager.registry)?;
    // Actions wait in the control loop, where they can still be dropped, and not in the client.
    let pods_client = client::connect(
        manager.config.clone(),
        Throttle::new(1e6, 1_000_000),
        manager.rest_metrics.clone(),
    )?;
    let (kube_config, rest_metrics) = (manager.config.clone(), manager.rest_metrics.clone());
    let events_client = client::connect(kube_config, requests, rest_metrics)?;
    let (events, writing) = EventQueue::new(events_client);
    manager.tasks.spawn_until_shutdown("events", writing);
    let (subscription, reports) = subscribe(feed, &manager)?.unzip();
    let outputs = Outputs {
        metrics: Metrics::register(&manager.registry)?,
        events,
        activity: manager.activity.clone(),
        reports,
    };
    let lead = |leading: Leading| {
        let mut workloads = watch_workloads(&manager, &scope, &missing_rights);
        let mut control =
            Watches::new(manager.client.clone(), scope.clone()).counting(&missing_rights);
        if let Some(key) = &config.policy.stop_config_map {
            control = control.stop_switch(key);
        }
        let mut webhook = Watches::new(manager.client.clone(), scope.clone());
        if let Some((key, _)) = &config.policy.webhook_lease {
            webhook = webhook.webhook_lease(key);
        }
        let (node_load, reading) = node_load::follow(load_watcher.clone(), outputs.metrics.clone());
        let inputs = Inputs {
            view: workloads.view(),
            control: control.view(),
            webhook: webhook.view(),
            feed: FeedOverlay::new(subscription.clone()),
            node_load,
            another_updater: another_updater.clone(),
            clock: manager.clock(),
            started: Instant::now(),
            liveness: WebhookLiveness::default(),
        };
        let (holds, others, clock) = (holds.clone(), others.clone(), manager.clock());
        let writer = PodWriter::new(&pods_client, &leading, manager.clock());
        let control_loop = ControlLoop::new(inputs, config.clone(), writer, outputs.clone());
        let shutdown = manager.shutdown.clone();
        async move {
            let looking =
                holds.keep(|| async { others.read(|| clock.timestamp()).await.by_role() });
            tokio::select! {
                ended = control_loop.run(shutdown) => ended.context("control loop"),
                () = looking => anyhow::bail!("the look for other updaters ended"),
                () = reading => anyhow::bail!("the reads of the node load ended"),
                () = workloads.ended() => anyhow::bail!("a watch ended"),
                () = control.ended() => anyhow::bail!("the watch of the stop switch ended"),
                () = webhook.ended() => anyhow::bail!("the watch of the webhook's Lease ended"),
            }
        }
    };
    manager.readiness.condition("started").ready();
    Box::pin(manager.lead(&election, &Announcement::default(), lead)).await
}

/// The hold while another updater runs, and the reader of the signs of one.
fn other_updaters(
    looks: bool,
    election: &LeaderElectionArgs,
    manager: &Manager,
) -> anyhow::Result<(Holds, Hold, OtherAutoscalers)> {
    let holds = Holds::register(manager)?;
    let hold = holds.hold(AutoscalerRole::Updater.as_str(), looks);
    let pod = ObjectKey::new(own_namespace(), hostname()?);
    let others = OtherAutoscalers::new(manager.client.clone(), election.own_leases());
    Ok((holds, hold, others.beside(pod)))
}

/// Subscribes to the feed of recommendations, and reports to its servers, if it is configured.
fn subscribe(
    feed: FeedReader,
    manager: &Manager,
) -> anyhow::Result<Option<(Receiver<Subscription>, Sender<Reports>)>> {
    let Some(source) = feed.source(manager)? else {
        return Ok(None);
    };
    let reader = Reader {
        leaders: source.leaders,
        tls: source.tls,
        server_name: source.server_name,
    };
    let (sender, reports) = tokio::sync::watch::channel(Reports::new());
    let reporting = reader.clone().report(reports, ReportPace::default());
    manager.tasks.spawn_until_shutdown("reports", reporting);
    let (subscription, reading) = reader.subscribe();
    manager.tasks.spawn_until_shutdown("feed", reading);
    Ok(Some((subscription, sender)))
}

/// The watches of workloads, VPA objects, and all that constrains them.
fn watch_workloads(manager: &Manager, scope: &Scope, missing_rights: &MissingRights) -> Watches {
    Watches::new(manager.client.clone(), scope.clone())
        .counting(missing_rights)
        .with_placements()
        .live_pods()
        .with_templates()
        .controllers()
        .vpas()
        .scales()
        .limit_ranges()
        .quotas()
        .disruption_budgets()
        .namespaces()
        .nodes()
}
