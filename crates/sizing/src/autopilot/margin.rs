//! Safety margin: 15 % for small limits, 10 % for large ones, decreasing with the logarithm in
//! between.
//!
//! The paper says "10 to 15 %, less for large limits". The thresholds are chosen here: up to 1 core
//! or 1 GiB, and from 16 cores or 64 GiB.

use crate::float::ln;

const SMALL: f64 = 0.15;
const LARGE: f64 = 0.10;

/// Range of limits in which the margin decreases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Range {
    pub(super) small: f64,
    pub(super) large: f64,
}

/// CPU in cores.
pub(super) const CPU: Range = Range {
    small: 1.0,
    large: 16.0,
};
/// Memory in bytes.
pub(super) const MEMORY: Range = Range {
    small: 1_073_741_824.0,
    large: 68_719_476_736.0,
};

/// Margin as a share of the limit.
pub(super) fn margin(limit: f64, range: Range) -> f64 {
    if limit <= range.small {
        return SMALL;
    }
    if limit >= range.large {
        return LARGE;
    }
    let share = ln(limit / range.small) / ln(range.large / range.small);
    SMALL - (SMALL - LARGE) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cores: f64, expected: f64) {
        assert!((margin(cores, CPU) - expected).abs() < 1e-12, "{cores}");
    }

    #[test]
    fn large_limits_have_a_smaller_margin() {
        check(0.0, 0.15);
        check(1.0, 0.15);
        check(4.0, 0.125);
        check(16.0, 0.10);
        check(1000.0, 0.10);
    }

    #[test]
    fn a_larger_limit_stays_larger_with_its_margin() {
        let limits: Vec<f64> = (1..400).map(|step| f64::from(step) * 0.05).collect();
        let with_margin: Vec<f64> = limits
            .iter()
            .map(|limit| limit * (1.0 + margin(*limit, CPU)))
            .collect();
        assert!(with_margin.is_sorted());
    }
}
