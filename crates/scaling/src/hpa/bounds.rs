//! What is settled before any metric is read: a workload that is paused or outside its bounds.
//!
//! Source: upstream `horizontal.go` (`reconcileAutoscaler`).

/// A count that no metric has a say in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Somebody set it to zero although one is the least: it is paused.
    Paused,
    /// It has more than it may: the most.
    TooMany(i32),
    /// It has fewer than it may: the least.
    TooFew(i32),
}

/// Whether the count is settled without metrics.
pub fn forced_replicas(current: i32, min: i32, max: i32) -> Option<Forced> {
    if current == 0 && min != 0 {
        Some(Forced::Paused)
    } else if current > max {
        Some(Forced::TooMany(max))
    } else if current < min {
        Some(Forced::TooFew(min))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(current: i32, min: i32, max: i32, expected: Option<Forced>) {
        assert_eq!(
            forced_replicas(current, min, max),
            expected,
            "{current} within {min} and {max}"
        );
    }

    #[test]
    fn bounds_and_a_pause_go_before_metrics() {
        check(1, 2, 6, Some(Forced::TooFew(2)));
        check(6, 1, 5, Some(Forced::TooMany(5)));
        check(0, 1, 5, Some(Forced::Paused));
        check(0, 0, 5, None);
        check(5, 5, 5, None);
    }
}
