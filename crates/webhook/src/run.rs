//! Wiring of the webhook.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ::watch::Watches;
use feed::{Reader, Subscription};
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use runtime::own_pod::{hostname, own_namespace};
use runtime::{Announcement, Holds, LeaderElectionArgs, Leading, Manager, Namespaces};
use serving::FeedReader;
use serving::ca_bundles::Controller;
use serving::certificates::{CertificateMonitor, Certificates};
use serving::port::Port;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use view::{Scope, Shard, View};

use crate::args::Args;
use crate::config::{Config, DEFAULTS};
use crate::cut_off;
use crate::heartbeat::Heartbeat;
use crate::metrics::{self, Metrics};
use crate::overload::Overload;
use crate::registration::{FailurePolicy, OtherWebhooks, Owner, Registrar, Writer};
use crate::serve::{LIMITS, ReviewHandler};

/// Time after the shutdown during which requests are still accepted, because Services take a while
/// to stop sending them. Running requests then have the rest of the 20 s of a shutdown.
const DRAIN_DELAY: Duration = Duration::from_secs(4);
/// Delay of the first registration with failure policy `Fail`, until the Service routes to the
/// webhook.
const REGISTRATION_DELAY: Duration = Duration::from_secs(10);
/// Maximum interval between passes of the CA-bundle controller; then the liveness check fails.
const MAX_PASS_INTERVAL: Duration = Duration::from_mins(3);
/// Interval between two comparisons of the registration while nothing changes.
const RESYNC: Duration = Duration::from_secs(15);
/// Time for which the first registration waits for the Lease.
const FIRST_TERM: Duration = Duration::from_secs(2);

pub fn run(args: Args, manager: Manager) -> impl Future<Output = anyhow::Result<()>> {
    args.ignored_flags.warn();
    run_on(Port::open("port", args.serving.port, LIMITS), args, manager)
}

/// Runs the webhook on `port`, which is opened when the certificates are loaded.
pub async fn run_on(
    port: impl Future<Output = anyhow::Result<Port>>,
    args: Args,
    manager: Manager,
) -> anyhow::Result<()> {
    let (registration, heartbeat) = (args.registration, args.heartbeat);
    let Namespaces { only, ignored } = args.namespaces.namespaces()?;
    let settings: Config = args.config.read(DEFAULTS)?;
    let config = Arc::new(args.review.config(settings.node_groups)?);
    let metrics = Metrics::register(&manager.registry)?;
    let own_namespace = own_namespace();
    let ignored_namespaces: Vec<String> = ignored.iter().cloned().collect();
    let namespace = only.as_deref().unwrap_or_default();
    let owner = Owner::of(manager.client.clone(), &settings.owner_cluster_role);
    let registration =
        registration.registration(&settings, &own_namespace, namespace, &ignored_namespaces)?;
    if let Some(registration) = &registration {
        registration.check_reinvocation(config.gates.cpu_startup_boost)?;
    }
    let scope = Scope {
        namespace: only,
        ignored,
        shard: Shard::default(),
    };
    let hostname = hostname()?;
    let (client, clock) = (|| manager.client.clone(), manager.clock());
    let writer = Writer {
        owner,
        pod: hostname.clone(),
    };
    let election = heartbeat.election(&own_namespace);
    let heartbeat = heartbeat.heartbeat(client(), clock.clone(), &own_namespace, hostname);
    let client_authorities = settings.api_server_client_ca_file;
    let source = (args.serving).source(
        client_authorities,
        client(),
        &own_namespace,
        registration.as_ref(),
    )?;

    // Reviews are served for some time after the shutdown, so the view is kept current until then.
    let drained = CancellationToken::new();
    let _end = drained.clone().drop_guard();
    let serving = manager.until(drained);
    let feed = subscribe(settings.feed, &serving)?;
    let Some(view) = watch_cluster(scope, config.node_groups, &serving).await else {
        return Ok(());
    };
    let loading = source.get(&clock);
    let Some(certificates) = manager.shutdown.run_until_cancelled(loading).await else {
        return Ok(());
    };
    let certificates = certificates?;

    let port = port.await?;
    tracing::info!(address = %port.address()?, "serving reviews");
    let overload = Overload::default();
    let measuring = overload.clone().measure();
    serving.tasks.spawn_until_shutdown("overload", measuring);
    let tls = certificates.current();
    let handler = ReviewHandler {
        view,
        feed,
        config,
        metrics,
        overload,
        shutdown: manager.shutdown.clone(),
    };
    let server = port.serve(handler.router(), tls, manager.shutdown.clone(), DRAIN_DELAY);
    manager.readiness.condition("serving").ready();

    let looks = settings.other_autoscalers.looks(true);
    let holds = looks.then(|| Holds::register(&manager));
    let others = holds.transpose()?;
    let others = others.map(|holds| OtherWebhooks::new(manager.client.clone(), holds));
    let (terms, term) = watch::channel(None);
    if registration.is_some() {
        elect(manager.clone(), election, terms);
    }
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(manager.client.clone());
    let policy = registration.as_ref().map(|it| it.failure_policy);
    let registration = registration.map(|registration| (configurations, registration));
    let registrar = Registrar::new(registration, writer, others, term.clone());
    keep_registered(&manager, certificates, (policy, registrar, term), heartbeat)?;

    server.await;
    Ok(())
}

/// Elects the replica that writes the registration, and passes on its terms.
fn elect(manager: Manager, election: LeaderElectionArgs, terms: watch::Sender<Option<Leading>>) {
    let tasks = manager.tasks.clone();
    tasks.spawn("election", async move {
        let lead = |leading| {
            terms.send_replace(Some(leading));
            let shutdown = manager.shutdown.clone();
            async move {
                shutdown.cancelled().await;
                Ok(())
            }
        };
        let announcement = Announcement::default();
        manager.lead(&election, &announcement, lead).await
    });
}

/// Starts the controller of the registration and its CA bundle, and the heartbeat.
fn keep_registered(
    manager: &Manager,
    certificates: Certificates,
    (policy, registrar, mut term): (
        Option<FailurePolicy>,
        Registrar,
        watch::Receiver<Option<Leading>>,
    ),
    heartbeat: Heartbeat,
) -> anyhow::Result<()> {
    let activity = manager.activity.clone();
    activity.expect_every(MAX_PASS_INTERVAL, Instant::now());
    let delay = match policy {
        Some(FailurePolicy::Fail) => REGISTRATION_DELAY,
        _ => Duration::ZERO,
    };
    let monitor = CertificateMonitor::of(manager, metrics::PREFIX)?;
    let ca_bundles = Controller::new(certificates, registrar, monitor, manager.clock(), RESYNC);
    let heartbeat = heartbeat.run(ca_bundles.in_effect());
    manager.tasks.spawn_until_shutdown("heartbeat", heartbeat);
    let certificates = async move {
        tokio::time::sleep(delay).await;
        let first_term = term.wait_for(Option::is_some);
        // Another replica may have the Lease.
        drop(tokio::time::timeout(FIRST_TERM, first_term).await);
        ca_bundles.run(activity).await;
    };
    manager
        .tasks
        .spawn_until_shutdown("certificates", certificates);
    Ok(())
}

fn subscribe(
    feed: FeedReader,
    manager: &Manager,
) -> anyhow::Result<Option<watch::Receiver<Subscription>>> {
    let source = feed.source(manager)?;
    Ok(source.map(|source| {
        let reader = Reader {
            leaders: source.leaders,
            tls: source.tls,
            server_name: source.server_name,
        };
        let (subscription, reading) = reader.subscribe();
        manager.tasks.spawn_until_shutdown("feed", reading);
        subscription
    }))
}

/// Watches the objects that decisions read. Returns the view once it is complete; `None` if the
/// shutdown comes first.
async fn watch_cluster(
    scope: Scope,
    sees_nodes: bool,
    manager: &Manager,
) -> Option<watch::Receiver<View>> {
    let mut watches = Watches::new(manager.client.clone(), scope)
        .controllers()
        .vpas()
        .limit_ranges()
        .scales();
    if sees_nodes {
        watches = watches.node_labels();
    }
    let mut view = watches.view();
    let watching = async move { watches.ended().await };
    manager.tasks.spawn_until_shutdown("watches", watching);
    let synced = manager.readiness.condition("watches");
    let complete = view.wait_for(View::is_synced);
    manager.shutdown.run_until_cancelled(complete).await?.ok()?;
    synced.ready();
    let following = cut_off::follow(view.clone(), synced);
    manager.tasks.spawn_until_shutdown("cut off", following);
    Some(view)
}
