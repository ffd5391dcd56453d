//! Flags of the extender protocol.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use jiff::SignedDuration;
use placement::peaks::PowerModel;
use placement::{LoadFilter, Policy, PressureTargets, Prioritizer};
use runtime::GoDuration;
use runtime::duration::at_least;

use crate::scheduler::{Limits, SchedulerConfig};

/// Largest number of profiles.
const MAX_PROFILES: usize = 64;
/// Longest name of a profile, in bytes.
const MAX_PROFILE_BYTES: usize = 63;
/// Below this share of nodes with metrics, in percent, most of the scores would not be by load.
const MIN_COVERAGE_PERCENT: usize = 50;
/// Score of the best node that kube-scheduler documents.
const MAX_SCORE: i64 = 10;
/// Requests with full nodes (nodeCacheCapable false) have about 10 KiB per node.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Requests at a time; others wait until the deadline. kube-scheduler sends one at a time for each
/// profile.
const MAX_REQUESTS: usize = 8;

/// Flags of the extender protocol of kube-scheduler.
#[derive(Debug, Clone, clap::Args)]
pub struct SchedulerArgs {
    /// Policy of /prioritize: `TargetLoadPacking`, `LoadVariationRiskBalancing`,
    /// `LowRiskOverCommitment` or `Peaks`, with parameters of Trimaran's plugin such as
    /// `TargetLoadPacking(targetUtilization=60)`.
    #[arg(long, default_value = "TargetLoadPacking", value_name = "POLICY")]
    pub policy: Policy,
    /// Policy of /profiles/NAME/prioritize. Can be repeated, or a list separated by semicolons.
    #[arg(long = "profile", value_name = "NAME=POLICY", value_delimiter = ';')]
    pub profiles: Vec<String>,
    /// JSON file with the power models for `Peaks`: {"NODE": {"k0": 400, "k1": -300, "k2": -0.05}}.
    #[arg(long, value_name = "FILE")]
    pub power_models_file: Option<PathBuf>,
    /// Memory utilization in percent above which a node's score is lowered. 0 is off.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub memory_target_percent: u8,
    /// Network utilization in percent above which a node's score is lowered. 0 is off.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub network_target_percent: u8,
    /// Disk utilization in percent above which a node's score is lowered. 0 is off.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub disk_target_percent: u8,
    /// CPU utilization in percent of the capacity, with the pod, above which /filter removes a
    /// node. 0 is off.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub filter_cpu_percent: u8,
    /// Memory utilization in percent of the capacity, with the pod, above which /filter removes a
    /// node. 0 is off.
    #[arg(long, default_value_t = 0, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub filter_memory_percent: u8,
    /// Age of the newest node metrics above which scores are by allocation and no node is removed.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = at_least_a_second)]
    pub load_max_age: GoDuration,
    /// Time after which all nodes get equal scores. Less than httpTimeout of kube-scheduler.
    #[arg(long, default_value = "50ms", value_name = "DURATION", value_parser = at_least_a_millisecond)]
    pub scheduler_deadline: GoDuration,
}

fn at_least_a_second(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_secs(1), text)
}

fn at_least_a_millisecond(text: &str) -> Result<GoDuration, String> {
    at_least(Duration::from_millis(1), text)
}

impl SchedulerArgs {
    /// The configuration, with the power models of the file.
    pub fn config(self) -> anyhow::Result<SchedulerConfig> {
        let Self {
            policy,
            profiles,
            power_models_file,
            memory_target_percent,
            network_target_percent,
            disk_target_percent,
            filter_cpu_percent,
            filter_memory_percent,
            load_max_age,
            scheduler_deadline,
        } = self;
        let target = |percent: u8| (percent > 0).then_some(i64::from(percent));
        let threshold = |percent: u8| (percent > 0).then_some(f64::from(percent));
        let power_models = power_models_file.map(|file| power_models(&file));
        Ok(SchedulerConfig {
            prioritizer: Prioritizer {
                policy,
                targets: PressureTargets {
                    memory_percent: target(memory_target_percent),
                    network_percent: target(network_target_percent),
                    disk_percent: target(disk_target_percent),
                },
            },
            profiles: read_profiles(&profiles)?,
            power_models: power_models.transpose()?.unwrap_or_default(),
            filter: LoadFilter {
                cpu_percent: threshold(filter_cpu_percent),
                memory_percent: threshold(filter_memory_percent),
                ..LoadFilter::default()
            },
            max_age: SignedDuration::try_from(load_max_age.0).context("--load-max-age")?,
            min_coverage_percent: MIN_COVERAGE_PERCENT,
            max_score: MAX_SCORE,
            limits: Limits {
                deadline: scheduler_deadline.into(),
                body_bytes: MAX_BODY_BYTES,
                requests: MAX_REQUESTS,
            },
        })
    }
}

fn read_profiles(written: &[String]) -> anyhow::Result<BTreeMap<String, Policy>> {
    ensure!(
        written.len() <= MAX_PROFILES,
        "--profile: at most {MAX_PROFILES} profiles"
    );
    let mut profiles = BTreeMap::new();
    for text in written {
        let pair = text.split_once('=');
        let (name, policy) =
            pair.with_context(|| format!("--profile {text:?}: not NAME=POLICY"))?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ensure!(
            (1..=MAX_PROFILE_BYTES).contains(&name.len()) && name.bytes().all(is_plain),
            "--profile {text:?}: a name has 1 to {MAX_PROFILE_BYTES} letters, digits, '-', '_' or '.'"
        );
        let policy = policy
            .parse()
            .with_context(|| format!("--profile {text:?}"))?;
        if profiles.insert(name.to_owned(), policy).is_some() {
            bail!("--profile {text:?}: {name} is given twice");
        }
    }
    Ok(profiles)
}

fn power_models(file: &Path) -> anyhow::Result<BTreeMap<String, PowerModel>> {
    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Written {
        k0: f64,
        k1: f64,
        k2: f64,
    }
    let read = || {
        let text = std::fs::read(file)?;
        let models: BTreeMap<String, Written> = serde_json::from_slice(&text)?;
        anyhow::Ok(models)
    };
    let models = read().with_context(|| format!("--power-models-file {}", file.display()))?;
    let model = |(node, Written { k0, k1, k2 })| (node, PowerModel { k0, k1, k2 });
    Ok(models.into_iter().map(model).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    const PROGRAM: runtime::Program = runtime::Program {
        name: "extender",
        version: "",
        defaults: &[],
    };

    #[derive(Debug, Clone, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: SchedulerArgs,
    }

    fn config(line: &str) -> Result<SchedulerConfig, String> {
        let line = PROGRAM.parse_line::<Line>(line)?;
        line.args.config().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_filter_is_off_by_default() {
        let config = config("").expect("defaults");
        assert!(config.filter.is_off() && config.profiles.is_empty());
        assert_eq!(config.limits.deadline, Duration::from_millis(50));
        assert_eq!(config.prioritizer.policy.name(), "TargetLoadPacking");
    }

    #[test]
    fn policies_are_read_by_profile() {
        let line = "--policy=Peaks --profile=web=TargetLoadPacking(targetUtilization=60) \
            --profile batch=LowRiskOverCommitment --filter-cpu-percent=80 --memory-target-percent=70";
        let config = config(line).expect("valid flags");
        let names: Vec<_> = config
            .profiles
            .iter()
            .map(|(name, policy)| (&**name, policy.name()))
            .collect();
        let expected = [
            ("batch", "LowRiskOverCommitment"),
            ("web", "TargetLoadPacking"),
        ];
        assert_eq!(names, expected);
        assert_eq!(config.filter.cpu_percent, Some(80.0));
        assert_eq!(config.prioritizer.targets.memory_percent, Some(70));
    }

    #[test]
    fn invalid_flags_are_named() {
        for (line, expected) in [
            ("--policy=Least", "--policy <POLICY>"),
            ("--profile=web", "--profile \"web\": not NAME=POLICY"),
            ("--profile=a/b=Peaks", "a name has 1 to 63"),
            ("--profile=a=Peaks --profile=a=Peaks", "a is given twice"),
            ("--profile=a=Least", "\"Least\" is not TargetLoadPacking"),
            ("--filter-cpu-percent=101", "--filter-cpu-percent"),
            ("--scheduler-deadline=0s", "must be at least 1ms"),
            (
                "--power-models-file=/nothing",
                "--power-models-file /nothing",
            ),
        ] {
            let error = config(line).expect_err(line);
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn power_models_are_read_from_a_file() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(br#"{"n1": {"k0": 400, "k1": -300, "k2": -0.05}}"#)
            .expect("it is written");
        let line = format!("--power-models-file={}", file.path().display());
        let models = config(&line).expect("valid").power_models;
        assert_eq!(models.keys().collect::<Vec<_>>(), ["n1"]);
        file.write_all(b",").expect("it is written");
        config(&line).expect_err("malformed");
    }
}
