//! The file of `--config`, in YAML: rebalancing. A field that the file lacks has its default.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use placement::HotNodeConfig;
use rollout::RebalancingSettings;
use runtime::GoDuration;
use runtime::config_file::{self, parsed_by};
use runtime::duration::positive_duration;
use serde::{Deserialize, Deserializer};
use sources::prometheus::Connection;

/// A hot node stays hot down to so much less utilization, in percent, and a move leaves its target
/// below that: else pods would be moved back and forth.
const COOL_BELOW_HOT: f64 = 15.0;
/// Most moves in a minute. The rate limits of evictions apply too.
const MOVES_PER_MINUTE: usize = 5;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Without it no pod is moved.
    rebalancing: Option<Rebalancing>,
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
    #[serde(deserialize_with = "hot_for")]
    hot_for: GoDuration,
    /// Nodes whose utilization and requests are below this percentage are emptied if all their pods
    /// fit elsewhere, while no node is hot. 0 empties no node.
    fragmented_percent: f64,
}

impl Default for Rebalancing {
    fn default() -> Self {
        Self {
            load_watcher_address: String::new(),
            hot_percent: 80.0,
            hot_for: GoDuration(Duration::from_mins(5)),
            fragmented_percent: 0.0,
        }
    }
}

fn hot_for<'de, D: Deserializer<'de>>(text: D) -> Result<GoDuration, D::Error> {
    parsed_by(positive_duration, text)
}

/// The load-watcher and the settings of rebalancing.
type LoadWatcher = (Connection, RebalancingSettings);

/// Reads a file; `None` without rebalancing. Errors name the file and the field.
pub(crate) fn read(file: &str) -> anyhow::Result<Option<LoadWatcher>> {
    config_file::read(file, parse)
}

fn parse(text: &str) -> anyhow::Result<Option<LoadWatcher>> {
    let config: Config = config_file::parse(text)?;
    let settings = config.rebalancing.map(Rebalancing::settings);
    settings.transpose().context("rebalancing")
}

impl Rebalancing {
    fn settings(self) -> anyhow::Result<LoadWatcher> {
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
            moves_per_minute: MOVES_PER_MINUTE,
        };
        Ok((connection, settings))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings with these fields of rebalancing.
    fn settings(fields: &str) -> Result<Option<LoadWatcher>, String> {
        let text = format!("rebalancing: {{{fields}}}");
        parse(&text).map_err(|error| format!("{error:#}"))
    }

    const ADDRESS: &str = "loadWatcherAddress: 'http://load-watcher:2020'";

    fn check(fields: &str, change: impl FnOnce(&mut RebalancingSettings)) {
        let mut expected = RebalancingSettings {
            hot_nodes: HotNodeConfig::default(),
            fragmented_percent: 0.0,
            moves_per_minute: 5,
        };
        change(&mut expected);
        let found = settings(&format!("{ADDRESS}, {fields}")).expect(fields);
        let (connection, found) = found.expect("an address");
        assert_eq!(connection.address, "http://load-watcher:2020");
        assert_eq!(found, expected, "{fields}");
    }

    #[test]
    fn each_field_reaches_its_setting() {
        check("", |_| ());
        check("hotPercent: 90", |it| {
            it.hot_nodes.hot_percent = 90.0;
            it.hot_nodes.cool_percent = 75.0;
        });
        check("hotFor: 30s", |it| {
            it.hot_nodes.after = Duration::from_secs(30).try_into().expect("short");
        });
        check("fragmentedPercent: 20", |it| {
            it.fragmented_percent = 20.0;
        });
    }

    #[test]
    fn without_a_load_watcher_nothing_is_moved_and_invalid_values_are_refused() {
        assert!(read("").expect("no file").is_none());
        assert!(parse("{}").expect("defaults").is_none());
        for (fields, expected) in [
            ("", "rebalancing: loadWatcherAddress: "),
            (
                "loadWatcherAddress: 'load-watcher:2020'",
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
            ("hot: 80", "rebalancing.hot: unknown field"),
        ] {
            let error = settings(fields).expect_err(fields);
            assert!(error.contains(expected), "{fields}: {error}");
        }
    }

    #[test]
    fn the_component_moves_pods_by_the_load_of_the_extender() {
        let text = include_str!("../../../deploy/components/rebalancing/config.yaml");
        let (connection, _) = parse(text).expect("valid").expect("rebalancing");
        assert!(connection.address.starts_with("http://plimsoll-extender."));
    }
}
