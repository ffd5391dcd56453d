//! Flags of container sizes: upstream's names and defaults.

use anyhow::Context as _;
use model::{Quantity, ResourceList, ResourceName};
use runtime::feature_gates::PER_VPA_CONFIG;
use runtime::{FeatureGates, GoDuration};
use sizing::{Config, MemoryRules, Percentiles, WithoutUsage};

/// Flags of container sizes.
#[derive(Debug, Clone, clap::Args)]
pub struct SizingArgs {
    /// Fraction of usage added as a safety margin.
    #[arg(long, default_value_t = 0.15, value_name = "FRACTION")]
    pub recommendation_margin_fraction: f64,
    /// Minimum CPU of a pod, in millicores, divided evenly among its containers.
    #[arg(long, default_value_t = 25.0, value_name = "MILLICORES")]
    pub pod_recommendation_min_cpu_millicores: f64,
    /// Minimum memory of a pod, in MiB, divided evenly among its containers.
    #[arg(long, default_value_t = 250.0, value_name = "MIB")]
    pub pod_recommendation_min_memory_mb: f64,
    /// Percentile of CPU usage for the target.
    #[arg(long, default_value_t = 0.9, value_name = "FRACTION")]
    pub target_cpu_percentile: f64,
    /// Percentile of CPU usage for the lower bound.
    #[arg(long, default_value_t = 0.5, value_name = "FRACTION")]
    pub recommendation_lower_bound_cpu_percentile: f64,
    /// Percentile of CPU usage for the upper bound.
    #[arg(long, default_value_t = 0.95, value_name = "FRACTION")]
    pub recommendation_upper_bound_cpu_percentile: f64,
    /// Percentile of memory peaks for the target.
    #[arg(long, default_value_t = 0.9, value_name = "FRACTION")]
    pub target_memory_percentile: f64,
    /// Percentile of memory peaks for the lower bound.
    #[arg(long, default_value_t = 0.5, value_name = "FRACTION")]
    pub recommendation_lower_bound_memory_percentile: f64,
    /// Percentile of memory peaks for the upper bound.
    #[arg(long, default_value_t = 0.95, value_name = "FRACTION")]
    pub recommendation_upper_bound_memory_percentile: f64,
    /// Length of history with a confidence of 1 in the bounds of CPU.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub confidence_interval_cpu: GoDuration,
    /// Length of history with a confidence of 1 in the bounds of memory.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub confidence_interval_memory: GoDuration,
    /// Half-life of CPU samples.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub cpu_histogram_decay_half_life: GoDuration,
    /// Half-life of memory peaks.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub memory_histogram_decay_half_life: GoDuration,
    /// Length of a memory window, of which only the peak counts.
    #[arg(long, default_value = "24h0m0s", value_name = "DURATION")]
    pub memory_aggregation_interval: GoDuration,
    /// Number of memory windows without usage after which history is dropped.
    #[arg(long, default_value_t = 8, value_name = "COUNT")]
    pub memory_aggregation_interval_count: i64,
    /// Factor of the memory peak that an OOM kill counts as, relative to the memory of the killed
    /// container.
    #[arg(long, default_value_t = 1.2, value_name = "RATIO")]
    pub oom_bump_up_ratio: f64,
    /// Minimum by which the peak of an OOM kill exceeds the memory of the killed container, in bytes.
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
    /// Respect the annotation vpa-post-processor.kubernetes.io/CONTAINER_integerCPU, which requests
    /// whole cores.
    #[arg(long)]
    pub cpu_integer_post_processor_enabled: bool,
    /// Maximum CPU recommended for one container; 0 means no limit.
    #[arg(long, default_value = "0", value_name = "QUANTITY")]
    pub container_recommendation_max_allowed_cpu: Quantity,
    /// Maximum memory recommended for one container; 0 means no limit.
    #[arg(long, default_value = "0", value_name = "QUANTITY")]
    pub container_recommendation_max_allowed_memory: Quantity,
}

impl SizingArgs {
    /// Converts the flags to the configuration of sizing. `gates` as in `--feature-gates`.
    pub fn config(self, gates: &str) -> anyhow::Result<Config> {
        let gates = FeatureGates::parse(gates).context("--feature-gates")?;
        if self.humanize_memory {
            tracing::warn!("--humanize-memory is deprecated; use --round-memory-bytes");
        }
        let max_allowed = [
            (
                ResourceName::Cpu,
                self.container_recommendation_max_allowed_cpu,
            ),
            (
                ResourceName::Memory,
                self.container_recommendation_max_allowed_memory,
            ),
        ];
        Ok(Config {
            margin_fraction: self.recommendation_margin_fraction,
            pod_min_cpu_millicores: self.pod_recommendation_min_cpu_millicores,
            pod_min_memory_mib: self.pod_recommendation_min_memory_mb,
            cpu_percentiles: Percentiles {
                target: self.target_cpu_percentile,
                lower_bound: self.recommendation_lower_bound_cpu_percentile,
                upper_bound: self.recommendation_upper_bound_cpu_percentile,
            },
            memory_percentiles: Percentiles {
                target: self.target_memory_percentile,
                lower_bound: self.recommendation_lower_bound_memory_percentile,
                upper_bound: self.recommendation_upper_bound_memory_percentile,
            },
            cpu_confidence_interval_ns: nanoseconds(self.confidence_interval_cpu),
            memory_confidence_interval_ns: nanoseconds(self.confidence_interval_memory),
            cpu_half_life_ns: nanoseconds(self.cpu_histogram_decay_half_life),
            memory_half_life_ns: nanoseconds(self.memory_histogram_decay_half_life),
            memory: MemoryRules {
                interval_ns: nanoseconds(self.memory_aggregation_interval),
                interval_count: self.memory_aggregation_interval_count,
                oom_bump_up_ratio: self.oom_bump_up_ratio,
                oom_min_bump_up_bytes: self.oom_min_bump_up_bytes,
            },
            per_vpa_rules: gates.enabled(PER_VPA_CONFIG),
            humanize_memory: self.humanize_memory,
            round_cpu_millicores: self.round_cpu_millicores,
            round_memory_bytes: self.round_memory_bytes,
            integer_cpu: self.cpu_integer_post_processor_enabled,
            without_usage: WithoutUsage::default(),
            max_allowed: max_allowed
                .into_iter()
                .filter(|(_, most)| !most.is_zero())
                .collect::<ResourceList>(),
        })
    }
}

/// Converts a duration, at most 2^63 - 1 nanoseconds.
fn nanoseconds(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use crate::args::tests::parse;

    fn config(line: &str) -> anyhow::Result<Config> {
        let Args {
            sizing,
            feature_gates,
            ..
        } = parse(line).map_err(anyhow::Error::msg)?;
        sizing.config(&feature_gates)
    }

    fn check(line: &str, change: impl FnOnce(&mut Config)) {
        let mut expected = Config::default();
        change(&mut expected);
        assert_eq!(config(line).expect(line), expected, "{line}");
    }

    #[test]
    fn defaults_are_upstreams() {
        check("", |_| ());
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        check("--recommendation-margin-fraction=0.2", |config| {
            config.margin_fraction = 0.2;
        });
        check("--pod-recommendation-min-cpu-millicores=15", |config| {
            config.pod_min_cpu_millicores = 15.0;
        });
        check("--pod-recommendation-min-memory-mb=100", |config| {
            config.pod_min_memory_mib = 100.0;
        });
        check("--target-cpu-percentile=0.8", |config| {
            config.cpu_percentiles.target = 0.8;
        });
        check(
            "--recommendation-lower-bound-cpu-percentile=0.4",
            |config| config.cpu_percentiles.lower_bound = 0.4,
        );
        check(
            "--recommendation-upper-bound-cpu-percentile=0.99",
            |config| config.cpu_percentiles.upper_bound = 0.99,
        );
        check("--target-memory-percentile=0.8", |config| {
            config.memory_percentiles.target = 0.8;
        });
        check(
            "--recommendation-lower-bound-memory-percentile=0.4",
            |config| {
                config.memory_percentiles.lower_bound = 0.4;
            },
        );
        check(
            "--recommendation-upper-bound-memory-percentile=0.99",
            |config| {
                config.memory_percentiles.upper_bound = 0.99;
            },
        );
        check("--confidence-interval-cpu=1s", |config| {
            config.cpu_confidence_interval_ns = 1_000_000_000;
        });
        check("--confidence-interval-memory=1s", |config| {
            config.memory_confidence_interval_ns = 1_000_000_000;
        });
        check("--cpu-histogram-decay-half-life=1s", |config| {
            config.cpu_half_life_ns = 1_000_000_000;
        });
        check("--memory-histogram-decay-half-life=1s", |config| {
            config.memory_half_life_ns = 1_000_000_000;
        });
        check("--memory-aggregation-interval=1s", |config| {
            config.memory.interval_ns = 1_000_000_000;
        });
        check("--memory-aggregation-interval-count=4", |config| {
            config.memory.interval_count = 4;
        });
        check("--oom-bump-up-ratio=1.5", |config| {
            config.memory.oom_bump_up_ratio = 1.5;
        });
        check("--oom-min-bump-up-bytes=1e6", |config| {
            config.memory.oom_min_bump_up_bytes = 1e6;
        });
        check("--humanize-memory", |config| config.humanize_memory = true);
        check("--round-cpu-millicores=50", |config| {
            config.round_cpu_millicores = 50;
        });
        check("--round-memory-bytes=1024", |config| {
            config.round_memory_bytes = 1024;
        });
        check("--cpu-integer-post-processor-enabled", |config| {
            config.integer_cpu = true;
        });
        check("--feature-gates=PerVPAConfig=true", |config| {
            config.per_vpa_rules = true;
        });
        check("--feature-gates=InPlace=true", |_| ());
        check("--container-recommendation-max-allowed-cpu=2", |config| {
            config
                .max_allowed
                .insert(ResourceName::Cpu, Quantity::from_milli(2000));
        });
        check(
            "--container-recommendation-max-allowed-memory=1Gi",
            |config| {
                config
                    .max_allowed
                    .insert(ResourceName::Memory, Quantity::from_bytes(1 << 30));
            },
        );
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "--feature-gates=Nonsense=true",
            "--container-recommendation-max-allowed-cpu=x",
        ] {
            assert!(config(line).is_err(), "{line}");
        }
    }
}
