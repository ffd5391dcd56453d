//! The recommender's flags: upstream's names and defaults. Those of them that cannot mean anything here say so.

mod crane_metrics;
mod effective_hpa;
mod external_metrics;
mod history;
mod prediction;
mod recommendation_metrics;
mod schedulable;
#[cfg(test)]
mod upstream;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use cluster::{Scope, Shard};
use feed::AllowedClients;
use model::{Quantity, ResourceList, ResourceName};
use runtime::{CommonArgs, FeatureGates, Gate, GoDuration, LeaderElectionArgs, ListenAddress, Program, Stage};
use sizing::{Config, MemoryRules, Percentiles, WithoutUsage};

use crate::storage::Storage;

pub use crane_metrics::CraneMetricsArgs;
pub use effective_hpa::EffectiveHpaArgs;
pub use external_metrics::ExternalMetricsArgs;
pub use history::HistoryArgs;
pub use prediction::{DataSource, PredictionArgs, UnknownDataSource};
pub use recommendation_metrics::RecommendationMetricsArgs;
pub use schedulable::SchedulableArgs;

/// What sets the recommender's command line apart.
pub const PROGRAM: Program = Program {
    name: "recommender",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[("address", ":8942"), ("leader-elect-resource-name", "vpa-recommender-lease")],
};

/// Lets autoscalers set their own memory rules.
const PER_AUTOSCALER_RULES: &str = "PerVPAConfig";

/// What `--min-checkpoints` is when nobody sets it.
pub(crate) const DEFAULT_MIN_CHECKPOINTS: i64 = 10;

/// The gates that all programs of the suite know. The others concern the updater and the webhook.
const GATES: [Gate; 3] = [
    Gate { name: "CPUStartupBoost", stage: Stage::Alpha, default: false },
    Gate { name: "InPlace", stage: Stage::Alpha, default: false },
    Gate { name: PER_AUTOSCALER_RULES, stage: Stage::Alpha, default: false },
];

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
    pub effective_hpa: EffectiveHpaArgs,
    /// Flags of predictions.
    #[command(flatten)]
    pub prediction: PredictionArgs,

    /// Objects that name this recommender are handled; the one called default also handles those that name none.
    #[arg(long, default_value = api::vpa::DEFAULT_RECOMMENDER, value_name = "NAME")]
    pub recommender_name: String,
    /// How often usage is read and everything is computed anew, from when all watches are synced. Changes of pods and
    /// objects are taken up at once.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub recommender_interval: GoDuration,
    /// Keep no history of pods that no VPA object selects.
    #[arg(long)]
    pub memory_saver: bool,
    /// How many objects are written at the same time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), value_name = "COUNT")]
    pub update_worker_count: u16,
    /// Where history comes from that is older than this process: prometheus; or checkpoint, which empty means too.
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
    /// The only namespace to look at. Empty means all.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub vpa_object_namespace: String,
    /// Namespaces to leave alone, separated by commas. Not together with --vpa-object-namespace.
    #[arg(long, default_value = "", value_name = "NAMESPACES")]
    pub ignored_vpa_object_namespaces: String,
    /// Which part of the namespaces to look at, as INDEX/COUNT, counted from zero: 0/2 and 1/2 are all. Each part has a Lease of
    /// its own, whose name ends with -INDEX. Not together with --vpa-object-namespace.
    #[arg(long, default_value = "0/1", value_name = "INDEX/COUNT")]
    pub shard: Shard,
    /// Feature gates as Name=true, separated by commas. `PerVPAConfig` lets objects set their own memory rules.
    #[arg(long, default_value = "", value_name = "GATES")]
    pub feature_gates: String,
}

/// Flags of the feed to the other services. It is off unless the three files are given.
#[derive(Debug, Clone, clap::Args)]
pub struct FeedArgs {
    /// Where the gRPC feed is served, as host:port; no host means all interfaces. Needs --feed-tls-cert-file.
    #[arg(long, default_value = ":8950", value_name = "ADDRESS")]
    pub feed_address: ListenAddress,
    /// Host under which the other services reach this replica, such as the pod's IP address. The Lease tells it to them.
    /// Needed where --feed-address has no host.
    #[arg(long, default_value = "", value_name = "HOST")]
    pub feed_advertised_host: String,
    /// Certificate chain (PEM) of the feed. Reread when it changes; while it is missing, the feed waits for it.
    #[arg(long, value_name = "FILE", requires_all = ["feed_tls_private_key_file", "feed_client_ca_file"])]
    pub feed_tls_cert_file: Option<PathBuf>,
    /// Private key (PEM) of --feed-tls-cert-file.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_tls_private_key_file: Option<PathBuf>,
    /// Authorities (PEM) that the certificates of the feed's clients must come from.
    #[arg(long, value_name = "FILE", requires = "feed_tls_cert_file")]
    pub feed_client_ca_file: Option<PathBuf>,
    /// DNS names, separated by commas, of which a client's certificate must carry one.
    #[arg(long, default_value = "plimsoll-updater,plimsoll-webhook,plimsoll-adapter", value_name = "NAMES")]
    pub feed_allowed_clients: AllowedClients,
}

/// Flags that say how large a container should be.
#[derive(Debug, Clone, clap::Args)]
pub struct SizingArgs {
    /// Share of usage that is added as a safety margin.
    #[arg(long, default_value_t = 0.15, value_name = "FRACTION")]
    pub recommendation_margin_fraction: f64,
    /// The least CPU of a pod, in millicores, shared evenly by its containers.
    #[arg(long, default_value_t = 25.0, value_name = "MILLICORES")]
    pub pod_recommendation_min_cpu_millicores: f64,
    /// The least memory of a pod, in MiB, shared evenly by its containers.
    #[arg(long, default_value_t = 250.0, value_name = "MIB")]
    pub pod_recommendation_min_memory_mb: f64,
    /// Percentile of CPU usage that becomes the target.
    #[arg(long, default_value_t = 0.9, value_name = "FRACTION")]
    pub target_cpu_percentile: f64,
    /// Percentile of CPU usage that becomes the lower bound.
    #[arg(long, default_value_t = 0.5, value_name = "FRACTION")]
    pub recommendation_lower_bound_cpu_percentile: f64,
    /// Percentile of CPU usage that becomes the upper bound.
    #[arg(long, default_value_t = 0.95, value_name = "FRACTION")]
    pub recommendation_upper_bound_cpu_percentile: f64,
    /// Percentile of memory peaks that becomes the target.
    #[arg(long, default_value_t = 0.9, value_name = "FRACTION")]
    pub target_memory_percentile: f64,
    /// Percentile of memory peaks that becomes the lower bound.
    #[arg(long, default_value_t = 0.5, value_name = "FRACTION")]
    pub recommendation_lower_bound_memory_percentile: f64,
    /// Percentile of memory peaks that becomes the upper bound.
    #[arg(long, default_value_t = 0.95, value_name = "FRACTION")]
    pub recommendation_upper_bound_memory_percentile: f64,
    /// How much history gives a confidence of one in the bounds of CPU.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub confidence_interval_cpu: GoDuration,
    /// How much history gives a confidence of one in the bounds of memory.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub confidence_interval_memory: GoDuration,
    /// How long it takes until CPU usage counts half.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub cpu_histogram_decay_half_life: GoDuration,
    /// How long it takes until a memory peak counts half.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub memory_histogram_decay_half_life: GoDuration,
    /// Length of the window of which only the memory peak counts.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub memory_aggregation_interval: GoDuration,
    /// After how many such windows without usage history is dropped.
    #[arg(long, default_value_t = 8, value_name = "COUNT")]
    pub memory_aggregation_interval_count: i64,
    /// A kill for want of memory counts as a peak of this many times the memory.
    #[arg(long, default_value_t = 1.2, value_name = "RATIO")]
    pub oom_bump_up_ratio: f64,
    /// A kill for want of memory counts as a peak at least this much above the memory, in bytes.
    #[arg(long, default_value_t = 104_857_600.0, value_name = "BYTES")]
    pub oom_min_bump_up_bytes: f64,
    /// Deprecated: write memory with two decimals and a binary suffix.
    #[arg(long)]
    pub humanize_memory: bool,
    /// Round CPU up to a multiple of this.
    #[arg(long, default_value_t = 1, value_name = "MILLICORES")]
    pub round_cpu_millicores: i64,
    /// Round memory up to a multiple of this.
    #[arg(long, default_value_t = 1, value_name = "BYTES")]
    pub round_memory_bytes: i64,
    /// Heed the annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU, which asks for whole cores.
    #[arg(long)]
    pub cpu_integer_post_processor_enabled: bool,
    /// Recommend the minimum for containers of which nothing was measured. Without it they get no recommendation.
    #[arg(long, default_value_t = true)]
    pub minimum_without_usage: bool,
    /// The most CPU recommended for one container; 0 sets no limit.
    #[arg(long, default_value = "0", value_name = "QUANTITY")]
    pub container_recommendation_max_allowed_cpu: Quantity,
    /// The most memory recommended for one container; 0 sets no limit.
    #[arg(long, default_value = "0", value_name = "QUANTITY")]
    pub container_recommendation_max_allowed_memory: Quantity,
}

impl SizingArgs {
    /// The settings of sizing. `gates` as in `--feature-gates`.
    pub fn config(self, gates: &str) -> anyhow::Result<Config> {
        let gates = FeatureGates::parse(&GATES, gates).context("--feature-gates")?;
        let Self {
            recommendation_margin_fraction,
            pod_recommendation_min_cpu_millicores,
            pod_recommendation_min_memory_mb,
            target_cpu_percentile,
            recommendation_lower_bound_cpu_percentile,
            recommendation_upper_bound_cpu_percentile,
            target_memory_percentile,
            recommendation_lower_bound_memory_percentile,
            recommendation_upper_bound_memory_percentile,
            confidence_interval_cpu,
            confidence_interval_memory,
            cpu_histogram_decay_half_life,
            memory_histogram_decay_half_life,
            memory_aggregation_interval,
            memory_aggregation_interval_count,
            oom_bump_up_ratio,
            oom_min_bump_up_bytes,
            humanize_memory,
            round_cpu_millicores,
            round_memory_bytes,
            cpu_integer_post_processor_enabled,
            minimum_without_usage,
            container_recommendation_max_allowed_cpu,
            container_recommendation_max_allowed_memory,
        } = self;
        if humanize_memory {
            tracing::warn!("--humanize-memory is deprecated; use --round-memory-bytes");
        }
        let max_allowed = [
            (ResourceName::Cpu, container_recommendation_max_allowed_cpu),
            (ResourceName::Memory, container_recommendation_max_allowed_memory),
        ];
        Ok(Config {
            margin_fraction: recommendation_margin_fraction,
            pod_min_cpu_millicores: pod_recommendation_min_cpu_millicores,
            pod_min_memory_mib: pod_recommendation_min_memory_mb,
            cpu_percentiles: Percentiles {
                target: target_cpu_percentile,
                lower_bound: recommendation_lower_bound_cpu_percentile,
                upper_bound: recommendation_upper_bound_cpu_percentile,
            },
            memory_percentiles: Percentiles {
                target: target_memory_percentile,
                lower_bound: recommendation_lower_bound_memory_percentile,
                upper_bound: recommendation_upper_bound_memory_percentile,
            },
            cpu_confidence_interval_ns: nanoseconds(confidence_interval_cpu),
            memory_confidence_interval_ns: nanoseconds(confidence_interval_memory),
            cpu_half_life_ns: nanoseconds(cpu_histogram_decay_half_life),
            memory_half_life_ns: nanoseconds(memory_histogram_decay_half_life),
            memory: MemoryRules {
                interval_ns: nanoseconds(memory_aggregation_interval),
                interval_count: memory_aggregation_interval_count,
                oom_bump_up_ratio,
                oom_min_bump_up_bytes,
            },
            per_autoscaler_rules: gates.enabled(PER_AUTOSCALER_RULES),
            humanize_memory,
            round_cpu_millicores,
            round_memory_bytes,
            integer_cpu: cpu_integer_post_processor_enabled,
            without_usage: if minimum_without_usage { WithoutUsage::Minimum } else { WithoutUsage::Nothing },
            max_allowed: max_allowed.into_iter().filter(|(_, most)| !most.is_zero()).collect::<ResourceList>(),
        })
    }
}

/// The namespaces that `--vpa-object-namespace`, `--ignored-vpa-object-namespaces` and `--shard` leave.
pub fn scope(only: &str, ignored: &str, shard: Shard) -> anyhow::Result<Scope> {
    let ignored: BTreeSet<String> =
        ignored.split(',').map(str::trim).filter(|namespace| !namespace.is_empty()).map(str::to_owned).collect();
    ensure!(
        only.is_empty() || ignored.is_empty(),
        "--vpa-object-namespace and --ignored-vpa-object-namespaces exclude each other"
    );
    ensure!(only.is_empty() || shard.is_whole(), "--vpa-object-namespace and --shard exclude each other");
    Ok(Scope { namespace: (!only.is_empty()).then(|| only.to_owned()), ignored, shard })
}

/// A duration from the command line has at most 2^63 - 1 nanoseconds.
fn nanoseconds(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_nanos()).unwrap_or(i64::MAX)
}

fn positive_duration(text: &str) -> Result<GoDuration, String> {
    let duration: GoDuration = text.parse().map_err(|error: runtime::duration::DurationError| error.to_string())?;
    if duration.0 < Duration::from_millis(100) { Err("must be at least 100ms".to_owned()) } else { Ok(duration) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn parse(line: &str) -> Result<Args, String> {
        let words = std::iter::once("recommender").chain(line.split_whitespace());
        PROGRAM.try_parse_from(words).map_err(|error| error.to_string())
    }

    fn config(line: &str) -> anyhow::Result<Config> {
        let Args { sizing, feature_gates, .. } = parse(line).map_err(anyhow::Error::msg)?;
        sizing.config(&feature_gates)
    }

    fn check(line: &str, change: impl FnOnce(&mut Config)) {
        let mut expected = Config::default();
        change(&mut expected);
        assert_eq!(config(line).expect(line), expected, "{line}");
    }

    #[test]
    fn the_command_line_is_sound() {
        PROGRAM.command::<Args>().debug_assert();
    }

    #[test]
    fn defaults_are_upstreams() {
        check("", |_| ());
        let args = parse("").expect("no flag is required");
        assert_eq!((args.recommender_name.as_str(), args.update_worker_count), ("default", 10));
        assert_eq!(args.recommender_interval.0, Duration::from_mins(1));
        assert_eq!(args.checkpoints_timeout.0, Duration::from_mins(1));
        assert_eq!(args.checkpoints_gc_interval.0, Duration::from_mins(10));
        assert_eq!((args.storage, args.min_checkpoints), (Storage::Checkpoint, 10));
        assert_eq!(args.common.address.to_string(), ":8942");
        assert_eq!(args.election.leader_elect_resource_name, "vpa-recommender-lease");
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        check("--recommendation-margin-fraction=0.2", |config| config.margin_fraction = 0.2);
        check("--pod-recommendation-min-cpu-millicores=15", |config| config.pod_min_cpu_millicores = 15.0);
        check("--pod-recommendation-min-memory-mb=100", |config| config.pod_min_memory_mib = 100.0);
        check("--target-cpu-percentile=0.8", |config| config.cpu_percentiles.target = 0.8);
        check("--recommendation-lower-bound-cpu-percentile=0.4", |config| config.cpu_percentiles.lower_bound = 0.4);
        check("--recommendation-upper-bound-cpu-percentile=0.99", |config| config.cpu_percentiles.upper_bound = 0.99);
        check("--target-memory-percentile=0.8", |config| config.memory_percentiles.target = 0.8);
        check("--recommendation-lower-bound-memory-percentile=0.4", |config| {
            config.memory_percentiles.lower_bound = 0.4;
        });
        check("--recommendation-upper-bound-memory-percentile=0.99", |config| {
            config.memory_percentiles.upper_bound = 0.99;
        });
        check("--confidence-interval-cpu=1s", |config| config.cpu_confidence_interval_ns = 1_000_000_000);
        check("--confidence-interval-memory=1s", |config| config.memory_confidence_interval_ns = 1_000_000_000);
        check("--cpu-histogram-decay-half-life=1s", |config| config.cpu_half_life_ns = 1_000_000_000);
        check("--memory-histogram-decay-half-life=1s", |config| config.memory_half_life_ns = 1_000_000_000);
        check("--memory-aggregation-interval=1s", |config| config.memory.interval_ns = 1_000_000_000);
        check("--memory-aggregation-interval-count=4", |config| config.memory.interval_count = 4);
        check("--oom-bump-up-ratio=1.5", |config| config.memory.oom_bump_up_ratio = 1.5);
        check("--oom-min-bump-up-bytes=1e6", |config| config.memory.oom_min_bump_up_bytes = 1e6);
        check("--humanize-memory", |config| config.humanize_memory = true);
        check("--round-cpu-millicores=50", |config| config.round_cpu_millicores = 50);
        check("--round-memory-bytes=1024", |config| config.round_memory_bytes = 1024);
        check("--cpu-integer-post-processor-enabled", |config| config.integer_cpu = true);
        check("--minimum-without-usage=false", |config| config.without_usage = WithoutUsage::Nothing);
        check("--feature-gates=PerVPAConfig=true", |config| config.per_autoscaler_rules = true);
        check("--feature-gates=InPlace=true", |_| ());
        check("--container-recommendation-max-allowed-cpu=2", |config| {
            config.max_allowed.insert(ResourceName::Cpu, Quantity::from_milli(2000));
        });
        check("--container-recommendation-max-allowed-memory=1Gi", |config| {
            config.max_allowed.insert(ResourceName::Memory, Quantity::from_bytes(1 << 30));
        });
    }

    #[test]
    fn checkpoints_are_the_storage_by_either_name_and_a_slip_is_noticed() {
        for line in ["", "--storage=", "--storage=checkpoint"] {
            assert_eq!(parse(line).expect(line).storage, Storage::Checkpoint, "{line}");
        }
        assert!(parse("--storage=checkpoints").is_err());
    }

    #[test]
    fn the_feed_needs_all_of_its_files_and_a_client() {
        let certificate = "--feed-tls-cert-file=a";
        let key = "--feed-tls-private-key-file=b";
        let authority = "--feed-client-ca-file=c";
        assert!(parse(&[certificate, key, authority].join(" ")).is_ok());
        for some in [&[certificate][..], &[key], &[authority], &[certificate, key], &[key, authority]] {
            assert!(parse(&some.join(" ")).is_err(), "{some:?}");
        }
        assert!(parse("--feed-allowed-clients=,").is_err());
        let feed = parse("").expect("no flag is required").feed;
        assert_eq!((feed.feed_address.to_string().as_str(), feed.feed_tls_cert_file), (":8950", None));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "--checkpoints-timeout=0s",
            "--checkpoints-gc-interval=0s",
            "--feature-gates=Nonsense=true",
            "--recommender-interval=0s",
            "--update-worker-count=0",
            "--container-recommendation-max-allowed-cpu=x",
        ] {
            assert!(config(line).is_err(), "{line}");
        }
    }

    #[test]
    fn namespaces_are_all_some_or_one() {
        let check = |only: &str, ignored: &str, namespace: &str, expected: bool| {
            let all = Shard::default();
            assert_eq!(scope(only, ignored, all).expect("one of the two").includes(namespace), expected, "{namespace}");
        };
        check("", "", "a", true);
        check("a", "", "b", false);
        check("", "a, b", "b", false);
        check("", "a, b", "c", true);
        assert!(scope("a", "b", Shard::default()).is_err());
    }

    #[test]
    fn shards_are_counted_from_zero_and_divide_all_namespaces() {
        let shard = |line: &str| parse(line).map(|args| args.shard);
        assert_eq!(shard(""), Ok(Shard::default()));
        let second = shard("--shard=1/2").expect("the second of two");
        assert!(scope("", "kube-system", second).expect("a scope").includes("mail"));
        assert!(scope("mail", "", second).is_err());
        for (line, expected) in [
            ("--shard=2/2", "shards are counted from zero: the last of 2 is 1/2"),
            ("--shard=0/0", "there must be 1 to 256 shards"),
            ("--shard=2", "expected INDEX/COUNT, such as 0/2 and 1/2"),
        ] {
            let error = shard(line).expect_err(line);
            assert!(error.contains(expected) && error.contains("--shard"), "{error}");
        }
    }
}
