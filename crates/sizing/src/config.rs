//! Settings of sizing, with upstream's defaults (the recommender's flags), validated once.

use model::ResourceList;
use serde::Deserialize;
use thiserror::Error;

use crate::buckets::Buckets;
use crate::container_history::HistogramConfigs;
use crate::decaying_histogram::{HalfLife, HistogramConfig};
use crate::instant::DAY_NS;

/// Percentiles of usage for target and bounds, as fractions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    pub target: f64,
    pub lower_bound: f64,
    pub upper_bound: f64,
}

impl Default for Percentiles {
    fn default() -> Self {
        Self {
            target: 0.9,
            lower_bound: 0.5,
            upper_bound: 0.95,
        }
    }
}

/// All settings of sizing. Durations in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Safety margin as a share of usage (`--recommendation-margin-fraction`).
    pub margin_fraction: f64,
    /// Minimum CPU of a pod in millicores (`--pod-recommendation-min-cpu-millicores`).
    pub pod_min_cpu_millicores: f64,
    /// Minimum memory of a pod in MiB (`--pod-recommendation-min-memory-mb`).
    pub pod_min_memory_mib: f64,
    pub cpu_percentiles: Percentiles,
    pub memory_percentiles: Percentiles,
    /// Length of history for a confidence of one in the CPU bounds (`--confidence-interval-cpu`).
    pub cpu_confidence_interval_ns: i64,
    /// Length of history for a confidence of one in the memory bounds
    /// (`--confidence-interval-memory`).
    pub memory_confidence_interval_ns: i64,
    /// Half-life of CPU samples (`--cpu-histogram-decay-half-life`).
    pub cpu_half_life_ns: i64,
    /// Half-life of memory peaks (`--memory-histogram-decay-half-life`).
    pub memory_half_life_ns: i64,
    pub memory: MemoryRules,
    /// Whether VPAs may set their own [`MemoryRules`] (feature gate `PerVPAConfig`).
    pub per_vpa_rules: bool,
    /// Formats memory with two decimals and a binary suffix (`--humanize-memory`).
    pub humanize_memory: bool,
    /// Rounds CPU up to a multiple of this (`--round-cpu-millicores`); no effect if 1 or less.
    pub round_cpu_millicores: i64,
    /// Rounds memory up to a multiple of this (`--round-memory-bytes`); no effect if 1 or less.
    pub round_memory_bytes: i64,
    /// Whether the annotation for whole cores is honoured (`--cpu-integer-post-processor-enabled`).
    pub integer_cpu: bool,
    /// Recommendation for containers without usage samples (`withoutUsage`).
    pub without_usage: WithoutUsage,
    /// Maximum of a container's recommendation; absent resources have none
    /// (`--container-recommendation-max-allowed-*`).
    pub max_allowed: ResourceList,
}

/// Recommendation for a container without usage samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WithoutUsage {
    /// The minimum, as upstream.
    #[default]
    Minimum,
    Nothing,
}

/// Rules that turn memory samples and OOM kills into peaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryRules {
    /// Length of the window with one peak (`--memory-aggregation-interval`).
    pub interval_ns: i64,
    /// Number of windows without samples after which history is dropped
    /// (`--memory-aggregation-interval-count`).
    pub interval_count: i64,
    /// Minimum factor between memory and the peak of an OOM kill (`--oom-bump-up-ratio`).
    pub oom_bump_up_ratio: f64,
    /// Minimum difference between memory and the peak of an OOM kill (`--oom-min-bump-up-bytes`).
    pub oom_min_bump_up_bytes: f64,
}

impl Default for MemoryRules {
    fn default() -> Self {
        Self {
            interval_ns: DAY_NS,
            interval_count: 8,
            oom_bump_up_ratio: 1.2,
            oom_min_bump_up_bytes: 104_857_600.0,
        }
    }
}

impl MemoryRules {
    /// Memory needed after an OOM kill at this usage, both in units of `unit` bytes.
    pub(crate) fn after_oom(&self, used: f64, unit: f64) -> f64 {
        let more = used + self.oom_min_bump_up_bytes / unit;
        more.max(used * self.oom_bump_up_ratio)
    }

    /// Retention of history without samples, in nanoseconds.
    pub fn retention_ns(&self) -> i64 {
        self.interval_ns.saturating_mul(self.interval_count)
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            margin_fraction: 0.15,
            pod_min_cpu_millicores: 25.0,
            pod_min_memory_mib: 250.0,
            cpu_percentiles: Percentiles::default(),
            memory_percentiles: Percentiles::default(),
            cpu_confidence_interval_ns: DAY_NS,
            memory_confidence_interval_ns: DAY_NS,
            cpu_half_life_ns: DAY_NS,
            memory_half_life_ns: DAY_NS,
            memory: MemoryRules::default(),
            per_vpa_rules: false,
            humanize_memory: false,
            round_cpu_millicores: 1,
            round_memory_bytes: 1,
            integer_cpu: false,
            without_usage: WithoutUsage::default(),
            max_allowed: ResourceList::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    #[error("{0} must be a finite number of at least 0")]
    NotANumber(&'static str),
    #[error("{0} must be between 0 and 1")]
    NotAFraction(&'static str),
    #[error("{0} must be greater than 0")]
    NotPositive(&'static str),
}

impl Config {
    /// Validates all settings and returns the histogram parameters.
    pub fn validate(&self) -> Result<HistogramConfigs, ConfigError> {
        let (millicores, mebibytes) = (self.pod_min_cpu_millicores, self.pod_min_memory_mib);
        not_negative("recommendation-margin-fraction", self.margin_fraction)?;
        not_negative("pod-recommendation-min-cpu-millicores", millicores)?;
        not_negative("pod-recommendation-min-memory-mb", mebibytes)?;
        not_negative("oom-bump-up-ratio", self.memory.oom_bump_up_ratio)?;
        not_negative("oom-min-bump-up-bytes", self.memory.oom_min_bump_up_bytes)?;
        let all = |of: Percentiles| (of.target, of.lower_bound, of.upper_bound);
        let (target, lower, upper) = all(self.cpu_percentiles);
        fraction("target-cpu-percentile", target)?;
        fraction("recommendation-lower-bound-cpu-percentile", lower)?;
        fraction("recommendation-upper-bound-cpu-percentile", upper)?;
        let (target, lower, upper) = all(self.memory_percentiles);
        fraction("target-memory-percentile", target)?;
        fraction("recommendation-lower-bound-memory-percentile", lower)?;
        fraction("recommendation-upper-bound-memory-percentile", upper)?;
        let memory_interval = self.memory_confidence_interval_ns;
        positive("confidence-interval-cpu", self.cpu_confidence_interval_ns)?;
        positive("confidence-interval-memory", memory_interval)?;
        positive("memory-aggregation-interval", self.memory.interval_ns)?;
        positive(
            "memory-aggregation-interval-count",
            self.memory.interval_count,
        )?;
        Ok(HistogramConfigs {
            cpu: shape(
                "cpu-histogram-decay-half-life",
                Buckets::cpu(),
                self.cpu_half_life_ns,
            )?,
            memory: shape(
                "memory-histogram-decay-half-life",
                Buckets::memory(),
                self.memory_half_life_ns,
            )?,
        })
    }

    /// Minimum of a pod in millicores and bytes.
    pub(crate) fn pod_minimum(&self) -> [i64; 2] {
        // Through cores and back, as upstream: some values lose one millicore (4007 gives 4006).
        let millicores = self.pod_min_cpu_millicores * 0.001 * 1000.0;
        let bytes = self.pod_min_memory_mib * 1024.0 * 1024.0;
        [millicores, bytes].map(crate::amount::from_f64)
    }
}

fn not_negative(name: &'static str, number: f64) -> Result<(), ConfigError> {
    let is_valid = number.is_finite() && number >= 0.0;
    is_valid.then_some(()).ok_or(ConfigError::NotANumber(name))
}

fn fraction(name: &'static str, number: f64) -> Result<(), ConfigError> {
    let is_valid = (0.0..=1.0).contains(&number);
    is_valid
        .then_some(())
        .ok_or(ConfigError::NotAFraction(name))
}

fn positive(name: &'static str, number: i64) -> Result<(), ConfigError> {
    let is_valid = number > 0;
    is_valid.then_some(()).ok_or(ConfigError::NotPositive(name))
}

fn shape(
    name: &'static str,
    buckets: &'static Buckets,
    half_life_ns: i64,
) -> Result<HistogramConfig, ConfigError> {
    let half_life =
        HalfLife::from_nanoseconds(half_life_ns).ok_or(ConfigError::NotPositive(name))?;
    Ok(HistogramConfig { buckets, half_life })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Config), expected: Option<ConfigError>) {
        let mut config = Config::default();
        change(&mut config);
        assert_eq!(config.validate().err(), expected);
    }

    #[test]
    fn settings_that_no_histogram_can_use_are_refused_by_name() {
        use ConfigError::{NotAFraction, NotANumber, NotPositive};
        check(|_| {}, None);
        let nan = Some(NotANumber("recommendation-margin-fraction"));
        check(|config| config.margin_fraction = f64::NAN, nan);
        let negative = Some(NotANumber("oom-bump-up-ratio"));
        check(|config| config.memory.oom_bump_up_ratio = -1.0, negative);
        let above_one = Some(NotAFraction("target-cpu-percentile"));
        check(|config| config.cpu_percentiles.target = 1.01, above_one);
        let zero = Some(NotPositive("cpu-histogram-decay-half-life"));
        check(|config| config.cpu_half_life_ns = 0, zero);
        let negative = Some(NotPositive("memory-aggregation-interval"));
        check(|config| config.memory.interval_ns = -1, negative);
    }

    #[test]
    fn the_least_cpu_of_a_pod_goes_through_cores_as_upstream_does() {
        for (millicores, expected) in [(25.0, 25), (4007.0, 4006), (0.0, 0)] {
            let config = Config {
                pod_min_cpu_millicores: millicores,
                ..Config::default()
            };
            assert_eq!(config.pod_minimum()[0], expected, "{millicores}");
        }
    }
}
