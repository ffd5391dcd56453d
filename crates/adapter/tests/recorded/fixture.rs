//! The adapter with the recorded cluster and the recorded store.

use std::collections::BTreeSet;
use std::sync::Arc;

use adapter::metrics::{Metrics, PREFIX};
use adapter::providers::Providers;
use adapter::rules::Rules;
use adapter::serve::AdapterServer;
use adapter::{Args, PROGRAM};
use anyhow::ensure;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use delegated_auth::DelegatedAuth;
use prometheus::Registry;
use runtime::client::RestMetrics;
use runtime::http_endpoints::Endpoints;
use runtime::{Activity, Manager, Readiness, Tasks};
use serde_json::Value;
use tempfile::TempDir;
use testing::{Pace, eventually};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use view::{Scope, View};
use watch::Watches;

use crate::api_server::{self, Rights};
use crate::recording::{Recording, the_cluster};
use crate::store::Store;

/// The placeholder in discovery without metrics.
const PLACEHOLDERS: [&str; 2] = ["custommetrics", "externalmetrics"];
/// The largest expected response.
const LARGEST: usize = 1 << 20;

/// A running adapter. It ends when dropped.
pub(crate) struct Fixture {
    router: Router,
    store: Arc<Store>,
    shutdown: CancellationToken,
    _watches: Watches,
    _folder: TempDir,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl Fixture {
    /// Fails if the rule file is not valid.
    pub(crate) async fn new(recording: &Recording) -> anyhow::Result<Self> {
        Self::with(recording, Rights::Everywhere).await
    }

    /// Starts with callers that have these rights.
    pub(crate) async fn with(recording: &Recording, rights: Rights) -> anyhow::Result<Self> {
        let (store, address) = Store::start(recording).await;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.yaml");
        std::fs::write(&file, recording.rules()).expect("a file");
        let words = format!("--config={} --prometheus-url={address}", file.display());
        let args: Args = PROGRAM.parse_line(&words).expect("flags");

        let (registry, shutdown) = (Registry::new(), CancellationToken::new());
        let (readiness, activity) = (Readiness::default(), Activity::default());
        let client = api_server::client(the_cluster(), rights);
        let manager = Manager {
            program: PROGRAM,
            client: client.clone(),
            registry: registry.clone(),
            readiness: readiness.clone(),
            activity: activity.clone(),
            shutdown: shutdown.clone(),
            tasks: Tasks::new(shutdown.clone()).0,
            config: kube::Config::new("http://localhost".parse().expect("an address")),
            rest_metrics: RestMetrics::register(&registry).expect("metrics of the client"),
        };
        let (_, settings) = args.rules.settings().expect("flags that fit");
        let watches = Watches::new(client.clone(), Scope::default()).labelled_pods();
        watches.view().wait_for(View::is_synced).await?;
        let rules = Rules::start(settings.expect("rules"), watches.view(), &manager)?;
        let auth = DelegatedAuth::new(args.auth, client, &registry, PREFIX, &readiness)
            .expect("metrics of authentication");
        let server = AdapterServer {
            auth,
            providers: Providers {
                rules: Some(rules),
                ..Providers::default()
            },
            metrics: Metrics::register(&registry).expect("metrics"),
            health: Endpoints {
                registry,
                readiness,
                activity,
                shutdown: shutdown.clone(),
            },
        };
        Ok(Self {
            router: server.router(),
            store,
            shutdown,
            _watches: watches,
            _folder: folder,
        })
    }

    pub(crate) async fn ask(&self, path: &str) -> (u16, Value) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let Ok(response) = self.router.clone().oneshot(request).await;
        let code = response.status().as_u16();
        let body = to_bytes(response.into_body(), LARGEST).await;
        let body = serde_json::from_slice(&body.expect("a body"));
        (code, body.unwrap_or_else(|error| panic!("{path}: {error}")))
    }

    /// Returns the metrics in the discovery of an API, and whether their objects are namespaced.
    pub(crate) async fn listed(&self, api: &str) -> Vec<(String, bool)> {
        let (code, body) = self.ask(&format!("/apis/{api}")).await;
        assert_eq!(code, 200, "{api}: {body}");
        let resources = body["resources"].as_array().expect("resources").iter();
        let listed = resources.map(|resource| {
            let is_namespaced = resource["namespaced"].as_bool().expect("a boolean");
            let name = resource["name"].as_str().expect("a name");
            (name.to_owned(), is_namespaced)
        });
        listed.collect()
    }

    /// Waits until discovery contains metrics instead of the placeholder.
    pub(crate) async fn knows_its_metrics(&self, api: &str) {
        let known = eventually("metrics are listed", Pace::WITHIN, async || {
            let listed = self.listed(api).await;
            let only = listed.first().filter(|_| listed.len() == 1);
            let is_placeholder =
                only.is_some_and(|(name, _)| PLACEHOLDERS.contains(&name.as_str()));
            ensure!(!is_placeholder, "none is");
            Ok(())
        });
        known.await.expect("metrics");
    }

    pub(crate) fn queries(&self) -> BTreeSet<String> {
        self.store.asked()
    }
}
