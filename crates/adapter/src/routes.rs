//! Forwards external metrics to other providers. A cluster has one provider of
//! `external.metrics.k8s.io`; routes say which requests it forwards. A request has one provider,
//! and values of several are never mixed.
//!
//! A caller must be authorized by an access review before a request is forwarded: the other
//! provider sees the adapter's identity only.

mod aggregated;
mod breaker;
mod keda;
mod metrics;
mod pem_reader;
mod response;
mod upstream;
mod via;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use metric_routes::{File, config_hash};
use prometheus::Registry;
use runtime::LogOnce;

use crate::request::ExternalMetricRequest;
use crate::status_error::StatusError;
use crate::value::ExternalValue;
use metrics::Metrics;
use pem_reader::PemReader;
use serving::own_service::OwnService;
use upstream::Upstream;

pub use via::Via;

/// The interval at which the files and objects are read.
const PERIOD: Duration = Duration::from_secs(5);
/// The timeout of a connection to another provider. It leaves time for a second attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(600);

/// The routes and their upstream providers. Clones share them.
#[derive(Clone)]
pub struct Routes {
    /// The adapter's name in the `x-metrics-hop` header, the same for all replicas.
    own: Arc<OwnService>,
    file: Arc<PathBuf>,
    token: Arc<PathBuf>,
    current: Arc<ArcSwap<Table>>,
    reader: PemReader,
    metrics: Metrics,
}

#[derive(Default)]
struct Table {
    file: File,
    upstreams: BTreeMap<String, Upstream>,
}

pub struct MatchedRoute {
    own: Arc<OwnService>,
    route: String,
    upstream: Upstream,
}

impl Routes {
    /// Loads the file, which must be valid. `token` is sent to other providers. `client` reads the
    /// objects with certificates of upstreams.
    pub async fn load(
        file: PathBuf,
        token: PathBuf,
        own: OwnService,
        client: kube::Client,
        registry: &Registry,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::register(registry).context("metrics about routes")?;
        let routes = Self {
            own: Arc::new(own),
            file: Arc::new(file),
            token: Arc::new(token),
            current: Arc::default(),
            reader: PemReader::new(client, metrics.clone()),
            metrics,
        };
        routes
            .reload()
            .await
            .with_context(|| format!("--routes-file={}", routes.file.display()))?;
        Ok(routes)
    }

    /// Reloads the file whenever it, or a file or object that it names, has changed. Logs an error once.
    /// Never returns.
    pub async fn follow(self) {
        let mut logged = LogOnce::default();
        loop {
            tokio::time::sleep(PERIOD).await;
            let error = self.reload().await.err().map(|error| format!("{error:#}"));
            if let Some(error) = logged.update(error) {
                tracing::error!(error, file = %self.file.display(), "cannot load the routes file; keeping the previous routes");
            }
        }
    }

    pub async fn reload(&self) -> anyhow::Result<()> {
        let reloaded = self.try_reload().await;
        self.metrics.config_valid.set(reloaded.is_ok().into());
        reloaded
    }

    async fn try_reload(&self) -> anyhow::Result<()> {
        let text = tokio::fs::read_to_string(&*self.file)
            .await
            .context("cannot read it")?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let file = File::read(&text, &self.own, folder)?;
        self.reader.refresh(&file.upstreams).await;
        let previous = self.current.load_full();
        let mut upstreams = BTreeMap::new();
        for spec in &file.upstreams {
            let previous = previous.upstreams.get(&spec.name);
            let (reader, metrics) = (&self.reader, &self.metrics);
            let upstream = Upstream::reload(spec, previous, reader, &self.token, metrics).await;
            upstreams.insert(spec.name.clone(), upstream);
        }
        previous
            .upstreams
            .keys()
            .filter(|name| !upstreams.contains_key(*name))
            .for_each(|name| self.metrics.remove_upstream(name));
        if previous.file != file {
            let (routes, upstreams) = (file.routes.len(), file.upstreams.len());
            tracing::info!(routes, upstreams, "loaded routes");
        }
        self.current.store(Arc::new(Table { file, upstreams }));
        self.metrics.config_hash.set(config_hash(&text));
        Ok(())
    }

    pub fn route_for(&self, request: &ExternalMetricRequest) -> Option<MatchedRoute> {
        let table = self.current.load();
        let (route, upstream) =
            table
                .file
                .route_for(&request.namespace, &request.metric, &request.selector)?;
        self.matched(&table, route, upstream)
    }

    /// Returns the route of requests that no other provider has, if there is one.
    pub fn default_route(&self) -> Option<MatchedRoute> {
        let table = self.current.load();
        self.matched(&table, "default", table.file.default_upstream.as_ref()?)
    }

    fn matched(&self, table: &Table, route: &str, upstream: &str) -> Option<MatchedRoute> {
        let upstream = table.upstreams.get(upstream)?.clone();
        Some(MatchedRoute {
            own: Arc::clone(&self.own),
            route: route.to_owned(),
            upstream,
        })
    }
}

impl MatchedRoute {
    /// Forwards a request. `via`: the adapters that it has passed.
    pub async fn forward(
        &self,
        request: &ExternalMetricRequest,
        via: &Via,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        match via.append(&self.own.to_string()) {
            Ok(via) => self.upstream.forward(&self.route, request, via).await,
            Err(error) => Err(self.upstream.loop_detected(&self.route, request, &error)),
        }
    }
}
