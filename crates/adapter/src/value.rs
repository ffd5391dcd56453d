//! Values of metrics in thousandths, each with the time of its sample.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::Selector;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricValue {
    pub object: DescribedObject,
    pub metric: String,
    pub metric_selector: Selector,
    /// The time of the sample, not of the request.
    pub at: Timestamp,
    /// The window of the measurement; `None` for an instant.
    pub window_seconds: Option<u32>,
    pub value: MilliValue,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedObject {
    pub api_version: String,
    pub kind: String,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalValue {
    pub metric: String,
    pub labels: BTreeMap<String, String>,
    /// The time of the sample, not of the request.
    pub at: Timestamp,
    /// The window of the measurement; `None` for an instant.
    pub window_seconds: Option<u32>,
    pub value: MilliValue,
}

/// The metrics that discovery lists. More may exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricNames {
    /// Names such as `pods/http_requests`, and whether the objects are namespaced.
    pub of_objects: Vec<(String, bool)>,
    /// Names such as `queue_depth`.
    pub external: Vec<String>,
}

/// A number in thousandths, the precision of the HPA controller; never negative. A negative number
/// would become a ratio of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MilliValue(i64);

impl MilliValue {
    /// The largest value: the whole units that fit in 64 bits of thousandths.
    pub const MAX: Self = Self(i64::MAX / 1000 * 1000);

    /// Clamps a number of thousandths to the valid range.
    pub fn from_milli(milli: i64) -> Self {
        Self(milli.clamp(0, Self::MAX.0))
    }

    /// Rounds to the nearest thousandth; `None` for NaN and infinity.
    pub fn from_units(units: f64) -> Option<Self> {
        // A cast saturates.
        units
            .is_finite()
            .then(|| Self::from_milli((units * 1000.0).round() as i64))
    }

    pub fn milli(self) -> i64 {
        self.0
    }
}

impl std::fmt::Display for MilliValue {
    /// A quantity that every client can parse: an integer, with the suffix `m` for thousandths.
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
    fn values_are_written_as_integers() {
        check(1.5, Some("1500m"));
        check(0.1, Some("100m"));
        check(3000.0, Some("3000"));
        check(0.0004, Some("0"));
        check(0.0005, Some("1m"));
        check(-0.0, Some("0"));
    }

    #[test]
    fn values_are_clamped_to_the_range_of_the_autoscaler() {
        check(f64::NAN, None);
        check(f64::INFINITY, None);
        check(f64::NEG_INFINITY, None);
        check(-7.0, Some("0"));
        check(1e300, Some("9223372036854775"));
        assert_eq!(MilliValue::from_milli(i64::MAX), MilliValue::MAX);
    }
}
