//! Wiring of the extender.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use runtime::Manager;
use runtime::own_pod::own_namespace;
use serving::ca_bundles::{Controller, CopiedBundle};
use serving::certificates::{CertificateMonitor, SecurePortArgs};
use serving::http_server::Limits;
use serving::own_service::OwnService;
use serving::port::Port;
use serving::tls::ServingProfile;
use view::Scope;
use watch::Watches;

use crate::args::Args;
use crate::config::{Config, DEFAULTS};
use crate::load_watcher;
use crate::scheduler::{self, Scheduler};

/// Time after the shutdown during which requests are still accepted, because Services take a while
/// to stop sending them.
const DRAIN_DELAY: Duration = Duration::from_secs(4);

/// Validity of a CA. Long, since each new one has to be copied to kube-scheduler by hand.
const AUTHORITY_VALIDITY: Duration = Duration::from_hours(10 * 365 * 24);

/// Limits of the HTTPS endpoint. kube-scheduler keeps its connections.
const LIMITS: Limits = Limits {
    connections: 256,
    unauthenticated: 256,
    streams: 100,
    header_timeout: Duration::from_secs(10),
    // Go's client closes connections that were idle for 90 s.
    idle_timeout: Duration::from_mins(3),
    request_timeout: Duration::from_secs(10),
    connection_age: Duration::from_hours(1),
    headers: 100,
    body_bytes: 16 << 20,
};

pub async fn run(args: Args, manager: Manager) -> anyhow::Result<()> {
    let config: Config = args.config.read(DEFAULTS)?;
    config.check().context("--config")?;
    let scheduler = config.scheduler();
    let address = config.load_watcher.address;
    let client_authorities = config.scheduler_client_ca_file.clone();
    let load = config.load_watcher()?;
    let cluster = Watches::new(manager.client.clone(), Scope::default());
    let snapshots = load_watcher::start(load, address, cluster.view(), &manager).await?;
    let scheduler = Scheduler::start(scheduler, snapshots, cluster, &manager)?;
    let router = scheduler::router(scheduler);
    serve(args.secure, client_authorities, router, manager).await
}

async fn serve(
    secure: SecurePortArgs,
    client_authorities: Option<PathBuf>,
    router: Router,
    manager: Manager,
) -> anyhow::Result<()> {
    if secure.secure_port == 0 {
        manager.shutdown.cancelled().await;
        return Ok(());
    }
    let serving = manager.readiness.condition("serving");
    let port = Port::open("secure-port", secure.secure_port, LIMITS).await?;
    let own = OwnService::new(own_namespace(), &*secure.service_name);
    let profile = ServingProfile {
        client_authorities,
        ..ServingProfile::default()
    };
    let mut issued = secure.managed(manager.client.clone(), &own, "extender", profile);
    issued.profile.authority_validity = AUTHORITY_VALIDITY;
    issued.profile.authority_age = AUTHORITY_VALIDITY / 2;
    let source = secure.source(issued, None);
    let clock = manager.clock();
    let certificates = source.get(&clock);
    let Some(certificates) = manager.shutdown.run_until_cancelled(certificates).await else {
        return Ok(());
    };
    let certificates = certificates?;
    tracing::info!(address = %port.address()?, "serving kube-scheduler");
    let served = port.serve(
        router,
        certificates.current(),
        manager.shutdown.clone(),
        DRAIN_DELAY,
    );
    let monitor = CertificateMonitor::of(&manager, "plimsoll_extender")?;
    // kube-scheduler has its CA in a file.
    let clients = CopiedBundle::new(own.server_name());
    let rotation = Controller::new(certificates, clients, monitor, clock, Duration::ZERO);
    manager
        .tasks
        .spawn_until_shutdown("certificates", rotation.run(manager.activity.clone()));
    serving.ready();
    served.await;
    Ok(())
}
