//! Flags of the load of nodes.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use runtime::duration::at_least;
use runtime::{GoDuration, ListenAddress};
use sources::prometheus::{PrometheusArgs, is_label_name};

use crate::load_watcher::{LoadQueries, LoadWatcherConfig, PrometheusConfig, Provider};

/// Maximum interval between two collections. The shortest window then still has several samples.
const MAX_INTERVAL: Duration = Duration::from_mins(2);

/// Default query of the network: the busier direction of the busiest interface that knows its
/// speed.
const NETWORK: &str = "(rate(node_network_receive_bytes_total[5m]) >= \
    rate(node_network_transmit_bytes_total[5m]) or rate(node_network_transmit_bytes_total[5m])) / \
    (node_network_speed_bytes > 0)";

/// Flags of the load of nodes and of the REST API of load-watcher.
#[derive(Debug, Clone, clap::Args)]
pub struct LoadWatcherArgs {
    /// Source of the load of nodes. Names as in load-watcher.
    #[arg(long, value_enum, default_value_t = Provider::KubernetesMetricsServer, value_name = "NAME")]
    pub load_metrics_provider: Provider,
    /// Interval between two collections of the load of nodes, 1s to 2m.
    #[arg(long, default_value = "15s", value_name = "DURATION", value_parser = at_least_a_second)]
    pub load_interval: GoDuration,
    /// Number of equal values of a node, in one collection after the other, from which on they
    /// count as frozen and are left out. 0 means never.
    #[arg(long, default_value_t = 10, value_name = "COUNT")]
    pub load_frozen_after: u32,
    /// Address of the REST API of load-watcher, plain HTTP without authentication. `:2020` listens
    /// on all interfaces.
    #[arg(long, default_value = "localhost:2020", value_name = "ADDRESS")]
    pub load_watcher_address: ListenAddress,
    /// Folder for the cache of the measured load, one file per replica, which is read after a
    /// restart. Empty: no cache.
    #[arg(long, default_value = "", value_name = "FOLDER")]
    pub load_cache_folder: String,

    /// Flags of the connection to Prometheus.
    #[command(flatten)]
    pub prometheus: PrometheusArgs,
    /// Labels that identify the node of a series, in order of preference, separated by commas. The
    /// value is the name or an address of the node, with or without a port.
    #[arg(
        long,
        default_value = "node,instance",
        value_name = "LABELS",
        value_delimiter = ','
    )]
    pub prometheus_node_labels: Vec<String>,
    /// Used share of CPU per node, 0 to 1: a metric's name or an expression.
    #[arg(long, default_value = "instance:node_cpu:ratio", value_name = "QUERY")]
    pub prometheus_cpu_query: String,
    /// Used share of memory per node, 0 to 1. Empty: not read.
    #[arg(
        long,
        default_value = "instance:node_memory_utilisation:ratio",
        value_name = "QUERY"
    )]
    pub prometheus_memory_query: String,
    /// Used share of network bandwidth, 0 to 1. The highest of several series of a node counts.
    /// Empty: not read.
    #[arg(long, default_value = NETWORK, value_name = "QUERY")]
    pub prometheus_network_query: String,
    /// Share of the time in which a disk is busy, 0 to 1. The highest of several series of a node
    /// counts. Empty: not read.
    #[arg(
        long,
        default_value = "instance_device:node_disk_io_time_seconds:rate5m",
        value_name = "QUERY"
    )]
    pub prometheus_disk_query: String,
}

fn at_least_a_second(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_secs(1), text)
}

impl LoadWatcherArgs {
    /// The configuration of the load watcher.
    pub fn settings(self) -> anyhow::Result<LoadWatcherConfig> {
        let interval = self.load_interval.0;
        ensure!(
            interval <= MAX_INTERVAL,
            "--load-interval must be at most {}",
            GoDuration(MAX_INTERVAL)
        );
        let prometheus = match self.load_metrics_provider {
            Provider::KubernetesMetricsServer => None,
            Provider::Prometheus => Some(self.prometheus()?),
        };
        Ok(LoadWatcherConfig {
            prometheus,
            interval,
            frozen_after: match self.load_frozen_after {
                0 => u32::MAX,
                count => count,
            },
            cache_folder: Some(self.load_cache_folder)
                .filter(|folder| !folder.is_empty())
                .map(PathBuf::from),
        })
    }

    fn prometheus(&self) -> anyhow::Result<PrometheusConfig> {
        let args = self.clone();
        for label in &args.prometheus_node_labels {
            ensure!(
                is_label_name(label),
                "--prometheus-node-labels: {label:?} is not the name of a label"
            );
        }
        ensure!(
            !args.prometheus_cpu_query.is_empty(),
            "--prometheus-cpu-query must not be empty"
        );
        Ok(PrometheusConfig {
            connection: args.prometheus.connection(None, None)?,
            queries: LoadQueries {
                cpu: args.prometheus_cpu_query,
                memory: args.prometheus_memory_query,
                network: args.prometheus_network_query,
                disk: args.prometheus_disk_query,
            },
            node_labels: args.prometheus_node_labels,
        })
    }
}
