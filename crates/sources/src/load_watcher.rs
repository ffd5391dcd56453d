//! Load of nodes from the REST API of load-watcher, `GET /watcher`.
//!
//! One answer has the load of all nodes over one window, in percent of the capacity. Values that
//! are not finite, negative or far above 100 are left out. Source: `pkg/watcher` of
//! paypal/load-watcher.

use std::collections::HashMap;
use std::time::Duration;

use http::Request;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use placement::{
    MeasuredLoad, Metric, MetricOperator, MetricType, NodeLoad, Usage, WindowLoad, usage,
};
use serde::Deserialize;
use tokio::time::timeout;

use crate::error_chain::with_causes;
use crate::prometheus::http::send;
use crate::prometheus::{Connection, Detail, PrometheusError};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of an answer in bytes. 5,000 nodes with 34 metrics each have about 25 MB.
const MAX_BYTES: usize = 64 << 20;
const MAX_NODES: usize = 20_000;
/// Largest valid utilization in percent. Measurements exceed 100 by rounding.
const MAX_PERCENT: f64 = 110.0;

#[derive(Debug, thiserror::Error)]
pub enum LoadWatcherError {
    #[error("the connection to the load-watcher cannot be set up")]
    SetUp(#[source] Detail),
    #[error("the load-watcher cannot be reached")]
    Unreachable(#[source] Detail),
    #[error("the load-watcher did not answer within {0:?}")]
    Timeout(Duration),
    #[error("the load-watcher answered with HTTP status {0}")]
    Refused(u16),
    #[error("the load-watcher's answer is longer than {0} bytes")]
    TooLong(usize),
    #[error("the load-watcher's answer has more than {0} nodes")]
    TooManyNodes(usize),
    #[error("the load-watcher's answer cannot be read")]
    Malformed(#[source] Detail),
}

#[derive(Deserialize)]
struct Answer {
    window: AnswerWindow,
    data: AnswerData,
}

#[derive(Deserialize)]
struct AnswerWindow {
    /// Unix seconds. Without a start, the window counts as the longest one.
    #[serde(default)]
    start: i64,
    /// Unix seconds.
    end: i64,
}

#[derive(Deserialize)]
struct AnswerData {
    #[serde(rename = "NodeMetricsMap")]
    nodes: HashMap<String, NodeMetrics>,
}

#[derive(Deserialize)]
struct NodeMetrics {
    /// `null` without metrics.
    metrics: Option<Vec<WrittenMetric>>,
}

#[derive(Deserialize)]
struct WrittenMetric {
    #[serde(rename = "type")]
    metric_type: String,
    #[serde(default)]
    operator: String,
    value: f64,
}

/// Reads the load of all nodes. Only the address and the trust of the connection apply.
pub async fn read(connection: &Connection) -> Result<MeasuredLoad, LoadWatcherError> {
    let answer = timeout(ANSWER_TIMEOUT, exchange(connection)).await;
    parse(&answer.map_err(|_| LoadWatcherError::Timeout(ANSWER_TIMEOUT))??)
}

async fn exchange(connection: &Connection) -> Result<Vec<u8>, LoadWatcherError> {
    let set_up = |error: PrometheusError| LoadWatcherError::SetUp(with_causes(&error).into());
    let client = connection.client().await.map_err(set_up)?;
    let request = Request::get("/watcher").body(Body::empty());
    let request = request.map_err(|error| LoadWatcherError::SetUp(error.to_string().into()))?;
    let (status, body) = match send(&client, request, MAX_BYTES).await {
        Ok(answer) => answer,
        Err(PrometheusError::TooLong(most)) => return Err(LoadWatcherError::TooLong(most)),
        Err(PrometheusError::Unreachable(why)) => return Err(LoadWatcherError::Unreachable(why)),
        Err(error) => return Err(set_up(error)),
    };
    if !status.is_success() {
        return Err(LoadWatcherError::Refused(status.as_u16()));
    }
    Ok(body)
}

pub(crate) fn parse(body: &[u8]) -> Result<MeasuredLoad, LoadWatcherError> {
    let malformed = |error: &dyn std::error::Error| {
        LoadWatcherError::Malformed(Detail::from(error.to_string()))
    };
    let Answer { window, data } =
        serde_json::from_slice(body).map_err(|error| malformed(&error))?;
    if data.nodes.len() > MAX_NODES {
        return Err(LoadWatcherError::TooManyNodes(MAX_NODES));
    }
    let end = Timestamp::from_second(window.end).map_err(|error| malformed(&error))?;
    let mut has_averages = false;
    let nodes = data.nodes.into_iter().filter_map(|(name, node)| {
        let metrics = metrics(&node.metrics.unwrap_or_default());
        has_averages |= metrics.iter().any(is_average);
        let load = node_load(&metrics);
        (!load.is_empty()).then_some((name, load))
    });
    let nodes = nodes.collect();
    // Load-watcher names a window also for the latest values of metrics-server.
    let seconds = window.end.saturating_sub(window.start);
    let length = if has_averages {
        SignedDuration::from_secs(seconds).clamp(SignedDuration::ZERO, MeasuredLoad::MAX_LENGTH)
    } else {
        SignedDuration::ZERO
    };
    let load = WindowLoad { end, nodes };
    Ok(MeasuredLoad { load, length })
}

fn metrics(written: &[WrittenMetric]) -> Vec<Metric> {
    let metric = |metric: &WrittenMetric| Metric {
        metric_type: metric.metric_type.as_str().into(),
        operator: metric.operator.as_str().into(),
        value: metric.value,
    };
    written.iter().map(metric).collect()
}

/// Whether a metric is an average of CPU or memory over the window.
fn is_average(metric: &Metric) -> bool {
    metric.operator == MetricOperator::Average
        && matches!(metric.metric_type, MetricType::Cpu | MetricType::Memory)
}

fn node_load(metrics: &[Metric]) -> NodeLoad {
    let is_valid = |usage: &Usage| (0.0..=MAX_PERCENT).contains(&usage.average_percent);
    let of = |metric_type| usage(metrics, metric_type).filter(is_valid);
    NodeLoad {
        cpu: of(MetricType::Cpu),
        memory: of(MetricType::Memory),
        ..NodeLoad::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// CPU and memory of the node `n1`.
    fn check(metrics: &str, expected: Option<(Option<f64>, Option<f64>)>) {
        let text = format!(
            r#"{{"timestamp": 1556987522, "window": {{"duration": "15m", "start": 1, "end": 1556985422}},
            "source": "Prometheus", "data": {{"NodeMetricsMap": {{"n1":
            {{"metrics": {metrics}, "tags": {{}}, "metadata": {{"dataCenter": ""}}}}}}}}}}"#
        );
        let load = parse(text.as_bytes()).expect("the documented shape").load;
        assert_eq!(load.end.as_second(), 1_556_985_422);
        let average = |usage: Option<Usage>| usage.map(|usage| usage.average_percent);
        let found = load.nodes.get("n1");
        let found = found.map(|node| (average(node.cpu), average(node.memory)));
        assert_eq!(found, expected, "{metrics}");
    }

    #[test]
    fn averages_and_latest_values_are_read_and_impossible_ones_left_out() {
        check(
            r#"[{"name": "instance:node_cpu:ratio", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 20.5},
                {"name": "", "type": "CPU", "operator": "STD", "rollup": "", "value": 3},
                {"name": "", "type": "Memory", "operator": "Latest", "rollup": "", "value": 40}]"#,
            Some((Some(20.5), Some(40.0))),
        );
        check(
            r#"[{"type": "CPU", "operator": "AVG", "value": -1}, {"type": "Memory", "value": 7}]"#,
            Some((None, Some(7.0))),
        );
        check(
            r#"[{"type": "CPU", "operator": "AVG", "value": 2050}]"#,
            None,
        );
        check(
            r#"[{"type": "Energy", "operator": "AVG", "value": 1}]"#,
            None,
        );
        check("null", None);
    }

    #[test]
    fn the_length_of_a_window_is_that_of_its_averages() {
        let check = |window: &str, operator: &str, expected: i64| {
            let text = format!(
                r#"{{"window": {window}, "data": {{"NodeMetricsMap": {{"n1":
                {{"metrics": [{{"type": "CPU", "operator": "{operator}", "value": 1}}]}}}}}}}}"#
            );
            let found = parse(text.as_bytes()).expect("the documented shape").length;
            assert_eq!(found.as_secs(), expected, "{window} {operator}");
        };
        check(r#"{"start": 1000, "end": 1300}"#, "AVG", 300);
        check(r#"{"start": 1000, "end": 1300}"#, "Latest", 0);
        check(r#"{"start": 1000, "end": 1300}"#, "STD", 0);
        check(r#"{"end": 1556985422}"#, "AVG", 900);
        check(r#"{"start": 1556985422, "end": 1000}"#, "AVG", 0);
        check(
            r#"{"start": -9223372036854775808, "end": 1000}"#,
            "AVG",
            900,
        );
    }

    #[test]
    fn other_answers_are_refused() {
        for body in [
            "",
            "[]",
            "no metrics",
            r#"{"window": {"end": 1}, "data": {"n1": {"metrics": []}}}"#,
            r#"{"window": {"end": 9223372036854775807}, "data": {"NodeMetricsMap": {}}}"#,
            r#"{"window": {"end": 1}, "data": {"NodeMetricsMap": {"n1": {"metrics": [{"type": "CPU", "value": "NaN"}]}}}}"#,
        ] {
            let found = parse(body.as_bytes());
            assert!(
                matches!(found, Err(LoadWatcherError::Malformed(_))),
                "{body}: {found:?}"
            );
        }
    }
}
