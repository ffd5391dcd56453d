//! The settings of `--config`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use placement::{HotNodeConfig, Policy, TargetLoadPacking};
use rollout::{PreemptionMode, RebalancingSettings, Settings, WaveSettings};
use runtime::config_file::{from_text, interval};
use runtime::{GoDuration, OtherAutoscalers};
use serde::Deserialize;
use serving::FeedReader;
use sources::prometheus::{Connection, PrometheusClient};

use crate::control_loop::HealthSource;

/// A hot node stays hot down to so much less utilization, in percent, and a move leaves its target
/// below that: else pods would be moved back and forth.
const COOL_BELOW_HOT: f64 = 15.0;
/// Most moves in a minute. The rate limits of evictions apply too.
const MOVES_PER_MINUTE: usize = 5;

pub(crate) const DEFAULTS: &str = include_str!("defaults.yaml");

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Config {
    /// Delay of updates after a change of the VPA object, or of a `LimitRange`, `ResourceQuota` or
    /// `PodDisruptionBudget` of its namespace, so that a manifest is applied completely. Consecutive
    /// changes delay updates by at most six times as much. Updates after OOM kills, and the end of
    /// startup boosts, are not delayed. 0s disables it.
    #[serde(deserialize_with = "from_text")]
    settling_time: GoDuration,
    /// Whether the pods that are evicted or restarted for their size in a minute are limited: at first
    /// 1 % of those in the namespace (at least 5) and in the cluster (at least 20), twice as many after
    /// each minute in which new pods are well. And whether new requests go to one pod of a workload first, in
    /// waves. Pods that are OOM killed never wait.
    eviction_pace: bool,
    waves: Waves,
    /// Preemption for resizes that the kubelet deferred: evict less important pods of the node, or the
    /// pod itself.
    make_room: PreemptionMode,
    /// Whether Deployments may get rolling updates in place of evictions, for VPA objects with the
    /// annotation `plimsoll.dev/replacement: RollingUpdate`. Needs the permissions to get and patch
    /// Deployments.
    rolling_updates: bool,
    pub(crate) other_autoscalers: OtherAutoscalers,
    pub(crate) feed: FeedReader,
    /// Without it no pod is moved.
    rebalancing: Option<Rebalancing>,
}

/// Waves of new requests.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Waves {
    /// Time after which a pod that is well with new requests lets others follow, 10s to 5m. At least four
    /// intervals between two scrapes, if there is a Prometheus.
    #[serde(deserialize_with = "from_text")]
    proven_after: GoDuration,
    /// Prometheus with the metrics of the kubelet and those of the queries in annotations
    /// `plimsoll.dev/wave-query`. Without it, pods are judged by what their status says.
    prometheus: Option<PrometheusClient>,
}

/// Moves of pods with the annotation `plimsoll.dev/rebalance: "true"`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Rebalancing {
    /// Address of a load-watcher, which starts with http:// or https://.
    load_watcher_address: String,
    /// A node is hot above this utilization of CPU or memory, in percent.
    hot_percent: f64,
    /// Time above `hotPercent` after which a node is hot, at least 100ms.
    #[serde(deserialize_with = "interval")]
    hot_for: GoDuration,
    /// Nodes whose utilization and requests are below this percentage are emptied if all their pods
    /// fit elsewhere, while no node is hot. 0 empties no node.
    fragmented_percent: f64,
    /// Policy of the extender, by which another node must be better. Not `Peaks`.
    policy: Policy,
}

impl Default for Rebalancing {
    fn default() -> Self {
        Self {
            load_watcher_address: String::new(),
            hot_percent: 80.0,
            hot_for: GoDuration(Duration::from_mins(5)),
            fragmented_percent: 0.0,
            policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
        }
    }
}

impl Config {
    /// Adds the settings to those of flags.
    pub(crate) fn settings(self, flags: &Settings) -> anyhow::Result<Configured> {
        let (waves, health) = self.waves.settings()?;
        let rebalancing = self.rebalancing.map(Rebalancing::settings).transpose();
        let (load_watcher, rebalancing) = rebalancing.context("rebalancing")?.unzip();
        let settings = Settings {
            settling_time: self.settling_time.0,
            paces_restarts: self.eviction_pace,
            waves: self.eviction_pace.then_some(waves),
            preemption: self.make_room,
            rolling_updates: self.rolling_updates,
            rebalancing,
            ..*flags
        };
        Ok(Configured {
            settings,
            load_watcher,
            health: health.filter(|_| self.eviction_pace),
        })
    }
}

/// The settings of decisions, and what they read.
pub(crate) struct Configured {
    pub(crate) settings: Settings,
    /// `None` if no pod is moved.
    pub(crate) load_watcher: Option<Connection>,
    pub(crate) health: Option<HealthSource>,
}

impl Waves {
    fn settings(self) -> anyhow::Result<(WaveSettings, Option<HealthSource>)> {
        let proven_after = self.proven_after.0;
        let (least, most) = (Duration::from_secs(10), Duration::from_mins(5));
        let is_in_range = (least..=most).contains(&proven_after);
        ensure!(is_in_range, "waves.provenAfter: must be from 10s to 5m");
        let connection = self
            .prometheus
            .map(PrometheusClient::connection)
            .transpose();
        let health = connection.context("waves")?.map(|connection| HealthSource {
            connection,
            range: proven_after,
        });
        let settings = WaveSettings {
            proven_after,
            reads_health: health.is_some(),
        };
        Ok((settings, health))
    }
}

impl Rebalancing {
    fn settings(self) -> anyhow::Result<(Connection, RebalancingSettings)> {
        for (name, percent) in [
            ("hotPercent", self.hot_percent),
            ("fragmentedPercent", self.fragmented_percent),
        ] {
            let is_percent = (0.0..=100.0).contains(&percent);
            ensure!(is_percent, "{name}: must be from 0 to 100");
        }
        let cool_percent = (self.hot_percent - COOL_BELOW_HOT).max(0.0);
        ensure!(
            self.fragmented_percent < cool_percent,
            "fragmentedPercent: must be more than {COOL_BELOW_HOT} below hotPercent"
        );
        ensure!(
            self.policy != Policy::Peaks,
            "policy: Peaks needs power models, which the updater does not have"
        );
        let connection = Connection {
            address: self.load_watcher_address,
            ..Connection::default()
        };
        connection.check().context("loadWatcherAddress")?;
        let settings = RebalancingSettings {
            hot_nodes: HotNodeConfig {
                hot_percent: self.hot_percent,
                cool_percent,
                after: self.hot_for.0.try_into().context("hotFor")?,
            },
            fragmented_percent: self.fragmented_percent,
            policy: self.policy,
            moves_per_minute: MOVES_PER_MINUTE,
        };
        Ok((connection, settings))
    }
}

#[cfg(test)]
mod tests {
    use runtime::config_file::parse;

    use super::*;

    fn configured(text: &str) -> Result<Configured, String> {
        let config = parse::<Config>(&[DEFAULTS, text]);
        let configured = config.and_then(|config| config.settings(&Settings::default()));
        configured.map_err(|error| format!("{error:#}"))
    }

    /// The load-watcher and the settings of this text.
    fn settings(text: &str) -> Result<(Option<String>, Settings), String> {
        let Configured {
            settings,
            load_watcher,
            ..
        } = configured(text)?;
        Ok((load_watcher.map(|it| it.address), settings))
    }

    fn check(text: &str, change: impl FnOnce(&mut Settings)) {
        let mut expected = Settings {
            paces_restarts: true,
            waves: Some(WaveSettings::default()),
            ..Settings::default()
        };
        change(&mut expected);
        assert_eq!(settings(text), Ok((None, expected)), "{text}");
    }

    const ADDRESS: &str = "loadWatcherAddress: 'http://load-watcher:2020'";

    fn check_rebalancing(fields: &str, change: impl FnOnce(&mut RebalancingSettings)) {
        let mut expected = RebalancingSettings {
            hot_nodes: HotNodeConfig::default(),
            fragmented_percent: 0.0,
            policy: Policy::TargetLoadPacking(TargetLoadPacking::default()),
            moves_per_minute: 5,
        };
        change(&mut expected);
        let text = format!("rebalancing: {{{ADDRESS}, {fields}}}");
        let (address, found) = settings(&text).expect(fields);
        assert_eq!(address.as_deref(), Some("http://load-watcher:2020"));
        assert_eq!(found.rebalancing, Some(expected), "{fields}");
    }

    #[test]
    fn each_field_reaches_its_setting() {
        check("", |_| ());
        check("settlingTime: 0s", |it| it.settling_time = Duration::ZERO);
        check("evictionPace: false", |it| {
            it.paces_restarts = false;
            it.waves = None;
        });
        check("waves: {provenAfter: 30s}", |it| {
            let waves = it.waves.get_or_insert_default();
            waves.proven_after = Duration::from_secs(30);
        });
        check("makeRoom: dry-run", |it| {
            it.preemption = PreemptionMode::DryRun;
        });
        check("makeRoom: on", |it| it.preemption = PreemptionMode::On);
        check("rollingUpdates: true", |it| it.rolling_updates = true);
        check_rebalancing("", |_| ());
        check_rebalancing("hotPercent: 90", |it| {
            it.hot_nodes.hot_percent = 90.0;
            it.hot_nodes.cool_percent = 75.0;
        });
        check_rebalancing("hotFor: 30s", |it| {
            it.hot_nodes.after = Duration::from_secs(30).try_into().expect("short");
        });
        check_rebalancing("policy: TargetLoadPacking(targetUtilization=60)", |it| {
            it.policy = Policy::TargetLoadPacking(TargetLoadPacking::with_target(Some(60)));
        });
        check_rebalancing("fragmentedPercent: 20", |it| {
            it.fragmented_percent = 20.0;
        });
    }

    #[test]
    fn the_health_of_pods_is_read_while_waves_are_on() {
        let check = |pace: bool, expected: Option<&str>| {
            let text = format!(
                "{{evictionPace: {pace}, waves: {{provenAfter: 2m, prometheus: {{address: 'http://p'}}}}}}"
            );
            let Configured {
                settings, health, ..
            } = configured(&text).expect("valid");
            assert_eq!(
                settings.waves.map(|it| it.reads_health),
                pace.then_some(true)
            );
            let health = health.map(|it| (it.connection.address, it.range));
            let expected = expected.map(|it| (it.to_owned(), Duration::from_mins(2)));
            assert_eq!(health, expected);
        };
        check(true, Some("http://p"));
        check(false, None);
    }

    #[test]
    fn invalid_values_are_refused() {
        for (fields, expected) in [
            ("settlingTime: -1s", "settlingTime: "),
            ("waves: {provenAfter: 9s}", "waves.provenAfter: must be"),
            (
                "waves: {prometheus: {address: p}}",
                "waves: prometheus.address: ",
            ),
            ("waves: {query: x}", "waves.query: unknown field"),
            ("makeRoom: yes", "makeRoom: unknown variant"),
            ("rebalancing: {}", "rebalancing: loadWatcherAddress: "),
            (
                "rebalancing: {loadWatcherAddress: 'load-watcher:2020'}",
                "rebalancing: loadWatcherAddress: ",
            ),
            ("hotPercent: 101", "rebalancing: hotPercent: must be from 0"),
            (
                "hotPercent: .nan",
                "rebalancing: hotPercent: must be from 0",
            ),
            ("hotPercent: 10", "fragmentedPercent: must be more than 15"),
            ("hotFor: 0s", "rebalancing.hotFor: must be at least 100ms"),
            ("fragmentedPercent: 65", "fragmentedPercent: must be more"),
            ("hot: 80", "hot: unknown field"),
            (
                "policy: Peaks",
                "rebalancing: policy: Peaks needs power models",
            ),
        ] {
            let nested = format!("rebalancing: {{{fields}}}");
            let is_nested = fields.starts_with(['h', 'f', 'p']);
            let text = if is_nested { &nested } else { fields };
            let error = settings(text).expect_err(text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_component_moves_pods_by_the_load_of_the_extender() {
        let text = include_str!("../../../deploy/components/rebalancing/kustomization.yaml");
        let (_, text) = text.split_once("'--config=").expect("settings");
        let (address, _) = settings(text.trim_end().trim_end_matches('\'')).expect("valid");
        let address = address.expect("rebalancing");
        assert!(address.starts_with("http://plimsoll-extender."));
    }
}
