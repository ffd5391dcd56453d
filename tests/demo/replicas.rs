//! The replicas of a workload at one moment: their number, the number that its HPA wants, and the
//! reason.

use std::fmt::Write as _;

use anyhow::Result;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::{Api, Client};
use serde_json::Value;

use crate::observe::{self, NAMESPACE};

/// The native autoscaler leaves replicas as they are when a metric is off by no more.
const TOLERANCE: f64 = 1.1;

/// State of the workload at one moment.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) replicas: i64,
    ready: i64,
    /// Of the native autoscaler: the replicas that it wants.
    wanted: Option<i64>,
    /// CPU usage of the pods in percent of their requests, and its target.
    pub(crate) measured_percent: Option<i64>,
    pub(crate) target_percent: Option<i64>,
    /// Millicores per pod that are forecast, and how many there should be.
    forecast: Option<f64>,
    forecast_target: Option<f64>,
}

impl Seen {
    /// Of a Deployment, and of an autoscaler that may not be there yet.
    pub(crate) async fn now(client: &Client, workload: &str, native: &str) -> Result<Self> {
        let deployment = Api::<Deployment>::namespaced(client.clone(), NAMESPACE)
            .get(workload)
            .await?;
        let native = Api::<HorizontalPodAutoscaler>::namespaced(client.clone(), NAMESPACE)
            .get_opt(native)
            .await?;
        Ok(Self::of(
            &serde_json::to_value(deployment)?,
            &serde_json::to_value(native)?,
        ))
    }

    fn of(deployment: &Value, native: &Value) -> Self {
        let metrics = |object: &Value| object.as_array().cloned().unwrap_or_default();
        let (current, wanted) = (
            metrics(&native["status"]["currentMetrics"]),
            metrics(&native["spec"]["metrics"]),
        );
        let find = |metrics: &[Value], path: &str| {
            metrics
                .iter()
                .find_map(|metric| metric.pointer(path).cloned())
        };
        let percent = |metrics: &[Value], path| find(metrics, path)?.as_i64();
        let amount = |metrics: &[Value], path| observe::millicores(&find(metrics, path)?);
        Self {
            replicas: deployment["spec"]["replicas"].as_i64().unwrap_or(0),
            ready: deployment["status"]["readyReplicas"].as_i64().unwrap_or(0),
            wanted: native["status"]["desiredReplicas"].as_i64(),
            measured_percent: percent(&current, "/resource/current/averageUtilization"),
            target_percent: percent(&wanted, "/resource/target/averageUtilization"),
            forecast: amount(&current, "/external/current/averageValue"),
            forecast_target: amount(&wanted, "/external/target/averageValue"),
        }
    }

    /// All replicas that the forecast asks for are ready, and it is known what is measured of them.
    pub(crate) fn is_settled(&self) -> bool {
        let Some((forecast, target)) = self.forecast.zip(self.forecast_target) else {
            return false;
        };
        let is_known = self.measured_percent.is_some();
        is_known
            && forecast <= TOLERANCE * target
            && self.wanted == Some(self.replicas)
            && self.ready == self.replicas
    }

    pub(crate) fn sentence(&self) -> String {
        let mut text = format!("{} of {} replicas are ready", self.ready, self.replicas);
        if let Some(percent) = self.measured_percent {
            let _ = write!(text, "; measured: {percent} % of requests");
        }
        if let Some((forecast, target)) = self.forecast.zip(self.forecast_target) {
            let _ = write!(
                text,
                "; forecast: {forecast:.0}m per pod, target {target:.0}m"
            );
        }
        if let Some(wanted) = self.wanted.filter(|wanted| *wanted > 0) {
            let _ = write!(text, "; the HPA wants {wanted}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn native(replicas: i64, forecast: &str) -> Value {
        json!({
            "spec": {"metrics": [
                {"resource": {"name": "cpu", "target": {"averageUtilization": 50}}},
                {"external": {"target": {"averageValue": "50m"}}},
            ]},
            "status": {"desiredReplicas": replicas, "currentMetrics": [
                {"resource": {"name": "cpu", "current": {"averageUtilization": 10, "averageValue": "10m"}}},
                {"external": {"current": {"averageValue": forecast}}},
            ]},
        })
    }

    fn check(replicas: i64, ready: i64, native: &Value, sentence: &str, is_settled: bool) {
        let deployment =
            json!({"spec": {"replicas": replicas}, "status": {"readyReplicas": ready}});
        let seen = Seen::of(&deployment, native);
        assert_eq!(
            (seen.sentence().as_str(), seen.is_settled()),
            (sentence, is_settled)
        );
    }

    #[test]
    fn replicas_are_settled_once_the_forecast_is_shared_by_enough_that_are_ready() {
        let why = "measured: 10 % of requests; forecast:";
        check(2, 2, &Value::Null, "2 of 2 replicas are ready", false);
        let much =
            format!("2 of 2 replicas are ready; {why} 140m per pod, target 50m; the HPA wants 2");
        check(2, 2, &native(2, "140m"), &much, false);
        let early =
            format!("4 of 6 replicas are ready; {why} 47m per pod, target 50m; the HPA wants 6");
        check(6, 4, &native(6, "47m"), &early, false);
        let right =
            format!("6 of 6 replicas are ready; {why} 55m per pod, target 50m; the HPA wants 6");
        check(6, 6, &native(6, "55m"), &right, true);
    }
}
