//! Forecasts of one horizon: seven members weighted by their past errors at this horizon, and
//! quantiles around them.

use crate::baseline_guard::BaselineGuard;
use crate::ensemble_weights::{Decay, EnsembleWeights, normalised};
use crate::grid::Grid;
use crate::members::{
    EarlierDays, MEMBERS, MemberForecasts, REGRESSION, features, member_forecasts,
};
use crate::quantiles::{QuantileEstimate, QuantileEstimator};
use crate::recent_deviation::Recent;
use crate::regression::{FEATURES, Regression};
use crate::seasons::{Seasons, SlotPosition};

const LARGEST_ASINH: f64 = 12.0;

/// Smallest and largest value of the series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueRange {
    pub(crate) least: f64,
    pub(crate) largest: f64,
}

impl ValueRange {
    fn width(self) -> f64 {
        self.largest - self.least
    }

    /// Clamps a value to half the range beyond the extremes, and to zero if nothing was below it.
    fn limit(self, value: f64) -> f64 {
        let out = self.width() / 2.0;
        self.floor(value.clamp(self.least - out, self.largest + out))
    }

    fn floor(self, value: f64) -> f64 {
        if self.least >= 0.0 {
            value.max(0.0)
        } else {
            value
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PointForecast {
    pub(crate) forecast: f64,
    mixed: f64,
    pub(crate) weights: [f64; MEMBERS],
}

/// Actual value of the next slot before it is stored, with the values of earlier days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    position: SlotPosition,
    value: f64,
    /// Deviation from the profile, in asinh.
    deviation: f64,
    earlier: Option<EarlierDays>,
}

impl Observation {
    pub(crate) fn new(seasons: &Seasons, value: f64, asinh: f64) -> Self {
        let position = seasons.next();
        let deviation = asinh - f64::from(seasons.profile(position).mean_asinh);
        Self {
            position,
            value,
            deviation,
            earlier: EarlierDays::new(seasons, position),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct RegressionForecast {
    features: [f32; FEATURES],
    deviation: f64,
    value: f64,
}

/// Inputs of the members for a future slot. Members that follow from values alone are recomputed
/// when the slot is evaluated.
#[derive(Clone, Copy, Debug, Default)]
struct PendingInputs {
    level: f32,
    has_regression: bool,
    features: [f32; FEATURES],
    deviation: f32,
    value: f32,
}

/// Forecast of a future slot, to be evaluated later.
#[derive(Clone, Copy, Debug, Default)]
struct PendingForecast {
    forecast: f32,
    mixed: f32,
    quantiles: QuantileEstimate,
}

#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    pub(crate) slots: usize,
    /// Number of slots between solutions of the regression, and between evaluations of forecast and
    /// quantiles. Slots in between differ little.
    every: usize,
    /// Whether the horizon is one day. A day ahead the last value equals yesterday's, so that only
    /// yesterday counts, and the present deviation is that of the forecast slot. When these errors
    /// serve a nearer slot, the profile replaces the regression.
    is_day: bool,
    regression: Regression,
    weights: EnsembleWeights<MEMBERS, 3>,
    baseline_guard: Option<BaselineGuard>,
    quantiles: QuantileEstimator,
    /// Ring of the next slots, as long as the horizon.
    pending: Vec<PendingInputs>,
    /// Ring index of the next slot.
    next: usize,
    pending_forecasts: Vec<PendingForecast>,
}

impl Horizon {
    /// `floor` is the smallest error that counts.
    pub(crate) fn new(grid: &Grid, slots: usize, floor: f64) -> Self {
        let is_long = grid.is_long(slots);
        let (half_lives, exponents) = if is_long {
            ([24.0, 96.0, 384.0], [1, 2, 4])
        } else {
            ([1.0, 12.0, 192.0], [2, 1, 2])
        };
        let decays = std::array::from_fn(|index| Decay {
            half_life: grid.hours(half_lives[index]).max(slots as f64),
            exponent: exponents[index],
        });
        let every = (grid.per_hour / if is_long { 2 } else { 4 }).max(1);
        Self {
            slots,
            every,
            is_day: slots == grid.per_day,
            regression: Regression::new(grid, slots),
            weights: EnsembleWeights::new(decays, 3, floor),
            baseline_guard: is_long.then(|| BaselineGuard::new(grid, every, floor)),
            quantiles: QuantileEstimator::new(grid, slots, every, floor),
            pending: vec![PendingInputs::default(); slots],
            next: 0,
            pending_forecasts: vec![PendingForecast::default(); slots / every + 2],
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.pending)
            + size_of_val(&*self.pending_forecasts)
            + self.quantiles.bytes()
    }

    /// Evaluates the forecasts of the next slot, before it is stored.
    pub(crate) fn evaluate(&mut self, seasons: &Seasons, observation: &Observation) {
        let origin = seasons.shifted(observation.position, -(self.slots as isize));
        let Some(last) = origin.and_then(|origin| seasons.value(origin)) else {
            return;
        };
        let pending = &self.pending[self.next];
        let mut member_forecasts =
            member_forecasts(observation.earlier.as_ref(), last, f64::from(pending.level));
        if pending.has_regression {
            member_forecasts[REGRESSION] = Some(f64::from(pending.value));
            let (predicted, actual) = (f64::from(pending.deviation), observation.deviation);
            self.regression.learn(&pending.features, predicted, actual);
        }
        let errors =
            member_forecasts.map(|member| (observation.value - member.unwrap_or_default()).abs());
        let was_available = member_forecasts.map(|member| member.is_some());
        self.weights.add(errors, was_available);
        if let Some(position) = self.pending_index(observation.position.slot) {
            let (pending, actual) = (&self.pending_forecasts[position], observation.value);
            if let Some(guard) = &mut self.baseline_guard {
                guard.evaluate(&member_forecasts, f64::from(pending.mixed), actual);
            }
            let (estimate, position) = (&pending.quantiles, observation.position);
            let error = actual - f64::from(pending.forecast);
            self.quantiles
                .evaluate(estimate, seasons, position, actual, error);
        }
    }

    fn pending_index(&self, slot: usize) -> Option<usize> {
        slot.is_multiple_of(self.every)
            .then(|| slot / self.every % self.pending_forecasts.len())
    }

    /// Learns from the evaluated slot and forecasts the slot one horizon after the newest.
    pub(crate) fn step(&mut self, seasons: &Seasons, recent: &Recent, range: ValueRange) {
        let Some(newest) = seasons.len().checked_sub(1) else {
            return;
        };
        if newest.is_multiple_of(self.every) {
            self.regression.solve();
        }
        let Some(target) = seasons.ahead(self.slots) else {
            return;
        };
        let regression = self.regress(seasons, recent, range, target);
        // The ring index of the newest slot: the ring is as long as the horizon.
        let pending = &mut self.pending[self.next];
        *pending = PendingInputs::default();
        pending.level = recent.level() as f32;
        if let Some(regression) = &regression {
            pending.has_regression = true;
            pending.features = regression.features;
            pending.deviation = regression.deviation as f32;
            pending.value = regression.value as f32;
        }
        let is_last = self.next + 1 == self.slots;
        self.next = if is_last { 0 } else { self.next + 1 };
        if let Some(position) = self.pending_index(target.slot) {
            let point = self.mix(seasons, recent, range, target, regression.as_ref());
            self.pending_forecasts[position] = PendingForecast {
                forecast: point.forecast as f32,
                mixed: point.mixed as f32,
                quantiles: self.quantiles(seasons, range, target, point.forecast),
            };
        }
    }

    /// Forecasts a slot at most a day ahead.
    pub(crate) fn estimate(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: ValueRange,
        target: SlotPosition,
    ) -> PointForecast {
        let regression = self.regress(seasons, recent, range, target);
        self.mix(seasons, recent, range, target, regression.as_ref())
    }

    /// Forecast of the regression, or `None` on the first day.
    fn regress(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: ValueRange,
        target: SlotPosition,
    ) -> Option<RegressionForecast> {
        let features = self.regression.counted(features(seasons, recent, target)?);
        let is_lent = self.is_day && target.slot + 1 != seasons.len() + self.slots;
        let predict = || self.regression.predict(&features);
        let deviation = if is_lent { 0.0 } else { predict() };
        let asinh = f64::from(seasons.profile(target).mean_asinh) + deviation;
        let value = range.floor(sinh(asinh.clamp(-LARGEST_ASINH, LARGEST_ASINH)));
        Some(RegressionForecast {
            features,
            deviation,
            value,
        })
    }

    fn mix(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: ValueRange,
        target: SlotPosition,
        regression: Option<&RegressionForecast>,
    ) -> PointForecast {
        let earlier = EarlierDays::new(seasons, target);
        let mut member_forecasts = member_forecasts(earlier.as_ref(), recent.last, recent.level());
        if self.is_day && member_forecasts[1].is_some() {
            member_forecasts[0] = None;
        }
        member_forecasts[REGRESSION] = regression.map(|regression| regression.value);
        let weights = self.weights(&member_forecasts);
        let mix = |weights: [f64; MEMBERS]| {
            let parts = member_forecasts.iter().zip(weights);
            let parts = parts.map(|(member, weight)| member.unwrap_or_default() * weight);
            range.limit(parts.sum())
        };
        let mixed = mix(weights);
        let guard = self.baseline_guard.as_ref();
        let replacement = guard.and_then(|guard| guard.replacement(&member_forecasts));
        let (forecast, weights) = match replacement {
            None => (mixed, weights),
            Some(which) => {
                let weights = std::array::from_fn(|part| f64::from(u8::from(part == which)));
                (mix(weights), weights)
            }
        };
        PointForecast {
            forecast,
            mixed,
            weights,
        }
    }

    pub(crate) fn quantiles(
        &self,
        seasons: &Seasons,
        range: ValueRange,
        target: SlotPosition,
        forecast: f64,
    ) -> QuantileEstimate {
        let range = (range.largest, range.width());
        self.quantiles.estimate(seasons, target, forecast, range)
    }

    fn weights(&self, member_forecasts: &MemberForecasts) -> [f64; MEMBERS] {
        let is_available = member_forecasts.map(|member| member.is_some());
        self.weights.weights(is_available).unwrap_or_else(|| {
            // No errors yet: the last value gets the largest weight, a day ahead that of yesterday.
            let mut weights =
                is_available.map(|is_available| if is_available { (-1.0_f64).exp() } else { 0.0 });
            weights[usize::from(!is_available[0])] = 1.0;
            normalised(weights)
        })
    }
}

/// Hyperbolic sine with one exponential. The library's version is exact near zero, which does not
/// matter here, and takes several times as long.
fn sinh(value: f64) -> f64 {
    let up = value.exp();
    (up - 1.0 / up) / 2.0
}
