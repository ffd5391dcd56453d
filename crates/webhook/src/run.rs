//! Starts everything.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::watch::Watches;
use feed::{Reader, Subscription};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use runtime::pod::{hostname, own_namespace};
use runtime::{Chassis, Namespaces};
use serving::ca_bundles::Controller;
use serving::certificates::CertificateMonitor;
use serving::port::Port;
use serving::{FeedReaderArgs, FeedSource};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::{Scope, Shard, View};

use crate::act::rollout::Replica;
use crate::args::Args;
use crate::metrics::{self, Metrics};
use crate::overload::Overload;
use crate::registrar::Registrar;
use crate::registration::{FailurePolicy, Registration};
use crate::serve::{LIMITS, ReviewHandler};

/// How long requests are still taken after the end was asked for: Services go on sending some until
/// everybody knows. What is under way then has the rest of the 20 s that the end may take.
const LEAVING: Duration = Duration::from_secs(4);
/// Before the first registration of a webhook without whose answer no pod is made: its Service
/// should lead to it by then.
const CAUTION: Duration = Duration::from_secs(10);
/// The work of looking after certificates and registration must go on at least this often.
const ATTENDANCE: Duration = Duration::from_mins(3);

/// Interval between two comparisons of the registration while nothing changes.
const RESYNC: Duration = Duration::from_secs(15);
/// Time without a ready replica of the newer revision of the Deployment that registered, after which
/// an older replica takes the registration back. Longer than a start, and shorter than the pauses
/// between the restarts of a container that keeps failing.
const TAKEOVER_DELAY: Duration = Duration::from_mins(2);

/// The webhook's work.
pub fn run(args: Args, chassis: Chassis) -> impl Future<Output = anyhow::Result<()>> {
    run_on(Port::open("port", args.serving.port, LIMITS), args, chassis)
}

/// The same on a port that is opened when there are certificates.
pub async fn run_on(
    port: impl Future<Output = anyhow::Result<Port>>,
    args: Args,
    chassis: Chassis,
) -> anyhow::Result<()> {
    let Args {
        common: _,
        serving,
        registration,
        heartbeat,
        review,
        feed,
        namespaces,
    } = args;
    let Namespaces { only, ignored } = namespaces.namespaces()?;
    let config = Arc::new(review.config()?);
    let metrics = Metrics::register(&chassis.registry)?;
    let own_namespace = own_namespace();
    let left_alone: Vec<String> = ignored.iter().cloned().collect();
    let registration = registration.registration(
        &own_namespace,
        only.as_deref().unwrap_or_default(),
        &left_alone,
    )?;
    let scope = Scope {
        namespace: only,
        ignored,
        shard: Shard::default(),
    };
    let hostname = hostname()?;
    let replica = Replica::of(chassis.client.clone(), &own_namespace, &hostname);
    let heartbeat = heartbeat.heartbeat(
        chassis.client.clone(),
        chassis.clock(),
        &own_namespace,
        hostname,
    );
    let source = serving.source(
        chassis.client.clone(),
        &own_namespace,
        registration.as_ref(),
    )?;

    // Reviews are answered for some time after the shutdown, by a view that goes on.
    let answered = CancellationToken::new();
    let _end = answered.clone().drop_guard();
    let answering = chassis.until(answered);
    let feed = subscribe(feed, &answering)?;
    let Some(view) = watch_cluster(scope, &answering).await else {
        return Ok(());
    };
    let clock = chassis.clock();
    let Some(certificates) = chassis
        .shutdown
        .run_until_cancelled(source.get(&clock))
        .await
    else {
        return Ok(());
    };
    let certificates = certificates?;

    let port = port.await?;
    tracing::info!(address = %port.address()?, "answering reviews");
    let overload = Overload::default();
    answering
        .tasks
        .spawn_until_shutdown("overload", overload.clone().measure());
    let tls = certificates.current();
    let handler = ReviewHandler {
        view,
        feed,
        config,
        metrics,
        overload,
        shutdown: chassis.shutdown.clone(),
    };
    let server = port.serve(handler.router(), tls, chassis.shutdown.clone(), LEAVING);
    chassis.readiness.condition("serving").ready();

    chassis.activity.expect_every(ATTENDANCE, Instant::now());
    let caution = match &registration {
        Some(Registration {
            failure_policy: FailurePolicy::Fail,
            ..
        }) => CAUTION,
        _ => Duration::ZERO,
    };
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(chassis.client.clone());
    let registration = registration.map(|registration| (configurations, registration));
    let monitor = CertificateMonitor::of(&chassis, metrics::PREFIX)?;
    let registrar = Registrar::new(registration, replica, TAKEOVER_DELAY);
    let ca_bundles = Controller::new(certificates, registrar, monitor, clock, RESYNC);
    chassis
        .tasks
        .spawn_until_shutdown("heartbeat", heartbeat.run(ca_bundles.in_effect()));
    let activity = chassis.activity.clone();
    chassis
        .tasks
        .spawn_until_shutdown("certificates", async move {
            tokio::time::sleep(caution).await;
            ca_bundles.run(activity).await;
        });

    server.await;
    Ok(())
}

/// Subscribes to the feed, if there is one.
fn subscribe(
    feed: FeedReaderArgs,
    chassis: &Chassis,
) -> anyhow::Result<Option<watch::Receiver<Subscription>>> {
    let Some(FeedSource {
        leaders,
        tls,
        server_name,
    }) = feed.source(chassis)?
    else {
        return Ok(None);
    };
    let (subscription, reading) = Reader {
        leaders,
        tls,
        server_name,
    }
    .subscribe();
    chassis.tasks.spawn_until_shutdown("feed", reading);
    Ok(Some(subscription))
}

/// Watches what reviews are answered from, and returns when it is known; nothing if the end comes
/// before.
async fn watch_cluster(scope: Scope, chassis: &Chassis) -> Option<watch::Receiver<View>> {
    let mut watches = Watches::new(chassis.client.clone(), scope)
        .controllers()
        .autoscalers()
        .limit_ranges()
        .scales();
    let mut view = watches.view();
    chassis
        .tasks
        .spawn_until_shutdown("watches", async move { watches.ended().await });
    let synced = chassis.readiness.condition("watches");
    chassis
        .shutdown
        .run_until_cancelled(view.wait_for(View::is_synced))
        .await?
        .ok()?;
    synced.ready();
    Some(view)
}
