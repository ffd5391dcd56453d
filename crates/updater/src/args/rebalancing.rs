//! Flags of rebalancing.

use anyhow::{Context as _, ensure};
use placement::HotNodeConfig;
use rollout::RebalancingSettings;
use runtime::GoDuration;
use runtime::duration::positive_duration;
use sources::prometheus::Connection;

/// A hot node stays hot down to so much less utilization, in percent, and a move leaves its target
/// below that: else pods would be moved back and forth.
const COOL_BELOW_HOT: f64 = 15.0;
/// Most moves in a minute. The rate limits of evictions apply too.
const MOVES_PER_MINUTE: usize = 5;

/// Flags of rebalancing.
#[derive(Debug, Clone, clap::Args)]
pub struct RebalancingArgs {
    /// Address of a load-watcher, which turns on rebalancing: pods with the annotation
    /// `plimsoll.dev/rebalance: "true"` are evicted from hot nodes. The address starts with http:// or
    /// https://. Empty means no rebalancing.
    #[arg(long, default_value = "", value_name = "URL")]
    pub load_watcher_address: String,
    /// A node is hot above this utilization of CPU or memory, in percent.
    #[arg(long, default_value_t = 80.0, value_parser = percent, value_name = "PERCENT")]
    pub rebalance_hot_percent: f64,
    /// Time above --rebalance-hot-percent after which a node is hot.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub rebalance_hot_for: GoDuration,
    /// Nodes whose utilization and requests are below this percentage are emptied if all their pods
    /// fit elsewhere, while no node is hot. 0 empties no node.
    #[arg(long, default_value_t = 0.0, value_parser = percent, value_name = "PERCENT")]
    pub rebalance_fragmented_percent: f64,
}

impl RebalancingArgs {
    /// The load-watcher and the settings; `None` without rebalancing. An error for an invalid
    /// address, or thresholds in the wrong order.
    pub fn settings(self) -> anyhow::Result<Option<(Connection, RebalancingSettings)>> {
        let cool_percent = (self.rebalance_hot_percent - COOL_BELOW_HOT).max(0.0);
        ensure!(
            self.rebalance_fragmented_percent < cool_percent,
            "--rebalance-fragmented-percent must be more than {COOL_BELOW_HOT} below --rebalance-hot-percent"
        );
        if self.load_watcher_address.is_empty() {
            return Ok(None);
        }
        let connection = Connection {
            address: self.load_watcher_address,
            ..Connection::default()
        };
        let checked = connection.check();
        checked
            .map_err(|error| anyhow::anyhow!(sources::error_chain::with_causes(&error)))
            .context("--load-watcher-address")?;
        let settings = RebalancingSettings {
            hot_nodes: HotNodeConfig {
                hot_percent: self.rebalance_hot_percent,
                cool_percent,
                after: (self.rebalance_hot_for.0.try_into()).context("--rebalance-hot-for")?,
            },
            fragmented_percent: self.rebalance_fragmented_percent,
            moves_per_minute: MOVES_PER_MINUTE,
        };
        Ok(Some((connection, settings)))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    super::at_most(100.0, text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::tests::parse;
    use super::*;

    fn settings(line: &str) -> anyhow::Result<Option<(Connection, RebalancingSettings)>> {
        let args = parse(line).map_err(|error| anyhow::anyhow!(error))?;
        args.rebalancing.settings()
    }

    const ADDRESS: &str = "--load-watcher-address=http://load-watcher:2020";

    fn check(flags: &str, change: impl FnOnce(&mut RebalancingSettings)) {
        let mut expected = RebalancingSettings {
            hot_nodes: HotNodeConfig::default(),
            fragmented_percent: 0.0,
            moves_per_minute: 5,
        };
        change(&mut expected);
        let found = settings(&format!("{ADDRESS} {flags}")).expect(flags);
        let (connection, found) = found.expect("an address");
        assert_eq!(connection.address, "http://load-watcher:2020");
        assert_eq!(found, expected, "{flags}");
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        check("", |_| ());
        check("--rebalance-hot-percent=90", |it| {
            it.hot_nodes.hot_percent = 90.0;
            it.hot_nodes.cool_percent = 75.0;
        });
        check("--rebalance-hot-for=30s", |it| {
            it.hot_nodes.after = Duration::from_secs(30).try_into().expect("short");
        });
        check("--rebalance-fragmented-percent=20", |it| {
            it.fragmented_percent = 20.0;
        });
    }

    #[test]
    fn without_an_address_nothing_is_moved_and_invalid_values_are_refused() {
        assert!(settings("").expect("defaults").is_none());
        for line in [
            "--load-watcher-address=load-watcher:2020",
            "--rebalance-hot-percent=101",
            "--rebalance-hot-percent=NaN",
            "--rebalance-hot-percent=10",
            "--rebalance-hot-for=0s",
            "--rebalance-fragmented-percent=65",
        ] {
            assert!(settings(line).is_err(), "{line}");
        }
    }
}
