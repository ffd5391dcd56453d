//! Starts everything. Only the replica that leads watches the cluster: what it read before it led
//! could be older than what the leader before it did.

use anyhow::Context as _;
use feed::Reader;
use runtime::client;
use runtime::throttle::Throttle;
use runtime::{Announcement, Chassis, Leading, Namespaces};
use serving::FeedSource;
use tokio_util::sync::CancellationToken;
use view::{Scope, Shard};
use watch::Watches;

use crate::args::Args;
use crate::control_loop::{ControlLoop, LoopConfig, Outputs, Watched};
use crate::events::EventQueue;
use crate::metrics::Metrics;
use crate::pod_writer::PodWriter;

/// One part in so many of `--kube-api-burst` is for pods that were killed for want of memory.
const URGENT_SHARE: u32 = 4;

/// The updater's work.
pub async fn run(args: Args, chassis: Chassis) -> anyhow::Result<()> {
    let Args {
        common,
        election,
        rollout,
        rate_limits,
        pause,
        feed,
        updater_interval,
        namespaces,
    } = args;
    let Namespaces { only, ignored } = namespaces.namespaces()?;
    let scope = Scope {
        namespace: only,
        ignored,
        shard: Shard::default(),
    };
    let (limits, concurrency) = rate_limits.limits();
    let requests = Throttle::new(common.kube_api_qps, common.kube_api_burst);
    let config = LoopConfig {
        settings: rollout.settings()?,
        policy: pause.policy(std::env::var("NAMESPACE").ok()),
        limits,
        concurrency,
        interval: updater_interval.0,
        requests: requests.reserving(common.kube_api_burst / URGENT_SHARE),
    };
    let metrics = Metrics::register(&chassis.registry)?;
    // Acts wait for the limits where they can still be withdrawn, so not in the client.
    let acting = client::connect(
        chassis.config.clone(),
        Throttle::new(1e6, 1_000_000),
        chassis.rest_metrics.clone(),
    )?;
    let telling = client::connect(
        chassis.config.clone(),
        requests,
        chassis.rest_metrics.clone(),
    )?;
    let (events, writing) = EventQueue::new(telling);
    chassis.tasks.spawn_until_shutdown("events", writing);
    let heard = feed.source(&chassis)?.map(
        |FeedSource {
             leaders,
             tls,
             server_name,
         }| {
            let (following, reading) = Reader {
                leaders,
                tls,
                server_name,
            }
            .subscribe();
            chassis.tasks.spawn_until_shutdown("feed", reading);
            following
        },
    );
    let outputs = Outputs {
        metrics,
        events,
        activity: chassis.activity.clone(),
    };
    let watch = |leading: Leading| {
        let mut watches = Watches::new(chassis.client.clone(), scope.clone())
            .with_placements()
            .live_pods()
            .controllers()
            .autoscalers()
            .scales()
            .limit_ranges()
            .quotas()
            .disruption_budgets()
            .namespaces()
            .nodes();
        let mut control = Watches::new(chassis.client.clone(), scope.clone());
        if let Some(key) = &config.policy.stop_config_map {
            control = control.switch(key);
        }
        let mut webhook = Watches::new(chassis.client.clone(), scope.clone());
        if let Some((key, _)) = &config.policy.webhook_lease {
            webhook = webhook.heartbeat(key);
        }
        let watched = Watched {
            view: watches.view(),
            control: control.view(),
            webhook: webhook.view(),
            feed: heard.clone(),
            clock: chassis.clock(),
        };
        let control_loop = ControlLoop::new(
            watched,
            config.clone(),
            PodWriter::new(acting.clone(), leading),
            outputs.clone(),
        );
        let shutdown: CancellationToken = chassis.shutdown.clone();
        async move {
            tokio::select! {
                ended = control_loop.run(shutdown) => ended.context("control loop"),
                () = watches.ended() => anyhow::bail!("a watch ended"),
                () = control.ended() => anyhow::bail!("the watch of the stop switch ended"),
                () = webhook.ended() => anyhow::bail!("the watch of the webhook's Lease ended"),
            }
        }
    };
    chassis.readiness.condition("started").ready();
    chassis
        .lead(&election, &Announcement::default(), watch)
        .await
}
