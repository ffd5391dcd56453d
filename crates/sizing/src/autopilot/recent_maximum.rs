//! Maximum of the last hour, which is the last twelve windows: a limit decreases an hour later.
//! Source: section 3.2.2.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

const WINDOWS: i64 = 12;

/// Values by window, oldest first, at most one per window of the last hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RecentMaximum(VecDeque<(i64, f64)>);

impl RecentMaximum {
    /// Records the value of a window. Windows must not decrease. Of several values in one window
    /// the largest counts.
    pub(super) fn push(&mut self, window: i64, value: f64) {
        self.forget_before(window);
        match self.0.back_mut() {
            Some((known, largest)) if *known == window => *largest = largest.max(value),
            _ => self.0.push_back((window, value)),
        }
    }

    /// Drops values an hour older than a window.
    pub(super) fn forget_before(&mut self, window: i64) {
        self.0.retain(|(known, _)| *known > window - WINDOWS);
    }

    /// Whether values until the window `newest` can lead to these.
    pub(super) fn is_valid(&self, newest: i64) -> bool {
        let windows = || self.0.iter().map(|(window, _)| *window);
        self.0.len() <= WINDOWS as usize
            && windows().is_sorted_by(|one, next| one < next)
            && windows().all(|window| (0..=newest).contains(&window))
            && self
                .0
                .iter()
                .all(|(_, value)| value.is_finite() && *value >= 0.0)
    }

    pub(super) fn get(&self) -> Option<f64> {
        self.0.iter().map(|(_, value)| *value).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pushed: &[(i64, f64)], expected: Option<f64>) {
        let mut recent = RecentMaximum::default();
        for (window, value) in pushed {
            recent.push(*window, *value);
        }
        assert_eq!(recent.get(), expected, "{pushed:?}");
    }

    #[test]
    fn a_value_counts_for_twelve_windows() {
        check(&[], None);
        check(&[(0, 3.0), (11, 1.0)], Some(3.0));
        check(&[(0, 3.0), (12, 1.0)], Some(1.0));
        check(&[(0, 3.0), (0, 4.0), (0, 1.0)], Some(4.0));
    }
}
