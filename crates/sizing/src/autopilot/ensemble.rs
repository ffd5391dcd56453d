//! Autopilot's second recommender of one resource: sixteen models, of which the one with the least
//! accumulated cost sets the limit.
//!
//! A model is a decay rate and a margin (`model.rs`). The choice minimises
//! `cost + w_dm * [it is not the last chosen one] + w_dL * [its limit is not the last limit]`
//! (equation 9). The paper publishes neither the models nor the weights. Here: half-lives of 1, 4,
//! 16 and 64 hours, and margins of 0, 1, 2 and 4 buckets (0, 5, 10 and 22 %), since a margin that
//! grows with the limit suits exponential buckets.
//!
//! The default weights come from a sweep of about thirty combinations over two months of 60 virtual
//! machines (Bitbrains, one sample per window, applied hourly when 10 % off). Usage exceeds the
//! limit as rarely as with the moving window (0.48 % against 0.50 %), with a seventh of its limit
//! changes (0.23 against 1.53 per day) but more slack (0.72 against 0.67 of all limits); for
//! memory, 0.03 OOM kills per machine and day at a slack of 0.86 against 0.24 at 0.81. The paper's
//! advantage in slack did not appear: it had a sample per second. Memory: at most 5.6 KiB of shares
//! (4 x 8 bytes per bucket up to the highest usage) and 512 bytes of models. Source: section 3.2.3.

use model::MethodStep;
use serde::{Deserialize, Serialize};

use super::model::{FadedShares, Model, differs};
use super::open_window::Counts;
use crate::Buckets;

/// Decay per window of five minutes: `1 - 2^(-1 / windows per half-life)` for 1, 4, 16 and 64
/// hours.
const SPEEDS: [f64; 4] = [0.056_126, 0.014_337, 0.003_603_8, 0.000_902_13];

const HALF_LIVES: [f64; SPEEDS.len()] = [1.0, 4.0, 16.0, 64.0];

/// Margins in buckets above the cheapest one.
const MARGINS: [u8; 4] = [0, 1, 2, 4];

/// Cost weights, for shares of a window's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnsembleConfig {
    /// Weight of usage above the limit: `w_o`.
    pub overrun: f64,
    /// Weight of usage below the limit: `w_u`.
    pub underrun: f64,
    /// Weight of a changed limit: `w_dL`.
    pub limit_change: f64,
    /// Weight of a changed model: `w_dm`.
    pub model_change: f64,
    /// Decay of a model's cost per window: d.
    pub cost_speed: f64,
}

impl Default for EnsembleConfig {
    fn default() -> Self {
        Self {
            overrun: 1.0,
            underrun: 0.02,
            limit_change: 0.015,
            model_change: 0.01,
            cost_speed: 0.01,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Ensemble {
    shares: [FadedShares; SPEEDS.len()],
    models: [Model; SPEEDS.len() * MARGINS.len()],
    /// Index of the chosen model, and its limit.
    chosen: Option<(usize, u8)>,
}

impl Default for Ensemble {
    fn default() -> Self {
        Self {
            shares: SPEEDS.map(FadedShares::new),
            models: Default::default(),
            chosen: None,
        }
    }
}

impl Ensemble {
    /// Whether samples can lead to this state.
    pub(super) fn is_valid(&self) -> bool {
        let is_choice = |(model, limit): (usize, u8)| {
            model < self.models.len() && usize::from(limit) < Buckets::COUNT
        };
        let mut shares = self.shares.iter().zip(SPEEDS);
        shares.all(|(shares, speed)| shares.is_valid(speed))
            && self.models.iter().all(Model::is_valid)
            && self.chosen.is_none_or(is_choice)
    }

    /// Adds the samples of a closed window.
    pub(super) fn close(&mut self, config: &EnsembleConfig, counts: &Counts) {
        if counts.is_empty() {
            return;
        }
        let total = counts.total();
        let window: Vec<(u8, f64)> = counts
            .iter()
            .map(|(bucket, count)| (bucket, count / total))
            .collect();
        let last = Buckets::COUNT as u8 - 1;
        for (shares, models) in self
            .shares
            .iter_mut()
            .zip(self.models.chunks_mut(MARGINS.len()))
        {
            shares.add(&window);
            for (model, margin) in models.iter_mut().zip(MARGINS) {
                let cheapest = shares.cheapest(config, model.cheapest);
                model.update(config, cheapest, margin, last, &window);
            }
        }
        self.choose(config);
    }

    fn choose(&mut self, config: &EnsembleConfig) {
        let (model_before, limit_before) = self.chosen.unzip();
        let mut best: Option<(f64, usize, u8)> = None;
        for (index, model) in self.models.iter().enumerate() {
            let (Some(cost), Some(limit)) = (model.cost, model.limit) else {
                continue;
            };
            let cost = cost
                + config.model_change * differs(model_before, index)
                + config.limit_change * differs(limit_before, limit);
            if best.is_none_or(|(least, ..)| cost < least) {
                best = Some((cost, index, limit));
            }
        }
        self.chosen = best.map(|(_, index, limit)| (index, limit));
    }

    /// The steps of the limit: the chosen model and the next best one. Amounts are multiplied by
    /// `factor` to be in `unit`.
    pub(super) fn explain(
        &self,
        config: &EnsembleConfig,
        buckets: &Buckets,
        factor: f64,
        unit: &str,
    ) -> Vec<MethodStep> {
        let Some((chosen, limit)) = self.chosen else {
            return Vec::new();
        };
        let cost = |index: usize| {
            let model = &self.models[index];
            let change = config.model_change * differs(Some(chosen), index)
                + config.limit_change * differs(Some(limit), model.limit?);
            Some((model.cost? + change, index))
        };
        let others = (0..self.models.len()).filter(|index| *index != chosen);
        let next = others.filter_map(cost).min_by(|a, b| a.0.total_cmp(&b.0));
        let mut steps = Vec::new();
        for (prefix, model) in [("model", cost(chosen)), ("next-best-model", next)] {
            let Some((cost, index)) = model else {
                continue;
            };
            let bound = self.models[index]
                .limit
                .map_or(0.0, |limit| buckets.end(usize::from(limit)) * factor);
            let margin = f64::from(MARGINS[index % MARGINS.len()]);
            let name = |step: &str| format!("{prefix}-{step}");
            steps.extend([
                MethodStep::number(
                    &name("half-life"),
                    HALF_LIVES[index / MARGINS.len()],
                    "hours",
                ),
                MethodStep::number(&name("margin"), margin, "buckets"),
                MethodStep::number(&name("cost"), cost, ""),
                MethodStep::number(&name("limit"), bound, unit),
            ]);
        }
        steps
    }

    /// The limit as a bucket bound; `None` before the first window.
    pub(super) fn limit(&self, buckets: &Buckets) -> Option<f64> {
        self.chosen
            .map(|(_, limit)| buckets.end(usize::from(limit)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(samples: &[u8]) -> Counts {
        let mut counts = Counts::default();
        for bucket in samples {
            counts.add(*bucket);
        }
        counts
    }

    fn limits(windows: &[Vec<u8>]) -> Vec<Option<u8>> {
        let mut ensemble = Ensemble::default();
        let limit = |window: &Vec<u8>| {
            ensemble.close(&EnsembleConfig::default(), &counts(window));
            ensemble.chosen.map(|(_, limit)| limit)
        };
        windows.iter().map(limit).collect()
    }

    #[test]
    fn speeds_are_those_of_their_half_lives() {
        for (speed, hours) in SPEEDS.iter().zip(HALF_LIVES) {
            let exact = 1.0 - (-1.0_f64 / (12.0 * hours)).exp2();
            let is_near = (speed - exact).abs() < 1e-4 * exact;
            assert!(is_near, "{hours} hours: {exact}");
        }
    }

    #[test]
    fn steady_usage_gets_its_own_bucket() {
        assert_eq!(limits(&vec![vec![40; 5]; 300]), vec![Some(40); 300]);
        assert_eq!(limits(&[vec![]]), [None]);
    }

    #[test]
    fn a_lasting_step_is_followed_up_and_down() {
        let steady = |bucket, windows| vec![vec![bucket; 5]; windows];
        let limits = limits(&[steady(40, 600), steady(80, 300), steady(40, 9000)].concat());
        assert_eq!(limits[599], Some(40));
        assert!(limits[899] >= Some(80), "{:?}", limits[899]);
        assert!(limits[9899] < Some(80), "{:?}", limits[9899]);
    }

    proptest! {
        #[test]
        fn a_limit_lies_within_usage_and_the_largest_margin(
            windows in prop::collection::vec(prop::collection::vec(0_u8..176, 1..6), 1..60),
        ) {
            let lowest = *windows.iter().flatten().min().expect("not empty");
            let highest = *windows.iter().flatten().max().expect("not empty");
            for limit in limits(&windows).into_iter().flatten() {
                prop_assert!((lowest..=highest.saturating_add(4).min(175)).contains(&limit));
            }
        }

        #[test]
        fn the_same_usage_some_buckets_higher_gives_the_same_limits_that_many_buckets_higher(
            windows in prop::collection::vec(prop::collection::vec(20_u8..100, 1..6), 1..60),
            shift in 0_u8..60,
        ) {
            let shifted: Vec<Vec<u8>> =
                windows.iter().map(|window| window.iter().map(|bucket| bucket + shift).collect()).collect();
            let expected: Vec<_> = limits(&windows).into_iter().map(|limit| limit.map(|limit| limit + shift)).collect();
            prop_assert_eq!(limits(&shifted), expected);
        }

        #[test]
        fn more_replicas_that_do_the_same_change_nothing(
            windows in prop::collection::vec(prop::collection::vec(20_u8..100, 1..6), 1..60),
        ) {
            // Repeated four times: a power of two keeps every bit of a share.
            let replicas: Vec<Vec<u8>> = windows.iter().map(|window| window.repeat(4)).collect();
            prop_assert_eq!(limits(&replicas), limits(&windows));
        }
    }
}
