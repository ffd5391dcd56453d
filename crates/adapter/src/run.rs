//! Starts the adapter.

use std::time::{Duration, Instant};

use runtime::Manager;
use runtime::http_endpoints::Endpoints;
use runtime::own_pod::own_namespace;
use serving::ca_bundles::Controller;
use serving::certificates::CertificateMonitor;
use serving::own_service::OwnService;
use serving::port::Port;
use serving::tls::ServingProfile;
use tokio_util::sync::CancellationToken;

use crate::api_service_ca::ApiServices;
use crate::args::Args;
use crate::metrics::{self, Metrics};
use crate::predictions::Predictions;
use crate::providers::Providers;
use crate::routes::Routes;
use crate::rules::Rules;
use crate::serve::{AdapterServer, LIMITS};
use delegated_auth::DelegatedAuth;

/// The time for which a terminating replica still accepts requests: the API server learns of the
/// termination with a delay. Requests in flight get the rest of the 20 s grace period.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// The longest interval between two checks of certificates and `APIService` objects. A longer one
/// fails the liveness probe.
const MAX_CHECK_INTERVAL: Duration = Duration::from_mins(3);

/// Interval between two reads of the `APIService` objects where another program maintains their CA
/// bundle. Otherwise each pass reads them.
const UNMAINTAINED_RESYNC: Duration = Duration::from_secs(10);

pub fn run(args: Args, manager: Manager) -> impl Future<Output = anyhow::Result<()>> {
    run_on(
        Port::open("secure-port", args.secure.secure_port, LIMITS),
        args,
        manager,
    )
}

/// Runs the adapter on a port that opens once there is a certificate.
pub async fn run_on(
    port: impl Future<Output = anyhow::Result<Port>>,
    args: Args,
    manager: Manager,
) -> anyhow::Result<()> {
    args.ignored_flags.warn();
    let (settings, rules) = args.rules.settings()?;
    let metrics = Metrics::register(&manager.registry)?;
    let own = OwnService::new(own_namespace(), &*args.secure.service_name);
    let profile = ServingProfile {
        request_client_certificates: true,
        // The API server opens one HTTP/2 connection at a time: a single replica would serve all
        // requests.
        http1_only: true,
        ..ServingProfile::default()
    };
    let (secure, client) = (args.secure, manager.client.clone());
    let issued = secure.managed(client, &own, "adapter", profile);
    let source = secure.source(issued, settings.serving_ca_file);

    // After the shutdown, these tasks go on until the last request has its response.
    let last_response = CancellationToken::new();
    let _end = last_response.clone().drop_guard();
    let serving_tasks = manager.until(last_response);
    let Some(auth) = DelegatedAuth::start(args.auth, &serving_tasks, metrics::PREFIX).await? else {
        return Ok(());
    };
    let routes = match args.routes_file {
        Some(file) => {
            let (token, client) = (settings.routes_token_file, manager.client.clone());
            let routes = Routes::load(file, token, own.clone(), client, &manager.registry).await?;
            let following = routes.clone().follow();
            serving_tasks
                .tasks
                .spawn_until_shutdown("routes", following);
            Some(routes)
        }
        None => None,
    };
    let predictions = Predictions::start(settings.feed, &serving_tasks)?;
    let rules = rules
        .map(|settings| Rules::start(settings, predictions.view.clone(), &serving_tasks))
        .transpose()?;
    let providers = Providers {
        predictions,
        rules,
        routes,
    };
    let clock = manager.clock();
    let certificates = source.get(&clock);
    let Some(certificates) = manager.shutdown.run_until_cancelled(certificates).await else {
        return Ok(());
    };
    let certificates = certificates?;

    let port = port.await?;
    tracing::info!(address = %port.address()?, "serving metrics");
    let health = Endpoints {
        registry: manager.registry.clone(),
        readiness: manager.readiness.clone(),
        activity: manager.activity.clone(),
        shutdown: manager.shutdown.clone(),
    };
    let server_state = AdapterServer {
        auth,
        providers,
        metrics: metrics.clone(),
        health,
    };
    let server = port.serve(
        server_state.router(),
        certificates.current(),
        manager.shutdown.clone(),
        DRAIN_TIME,
    );
    manager.readiness.condition("serving").ready();

    manager
        .activity
        .expect_every(MAX_CHECK_INTERVAL, Instant::now());
    let monitor = CertificateMonitor::of(&manager, metrics::PREFIX)?;
    let resync = if certificates.bundle().is_some() {
        Duration::ZERO
    } else {
        UNMAINTAINED_RESYNC
    };
    let services = ApiServices::new(manager.client.clone(), own, metrics);
    let ca_bundles = Controller::new(certificates, services, monitor, clock, resync);
    manager
        .tasks
        .spawn_until_shutdown("certificates", ca_bundles.run(manager.activity.clone()));

    server.await;
    Ok(())
}
