//! A webhook replica in the test's process.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use admission::AdmissionConfig;
use anyhow::Result;
use jiff::Timestamp;
use kube::Api;
use prometheus::Registry;
use runtime::{Activity, ApiServerClock, Leading, ObjectWriter, Readiness};
use serving::ca_bundles::Controller;
use serving::certificates::{CertificateMetrics, CertificateMonitor, Source};
use serving::http_server::{Limits, serve};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use view::View;
use webhook::metrics::Metrics;
use webhook::overload::Overload;
use webhook::registration::{
    Address, FailurePolicy, NamespaceScope, Registrar, Registration, Selection,
};
use webhook::serve::ReviewHandler;

use crate::api_server::ApiServer;

pub(crate) const NAME: &str = "vpa-webhook.suite.svc";

/// A replica, which ends when dropped.
pub(crate) struct Replica {
    pub(crate) address: SocketAddr,
    pub(crate) registry: Registry,
    pub(crate) readiness: Readiness,
    /// Whether the API server sends it reviews.
    pub(crate) in_effect: watch::Receiver<bool>,
    tasks: Vec<AbortHandle>,
}

impl Replica {
    pub(crate) async fn start(
        source: Source,
        api_server: &ApiServer,
        limits: Limits,
    ) -> Result<Self> {
        let (_, term) = watch::channel(Some(Leading::alone(Timestamp::UNIX_EPOCH)));
        Self::start_as(source, api_server, limits, registration(), term).await
    }

    /// Starts a replica with a registration and terms of its own.
    pub(crate) async fn start_as(
        source: Source,
        api_server: &ApiServer,
        limits: Limits,
        registration: Registration,
        term: watch::Receiver<Option<Leading>>,
    ) -> Result<Self> {
        let clock = ApiServerClock::default();
        let certificates = source.get(&clock).await?;
        let (_, view) = watch::channel(View::default());
        let handler = ReviewHandler {
            view,
            feed: None,
            config: Arc::new(AdmissionConfig::default()),
            metrics: Metrics::register(&Registry::new())?,
            overload: Overload::default(),
            shutdown: CancellationToken::new(),
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (router, tls) = (handler.router(), Some(certificates.current()));
        let server = tokio::spawn(serve(
            listener,
            router,
            tls,
            limits,
            CancellationToken::new(),
        ));
        let registration = Some((Api::all(api_server.client()), registration));
        let (registry, readiness) = (Registry::new(), Readiness::default());
        let monitor = CertificateMonitor::new(
            readiness.condition("certificate"),
            CertificateMetrics::register(&registry, "test")?,
            ObjectWriter::new(api_server.client(), "webhook"),
            ("suite", "webhook-0"),
        );
        let writer = webhook::registration::Writer {
            owner: None,
            pod: "webhook-0".to_owned(),
        };
        let registrar = Registrar::new(registration, writer, None, term);
        let resync = Duration::from_secs(15);
        let ca_bundles = Controller::new(certificates, registrar, monitor, clock, resync);
        let in_effect = ca_bundles.in_effect();
        let tasks = vec![
            server.abort_handle(),
            tokio::spawn(ca_bundles.run(Activity::default())).abort_handle(),
        ];
        Ok(Self {
            address,
            registry,
            readiness,
            in_effect,
            tasks,
        })
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

pub(crate) fn registration() -> Registration {
    Registration {
        address: Address::Service {
            namespace: "suite".to_owned(),
            name: "vpa-webhook".to_owned(),
        },
        labels: std::collections::BTreeMap::new(),
        timeout_seconds: 10,
        failure_policy: FailurePolicy::Ignore,
        namespaces: NamespaceScope::AllExcept(Vec::new()),
        selection: Selection::default(),
        is_reinvoked: false,
    }
}
