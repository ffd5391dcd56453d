//! The health of pods as Prometheus has it: values by pod, of which larger ones are worse.
//!
//! A pod with new requests is worse with more than twice the largest value of the pods with the former ones,
//! if that is more than the metric's minimum, in two readings one after the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// A value may be this multiple of the largest one of other pods.
const MAX_RATIO: f64 = 2.0;
/// The share of throttled CPU periods that is no harm: that of the alert `CPUThrottlingHigh` of
/// kubernetes-mixin.
const HARMLESS_THROTTLING: f64 = 0.25;

/// A metric of the pods of a namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HealthQuery {
    pub namespace: String,
    pub metric: HealthMetric,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthMetric {
    /// Share of the CPU periods in which a pod was throttled, from 0 to 1.
    Throttling,
    /// The `PromQL` of a VPA object, see [`api::rollback::WAVE_QUERY`].
    Expression(String),
}

impl HealthMetric {
    /// The largest value that is well whatever other pods have.
    fn harmless(&self) -> f64 {
        match self {
            Self::Throttling => HARMLESS_THROTTLING,
            Self::Expression(_) => 0.0,
        }
    }

    /// Whether a pod is worse than others of which this is the largest value.
    pub(crate) fn is_worse(&self, value: f64, largest: f64) -> bool {
        value > self.harmless() && value > MAX_RATIO * largest
    }
}

/// The values of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct HealthReading {
    /// Begin of the query, by the monotonic clock.
    pub began: Duration,
    /// Values by the names of pods, none of which is NaN; `None` if they could not be read.
    pub values: Option<HashMap<String, f64>>,
}

/// The readings of each query that waves wait for, the newest first: it, and the last ones before with values.
pub type HealthReadings = BTreeMap<HealthQuery, Vec<Arc<HealthReading>>>;

pub fn add_reading(readings: &mut HealthReadings, query: HealthQuery, reading: HealthReading) {
    let of_query = readings.entry(query).or_default();
    of_query.retain(|earlier| earlier.values.is_some());
    of_query.insert(0, Arc::new(reading));
    of_query.truncate(3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_worse_than_twice_the_largest_of_others() {
        let check = |metric: &HealthMetric, value: f64, largest: f64, expected: bool| {
            let is_worse = metric.is_worse(value, largest);
            assert_eq!(is_worse, expected, "{metric:?} {value} {largest}");
        };
        let query = HealthMetric::Expression("up".to_owned());
        check(&query, 2.1, 1.0, true);
        check(&query, 2.0, 1.0, false);
        check(&query, 0.01, 0.0, true);
        check(&query, 0.0, 0.0, false);
        check(&query, -1.0, -9.0, false);
        check(&HealthMetric::Throttling, 0.9, 0.4, true);
        check(&HealthMetric::Throttling, 0.25, 0.0, false);
        check(&HealthMetric::Throttling, 0.9, 0.5, false);
    }
}
