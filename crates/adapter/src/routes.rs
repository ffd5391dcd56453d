//! External metrics that other providers know: there can be one provider only of
//! `external.metrics.k8s.io` in a cluster, so the one that there is leaves to the others what is
//! theirs. One owner per question, and never a mixture.
//!
//! Whoever asks here must have been admitted after a question to the API server: the others are
//! asked in the adapter's name.

mod aggregated;
mod args;
mod breaker;
mod client;
mod file;
mod glob;
mod keda;
mod metrics;
mod response;
mod upstream;
mod via;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use prometheus::Registry;

use crate::request::ExternalMetricRequest;
use crate::service_ref::OwnService;
use crate::status_error::StatusError;
use crate::value::ExternalValue;
use file::File;
use metrics::Metrics;
use upstream::Upstream;

pub use args::RoutesArgs;
pub use via::Via;

/// How often the files are compared with what is in use.
const PERIOD: Duration = Duration::from_secs(5);

/// What is left to whom. Clones share everything.
#[derive(Clone)]
pub struct Routes {
    /// Names the adapter in the header against loops; all replicas have the same.
    own: Arc<OwnService>,
    file: Arc<PathBuf>,
    token: Arc<PathBuf>,
    current: Arc<ArcSwap<Table>>,
    metrics: Metrics,
}

/// A file in use.
#[derive(Default)]
struct Table {
    file: File,
    upstreams: BTreeMap<String, Upstream>,
}

impl fmt::Debug for Routes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Routes")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// A question that is somebody else's.
pub struct MatchedRoute {
    own: Arc<OwnService>,
    route: String,
    upstream: Upstream,
}

/// The upstream to which a file of routes leaves something and that answers in the place of this
/// Service, if there is one.
pub(crate) fn upstream_for(
    text: &str,
    own: &OwnService,
    service: &OwnService,
) -> anyhow::Result<Option<String>> {
    Ok(File::read(text, own, Path::new(""))?
        .upstream_for(service)
        .map(str::to_owned))
}

impl Routes {
    /// Reads the file for the first time; it must be sound. None without a file.
    pub async fn load(
        args: RoutesArgs,
        own: OwnService,
        registry: &Registry,
    ) -> anyhow::Result<Option<Self>> {
        let RoutesArgs {
            routes_file,
            routes_token_file,
        } = args;
        let Some(file) = routes_file else {
            return Ok(None);
        };
        let routes = Self {
            own: Arc::new(own),
            file: Arc::new(file),
            token: Arc::new(routes_token_file),
            current: Arc::default(),
            metrics: Metrics::register(registry).context("metrics about routes")?,
        };
        routes
            .reload()
            .await
            .with_context(|| format!("--routes-file={}", routes.file.display()))?;
        Ok(Some(routes))
    }

    /// Reads the file again whenever it, or a file that it names, has changed; for ever. A lasting
    /// error is said once.
    pub async fn follow(self) {
        let mut said = None;
        loop {
            tokio::time::sleep(PERIOD).await;
            let trouble = self.reload().await.err().map(|error| format!("{error:#}"));
            if let Some(error) = trouble.as_ref().filter(|_| trouble != said) {
                tracing::error!(error, file = %self.file.display(), "cannot load the routes file; keeping the previous routes");
            }
            said = trouble;
        }
    }

    /// Compares the files with what is in use and takes over a change.
    pub async fn reload(&self) -> anyhow::Result<()> {
        let reloaded = self.try_reload().await;
        self.metrics.set_config_valid(reloaded.is_ok());
        reloaded
    }

    async fn try_reload(&self) -> anyhow::Result<()> {
        let text = tokio::fs::read_to_string(&*self.file)
            .await
            .context("cannot read it")?;
        let folder = self.file.parent().unwrap_or(Path::new(""));
        let file = File::read(&text, &self.own, folder)?;
        let before = self.current.load_full();
        let mut upstreams = BTreeMap::new();
        for spec in &file.upstreams {
            let before = before.upstreams.get(&spec.name);
            let upstream = Upstream::next(spec, before, &self.token, &self.metrics).await;
            upstreams.insert(spec.name.clone(), upstream);
        }
        before
            .upstreams
            .keys()
            .filter(|name| !upstreams.contains_key(*name))
            .for_each(|name| self.metrics.remove_upstream(name));
        if before.file != file {
            let (routes, upstreams) = (file.routes.len(), file.upstreams.len());
            tracing::info!(routes, upstreams, "loaded routes");
        }
        self.current.store(Arc::new(Table { file, upstreams }));
        Ok(())
    }

    /// Whose question it is, if a route says so.
    pub fn route_for(&self, request: &ExternalMetricRequest) -> Option<MatchedRoute> {
        let table = self.current.load();
        let (route, upstream) = table.file.route_for(request)?;
        self.matched(&table, route, upstream)
    }

    /// Whose questions all those are that are nobody's, if anybody's.
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
    /// What the owner says. `hops`: through whom the question has come.
    pub async fn ask(
        &self,
        request: &ExternalMetricRequest,
        via: &Via,
    ) -> Result<Vec<ExternalValue>, StatusError> {
        let OwnService { namespace, name } = &*self.own;
        match via.append(&format!("{namespace}/{name}")) {
            Ok(via) => self.upstream.ask(&self.route, request, via).await,
            Err(error) => Err(self.upstream.loop_detected(&self.route, request, &error)),
        }
    }
}
