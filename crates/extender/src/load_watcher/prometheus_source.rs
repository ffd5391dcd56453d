//! Windows of load from queries to Prometheus.
//!
//! The queries are load-watcher's: `avg_over_time` and `stddev_over_time` of a metric. An
//! expression takes the place of the metric as a subquery in steps of one minute.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use futures::future::join_all;
use jiff::Timestamp;
use placement::{NodeLoad, NodeResource, Usage, Window, WindowLoad};
use prometheus::IntCounterVec;
use serde::Deserialize;
use sources::error_chain::with_causes;
use sources::prometheus::{
    ClusterCheck, Connection, InstantSample, Prometheus, PrometheusError, is_metric_name,
};

use super::Nodes;
use super::document::duration;

#[derive(Debug, Clone)]
pub struct PrometheusConfig {
    pub connection: Connection,
    pub queries: LoadQueries,
    /// Labels that identify the node, in order of preference.
    pub node_labels: Vec<String>,
}

/// Shares of use, 0 to 1, as metric names or expressions. The highest of several series of a node
/// counts. An empty one is not read.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadQueries {
    /// CPU; never empty.
    pub cpu: String,
    pub memory: String,
    pub network: String,
    /// Share of the time in which a disk is busy.
    pub disk: String,
}

pub(super) struct PrometheusSource {
    config: PrometheusConfig,
    clusters: ClusterCheck,
    errors: IntCounterVec,
}

/// Node names by name and address.
struct NodeIndex<'a> {
    names: HashMap<&'a str, &'a str>,
    labels: &'a [String],
}

impl Default for LoadQueries {
    /// Recording rules of kube-prometheus. The network is the busier direction of the busiest
    /// interface that knows its speed.
    fn default() -> Self {
        let network = "(rate(node_network_receive_bytes_total[5m]) >= \
            rate(node_network_transmit_bytes_total[5m]) or \
            rate(node_network_transmit_bytes_total[5m])) / (node_network_speed_bytes > 0)";
        Self {
            cpu: "instance:node_cpu:ratio".to_owned(),
            memory: "instance:node_memory_utilisation:ratio".to_owned(),
            network: network.to_owned(),
            disk: "instance_device:node_disk_io_time_seconds:rate5m".to_owned(),
        }
    }
}

impl LoadQueries {
    fn get(&self, resource: NodeResource) -> &str {
        match resource {
            NodeResource::Cpu => &self.cpu,
            NodeResource::Memory => &self.memory,
            NodeResource::Network => &self.network,
            NodeResource::Disk => &self.disk,
        }
    }

    /// The names of the metrics; empty for expressions.
    pub(super) fn metric_names(&self) -> [String; 4] {
        NodeResource::ALL.map(|resource| {
            let query = self.get(resource);
            if is_metric_name(query) { query } else { "" }.to_owned()
        })
    }
}

impl PrometheusSource {
    pub(super) fn new(config: PrometheusConfig, errors: IntCounterVec) -> Self {
        Self {
            config,
            clusters: ClusterCheck::default(),
            errors,
        }
    }

    /// Reads all windows. They end with the newest sample of CPU, so that a store without new
    /// samples becomes stale. A node without a recent sample of CPU is left out. A resource whose
    /// query fails is missing.
    pub(super) async fn collect(
        &self,
        nodes: &Nodes,
        now: Timestamp,
    ) -> anyhow::Result<Vec<(Window, WindowLoad)>> {
        let store = Prometheus::connect(&self.config.connection, Arc::new(|_| {})).await?;
        self.clusters.run(&store, now).await?;
        let index = NodeIndex::new(nodes, &self.config.node_labels);
        let cpu = &self.config.queries.cpu;
        let newest = self.query(&store, &format!("timestamp({cpu})")).await;
        let newest = index.by_node(newest.inspect_err(|_| self.count(NodeResource::Cpu))?);
        let end = newest.values().copied().reduce(f64::max);
        let end =
            end.with_context(|| format!("no series of {cpu} belongs to a node of the cluster"))?;
        let end = Timestamp::from_second(end as i64)?.min(now);
        let loads = Window::ALL.map(|window| self.window(&store, &index, window));
        let mut windows = Vec::with_capacity(3);
        let mut failed = Ok(());
        for (window, load) in Window::ALL.into_iter().zip(join_all(loads).await) {
            match load {
                Ok(mut nodes) => {
                    nodes.retain(|name, _| newest.contains_key(name.as_str()));
                    windows.push((window, WindowLoad { end, nodes }));
                }
                Err(error) => failed = Err(error),
            }
        }
        if windows.is_empty() {
            failed?;
        }
        Ok(windows)
    }

    /// Reads one window. An error means that no resource could be read.
    async fn window(
        &self,
        store: &Prometheus,
        index: &NodeIndex<'_>,
        window: Window,
    ) -> anyhow::Result<HashMap<String, NodeLoad>> {
        let mut nodes: HashMap<String, NodeLoad> = HashMap::new();
        let mut failed = None;
        let mut has_answer = false;
        for resource in NodeResource::ALL {
            if self.config.queries.get(resource).is_empty() {
                continue;
            }
            let average = self.over_time("avg_over_time", resource, window);
            let deviation = self.over_time("stddev_over_time", resource, window);
            let answers = tokio::join!(self.query(store, &average), self.query(store, &deviation));
            let (averages, deviations) = match answers {
                (Ok(averages), Ok(deviations)) => {
                    (index.by_node(averages), index.by_node(deviations))
                }
                (Err(error), _) | (_, Err(error)) => {
                    self.count(resource);
                    tracing::debug!(query = average, error = with_causes(&error), "query failed");
                    failed = Some(error);
                    continue;
                }
            };
            has_answer = true;
            for (node, average) in averages {
                let usage = Usage {
                    average_percent: average * 100.0,
                    deviation_percent: deviations.get(node).copied().unwrap_or_default() * 100.0,
                };
                let load = nodes.entry(node.to_owned()).or_default();
                *load.get_mut(resource) = Some(usage);
            }
        }
        if let Some(error) = failed {
            ensure!(has_answer, "{}", with_causes(&error));
        }
        Ok(nodes)
    }

    fn over_time(&self, function: &str, resource: NodeResource, window: Window) -> String {
        let (query, length) = (self.config.queries.get(resource), duration(window));
        let over_time = if is_metric_name(query) {
            format!("{function}({query}[{length}])")
        } else {
            format!("{function}(({query})[{length}:1m])")
        };
        match resource {
            NodeResource::Cpu | NodeResource::Memory => over_time,
            // Many series per node: one per interface or disk.
            NodeResource::Network | NodeResource::Disk => {
                format!(
                    "max by ({}) ({over_time})",
                    self.config.node_labels.join(", ")
                )
            }
        }
    }

    async fn query(
        &self,
        store: &Prometheus,
        query: &str,
    ) -> Result<Vec<InstantSample>, PrometheusError> {
        let timeout = self.config.connection.query_timeout;
        store.query(query, timeout).await
    }

    fn count(&self, resource: NodeResource) {
        let label = resource.name();
        self.errors.with_label_values(&[label]).inc();
    }
}

impl<'a> NodeIndex<'a> {
    fn new(nodes: &'a Nodes, labels: &'a [String]) -> Self {
        let mut names = HashMap::with_capacity(nodes.len() * 3);
        for (name, info) in nodes {
            for address in &info.addresses {
                names.insert(address.as_str(), name.as_str());
            }
        }
        // The name of a node comes before an address of another one.
        names.extend(nodes.keys().map(|name| (name.as_str(), name.as_str())));
        Self { names, labels }
    }

    /// The values by node; the highest one of several series of a node.
    fn by_node(&self, samples: Vec<InstantSample>) -> HashMap<&'a str, f64> {
        let mut values = HashMap::new();
        for sample in samples {
            let of = |label: &String| self.node(sample.labels.get(label)?);
            let Some(node) = self.labels.iter().find_map(of) else {
                continue;
            };
            let value = values.entry(node).or_insert(sample.value);
            *value = f64::max(*value, sample.value);
        }
        values
    }

    /// The node of a label's value: its name or an address, with or without a port.
    fn node(&self, value: &str) -> Option<&'a str> {
        let without_port = || {
            let (host, port) = value.rsplit_once(':')?;
            let is_port = port.parse::<u16>().is_ok();
            let host = host
                .strip_prefix('[')
                .and_then(|host| host.strip_suffix(']'))
                .unwrap_or(host);
            self.names.get(host).filter(|_| is_port)
        };
        self.names.get(value).or_else(without_port).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::NodeInfo;
    use super::*;

    #[test]
    fn series_belong_to_nodes_by_name_or_address() {
        let node = |name: &str, addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| (*address).to_owned());
            let info = NodeInfo {
                addresses: addresses.collect(),
                ..NodeInfo::default()
            };
            (name.to_owned(), info)
        };
        let nodes = Nodes::from([
            node("n1", &["10.0.0.1", "n2"]),
            node("n2", &["fd00::2", "node-2.internal"]),
        ]);
        let labels = ["node", "instance"].map(str::to_owned);
        let index = NodeIndex::new(&nodes, &labels);
        for (labels, expected) in [
            (vec![("node", "n1")], Some("n1")),
            (
                vec![("node", "n2"), ("instance", "10.0.0.1:9100")],
                Some("n2"),
            ),
            (
                vec![("node", "other"), ("instance", "10.0.0.1:9100")],
                Some("n1"),
            ),
            (vec![("instance", "10.0.0.1")], Some("n1")),
            (vec![("instance", "[fd00::2]:9100")], Some("n2")),
            (vec![("instance", "fd00::2")], Some("n2")),
            (vec![("instance", "node-2.internal:http")], None),
            (vec![("instance", "node-2.internal:9100")], Some("n2")),
            (vec![("pod", "n1")], None),
            (vec![], None),
        ] {
            let sample = |value| InstantSample {
                labels: labels
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect(),
                at: Timestamp::UNIX_EPOCH,
                value,
            };
            let found = index.by_node(vec![sample(0.2), sample(0.5), sample(f64::NAN)]);
            let expected = expected.map(|node| (node, 0.5)).into_iter().collect();
            assert_eq!(found, expected, "{labels:?}");
        }
    }
}
