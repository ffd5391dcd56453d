//! Flags of the recommender: upstream's names and defaults. Flags without an effect here say so.

mod backfill;
mod sizing;
#[cfg(test)]
pub(crate) mod tests;

use std::str::FromStr;

use anyhow::{Context as _, ensure};
use controllers::ehpa::EhpaArgs;
use controllers::predictions::PredictionArgs;
use runtime::config_file::ConfigArgs;
use runtime::duration::positive_duration;
use runtime::ignored_flags::IgnoredFlags;
use runtime::{
    CommonArgs, GoDuration, KlogArgs, LeaderElectionArgs, NamespaceArgs, Namespaces, Program,
};
use sources::external_metrics::ExternalMetricNames;
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
    pub config: ConfigArgs,
    #[command(flatten)]
    pub history: HistoryArgs,
    #[command(flatten)]
    pub external: ExternalMetricsArgs,
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
