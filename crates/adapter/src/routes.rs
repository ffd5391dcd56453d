//! Forwards external metrics to other providers. A cluster has one provider of
//! `external.metrics.k8s.io`; routes say which requests it forwards. A request has one provider,
//! and values of several are never mixed.
//!
//! A caller must be authorized by an access review before a request is forwarded: the other
//! provider sees the adapter's identity only.

mod aggregated;
mod keda;
mod pem_reader;
mod response;
mod upstream;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use arc_swap::ArcSwap;
use metric_routes::{File, config_hash};
use prometheus::{HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};
use runtime::LogOnce;

use super::request::{ExternalMetricRequest, StatusError};
use crate::value::ExternalValue;
use http::{HeaderMap, HeaderValue};
use pem_reader::PemReader;
use serving::own_service::OwnService;
use upstream::Upstream;

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

const HEADER: &str = "x-metrics-hop";

/// The largest number of adapters.
const MAX_HOPS: usize = 4;

/// Names of adapters, in the order in which the request passed them.
/// Two adapters that forward the same metrics to each other must not loop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Via(Vec<String>);

impl Via {
    pub fn from_headers(headers: &HeaderMap) -> Self {
        let texts = headers
            .get_all(HEADER)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let names = texts
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .filter(|name| !name.is_empty());
        Self(names.take(MAX_HOPS).map(str::to_owned).collect())
    }

    /// Appends this adapter and returns the new header. Fails if the request has passed this adapter
    /// before, or too many others.
    fn append(&self, own: &str) -> Result<HeaderValue, String> {
        let way = self.0.join(", ");
        let error = format!("the request has passed this adapter before, by way of {way}");
        if self.0.len() >= MAX_HOPS || self.0.iter().any(|name| name == own) {
            return Err(error);
        }
        let all = if way.is_empty() {
            own
        } else {
            &format!("{way}, {own}")
        };
        HeaderValue::from_str(all).map_err(|_| error)
    }
}

/// Latency buckets in seconds; a request waits at most 1.8 s.
const BUCKETS: [f64; 9] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0];

runtime::metrics! {
    struct Metrics {
        requests: IntCounterVec { route, upstream, outcome } = "plimsoll_adapter_route_requests_total",
            "Requests forwarded to upstream providers by outcome: answered, stale, not_found, failed or loop.";
        durations: HistogramVec { route } [BUCKETS]
            = "plimsoll_adapter_route_request_duration_seconds",
            "Latency of requests to upstream providers in seconds.";
        circuit_open: IntGaugeVec { upstream } = "plimsoll_adapter_upstream_circuit_open",
            "1 while the circuit of an upstream provider is open after repeated failures.";
        certificates_read: IntGaugeVec { upstream }
            = "plimsoll_adapter_upstream_certificates_last_read_successful",
            "1 if the Secret or ConfigMap with the certificates of an upstream provider could be read; if 0, the last valid ones are still in use.";
        config_valid: IntGauge = "plimsoll_adapter_routes_config_last_reload_successful",
            "1 if the last reload of the routes file succeeded; if 0, the previous routes are still in use.";
        config_hash: IntGauge = "plimsoll_adapter_routes_config_hash",
            "Hash of the routes file in use. Replicas with the same routes have the same.";
    }
}

impl Metrics {
    fn forwarded(&self, route: &str, upstream: &str, outcome: &str, took: Duration) {
        let labels = [route, upstream, outcome];
        self.requests.with_label_values(&labels).inc();
        let durations = self.durations.with_label_values(&[route]);
        durations.observe(took.as_secs_f64());
    }

    fn set_circuit_open(&self, upstream: &str, is_open: bool) {
        let circuit_open = self.circuit_open.with_label_values(&[upstream]);
        circuit_open.set(is_open.into());
    }

    /// Removes the metric of an upstream that is gone or has no valid client.
    fn remove_circuit(&self, upstream: &str) {
        // The error means that there was none.
        drop(self.circuit_open.remove_label_values(&[upstream]));
    }

    fn remove_upstream(&self, upstream: &str) {
        self.remove_circuit(upstream);
        self.set_certificates_read(upstream, None);
    }

    /// Records whether the objects with an upstream's certificates could be read. `None`: it has
    /// none.
    fn set_certificates_read(&self, upstream: &str, is_read: Option<bool>) {
        let gauge = &self.certificates_read;
        match is_read {
            Some(is_read) => gauge.with_label_values(&[upstream]).set(is_read.into()),
            // The error means that there was none.
            None => drop(gauge.remove_label_values(&[upstream])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(seen: &[&str], own: &str, expected: Option<&str>) {
        let headers = seen
            .iter()
            .map(|text| (HEADER.parse().unwrap(), text.parse().unwrap()))
            .collect();
        let next = Via::from_headers(&headers).append(own);
        assert_eq!(
            next.ok().as_ref().map(|value| value.to_str().unwrap()),
            expected,
            "{seen:?}"
        );
    }

    #[test]
    fn a_loop_is_detected() {
        check(&[], "a/adapter", Some("a/adapter"));
        check(&["b/adapter"], "a/adapter", Some("b/adapter, a/adapter"));
        check(&["b", "c"], "a", Some("b, c, a"));
        check(&["a/adapter"], "a/adapter", None);
        check(&["b/adapter,a/adapter"], "a/adapter", None);
    }

    #[test]
    fn too_many_hops_are_a_loop() {
        check(&["b,c,d,e"], "a", None);
        check(&["b,c,d,e,f,g", "h"], "a", None);
    }
}
