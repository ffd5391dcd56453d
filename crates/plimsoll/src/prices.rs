//! Prices of CPU and memory.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Deserialize;

/// Hours of a month: 365 x 24 / 12.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;

/// Settings of costs.
#[derive(Clone, Debug, Args)]
pub(crate) struct PriceArgs {
    /// YAML file with `currency`, `cpuCoreHour` and `memoryGibHour`. Without it, the default prices
    /// of `OpenCost` count: 0.031611 USD per core and hour, 0.004237 USD per GiB and hour.
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Prices {
    #[serde(default = "usd")]
    pub(crate) currency: String,
    pub(crate) cpu_core_hour: f64,
    pub(crate) memory_gib_hour: f64,
}

impl Default for Prices {
    /// The defaults of `OpenCost` (`configs/default.json`).
    fn default() -> Self {
        Self {
            currency: usd(),
            cpu_core_hour: 0.031_611,
            memory_gib_hour: 0.004_237,
        }
    }
}

fn usd() -> String {
    "USD".to_owned()
}

impl Prices {
    /// The prices behind savings, in a sentence.
    pub(crate) fn note(&self) -> String {
        format!(
            "Savings in {} per month at {} per core and hour and {} per GiB and hour, for the pods of the last hour.",
            self.currency, self.cpu_core_hour, self.memory_gib_hour
        )
    }

    /// Reads the file of the flag, if there is one.
    pub(crate) fn read(args: &PriceArgs) -> anyhow::Result<Self> {
        let Some(path) = &args.prices else {
            return Ok(Self::default());
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --prices={}", path.display()))?;
        Self::parse(&text).with_context(|| format!("--prices={}", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let prices: Self = serde_yaml_ng::from_str(text)?;
        for (name, price) in [
            ("cpuCoreHour", prices.cpu_core_hour),
            ("memoryGibHour", prices.memory_gib_hour),
        ] {
            ensure!(
                price.is_finite() && price >= 0.0,
                "{name} must be a number of at least 0"
            );
        }
        Ok(prices)
    }

    /// Price of an amount for a month. `millicores` and `mib` may be negative.
    pub(crate) fn month(&self, millicores: f64, mib: f64) -> f64 {
        let cpu = millicores / 1000.0 * self.cpu_core_hour;
        let memory = mib / 1024.0 * self.memory_gib_hour;
        HOURS_PER_MONTH * (cpu + memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_has_730_hours() {
        let prices = Prices::parse("{cpuCoreHour: 1, memoryGibHour: 0.5, currency: EUR}");
        let prices = prices.expect("prices");
        assert!((prices.month(2000.0, 1024.0) - 730.0 * 2.5).abs() < 1e-9);
        assert_eq!(prices.currency, "EUR");
    }

    #[test]
    fn other_prices_are_refused_by_name() {
        let check = |text, expected: &str| {
            let error = Prices::parse(text).expect_err("an error").to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("{cpuCoreHour: 1}", "memoryGibHour");
        check("{cpuCoreHour: -1, memoryGibHour: 1}", "cpuCoreHour");
        check("{cpuCoreHour: .nan, memoryGibHour: 1}", "cpuCoreHour");
        check("{cpuCoreHour: 1, memoryGibHour: 1, gpu: 3}", "gpu");
    }
}
