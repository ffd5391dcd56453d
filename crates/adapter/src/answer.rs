//! What a client gets: numbers in thousandths, each with the time it is of.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::Selector;

/// The value of a metric of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricValue {
    /// Which object.
    pub object: DescribedObject,
    /// The name of the metric.
    pub metric: String,
    /// Which series of it, as asked.
    pub metric_selector: Selector,
    /// The time of the sample, not of the question.
    pub at: Timestamp,
    /// The time over which it was measured; none for an instant.
    pub window_seconds: Option<u32>,
    /// The value.
    pub value: MilliValue,
}

/// Which object a value is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedObject {
    /// Such as `v1` and `apps/v1`.
    pub api_version: String,
    /// Such as `Pod`.
    pub kind: String,
    /// None for objects of the whole cluster.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// The value of a metric that belongs to no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalValue {
    /// The name of the metric.
    pub metric: String,
    /// What sets the series apart.
    pub labels: BTreeMap<String, String>,
    /// The time of the sample, not of the question.
    pub at: Timestamp,
    /// The time over which it was measured; none for an instant.
    pub window_seconds: Option<u32>,
    /// The value.
    pub value: MilliValue,
}

/// The metrics that discovery names. Others may be there as well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricNames {
    /// Such as `pods/http_requests`, and whether the objects are in namespaces.
    pub of_objects: Vec<(String, bool)>,
    /// Such as `queue_depth`.
    pub external: Vec<String>,
}

/// A number in thousandths, never below zero: the precision that the autoscaler has. A negative
/// number would make its ratio one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliValue(i64);

impl MilliValue {
    /// The largest: as many whole units as fit in 64 bits of thousandths.
    pub const MAX: Self = Self(i64::MAX / 1000 * 1000);

    /// So many thousandths, within what can be served.
    pub fn from_milli(milli: i64) -> Self {
        Self(milli.clamp(0, Self::MAX.0))
    }

    /// The nearest thousandth; none for what is no number. Infinity is none either.
    pub fn from_units(units: f64) -> Option<Self> {
        // A cast saturates.
        units
            .is_finite()
            .then(|| Self::from_milli((units * 1000.0).round() as i64))
    }

    /// In thousandths.
    pub fn milli(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for MilliValue {
    /// As a quantity that every reader takes: a whole number, with `m` where it is one of
    /// thousandths.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0 % 1000 == 0 {
            write!(f, "{}", self.0 / 1000)
        } else {
            write!(f, "{}m", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(units: f64, expected: Option<&str>) {
        assert_eq!(
            MilliValue::from_units(units)
                .map(|value| value.to_string())
                .as_deref(),
            expected,
            "{units}"
        );
    }

    #[test]
    fn numbers_are_served_as_whole_ones() {
        check(1.5, Some("1500m"));
        check(0.1, Some("100m"));
        check(3000.0, Some("3000"));
        check(0.0004, Some("0"));
        check(0.0005, Some("1m"));
        check(-0.0, Some("0"));
    }

    #[test]
    fn what_the_autoscaler_could_not_bear_is_held_to_what_it_can() {
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        check(f64::NEG_INFINITY, None);
        check(-7.0, Some("0"));
        check(1e300, Some("9223372036854775"));
        assert_eq!(MilliValue::from_milli(i64::MAX), MilliValue::MAX);
    }
}
