//! One model of the ensemble: the limit with the least cost for usage decayed at the model's own
//! rate, plus the model's margin in buckets.
//!
//! With h the decayed shares of usage by bucket, the model takes the bucket L of least
//! `w_o * h(above L) + w_u * h(below L) + w_dL * [L is not the last one]` (equations 4 to 7). Its
//! own cost uses only the last window, and decays (equation 8). Shares are relative to the window's
//! samples, so that costs do not depend on the number of replicas and the sampling rate. The decay
//! is bias-corrected (divided by the weight of all windows so far), so that a young model needs no
//! special case. The paper specifies neither. Source: section 3.2.3.

use serde::{Deserialize, Serialize};

use super::ensemble::EnsembleConfig;
use crate::{Buckets, packed};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FadedShares {
    /// Decay of older windows per new one: the paper's `d_m`.
    speed: f64,
    #[serde(with = "packed::numbers")]
    shares: Vec<f64>,
    /// Sum of the shares.
    mass: f64,
}

impl FadedShares {
    pub(super) fn new(speed: f64) -> Self {
        Self {
            speed,
            shares: Vec::new(),
            mass: 0.0,
        }
    }

    /// Whether windows with this decay can lead to these shares.
    pub(super) fn is_valid(&self, speed: f64) -> bool {
        // Rounding may lift a sum above one.
        let mut shares = self.shares.iter().chain([&self.mass]);
        self.speed.to_bits() == speed.to_bits()
            && self.shares.len() <= Buckets::COUNT
            && shares.all(|share| (0.0..=2.0).contains(share))
    }

    /// Adds a window's shares by bucket.
    pub(super) fn add(&mut self, window: &[(u8, f64)]) {
        self.shares
            .iter_mut()
            .for_each(|share| *share *= 1.0 - self.speed);
        self.mass = self.mass * (1.0 - self.speed) + self.speed;
        for (bucket, share) in window {
            let bucket = usize::from(*bucket);
            if self.shares.len() <= bucket {
                self.shares.reserve_exact(bucket + 1 - self.shares.len());
                self.shares.resize(bucket + 1, 0.0);
            }
            self.shares[bucket] += self.speed * share;
        }
    }

    /// The bucket of least cost, the lowest of several. Costs only rise above the highest usage, so
    /// the search ends there.
    pub(super) fn cheapest(&self, config: &EnsembleConfig, last: Option<u8>) -> u8 {
        let mut best = (f64::INFINITY, 0);
        let mut below = 0.0;
        for (bucket, share) in self.shares.iter().enumerate() {
            let above = (self.mass - below - share).max(0.0);
            let usage = (config.overrun * above + config.underrun * below) / self.mass;
            let cost = usage + config.limit_change * differs(last, bucket as u8);
            if cost < best.0 {
                best = (cost, bucket as u8);
            }
            below += share;
        }
        best.1
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    /// The cheapest bucket of the last window: the paper's L'.
    pub(super) cheapest: Option<u8>,
    /// The cheapest bucket plus the margin.
    pub(super) limit: Option<u8>,
    /// Decayed cost; `None` before the first window.
    pub(super) cost: Option<f64>,
}

impl Model {
    pub(super) fn is_valid(&self) -> bool {
        let buckets = [self.cheapest, self.limit];
        let mut buckets = buckets.into_iter().flatten().map(usize::from);
        buckets.all(|bucket| bucket < Buckets::COUNT)
            && self.cost.is_none_or(|cost| cost.is_finite() && cost >= 0.0)
    }

    /// Adds a window: its cheapest bucket, the margin in buckets, and its shares.
    pub(super) fn update(
        &mut self,
        config: &EnsembleConfig,
        cheapest: u8,
        margin: u8,
        last: u8,
        window: &[(u8, f64)],
    ) {
        let limit = cheapest.saturating_add(margin).min(last);
        let share = |counts: &dyn Fn(u8) -> bool| -> f64 {
            window
                .iter()
                .filter(|(bucket, _)| counts(*bucket))
                .map(|(_, share)| share)
                .sum()
        };
        let cost = config.overrun * share(&|bucket| bucket > limit)
            + config.underrun * share(&|bucket| bucket < limit)
            + config.limit_change * differs(self.limit, limit);
        let fade = config.cost_speed;
        self.cost = Some(
            self.cost
                .map_or(cost, |old| fade * cost + (1.0 - fade) * old),
        );
        self.cheapest = Some(cheapest);
        self.limit = Some(limit);
    }
}

/// 1 if there is an old value and it differs, else 0: the paper's D.
pub(super) fn differs<T: PartialEq + Copy>(old: Option<T>, new: T) -> f64 {
    if old.is_some_and(|old| old != new) {
        1.0
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: EnsembleConfig = EnsembleConfig {
        overrun: 1.0,
        underrun: 0.25,
        limit_change: 0.1,
        model_change: 0.1,
        cost_speed: 0.5,
    };

    fn check(windows: &[&[(u8, f64)]], last: Option<u8>, expected: u8) {
        let mut shares = FadedShares::new(0.5);
        for window in windows {
            shares.add(window);
        }
        assert_eq!(shares.cheapest(&CONFIG, last), expected, "{windows:?}");
    }

    #[test]
    fn the_cheapest_limit_weighs_usage_above_against_usage_below() {
        check(&[&[(7, 1.0)]], None, 7);
        // At 3: 0.1 above. At 9: 0.25 * 0.9 below.
        check(&[&[(3, 0.9), (9, 0.1)]], None, 3);
        check(&[&[(3, 0.7), (9, 0.3)]], None, 9);
    }

    #[test]
    fn a_change_must_be_worth_its_cost() {
        check(&[&[(3, 0.75), (9, 0.25)]], Some(3), 3);
        check(&[&[(3, 0.75), (9, 0.25)]], Some(9), 9);
        check(&[&[(3, 0.6), (9, 0.4)]], Some(3), 9);
    }

    #[test]
    fn older_windows_fade() {
        // 1/3 of the weight at 9, then 2/3 at 3.
        check(&[&[(9, 1.0)], &[(3, 1.0)]], None, 9);
        // 1/15 at 9.
        let once: &[_] = &[(3, 1.0)];
        check(&[&[(9, 1.0)], once, once, once], None, 3);
    }

    #[test]
    fn a_models_cost_is_that_of_the_last_window_and_fades() {
        let mut model = Model::default();
        model.update(&CONFIG, 4, 1, 175, &[(3, 0.5), (5, 0.3), (9, 0.2)]);
        assert_eq!((model.cheapest, model.limit), (Some(4), Some(5)));
        // 0.2 above, a quarter of 0.5 below, no change yet.
        assert!((model.cost.unwrap_or(0.0) - 0.325).abs() < 1e-12);
        model.update(&CONFIG, 8, 1, 175, &[(9, 1.0)]);
        // Half of a change, half of the previous cost.
        assert!((model.cost.unwrap_or(0.0) - 0.2125).abs() < 1e-12);
        model.update(&CONFIG, 175, 1, 175, &[(9, 1.0)]);
        assert_eq!(model.limit, Some(175));
    }
}
