//! Flags of predictions, under Crane's names where it has them.

use std::str::FromStr;

use clap::Args;
use runtime::GoDuration;
use runtime::duration::positive_duration;

/// Reading, forecasting and writing of predicted metrics.
#[derive(Debug, Clone, Args)]
pub struct PredictionArgs {
    /// Source of the history of predicted metrics: prom (Prometheus, see --prometheus-address) or
    /// metricserver (pod usage measured while this program runs). Empty: prom with
    /// --storage=prometheus, else metricserver.
    #[arg(long, default_value = "", value_name = "SOURCE")]
    pub datasource: DataSource,
    /// Interval of checks of all predictions, with or without new forecasts.
    #[arg(long, default_value = "30s", value_name = "DURATION", value_parser = positive_duration)]
    pub prediction_update_frequency_duration: GoDuration,
    /// Interval of fits of Crane's DSP predictor to all samples.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub model_update_interval: GoDuration,
    /// Maximum number of concurrent Prometheus queries for predicted metrics. One namespace uses at
    /// most half of them.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), value_name = "COUNT")]
    pub prometheus_query_concurrency: u16,
}

/// Source of the history of predicted metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DataSource {
    /// Prometheus if the history of usage is there.
    #[default]
    LikeStorage,
    /// Prometheus, or a compatible store.
    Prometheus,
    Usage,
}

impl FromStr for DataSource {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, &'static str> {
        match name {
            "" => Ok(Self::LikeStorage),
            "prom" => Ok(Self::Prometheus),
            "metricserver" => Ok(Self::Usage),
            _ => Err("expected prom or metricserver"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PredictionArgs,
    }

    fn parse(line: &str) -> Result<PredictionArgs, clap::Error> {
        let words = std::iter::once("recommender").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args)
    }

    #[test]
    fn flags_have_cranes_names_and_defaults() {
        for (line, source, refit) in [
            ("", DataSource::LikeStorage, "12h0m0s"),
            ("--datasource=prom", DataSource::Prometheus, "12h0m0s"),
            (
                "--datasource=metricserver --model-update-interval=1h",
                DataSource::Usage,
                "1h0m0s",
            ),
        ] {
            let args = parse(line).expect(line);
            let found = (args.datasource, args.model_update_interval.to_string());
            assert_eq!(found, (source, refit.to_owned()), "{line}");
        }
        assert!(parse("--datasource=grpc").is_err());
    }
}
