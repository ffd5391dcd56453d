//! The loop of collections.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use placement::{Defect, LoadSnapshot, NodeResource, QualityMonitor, Window, WindowLoad};
use prometheus::Registry;
use runtime::{Activity, Condition};
use sources::node_metrics::{NodeMetricsApi, NodeUsage};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, timeout};
use view::{Resource, View};

use super::cache::{Cache, Contents};
use super::collected::{Collected, Provider, WindowRecord};
use super::document::duration;
use super::prometheus_source::PrometheusSource;
use super::rest_api::RestApi;
use super::samples::{LoadSample, SampleHistory};
use super::{Clock, LoadWatcherConfig, Metrics, NodeInfo, Nodes, Snapshots, nodes};

const COLLECTION_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum interval between collections; then the liveness check fails.
const MAX_PASS_INTERVAL: Duration = Duration::from_mins(10);
const MAX_EXAMPLES: usize = 5;
/// Maximum time by which a cached window may be ahead of the clock.
const MAX_AHEAD: SignedDuration = SignedDuration::from_mins(1);

enum Source {
    /// Samples of metrics-server, kept in memory.
    MetricsServer {
        api: NodeMetricsApi,
        /// Samples of the last 15 minutes.
        history: SampleHistory,
    },
    Prometheus(Box<PrometheusSource>),
}

/// Bad values by node and resource, where `None` is the whole node.
type Findings = BTreeMap<(String, Option<&'static str>), Defect>;

pub struct Collector {
    source: Source,
    interval: Duration,
    cluster: watch::Receiver<View>,
    monitors: [QualityMonitor; 3],
    metric_names: Arc<[String; 4]>,
    collected: watch::Sender<Arc<Collected>>,
    snapshots: watch::Sender<Arc<LoadSnapshot>>,
    cache: Option<Cache>,
    clock: Clock,
    metrics: Metrics,
    findings: Findings,
    last_error: Option<String>,
}

impl Source {
    fn provider(&self) -> Provider {
        match self {
            Self::MetricsServer { .. } => Provider::KubernetesMetricsServer,
            Self::Prometheus(_) => Provider::Prometheus,
        }
    }

    async fn collect(
        &mut self,
        nodes: &Nodes,
        clock: &Clock,
    ) -> anyhow::Result<Vec<(Window, WindowLoad)>> {
        match self {
            Self::MetricsServer { api, history } => {
                let usages = api.read().await?;
                let now = clock();
                for usage in usages {
                    if let Some(node) = nodes.get(&usage.node) {
                        history.add(&usage.node, sample(&usage, node), now);
                    }
                }
                history.prune(nodes, now);
                let windows = history.windows();
                anyhow::ensure!(
                    !windows.is_empty(),
                    "the metrics API has no recent metrics of the cluster's nodes"
                );
                Ok(windows)
            }
            Self::Prometheus(prometheus) => prometheus.collect(nodes, clock()).await,
        }
    }
}

fn sample(usage: &NodeUsage, node: &NodeInfo) -> LoadSample {
    let percent = |used: Option<i64>, capacity: Option<f64>| Some(used? as f64 * 100.0 / capacity?);
    LoadSample {
        at: usage.at,
        cpu_percent: percent(usage.cpu.map(model::Cpu::millicores), node.millicores),
        memory_percent: percent(usage.memory.map(model::Memory::bytes), node.memory_bytes),
    }
}

impl Collector {
    /// The collector of a replica, which its cache file is named for. `cluster` has the nodes.
    pub fn new(
        config: LoadWatcherConfig,
        client: Client,
        cluster: watch::Receiver<View>,
        clock: Clock,
        registry: &Registry,
        replica: &str,
    ) -> anyhow::Result<Self> {
        let metrics = Metrics::register(registry)?;
        metrics.newest_sample_age.set(f64::INFINITY);
        let prometheus = config.prometheus.as_ref();
        let metric_names = prometheus.map(|prometheus| prometheus.queries.metric_names());
        let source = match config.prometheus {
            None => Source::MetricsServer {
                api: NodeMetricsApi::new(client),
                history: SampleHistory::default(),
            },
            Some(prometheus) => {
                let errors = metrics.query_errors.clone();
                Source::Prometheus(Box::new(PrometheusSource::new(prometheus, errors)))
            }
        };
        let writes = &metrics.cache_writes;
        let cache = config.cache_folder;
        let cache = cache.map(|folder| Cache::new(&folder, replica, writes.clone()));
        Ok(Self {
            source,
            interval: config.interval,
            cluster,
            monitors: std::array::from_fn(|_| QualityMonitor::new(config.frozen_after)),
            metric_names: Arc::new(metric_names.unwrap_or_default()),
            collected: watch::Sender::default(),
            snapshots: watch::Sender::default(),
            cache,
            clock,
            metrics,
            findings: Findings::new(),
            last_error: None,
        })
    }

    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.subscribe()
    }

    pub fn rest_api(&self) -> RestApi {
        RestApi {
            collected: self.collected.subscribe(),
            clock: Arc::clone(&self.clock),
            requests: self.metrics.requests.clone(),
        }
    }

    /// Collects for ever. The condition becomes ready with the first collection, even a failed
    /// one: without load, scores follow allocation.
    pub async fn run(mut self, condition: Condition, activity: Activity) {
        let is_synced = |view: &View| {
            let freshness = view.freshness.get(&Resource::Nodes);
            freshness.is_some_and(|freshness| freshness.synced)
        };
        if self.cluster.wait_for(is_synced).await.is_err() {
            // The watch of nodes has ended, and with it the program.
            return;
        }
        self.restore().await;
        activity.expect_every(MAX_PASS_INTERVAL, std::time::Instant::now());
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.collect().await;
            activity.record(std::time::Instant::now());
            match &self.last_error {
                None => condition.ready(),
                Some(error) => condition.ready_but(format!("no new load of nodes: {error}")),
            }
        }
    }

    async fn collect(&mut self) {
        let nodes = nodes(&self.cluster.borrow());
        let collecting = self.source.collect(&nodes, &self.clock);
        let windows = timeout(COLLECTION_TIMEOUT, collecting)
            .await
            .context("the collection took longer than a minute")
            .flatten();
        let result = if windows.is_ok() { "success" } else { "error" };
        self.metrics.collections.with_label_values(&[result]).inc();
        let error = match windows {
            Ok(windows) => {
                self.publish(windows, (self.clock)(), &nodes);
                None
            }
            Err(error) => Some(format!("{error:#}")),
        };
        self.log_change(error);
        self.update_metrics(&nodes);
        if self.last_error.is_none() {
            self.write_cache();
        }
    }

    /// Replaces the load by windows without their bad values.
    fn publish(
        &mut self,
        windows: Vec<(Window, WindowLoad)>,
        collected_at: Timestamp,
        nodes: &Nodes,
    ) {
        let names: BTreeSet<String> = nodes.keys().cloned().collect();
        let mut collected = Collected::clone(&self.collected.borrow());
        let mut findings = Findings::new();
        self.metrics.bad_values.reset();
        for (window, load) in windows {
            let (load, found) = self.monitors[window as usize].inspect(&load, &names);
            for finding in found {
                let labels = [duration(window), defect_label(finding.defect)];
                self.metrics.bad_values.with_label_values(&labels).inc();
                let resource = finding.resource.map(NodeResource::name);
                findings.insert((finding.node, resource), finding.defect);
            }
            let names = Arc::clone(&self.metric_names);
            let provider = self.source.provider();
            let record = WindowRecord::new(window, collected_at, provider, names, load);
            collected.update(record);
        }
        self.log_findings(findings);
        self.snapshots.send_replace(Arc::new(collected.snapshot()));
        self.collected.send_replace(Arc::new(collected));
    }

    fn log_findings(&mut self, findings: Findings) {
        if findings == self.findings {
            return;
        }
        if findings.is_empty() {
            tracing::info!("no more bad metrics of nodes");
        } else {
            let mut examples = Vec::new();
            for ((node, resource), defect) in findings.iter().take(MAX_EXAMPLES) {
                let resource = resource.unwrap_or("node");
                examples.push(format!("{node} {resource} {}", defect_label(*defect)));
            }
            tracing::warn!(
                values = findings.len(),
                examples = examples.join(", "),
                "leaving out bad metrics of nodes"
            );
        }
        self.findings = findings;
    }

    fn log_change(&mut self, error: Option<String>) {
        if error == self.last_error {
            return;
        }
        if let Some(error) = &error {
            let provider = self.source.provider().name();
            tracing::warn!(
                error,
                provider,
                "cannot collect the load of nodes; retrying"
            );
        } else {
            tracing::info!("collecting the load of nodes again");
        }
        self.last_error = error;
    }

    fn update_metrics(&self, nodes: &Nodes) {
        let now = (self.clock)();
        let collected = self.collected.borrow();
        let age = |newest: Timestamp| now.duration_since(newest).as_secs_f64().max(0.0);
        let age = collected.newest().map_or(f64::INFINITY, age);
        let has_load = |name: &&String| {
            let mut fresh = collected.fresh(Window::Fifteen, now);
            fresh.any(|record| record.load.nodes.contains_key(*name))
        };
        let without = nodes.keys().filter(|name| !has_load(name)).count();
        self.metrics.newest_sample_age.set(age);
        self.metrics.nodes.set(nodes.len() as i64);
        self.metrics.nodes_without_load.set(without as i64);
    }

    fn write_cache(&mut self) {
        let Some(cache) = self.cache.as_mut().filter(|cache| cache.is_due()) else {
            return;
        };
        let mut contents = Contents {
            provider: self.source.provider().name().to_owned(),
            ..Contents::default()
        };
        match &self.source {
            Source::MetricsServer { history, .. } => {
                let cached = |sample: &LoadSample| {
                    let at = sample.at.as_millisecond();
                    (at, sample.cpu_percent, sample.memory_percent)
                };
                contents.samples = history
                    .iter()
                    .map(|(node, samples)| (node.clone(), samples.iter().map(cached).collect()))
                    .collect();
            }
            Source::Prometheus(_) => {
                let collected = self.collected.borrow();
                let windows = collected.records().map(|it| (it.window, it.load.clone()));
                contents.windows = windows.collect();
            }
        }
        cache.write(contents);
    }

    /// Continues with the cached load.
    async fn restore(&mut self) {
        let Some(cache) = &self.cache else {
            return;
        };
        let Some(contents) = cache.read().await else {
            return;
        };
        let provider = self.source.provider().name();
        if contents.provider != provider {
            tracing::info!(
                cached = contents.provider,
                provider,
                "ignoring the cache of node load"
            );
            return;
        }
        let (nodes, now) = (nodes(&self.cluster.borrow()), (self.clock)());
        let windows = match &mut self.source {
            Source::MetricsServer { history, .. } => {
                for (node, samples) in &contents.samples {
                    let samples =
                        samples
                            .iter()
                            .filter_map(|&(at, cpu_percent, memory_percent)| {
                                Some(LoadSample {
                                    at: Timestamp::from_millisecond(at).ok()?,
                                    cpu_percent,
                                    memory_percent,
                                })
                            });
                    samples.for_each(|sample| history.add(node, sample, now));
                }
                history.prune(&nodes, now);
                history.windows()
            }
            Source::Prometheus(_) => contents
                .windows
                .into_iter()
                .filter(|(_, load)| load.end.duration_since(now) <= MAX_AHEAD)
                .collect(),
        };
        let end = windows.iter().map(|(_, load)| load.end).max();
        tracing::info!(windows = windows.len(), end = ?end, "read the cache of node load");
        if let Some(end) = end {
            self.publish(windows, end, &nodes);
        }
        self.update_metrics(&nodes);
    }
}

fn defect_label(defect: Defect) -> &'static str {
    match defect {
        Defect::NotFinite => "not_finite",
        Defect::OutOfRange => "out_of_range",
        Defect::Frozen => "frozen",
        Defect::Missing => "missing",
    }
}
