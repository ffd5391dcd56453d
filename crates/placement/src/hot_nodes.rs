//! Hot nodes: above a threshold for some time, until below a lower one.

use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HotNodeConfig {
    /// A node gets hot above this utilization, in percent; default 80.
    pub hot_percent: f64,
    /// A hot node stays hot down to this utilization, in percent; default 65.
    pub cool_percent: f64,
    /// Time above `hot_percent`; default five minutes.
    pub after: SignedDuration,
}

/// State of one node; the default for a new one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeHeat {
    above_since: Option<Timestamp>,
    is_hot: bool,
}

impl Default for HotNodeConfig {
    fn default() -> Self {
        Self {
            hot_percent: 80.0,
            cool_percent: 65.0,
            after: SignedDuration::from_mins(5),
        }
    }
}

impl NodeHeat {
    /// The state after a measurement. Without one the node is not hot: no guesswork.
    #[must_use]
    pub fn observe(self, percent: Option<f64>, now: Timestamp, config: &HotNodeConfig) -> Self {
        let Some(percent) = percent.filter(|percent| percent.is_finite()) else {
            return Self::default();
        };
        let above_since =
            (percent > config.hot_percent).then(|| self.above_since.map_or(now, |at| at.min(now)));
        let is_due = above_since.is_some_and(|at| now.duration_since(at) >= config.after);
        let cool = config.cool_percent.min(config.hot_percent);
        Self {
            above_since,
            is_hot: is_due || (self.is_hot && percent >= cool),
        }
    }

    pub fn is_hot(self) -> bool {
        self.is_hot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_gets_hot_after_a_time_and_cools_below_the_lower_threshold() {
        let mut heat = NodeHeat::default();
        for (minute, percent, expected) in [
            (0, Some(85.0), false),
            (3, Some(81.0), false),
            (4, Some(80.0), false),
            (5, Some(85.0), false),
            (9, Some(85.0), false),
            (10, Some(85.0), true),
            (11, Some(70.0), true),
            (12, Some(65.0), true),
            (13, Some(64.9), false),
            (14, Some(79.0), false),
            (15, Some(90.0), false),
            (20, Some(90.0), true),
            (21, None, false),
            (22, Some(f64::NAN), false),
            (30, Some(90.0), false),
        ] {
            let now = Timestamp::from_second(minute * 60).expect("a time");
            heat = heat.observe(percent, now, &HotNodeConfig::default());
            assert_eq!(heat.is_hot(), expected, "minute {minute}");
        }
    }
}
