//! Flags of the recommender: upstream's names and defaults. Flags without an effect here say so.

mod backfill;
mod sizing;
#[cfg(test)]
pub(crate) mod tests;

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, ensure};
use controllers::ehpa::EhpaArgs;
use controllers::predictions::PredictionArgs;
use feed::AllowedClients;
use runtime::duration::positive_duration;
use runtime::ignored_flags::IgnoredFlags;
use runtime::{
    CommonArgs, GoDuration, HoldArgs, KlogArgs, LeaderElectionArgs, ListenAddress, NamespaceArgs,
    Namespaces, Program,
};
use sources::external_metrics::ExternalMetricNames;
use vertical::schedulable::{CapSources, CapacitySources, NodeGroupShape, Settings};
use view::{Scope, Shard};

pub use backfill::HistoryArgs;
pub use sizing::SizingArgs;

/// Name and defaults of this program's command line.
pub const PROGRAM: Program = Program {
    name: "recommender",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8942"),
        ("leader-elect-resource-name", "vpa-recommender-lease"),
        ("prometheus-query-timeout", "5m0s"),
    ],
};

pub(crate) const DEFAULT_MIN_CHECKPOINTS: i64 = 10;

/// Recommends resource requests for the targets of VPA objects.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub klog: KlogArgs,
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    #[command(flatten)]
    pub sizing: SizingArgs,
    #[command(flatten)]
    pub feed: FeedArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
    #[command(flatten)]
    pub external: ExternalMetricsArgs,
    #[command(flatten)]
    pub schedulable: SchedulableArgs,
    /// Export recommendations as metrics, under the former names of kube-state-metrics: at most
    /// 20,000 series, of which a container has eight. One metric counts the omitted ones.
    #[arg(long)]
    pub recommendation_metrics: bool,
    #[command(flatten)]
    pub ehpa: EhpaArgs,
    #[command(flatten)]
    pub prediction: PredictionArgs,
    /// Name of this recommender. It handles the objects that name it; the one named default also
    /// handles objects that name none.
    #[arg(long, default_value = api::vpa::DEFAULT_RECOMMENDER, value_name = "NAME")]
    pub recommender_name: String,
    /// Interval at which usage is read and all recommendations are computed, once all watches are
    /// synced. Changes of pods and objects are processed at once.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub recommender_interval: GoDuration,
    /// Keep no history of pods that no VPA object selects.
    #[arg(long)]
    pub memory_saver: bool,
    /// Number of concurrent writes of objects.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), value_name = "COUNT")]
    pub update_worker_count: u16,
    /// Interval at which changes are written that no decision waits for: bounds of a recommendation
    /// that cross no request of a pod, and checkpoints of objects whose recommendation stays. Other
    /// changes are written at once. 0s writes every change at once, as upstream does.
    #[arg(long, default_value = "5m0s", value_name = "DURATION")]
    pub refresh_interval: GoDuration,
    /// Storage of history: prometheus or checkpoint. Empty means checkpoint.
    #[arg(long, default_value = "", value_name = "STORAGE")]
    pub storage: Storage,
    /// Time after each round in which checkpoints are written; the rest waits for the next round.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub checkpoints_timeout: GoDuration,
    /// Interval of the garbage collection of checkpoints. A checkpoint is deleted when it is unused
    /// in two consecutive collections.
    #[arg(long, default_value = "10m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub checkpoints_gc_interval: GoDuration,
    /// Deprecated: has no effect.
    #[arg(long, default_value_t = DEFAULT_MIN_CHECKPOINTS, value_name = "COUNT")]
    pub min_checkpoints: i64,
    #[command(flatten)]
    pub holds: HoldArgs,
    #[command(flatten)]
    pub namespaces: NamespaceArgs,
    /// Part of the namespaces to handle, as INDEX/COUNT, from zero: 0/2 and 1/2 are all. Each shard
    /// has a Lease of its own, whose name ends with -INDEX. Not together with
    /// --vpa-object-namespace.
    #[arg(long, default_value = "0/1", value_name = "INDEX/COUNT")]
    pub shard: Shard,
    /// Feature gates as Name=true, separated by commas. `PerVPAConfig` enables memory rules of VPA
    /// objects, `NativeSidecar` sizes init containers with `restartPolicy: Always`. Set the same value
    /// of updater and webhook.
    #[arg(long, default_value = "", value_name = "GATES")]
    pub feature_gates: String,
}

/// The scope of `--vpa-object-namespace`, `--ignored-vpa-object-namespaces` and `--shard`.
pub fn scope(namespaces: NamespaceArgs, shard: Shard) -> anyhow::Result<Scope> {
    let Namespaces { only, ignored } = namespaces.namespaces()?;
    ensure!(
        only.is_none() || shard.is_whole(),
        "--vpa-object-namespace and --shard exclude each other"
    );
    Ok(Scope {
        namespace: only,
        ignored,
        shard,
    })
}

/// Flags of the feed to the other services. It is disabled without their folder.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedArgs {
    /// Address of the gRPC feed, as host:port; without a host, all interfaces. Needs --feed-cert-dir.
    #[arg(long, default_value = ":8950", value_name = "ADDRESS")]
    pub feed_address: ListenAddress,
    /// Host at which the other services reach this replica, such as the pod's IP address. It is
    /// announced in the Lease. Needed if --feed-address has no host.
    #[arg(long, default_value = "", value_name = "HOST")]
    pub feed_advertised_host: String,
    /// Folder with tls.crt, tls.key and ca.crt (PEM): the certificate of the feed, and the CAs of its
    /// clients. Reloaded when they change; while they are missing, the feed does not start.
    #[arg(long, value_name = "FOLDER")]
    pub feed_cert_dir: Option<PathBuf>,
    /// Issue the certificates of the feed, for all programs, into the Secrets
    /// plimsoll-PROGRAM-feed-tls of the own namespace, and renew them. Secrets that others made are
    /// left alone.
    #[arg(long)]
    pub manage_feed_certificates: bool,
    /// DNS names, separated by commas, one of which a client certificate must contain.
    #[arg(
        long,
        default_value = "plimsoll-updater,plimsoll-webhook,plimsoll-adapter",
        value_name = "NAMES"
    )]
    pub feed_allowed_clients: AllowedClients,
}

/// Usage from external metrics in place of the metrics API.
#[derive(Debug, Clone, clap::Args)]
pub struct ExternalMetricsArgs {
    /// Read usage from external.metrics.k8s.io in place of metrics.k8s.io. --container-name-label
    /// names the label with the name of the container.
    #[arg(long)]
    pub use_external_metrics: bool,
    /// External metric of a container's CPU usage in cores. Empty: CPU is not read.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_metrics_cpu_metric: String,
    /// External metric of a container's memory usage in bytes. Empty: memory is not read.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_metrics_memory_metric: String,
}

impl ExternalMetricsArgs {
    /// The metrics to read; `None` if usage comes from the metrics API.
    pub fn names(&self, container_label: &str) -> anyhow::Result<Option<ExternalMetricNames>> {
        let given = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        let cpu = given(&self.external_metrics_cpu_metric);
        let memory = given(&self.external_metrics_memory_metric);
        if !self.use_external_metrics {
            if cpu.is_some() || memory.is_some() {
                tracing::warn!(
                    "--external-metrics-*-metric have no effect without --use-external-metrics"
                );
            }
            return Ok(None);
        }
        ensure!(
            cpu.is_some() || memory.is_some(),
            "--use-external-metrics needs --external-metrics-cpu-metric or --external-metrics-memory-metric"
        );
        ExternalMetricNames::new(cpu, memory, container_label.to_owned())
            .map(Some)
            .context("--external-metrics-*-metric")
    }
}

/// Caps of recommendations. Disabled by default, since recommendations then differ from upstream's.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulableArgs {
    /// Cap recommendations to what pods can be scheduled with: any of nodes, quotas and
    /// limit-ranges, separated by commas. nodes: the allocatable resources of the largest node that
    /// the pods may run on, less daemon pods and a margin; quotas: the part of each quota of the
    /// namespace that is free for each replica; limit-ranges: the maximum of each limit range.
    /// Empty, the default, gives upstream's recommendations. The annotation
    /// plimsoll.dev/cap-to-schedulable of an object narrows the list; none means no cap. Needs the
    /// rights in deploy/components/schedulable. Nodes that could be added count only with
    /// --capacity-from and --node-group-shape.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub cap_to_schedulable: CapSources,
    /// The same for the objects of sizing policies, in addition to --cap-to-schedulable. The component
    /// deploy/components/sizing-policies sets all three and grants the rights. A recommender of one
    /// namespace cannot read nodes.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub cap_policies_to_schedulable: CapSources,
    /// Share of a node's allocatable CPU and memory that stays free when recommendations are capped
    /// to nodes.
    #[arg(long, default_value_t = 0.05, value_name = "FRACTION")]
    pub schedulable_margin_fraction: f64,
    /// Count also nodes that node groups could add, as seen by any of karpenter and
    /// cluster-autoscaler, separated by commas. karpenter: its node pools and node claims;
    /// cluster-autoscaler: its status in kube-system/cluster-autoscaler-status. Empty, the default,
    /// reads neither. Needs the rights in deploy/components/node-capacity.
    #[arg(long, default_value = "", value_name = "LIST")]
    pub capacity_from: CapacitySources,
    /// Allocatable resources of the nodes of a group that may have none, as
    /// GROUP=cpu=16,memory=64Gi. Further parts are other resources, label:KEY=VALUE and
    /// taint:KEY=VALUE:EFFECT. Repeatable, at most 100 times.
    #[arg(long, value_name = "GROUP=SHAPE")]
    pub node_group_shape: Vec<NodeGroupShape>,
}

impl SchedulableArgs {
    /// The settings; `None` without caps.
    pub fn settings(&self) -> anyhow::Result<Option<Settings>> {
        let settings = Settings {
            cap_to: self.cap_to_schedulable,
            cap_policies_to: self.cap_policies_to_schedulable,
            margin: self.schedulable_margin_fraction,
            capacity_from: self.capacity_from,
            shapes: self.node_group_shape.clone(),
        };
        settings.checked().map_err(anyhow::Error::msg)
    }
}

/// Storage of history from before this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Storage {
    /// `VerticalPodAutoscalerCheckpoint` objects.
    #[default]
    Checkpoint,
    /// Prometheus, or another store with its API. Checkpoints are written, but not read.
    Prometheus,
}

/// Upstream takes any unknown value for checkpoints, so that a typo goes unnoticed.
impl FromStr for Storage {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "" | "checkpoint" => Ok(Self::Checkpoint),
            "prometheus" => Ok(Self::Prometheus),
            _ => Err("expected checkpoint or prometheus"),
        }
    }
}
