//! Settings of predictions that Crane lacks.

use std::str::FromStr;

use clap::Args;
use horizontal::predictions::{KnownRules, MemoryLimits, QueryAccess, QueryScope, ReadIntervals};
use model::Quantity;
use runtime::GoDuration;
use runtime::config_file::{from_text, interval, parsed_by};
use runtime::duration::positive_duration;
use serde::{Deserialize, Deserializer};
use sources::prometheus::{NameError, is_label_name};

/// Section `predictions` of the recommender's `--config`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PredictionSettings {
    /// Interval of reading new samples from Prometheus, and of forecasts.
    #[serde(deserialize_with = "interval")]
    read_interval: GoDuration,
    /// Maximum memory for histories and forecasts of all namespaces. When it is reached, the
    /// namespaces that use the most get less. One namespace has at most a quarter of it. A series
    /// takes about 100 KiB.
    memory_limit: Quantity,
    /// Series that queries of predictions may read: namespace (those of the namespace of the
    /// object) or cluster (all, and those of nodes). The namespace label
    /// plimsoll.dev/prediction-query-scope overrides it.
    #[serde(deserialize_with = "from_text")]
    query_scope: QueryScope,
    /// Label of series with their namespace. Queries that may read only one namespace get a matcher
    /// of it.
    #[serde(deserialize_with = "label_name")]
    namespace_label: String,
}

fn label_name<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    let parse = |text: &str| {
        let name = Some(text.to_owned()).filter(|name| is_label_name(name));
        name.ok_or_else(|| NameError::Label(text.to_owned()))
    };
    parsed_by(parse, text)
}

impl PredictionSettings {
    /// Series that queries may read. With `has_rules`, rules are awaited that allow more.
    pub(crate) fn access(&self, has_rules: bool) -> QueryAccess {
        QueryAccess {
            scope: self.query_scope,
            namespace_label: self.namespace_label.clone(),
            rules: if has_rules {
                KnownRules::Pending
            } else {
                KnownRules::Absent
            },
        }
    }

    pub(crate) fn intervals(&self, refit: GoDuration) -> ReadIntervals {
        let seconds = |duration: GoDuration| {
            let seconds = i64::try_from(duration.0.as_secs());
            seconds.unwrap_or(i64::MAX).max(1)
        };
        ReadIntervals {
            read_seconds: seconds(self.read_interval),
            refit_seconds: seconds(refit),
        }
    }

    pub(crate) fn limits(&self) -> MemoryLimits {
        let total_bytes = usize::try_from(self.memory_limit.value()).unwrap_or_default();
        MemoryLimits {
            namespace_bytes: total_bytes / 4,
            total_bytes,
        }
    }
}

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
    use std::time::Duration;

    use runtime::config_file::parse;

    use super::*;
    use clap::Parser;

    const DEFAULTS: &str =
        "{readInterval: 5m, memoryLimit: 256Mi, queryScope: namespace, namespaceLabel: namespace}";

    /// `expected`: interval of reads in seconds, memory in MiB, scope and label.
    fn check(text: &str, expected: (i64, usize, QueryScope, &str)) {
        let settings: PredictionSettings = parse(&[DEFAULTS, text]).expect(text);
        let access = settings.access(false);
        let limits = settings.limits();
        assert_eq!(limits.namespace_bytes, limits.total_bytes / 4);
        let hour = GoDuration(Duration::from_hours(1));
        let intervals = settings.intervals(hour);
        assert_eq!(intervals.refit_seconds, 3600);
        let found = (
            intervals.read_seconds,
            limits.total_bytes >> 20,
            access.scope,
            access.namespace_label.as_str(),
        );
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn queries_read_their_own_namespace_unless_a_setting_says_otherwise() {
        let own = QueryScope::Namespace;
        check("", (300, 256, own, "namespace"));
        check("readInterval: 5s", (5, 256, own, "namespace"));
        check("memoryLimit: 1Gi", (300, 1024, own, "namespace"));
        let cluster = (300, 256, QueryScope::Cluster, "namespace");
        check("queryScope: cluster", cluster);
        let label = (300, 256, own, "k8s_namespace_name");
        check("namespaceLabel: k8s_namespace_name", label);
        for text in [
            "readInterval: 0s",
            "queryScope: ''",
            "queryScope: all",
            "namespaceLabel: a.b",
        ] {
            assert!(
                parse::<PredictionSettings>(&[DEFAULTS, text]).is_err(),
                "{text}"
            );
        }
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PredictionArgs,
    }

    fn parse_args(line: &str) -> Result<PredictionArgs, clap::Error> {
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
            let args = parse_args(line).expect(line);
            let found = (args.datasource, args.model_update_interval.to_string());
            assert_eq!(found, (source, refit.to_owned()), "{line}");
        }
        assert!(parse_args("--datasource=grpc").is_err());
    }
}
