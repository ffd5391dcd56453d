//! The settings of `--config`: scores, filter, the load of nodes, and the REST API with it.
//!
//! One that is absent has its default of `defaults.yaml`. Fields that Trimaran has are named as
//! there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use jiff::SignedDuration;
use placement::peaks::PowerModel;
use placement::{LoadFilter, Policy, PressureTargets, Prioritizer};
use runtime::config_file::{from_text, parsed_by};
use runtime::duration::at_least;
use runtime::{GoDuration, ListenAddress};
use serde::{Deserialize, Deserializer};
use sources::prometheus::{PrometheusClient, is_label_name};

use crate::load_watcher::{LoadQueries, LoadWatcherConfig, PrometheusConfig, Provider};
use crate::scheduler::SchedulerConfig;

pub(crate) const DEFAULTS: &str = include_str!("defaults.yaml");

const MAX_PROFILES: usize = 64;
const MAX_PROFILE_BYTES: usize = 63;
/// Maximum interval between two collections. The shortest window then still has several samples.
const MAX_INTERVAL: GoDuration = GoDuration(Duration::from_mins(2));
/// Below this share of nodes with metrics, in percent, most of the scores would not be by load.
const MIN_COVERAGE_PERCENT: usize = 50;
/// Score of the best node that kube-scheduler documents.
const MAX_SCORE: i64 = 10;
/// Requests with full nodes (nodeCacheCapable false) have about 10 KiB per node.
const MAX_BODY_BYTES: usize = 16 << 20;
/// Requests at a time; others wait until the deadline. kube-scheduler sends one at a time for each
/// profile.
const MAX_REQUESTS: usize = 8;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    /// Policy of /prioritize, with parameters of Trimaran's plugin such as
    /// `TargetLoadPacking(targetUtilization=60)`, or name and args of its item of `pluginConfig`.
    policy: Policy,
    /// Policies of /profiles/NAME/prioritize, at most 64. A name has 1 to 63 letters, digits, `-`,
    /// `_` or `.`.
    profiles: BTreeMap<String, Policy>,
    /// Power models by node, for `Peaks`, whose argument upstream writes with a capital letter.
    #[serde(default, alias = "NodePowerModel")]
    node_power_model: BTreeMap<String, PowerModel>,
    /// Utilizations above which a node's score is lowered.
    targets: PressureTargets,
    /// Utilizations with the pod above which /filter removes a node.
    filter: LoadFilter,
    /// Age of the newest node metrics above which scores are by allocation and no node is removed,
    /// at least 1s.
    #[serde(deserialize_with = "at_least_a_second")]
    max_load_age: GoDuration,
    /// Time after which all nodes get equal scores, at least 1ms. Less than httpTimeout of
    /// kube-scheduler.
    #[serde(deserialize_with = "at_least_a_millisecond")]
    deadline: GoDuration,
    load: Load,
    prometheus: PrometheusClient,
    pub(crate) load_watcher: LoadWatcher,
    /// CAs (PEM) of kube-scheduler's client certificate. With them, connections without a certificate
    /// of one of them are refused.
    pub(crate) scheduler_client_ca_file: Option<PathBuf>,
}

/// REST API of load-watcher.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadWatcher {
    /// Plain HTTP without authentication. `:2020` listens on all interfaces.
    #[serde(deserialize_with = "from_text")]
    pub(crate) address: ListenAddress,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Load {
    metric_provider: MetricProvider,
    /// Interval between two collections, 1s to 2m.
    #[serde(deserialize_with = "at_least_a_second")]
    interval: GoDuration,
    /// Number of equal values of a node, in one collection after the other, from which on they
    /// count as frozen and are left out. 0 means never.
    frozen_after: u32,
    /// Folder for the cache of the measured load, one file per replica, which is read after a
    /// restart. A relative one is in the working directory. Empty: no cache.
    cache_folder: PathBuf,
}

/// Source of the load.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MetricProvider {
    #[serde(rename = "type")]
    provider: Provider,
    /// Labels that identify the node of a series of Prometheus, in order of preference. The value
    /// is the name or an address of the node, with or without a port.
    node_labels: Vec<String>,
    queries: LoadQueries,
}

fn at_least_a_second<'de, D: Deserializer<'de>>(text: D) -> Result<GoDuration, D::Error> {
    parsed_by(|text| at_least(Duration::from_secs(1), text), text)
}

fn at_least_a_millisecond<'de, D: Deserializer<'de>>(text: D) -> Result<GoDuration, D::Error> {
    parsed_by(|text| at_least(Duration::from_millis(1), text), text)
}

impl Config {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.profiles.len() <= MAX_PROFILES,
            "profiles: at most {MAX_PROFILES} profiles"
        );
        for name in self.profiles.keys() {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            ensure!(
                (1..=MAX_PROFILE_BYTES).contains(&name.len()) && name.bytes().all(is_plain),
                "profiles: {name:?}: a name has 1 to {MAX_PROFILE_BYTES} letters, digits, '-', '_' or '.'"
            );
        }
        ensure!(
            self.load.interval <= MAX_INTERVAL,
            "load.interval: must be at most {MAX_INTERVAL}"
        );
        let source = &self.load.metric_provider;
        let labels = &source.node_labels;
        ensure!(
            !labels.is_empty() && labels.iter().all(|label| is_label_name(label)),
            "load.metricProvider.nodeLabels: must be names of labels, not {labels:?}"
        );
        ensure!(
            !source.queries.cpu.is_empty(),
            "load.metricProvider.queries.cpu: must not be empty"
        );
        Ok(())
    }

    pub(crate) fn scheduler(&self) -> SchedulerConfig {
        SchedulerConfig {
            prioritizer: Prioritizer {
                policy: self.policy,
                targets: self.targets,
            },
            profiles: self.profiles.clone(),
            power_models: self.node_power_model.clone(),
            filter: self.filter,
            max_age: SignedDuration::try_from(self.max_load_age.0).unwrap_or(SignedDuration::MAX),
            min_coverage_percent: MIN_COVERAGE_PERCENT,
            max_score: MAX_SCORE,
            deadline: self.deadline.0,
            max_body_bytes: MAX_BODY_BYTES,
            max_requests: MAX_REQUESTS,
        }
    }

    /// The configuration of the load watcher. The connection to Prometheus is checked if it is the
    /// source.
    pub(crate) fn load_watcher(self) -> anyhow::Result<LoadWatcherConfig> {
        let load = self.load;
        let source = load.metric_provider;
        let prometheus = match source.provider {
            Provider::KubernetesMetricsServer => None,
            Provider::Prometheus => Some(PrometheusConfig {
                connection: self.prometheus.connection()?,
                queries: source.queries,
                node_labels: source.node_labels,
            }),
        };
        Ok(LoadWatcherConfig {
            prometheus,
            interval: load.interval.0,
            frozen_after: match load.frozen_after {
                0 => u32::MAX,
                count => count,
            },
            cache_folder: Some(load.cache_folder).filter(|folder| !folder.as_os_str().is_empty()),
        })
    }
}

#[cfg(test)]
mod tests {
    use runtime::config_file;

    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        let config: anyhow::Result<Config> = config_file::parse(&[DEFAULTS, text]);
        let checked = config.and_then(|config| config.check().map(|()| config));
        checked.map_err(|error| format!("{error:#}"))
    }

    fn load(text: &str) -> Result<LoadWatcherConfig, String> {
        let load = parse(text)?.load_watcher();
        load.map_err(|error| format!("{error:#}"))
    }

    /// The first block of YAML below a heading of the documentation.
    fn documented() -> &'static str {
        let page = include_str!("../../../docs/placement.md");
        let section = page.split("\n## Configuration\n").nth(1);
        let block = section.and_then(|section| section.split("```").nth(1));
        let block = block.and_then(|block| block.strip_prefix("yaml\n"));
        block.expect("a block of YAML")
    }

    #[test]
    fn the_documented_file_has_all_defaults() {
        let defaults = format!("{:?}", parse("").expect("the defaults"));
        for text in ["{}", "load: {}", documented()] {
            assert_eq!(format!("{:?}", parse(text).expect(text)), defaults);
        }
    }

    #[test]
    fn the_filter_is_off_by_default() {
        let config = parse("").expect("the defaults").scheduler();
        assert!(config.filter.is_off() && config.profiles.is_empty());
        assert_eq!(config.deadline, Duration::from_millis(50));
        assert_eq!(config.prioritizer.policy.name(), "TargetLoadPacking");
    }

    #[test]
    fn policies_are_read_by_profile() {
        let text = "policy: Peaks
profiles:
  web: TargetLoadPacking(targetUtilization=60)
  batch: LowRiskOverCommitment
nodePowerModel: {n1: {k0: 400, k1: -300, k2: -0.05}}
targets: {memoryPercent: 70, diskPercent: 0}
filter: {cpuPercent: 80}";
        let config = parse(text).expect("a valid file").scheduler();
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
        assert_eq!(config.prioritizer.policy.name(), "Peaks");
        assert_eq!(config.power_models.keys().collect::<Vec<_>>(), ["n1"]);
        assert_eq!(config.filter.cpu_percent, Some(80.0));
        assert_eq!(config.prioritizer.targets.memory_percent, Some(70));
        assert_eq!(config.prioritizer.targets.disk_percent, None);
    }

    #[test]
    fn a_policy_is_also_an_item_of_the_plugin_configuration() {
        for (written, same) in [
            (
                "{name: TargetLoadPacking, args: {targetUtilization: 70, defaultRequests: {cpu: 2000m}, \
                 defaultRequestsMultiplier: '2'}}",
                "TargetLoadPacking(targetUtilization=70,defaultRequests.cpu=2,defaultRequestsMultiplier=2)",
            ),
            (
                "{name: LowRiskOverCommitment, args: {riskLimitWeights: {cpu: 0.25, memory: 1}}}",
                "LowRiskOverCommitment(riskLimitWeights.cpu=0.25,riskLimitWeights.memory=1)",
            ),
            ("{name: Peaks}", "Peaks"),
        ] {
            let policy = |text: &str| {
                let config = parse(&format!("policy: {text}\nNodePowerModel: {{}}"));
                config.expect(text).scheduler().prioritizer.policy
            };
            assert_eq!(policy(written), policy(same), "{written}");
        }
    }

    #[test]
    fn invalid_fields_are_named() {
        for (text, expected) in [
            ("policies: {}", "policies: unknown field"),
            (
                "policy: Least",
                "policy: \"Least\" is not TargetLoadPacking",
            ),
            (
                "policy: {name: Peaks, args: {watcherAddress: a}}",
                "policy: the policy has no parameter \"watcherAddress\"",
            ),
            ("policy: {name: Peaks, kind: a}", "unknown field `kind`"),
            ("policy: 7", "a policy, or the name and args of a plugin"),
            ("profiles: [web]", "profiles: invalid type: sequence"),
            (
                "profiles: {a/b: Peaks}",
                "profiles: \"a/b\": a name has 1 to 63",
            ),
            (
                "profiles: {a: Peaks, a: Peaks}",
                "duplicate entry with key \"a\"",
            ),
            ("profiles: {a: Least}", "profiles.a: \"Least\" is not"),
            (
                "nodePowerModel: {n1: {k0: 1, k1: 1}}",
                "nodePowerModel.n1: missing field `k2`",
            ),
            (
                "filter: {cpuPercent: 101}",
                "filter.cpuPercent: must be 0 to 100",
            ),
            (
                "targets: {diskPercent: -1}",
                "targets.diskPercent: invalid value",
            ),
            ("maxLoadAge: 0.5s", "maxLoadAge: must be at least 1s"),
            ("deadline: 0s", "deadline: must be at least 1ms"),
            ("deadline: 50", "deadline: invalid type: integer"),
            (
                "load: {interval: 500ms}",
                "load.interval: must be at least 1s",
            ),
            (
                "load: {interval: 3m}",
                "load.interval: must be at most 2m0s",
            ),
            ("load: {frozenAfter: -1}", "load.frozenAfter: invalid value"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
        let profiles = (0..=MAX_PROFILES).map(|number| format!("p{number}: Peaks"));
        let profiles = profiles.collect::<Vec<_>>().join(", ");
        let error = parse(&format!("profiles: {{{profiles}}}")).expect_err("too many");
        assert_eq!(error, "profiles: at most 64 profiles");
    }

    #[test]
    fn the_source_of_the_load_is_checked() {
        for (source, expected) in [
            ("", Ok(())),
            (
                "nodeLabels: [in-valid]",
                Err("nodeLabels: must be names of labels, not [\"in-valid\"]"),
            ),
            (
                "nodeLabels: []",
                Err("load.metricProvider.nodeLabels: must be names of labels, not []"),
            ),
            (
                "queries: {cpu: ''}",
                Err("load.metricProvider.queries.cpu: must not be empty"),
            ),
            ("queries: {disk: '', network: ''}", Ok(())),
            (
                "queries: {gpu: a}",
                Err("load.metricProvider.queries.gpu: unknown field"),
            ),
        ] {
            let text = format!("load: {{metricProvider: {{type: Prometheus, {source}}}}}");
            match (load(&text), expected) {
                (Ok(config), Ok(())) => assert!(config.prometheus.is_some(), "{text}"),
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        let error = load("load: {metricProvider: {type: InfluxDB}}").expect_err("unknown");
        assert!(
            error.starts_with("load.metricProvider.type: unknown variant `InfluxDB`"),
            "{error}"
        );
        let wrong = "prometheus: {address: 'prometheus:9090'}";
        assert!(load(wrong).expect("another source").prometheus.is_none());
        let used = format!("{wrong}\nload: {{metricProvider: {{type: Prometheus}}}}");
        let error = load(&used).expect_err("no scheme");
        assert!(error.starts_with("prometheus.address: "), "{error}");
    }

    #[test]
    fn the_api_of_load_watcher_is_on_loopback_by_default() {
        let address = |text: &str| parse(text).map(|it| it.load_watcher.address.to_string());
        assert_eq!(address("").as_deref(), Ok("127.0.0.1:2020"));
        let text = include_str!("../../../deploy/components/extender/config.yaml");
        assert_eq!(address(text).as_deref(), Ok(":2020"));
        let error = address("loadWatcher: {address: '2020'}").expect_err("no port");
        assert!(
            error.starts_with("loadWatcher.address: missing port"),
            "{error}"
        );
    }

    #[test]
    fn the_installed_file_has_a_cache() {
        let installed = include_str!("../../../deploy/components/extender/config.yaml");
        let config = load(installed).expect("a valid file");
        assert_eq!(config.cache_folder, Some(".".into()));
        assert!(config.prometheus.is_none());
        assert_eq!(
            load("load: {frozenAfter: 0}").expect("valid").frozen_after,
            u32::MAX
        );
        assert_eq!(load("").expect("valid").cache_folder, None);
    }
}
