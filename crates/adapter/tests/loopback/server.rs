//! The adapter's endpoint without metrics: an authorized request gets a 404.

use adapter::metrics::Metrics;
use adapter::providers::Providers;
use adapter::routes::Routes;
use adapter::serve::AdapterServer;
use axum::Router;
use delegated_auth::DelegatedAuth;
use prometheus::Registry;
use runtime::endpoints::Endpoints;
use runtime::{Activity, Readiness};
use tokio_util::sync::CancellationToken;

pub(crate) fn router(
    auth: DelegatedAuth,
    routes: Option<Routes>,
    registry: &Registry,
    readiness: Readiness,
) -> Router {
    let health = Endpoints {
        registry: registry.clone(),
        readiness,
        activity: Activity::default(),
        shutdown: CancellationToken::new(),
    };
    let metrics = Metrics::register(registry).unwrap();
    let providers = Providers {
        routes,
        ..Providers::default()
    };
    AdapterServer {
        auth,
        providers,
        metrics,
        health,
        shutdown: CancellationToken::new(),
    }
    .router()
}
