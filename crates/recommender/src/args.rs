//! Flags of the recommender: upstream's names and defaults. Flags without an effect here say so.

mod backfill;
mod external_metrics;
mod feed;
mod schedulable;
mod sizing;
mod storage;
#[cfg(test)]
pub(crate) mod tests;

use anyhow::ensure;
use controllers::ehpa::EhpaArgs;
use controllers::predictions::PredictionArgs;
use runtime::duration::positive_duration;
use runtime::ignored_flags::IgnoredFlags;
use runtime::{
    CommonArgs, GoDuration, HoldArgs, LeaderElectionArgs, NamespaceArgs, Namespaces, Program,
};
use view::{Scope, Shard};

pub use self::feed::FeedArgs;
pub use self::sizing::SizingArgs;
pub use self::storage::Storage;
pub use backfill::HistoryArgs;
pub use external_metrics::ExternalMetricsArgs;
pub use schedulable::SchedulableArgs;

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

/// Default of `--min-checkpoints`.
pub(crate) const DEFAULT_MIN_CHECKPOINTS: i64 = 10;

/// Recommends resource requests for the targets of VPA objects.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of upstream's program that are accepted and ignored.
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
    /// Flags of the leader election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    /// Flags of container sizes.
    #[command(flatten)]
    pub sizing: SizingArgs,
    /// Flags of the feed to the other services.
    #[command(flatten)]
    pub feed: FeedArgs,
    /// Flags of the Prometheus history.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// Flags of the source of usage.
    #[command(flatten)]
    pub external: ExternalMetricsArgs,
    /// Flags of caps to what can be scheduled.
    #[command(flatten)]
    pub schedulable: SchedulableArgs,
    /// Export recommendations as metrics, under the former names of kube-state-metrics: at most
    /// 20,000 series, of which a container has eight. One metric counts the omitted ones.
    #[arg(long)]
    pub recommendation_metrics: bool,
    /// Flags of EHPAs.
    #[command(flatten)]
    pub ehpa: EhpaArgs,
    /// Flags of predictions.
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
    /// Flag of holds.
    #[command(flatten)]
    pub holds: HoldArgs,
    /// Flags of the namespaces.
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
