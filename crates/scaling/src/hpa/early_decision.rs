//! Decisions that need no metrics: a paused workload, or one outside its bounds.
//!
//! Source: upstream `horizontal.go` (`reconcileAutoscaler`).

/// Count independent of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixedReplicas {
    /// Scaled to zero although the minimum is at least one: paused.
    Paused,
    /// Above the maximum, which is the new count.
    TooMany(i32),
    /// Below the minimum, which is the new count.
    TooFew(i32),
}

/// The count independent of metrics, if any.
pub fn replicas_without_metrics(current: i32, min: i32, max: i32) -> Option<FixedReplicas> {
    if current == 0 && min != 0 {
        Some(FixedReplicas::Paused)
    } else if current > max {
        Some(FixedReplicas::TooMany(max))
    } else if current < min {
        Some(FixedReplicas::TooFew(min))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(current: i32, min: i32, max: i32, expected: Option<FixedReplicas>) {
        assert_eq!(
            replicas_without_metrics(current, min, max),
            expected,
            "{current} within {min} and {max}"
        );
    }

    #[test]
    fn bounds_and_a_pause_go_before_metrics() {
        check(1, 2, 6, Some(FixedReplicas::TooFew(2)));
        check(6, 1, 5, Some(FixedReplicas::TooMany(5)));
        check(0, 1, 5, Some(FixedReplicas::Paused));
        check(0, 0, 5, None);
        check(5, 5, 5, None);
    }
}
