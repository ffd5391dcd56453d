//! Flags of predictions, under Crane's names where it has them.

use std::str::FromStr;

use clap::Args;
use horizontal::predictions::{KnownRules, MemoryLimits, QueryAccess, QueryScope, ReadIntervals};
use model::Quantity;
use runtime::GoDuration;
use runtime::duration::positive_duration;
use sources::prometheus::{NameError, is_label_name};

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
    /// Interval of reading new samples from Prometheus, and of forecasts.
    #[arg(long, default_value = "5m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub prediction_read_interval: GoDuration,
    /// Interval of fits of Crane's DSP predictor to all samples.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub model_update_interval: GoDuration,
    /// Maximum number of concurrent Prometheus queries for predicted metrics. One namespace uses at
    /// most half of them.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..), value_name = "COUNT")]
    pub prometheus_query_concurrency: u16,
    /// Maximum memory for histories and forecasts of all namespaces. When it is reached, the
    /// namespaces that use the most get less. One namespace has at most a quarter of it. A series
    /// takes about 100 KiB.
    #[arg(long, default_value = "256Mi", value_name = "QUANTITY")]
    pub prediction_memory_limit: Quantity,
    /// Series that queries of predictions may read: namespace (those of the namespace of the
    /// object) or cluster (all, and those of nodes). The namespace label
    /// plimsoll.dev/prediction-query-scope overrides this flag.
    #[arg(long, default_value = "namespace", value_name = "SCOPE")]
    pub prediction_query_scope: QueryScope,
    /// Label of series with their namespace. Queries that may read only one namespace get a matcher
    /// of it.
    #[arg(long, default_value = "namespace", value_name = "LABEL", value_parser = label_name)]
    pub prediction_namespace_label: String,
}

/// Source of the history of predicted metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DataSource {
    /// Prometheus if the history of usage is there.
    #[default]
    LikeStorage,
    /// Prometheus, or a compatible store.
    Prometheus,
    /// The source of usage.
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

fn label_name(text: &str) -> Result<String, NameError> {
    let name = Some(text.to_owned()).filter(|name| is_label_name(name));
    name.ok_or_else(|| NameError::Label(text.to_owned()))
}

impl PredictionArgs {
    /// Series that queries may read. With `has_rules`, rules are awaited that allow more.
    pub(crate) fn access(&self, has_rules: bool) -> QueryAccess {
        QueryAccess {
            scope: self.prediction_query_scope,
            namespace_label: self.prediction_namespace_label.clone(),
            rules: if has_rules {
                KnownRules::Pending
            } else {
                KnownRules::Absent
            },
        }
    }

    pub(crate) fn intervals(&self) -> ReadIntervals {
        let seconds = |duration: &GoDuration| {
            let seconds = i64::try_from(duration.0.as_secs());
            seconds.unwrap_or(i64::MAX).max(1)
        };
        ReadIntervals {
            read_seconds: seconds(&self.prediction_read_interval),
            refit_seconds: seconds(&self.model_update_interval),
        }
    }

    pub(crate) fn limits(&self) -> MemoryLimits {
        let total = self.prediction_memory_limit.value();
        let total_bytes = usize::try_from(total).unwrap_or_default();
        MemoryLimits {
            namespace_bytes: total_bytes / 4,
            total_bytes,
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

    fn check(line: &str, source: DataSource, expected: (i64, i64)) {
        let args = parse(line).expect(line);
        let intervals = args.intervals();
        assert_eq!(
            (
                args.datasource,
                intervals.read_seconds,
                intervals.refit_seconds
            ),
            (source, expected.0, expected.1),
            "{line}"
        );
    }

    #[test]
    fn flags_have_cranes_names_and_defaults() {
        check("", DataSource::LikeStorage, (300, 43_200));
        check(
            "--datasource=prom --prediction-read-interval=5s",
            DataSource::Prometheus,
            (5, 43_200),
        );
        check(
            "--datasource=metricserver --model-update-interval=1h",
            DataSource::Usage,
            (300, 3600),
        );
        assert!(parse("--datasource=grpc").is_err());
        let limits = |line: &str| parse(line).expect(line).limits();
        let usual = MemoryLimits {
            namespace_bytes: 64 << 20,
            total_bytes: 256 << 20,
        };
        assert_eq!(limits(""), usual);
        assert_eq!(
            limits("--prediction-memory-limit=1Gi"),
            MemoryLimits {
                namespace_bytes: 256 << 20,
                total_bytes: 1 << 30
            }
        );
    }

    fn check_access(line: &str, scope: QueryScope, label: &str) {
        let access = parse(line).expect(line).access(false);
        assert_eq!(
            (access.scope, access.namespace_label.as_str()),
            (scope, label),
            "{line}"
        );
    }

    #[test]
    fn queries_read_their_own_namespace_unless_a_flag_says_otherwise() {
        check_access("", QueryScope::Namespace, "namespace");
        check_access(
            "--prediction-query-scope=cluster",
            QueryScope::Cluster,
            "namespace",
        );
        check_access(
            "--prediction-namespace-label=k8s_namespace_name",
            QueryScope::Namespace,
            "k8s_namespace_name",
        );
        for line in [
            "--prediction-query-scope=",
            "--prediction-query-scope=all",
            "--prediction-namespace-label=a.b",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
