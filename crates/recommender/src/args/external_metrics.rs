//! Flags for usage from an adapter of external metrics: upstream's names and defaults.

use anyhow::{Context as _, ensure};
use clap::Args;
use sources::external_metrics::ExternalMetricNames;

/// Usage from external metrics in place of the metrics API.
#[derive(Debug, Clone, Args)]
pub struct ExternalMetricsArgs {
    /// Read usage from external.metrics.k8s.io in place of metrics.k8s.io. --container-name-label
    /// names the label with the name of the container.
    #[arg(long)]
    pub use_external_metrics: bool,
    /// External metric of a container's CPU usage in cores. Empty: CPU is not read.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_metrics_cpu_metric: String,
    /// External metric of a container's memory usage in bytes. Empty: memory is not read.
    #[arg(long, default_value = "", value_name = "NAME")]
    pub external_metrics_memory_metric: String,
}

impl ExternalMetricsArgs {
    /// The metrics to read; `None` if usage comes from the metrics API.
    pub fn names(&self, container_label: &str) -> anyhow::Result<Option<ExternalMetricNames>> {
        let given = |name: &String| Some(name.clone()).filter(|name| !name.is_empty());
        let cpu = given(&self.external_metrics_cpu_metric);
        let memory = given(&self.external_metrics_memory_metric);
        if !self.use_external_metrics {
            if cpu.is_some() || memory.is_some() {
                tracing::warn!(
                    "--external-metrics-*-metric have no effect without --use-external-metrics"
                );
            }
            return Ok(None);
        }
        ensure!(
            cpu.is_some() || memory.is_some(),
            "--use-external-metrics needs --external-metrics-cpu-metric or --external-metrics-memory-metric"
        );
        ExternalMetricNames::new(cpu, memory, container_label.to_owned())
            .map(Some)
            .context("--external-metrics-*-metric")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::tests::parse;

    /// `expected`: the metrics, `None` for the metrics API, or part of the error.
    fn check(line: &str, expected: Result<Option<[Option<&str>; 2]>, &str>) {
        let args = parse(line).expect(line);
        let names = args.external.names(&args.history.container_name_label);
        match (names, expected) {
            (Ok(names), Ok(expected)) => {
                let expected = expected.map(|names| {
                    let [cpu, memory] = names.map(|name| name.map(str::to_owned));
                    ExternalMetricNames::new(cpu, memory, "name".to_owned()).expect("names")
                });
                assert_eq!(names, expected, "{line}");
            }
            (Err(error), Err(part)) => {
                assert!(format!("{error:#}").contains(part), "{line}: {error:#}");
            }
            (names, expected) => panic!("{line}: {names:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn external_metrics_need_a_name_and_the_switch() {
        check("", Ok(None));
        check("--external-metrics-cpu-metric=cpu", Ok(None));
        check(
            "--use-external-metrics --external-metrics-cpu-metric=cpu",
            Ok(Some([Some("cpu"), None])),
        );
        let both = "--use_external_metrics=true --external_metrics_cpu_metric=a --external_metrics_memory_metric=b";
        check(both, Ok(Some([Some("a"), Some("b")])));
        check(
            "--use-external-metrics",
            Err("needs --external-metrics-cpu-metric"),
        );
        check(
            "--use-external-metrics --external-metrics-cpu-metric=a/b",
            Err("is not the name of a metric"),
        );
    }
}
