//! Replicas from one value of the whole workload: a metric of an object, or an external one.
//!
//! Against a value: the ratio times the ready pods. Against an average: the value divided by the
//! target, independent of the pods. Source: upstream `replica_calculator.go`
//! (`GetObjectMetricReplicas`, `GetExternalMetricReplicas` and their `PerPod` forms).

use super::per_pod::{Proposal, Value};
use super::{NO_PODS, Pod, Tolerance, ceil_replicas};

/// Sum of an external metric's items, for a value target.
pub(super) fn sum(items: &[i64]) -> i64 {
    items.iter().fold(0, |sum, item| sum.wrapping_add(*item))
}

/// Sum of an external metric's items, for an average target: a partial sum below zero saturates to
/// the maximum.
pub(super) fn sum_for_average(items: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for item in items {
        sum = sum.wrapping_add(*item);
        if sum < 0 {
            return i64::MAX;
        }
    }
    sum
}

/// Replicas for a total of `usage` with a total target, both in milli-units.
pub(super) fn by_value(
    usage: i64,
    target: i64,
    current_replicas: i32,
    tolerance: Tolerance,
    pods: &[Pod],
) -> Result<Proposal, String> {
    let value = Value::Total { milli: usage };
    let ratio = usage as f64 / target as f64;
    let replicas = if current_replicas == 0 {
        ceil_replicas(ratio)
    } else if tolerance.covers(ratio) {
        current_replicas
    } else if pods.is_empty() {
        return Err(NO_PODS.to_owned());
    } else {
        let ready = pods.iter().filter(|pod| pod.is_ready()).count();
        ceil_replicas(ratio * ready as f64)
    };
    Ok(Proposal { replicas, value })
}

/// Replicas for a total of `usage` with a target per pod, both in milli-units.
pub(super) fn by_average(
    usage: i64,
    target: i64,
    status_replicas: i32,
    tolerance: Tolerance,
) -> Proposal {
    let ratio = usage as f64 / (target as f64 * f64::from(status_replicas));
    let replicas = if tolerance.covers(ratio) {
        status_replicas
    } else {
        ceil_replicas(usage as f64 / target as f64)
    };
    let milli = (usage as f64 / f64::from(status_replicas)).ceil() as i64;
    let value = Value::Average { milli };
    Proposal { replicas, value }
}
