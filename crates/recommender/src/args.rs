//! The recommender's flags: upstream's names and defaults. Those of them that cannot mean anything
//! here say so.

mod crane_metrics;
mod ehpa;
mod external_metrics;
mod feed;
mod history;
mod metric_rules;
mod prediction;
mod recommendation_metrics;
mod schedulable;
mod sizing;
#[cfg(test)]
pub(crate) mod tests;
#[cfg(test)]
mod upstream;

use anyhow::ensure;
use runtime::duration::positive_duration;
use runtime::{CommonArgs, GoDuration, LeaderElectionArgs, NamespaceArgs, Namespaces, Program};
use view::{Scope, Shard};

use crate::storage::Storage;

pub use self::feed::FeedArgs;
pub use self::sizing::SizingArgs;
pub use crane_metrics::CraneMetricsArgs;
pub use ehpa::EhpaArgs;
pub use external_metrics::ExternalMetricsArgs;
pub use history::HistoryArgs;
pub use metric_rules::MetricRulesArgs;
pub use prediction::{DataSource, PredictionArgs, UnknownDataSource};
pub use recommendation_metrics::RecommendationMetricsArgs;
pub use schedulable::SchedulableArgs;

/// What sets the recommender's command line apart.
pub const PROGRAM: Program = Program {
    name: "recommender",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8942"),
        ("leader-elect-resource-name", "vpa-recommender-lease"),
    ],
};

/// What `--min-checkpoints` is when nobody sets it.
pub(crate) const DEFAULT_MIN_CHECKPOINTS: i64 = 10;

/// Recommends resource requests for the workloads that VPA objects point at.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    /// Flags of every program.
    #[command(flatten)]
    pub common: CommonArgs,
    /// Flags of the election.
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    /// Flags that say how large a container should be.
    #[command(flatten)]
    pub sizing: SizingArgs,
    /// Flags of the feed to the other services.
    #[command(flatten)]
    pub feed: FeedArgs,
    /// Flags that say where history is.
    #[command(flatten)]
    pub history: HistoryArgs,
    /// Flags of the source of usage.
    #[command(flatten)]
    pub external: ExternalMetricsArgs,
    /// Flags that hold recommendations to what can be scheduled.
    #[command(flatten)]
    pub schedulable: SchedulableArgs,
    /// Flags of recommendations as metrics.
    #[command(flatten)]
    pub recommendation_metrics: RecommendationMetricsArgs,
    /// The flag of Crane's metrics.
    #[command(flatten)]
    pub crane_metrics: CraneMetricsArgs,
    /// Flags of effective autoscalers.
    #[command(flatten)]
    pub effective_hpa: EhpaArgs,
    /// Flags of rules for custom and external metrics.
    #[command(flatten)]
    pub metric_rules: MetricRulesArgs,
    /// Flags of predictions.
    #[command(flatten)]
    pub prediction: PredictionArgs,

    /// Objects that name this recommender are handled; the one called default also handles those
    /// that name none.
    #[arg(long, default_value = api::vpa::DEFAULT_RECOMMENDER, value_name = "NAME")]
    pub recommender_name: String,
    /// How often usage is read and everything is computed anew, from when all watches are synced.
    /// Changes of pods and objects are taken up at once.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub recommender_interval: GoDuration,
    /// Keep no history of pods that no VPA object selects.
    #[arg(long)]
    pub memory_saver: bool,
    /// Size native sidecars too: init containers with `restartPolicy: Always`. Set the same flag of
    /// the webhook. Upstream never sizes them.
    #[arg(long)]
    pub native_sidecars: bool,
    /// How many objects are written at the same time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), value_name = "COUNT")]
    pub update_worker_count: u16,
    /// Where history comes from that is older than this process: prometheus; or checkpoint, which
    /// empty means too.
    #[arg(long, default_value = "", value_name = "STORAGE")]
    pub storage: Storage,
    /// How long after each round checkpoints are written; what is left waits for the next round.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub checkpoints_timeout: GoDuration,
    /// How often checkpoints are looked for that nobody needs any more. They go at the second look.
    #[arg(long, default_value = "10m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub checkpoints_gc_interval: GoDuration,
    /// Deprecated: has no effect.
    #[arg(long, default_value_t = DEFAULT_MIN_CHECKPOINTS, value_name = "COUNT")]
    pub min_checkpoints: i64,
    /// Flags that say which namespaces to look at.
    #[command(flatten)]
    pub namespaces: NamespaceArgs,
    /// Which part of the namespaces to look at, as INDEX/COUNT, counted from zero: 0/2 and 1/2 are
    /// all. Each part has a Lease of its own, whose name ends with -INDEX. Not together with
    /// --vpa-object-namespace.
    #[arg(long, default_value = "0/1", value_name = "INDEX/COUNT")]
    pub shard: Shard,
    /// Feature gates as Name=true, separated by commas. `PerVPAConfig` lets objects set their own
    /// memory rules.
    #[arg(long, default_value = "", value_name = "GATES")]
    pub feature_gates: String,
}

/// The namespaces that `--vpa-object-namespace`, `--ignored-vpa-object-namespaces` and `--shard`
/// leave.
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
