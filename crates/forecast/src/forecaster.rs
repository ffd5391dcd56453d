//! State and forecasts of one series at several horizons.

use jiff::{SignedDuration, Timestamp};
use model::Series;

use crate::grid::Grid;
use crate::horizon::{Horizon, Observation, PointForecast, ValueRange};
use crate::members::{EarlierDays, member_forecasts};
use crate::output::{Forecast, ForecastError, ObserveError};
use crate::peak::SimpleForecasts;
use crate::quantiles::QuantileEstimate;
use crate::recent_deviation::Recent;
use crate::seasons::{DAYS, Seasons, SlotPosition};

/// Unit of the stored values, as a share of the mean of the first day.
const UNIT_SHARE: f64 = 0.2;
/// The smallest error that counts, as a share of that mean.
const FLOOR_SHARE: f64 = 1e-6;
/// Limit of plausible values, in units. Values beyond it are clamped as measurement errors.
const LARGEST: f64 = 1e12;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForecastConfig {
    /// Distance between samples in seconds. Samples are averaged into slots of at least five
    /// minutes.
    pub step_seconds: u32,
    /// Horizons in seconds, at most a day each, rounded up to whole slots.
    pub horizons_seconds: Vec<u32>,
}

/// State of one series: fourteen days of values, and the past errors of each ensemble member.
///
/// Without a clock: the same samples give the same state and the same forecasts.
#[derive(Clone, Debug)]
pub struct Forecaster {
    grid: Grid,
    unit: f64,
    first_slot: i64,
    /// Number of slots with a sample.
    measured: usize,
    open_slot: OpenSlot,
    seasons: Seasons,
    recent: Recent,
    range: ValueRange,
    horizons: Vec<Horizon>,
}

/// The slot that samples are added to.
#[derive(Clone, Copy, Debug, Default)]
struct OpenSlot {
    slot: i64,
    sum: f64,
    count: u32,
}

impl OpenSlot {
    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl Forecaster {
    /// Learns a history. The slot of the newest sample stays open until a later sample, or
    /// [`Self::advance`].
    pub fn fit(history: &Series, config: &ForecastConfig) -> Result<Self, ForecastError> {
        let grid = Grid::new(config.step_seconds)?;
        let horizons = config.horizons_seconds.iter();
        let horizons = horizons.map(|seconds| grid.ahead(*seconds));
        let horizons = horizons.collect::<Result<Vec<_>, _>>()?;
        let points = history.points();
        let samples = || points.iter().filter(|(_, value)| value.is_finite());
        let (first, _) = samples().next().ok_or(ForecastError::NoSamples)?;
        let first_slot = grid.slot(first.as_second());
        let day_end = first_slot + grid.per_day as i64;
        let (mut sum, mut count) = (0.0, 0_u32);
        for (_, value) in samples().take_while(|(at, _)| grid.slot(at.as_second()) < day_end) {
            sum += value.abs();
            count += 1;
        }
        let mean = sum / f64::from(count.max(1));
        let mut forecaster = Self::empty(grid, &horizons, mean, first_slot);
        for (at, value) in samples() {
            // After a gap of fourteen days nothing of the state is usable, so learning restarts
            // behind it.
            if forecaster.observe(*at, *value) == Err(ObserveError::Gap) {
                let after = points.iter().filter(|(later, _)| later >= at).copied();
                return Self::fit(&Series::new(after.collect()), config);
            }
        }
        Ok(forecaster)
    }

    fn empty(grid: Grid, horizons: &[usize], mean: f64, first_slot: i64) -> Self {
        let mean = if mean.is_normal() { mean } else { 1.0 };
        let floor = FLOOR_SHARE / UNIT_SHARE;
        let horizons = horizons.iter().copied();
        Self {
            grid,
            unit: UNIT_SHARE * mean,
            first_slot,
            measured: 0,
            open_slot: OpenSlot {
                slot: first_slot,
                ..OpenSlot::default()
            },
            seasons: Seasons::new(grid.per_day),
            recent: Recent::new(&grid),
            range: ValueRange {
                least: f64::INFINITY,
                largest: f64::NEG_INFINITY,
            },
            horizons: horizons
                .map(|slots| Horizon::new(&grid, slots, floor))
                .collect(),
        }
    }

    /// Adds a sample. A sample of a later slot completes the slots before it.
    pub fn observe(&mut self, at: Timestamp, value: f64) -> Result<(), ObserveError> {
        if !value.is_finite() {
            return Err(ObserveError::NotFinite);
        }
        // Most samples fall into the open slot and need no division.
        let into = at.as_second() - self.open_slot.slot * i64::from(self.grid.slot_seconds);
        if into < 0 {
            return Err(ObserveError::Late);
        }
        if into >= i64::from(self.grid.slot_seconds) {
            self.complete_before(self.grid.slot(at.as_second()))?;
        }
        self.open_slot.sum += value;
        self.open_slot.count += 1;
        Ok(())
    }

    /// Completes the slots that ended by `now`, with or without samples.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), ObserveError> {
        self.complete_before(self.grid.slot(now.as_second()))
    }

    fn complete_before(&mut self, slot: i64) -> Result<(), ObserveError> {
        if slot.saturating_sub(self.open_slot.slot) > (DAYS * self.grid.per_day) as i64 {
            return Err(ObserveError::Gap);
        }
        while self.open_slot.slot < slot {
            let next = self.open_slot.slot + 1;
            let opened = OpenSlot {
                slot: next,
                ..OpenSlot::default()
            };
            let complete = std::mem::replace(&mut self.open_slot, opened);
            self.push(complete.mean());
        }
        Ok(())
    }

    /// Adds the next slot, in units of the metric; `None` without a sample.
    fn push(&mut self, value: Option<f64>) {
        let value = value.map(|value| (value / self.unit).clamp(-LARGEST, LARGEST));
        let Some(stored) = value.or_else(|| self.seasons.substitute()) else {
            return;
        };
        let asinh = asinh(stored);
        if let Some(value) = value {
            let observation = Observation::new(&self.seasons, value, asinh);
            for horizon in &mut self.horizons {
                horizon.evaluate(&self.seasons, &observation);
            }
            self.measured += 1;
            self.range = ValueRange {
                least: self.range.least.min(value),
                largest: self.range.largest.max(value),
            };
        }
        self.recent.push(&self.seasons, stored, asinh);
        self.seasons.store(stored, asinh);
        for horizon in &mut self.horizons {
            horizon.step(&self.seasons, &self.recent, self.range);
        }
    }

    /// Forecasts the slot `ahead_seconds` after the newest complete slot, up to the longest
    /// configured horizon.
    ///
    /// Between two horizons the errors of the longer one are used.
    pub fn forecast(&self, ahead_seconds: u32) -> Result<Forecast, ForecastError> {
        let slots = self.grid.ahead(ahead_seconds)?;
        let too_far = ForecastError::Horizon {
            seconds: ahead_seconds,
        };
        let horizons = self.horizons.iter();
        let longer = horizons.filter(|horizon| horizon.slots >= slots);
        let horizon = longer.min_by_key(|horizon| horizon.slots).ok_or(too_far)?;
        self.check_history(horizon.slots)?;
        let too_little = || self.too_little(horizon.slots);
        let target = self.seasons.ahead(slots).ok_or_else(too_little)?;
        let point = horizon.estimate(&self.seasons, &self.recent, self.range, target);
        let estimate = horizon.quantiles(&self.seasons, self.range, target, point.forecast);
        let published = self.published(&point, &estimate, target);
        published.ok_or_else(too_little)
    }

    /// Forecasts of the slot `slots` after the newest by the last value, yesterday, last week, and
    /// the mean of seven days times the level of the last hour.
    pub(crate) fn simple_forecasts(&self, slots: usize) -> SimpleForecasts {
        let Some(target) = self.seasons.ahead(slots) else {
            return SimpleForecasts::default();
        };
        let earlier = EarlierDays::new(&self.seasons, target);
        let level = self.recent.level();
        let [last, day, week, _, _, level, _] =
            member_forecasts(earlier.as_ref(), self.recent.last, level);
        [last, day, week, level].map(|value| Some(value? * self.unit))
    }

    fn check_history(&self, slots: usize) -> Result<(), ForecastError> {
        let needed = self.needed(slots);
        let is_enough = self.seasons.len() >= needed && self.measured >= needed / 2;
        let too_little = || self.too_little(slots);
        is_enough.then_some(()).ok_or_else(too_little)
    }

    /// Two days, so that every time of day was forecast and evaluated once, plus the horizon.
    fn needed(&self, slots: usize) -> usize {
        2 * self.grid.per_day + slots
    }

    fn too_little(&self, slots: usize) -> ForecastError {
        let seconds = |slots: usize| slots as u64 * u64::from(self.grid.slot_seconds);
        ForecastError::TooLittle {
            history_seconds: seconds(self.seasons.len()),
            measured_seconds: seconds(self.measured),
            needed_seconds: seconds(self.needed(slots)),
        }
    }

    fn published(
        &self,
        point: &PointForecast,
        estimate: &QuantileEstimate,
        position: SlotPosition,
    ) -> Option<Forecast> {
        let [p90, p95, p99] = estimate.quantiles()?.map(|value| value * self.unit);
        let expected = point.forecast * self.unit;
        Some(Forecast {
            from: self.time(position.slot)?,
            length: SignedDuration::from_secs(i64::from(self.grid.slot_seconds)),
            as_of: self.time(self.seasons.len())?,
            expected,
            // Stored in single precision: rounding must not change their order.
            p90: p90.max(expected),
            p95: p95.max(expected),
            p99: p99.max(expected),
            weights: point.weights,
        })
    }

    /// Approximate memory in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.seasons.bytes()
            + self.horizons.iter().map(Horizon::bytes).sum::<usize>()
    }

    fn time(&self, slot: usize) -> Option<Timestamp> {
        let slot = self.first_slot + slot as i64;
        let second = slot.checked_mul(i64::from(self.grid.slot_seconds))?;
        Timestamp::from_second(second).ok()
    }
}

/// Inverse hyperbolic sine with one logarithm. The library's version is exact near zero, which does
/// not matter here, and takes several times as long.
fn asinh(value: f64) -> f64 {
    let size = value.abs();
    (size + (size * size + 1.0).sqrt()).ln().copysign(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Daily and weekly pattern, noise, a gap, and a rise by half, as specified with the method.
    fn reference() -> Vec<Option<f64>> {
        let value = |slot: u32| {
            let turn = 2.0 * std::f64::consts::PI * f64::from(slot) / 288.0;
            let noise = f64::from(7919 * slot % 101) / 101.0;
            let weekend = if slot / 288 % 7 >= 5 { 0.7 } else { 1.0 };
            let rise = if slot >= 2400 { 1.5 } else { 1.0 };
            (100.0 + 60.0 * turn.sin() + 10.0 * noise) * weekend * rise
        };
        (0..2880)
            .map(|slot| (!(1500..1520).contains(&slot)).then(|| value(slot)))
            .collect()
    }

    fn check(target: usize, ahead: usize, expected: f64, tolerance: f64) {
        let slots = reference();
        let grid = Grid::new(300).expect("five minutes fit a day");
        let mean = slots[..288].iter().flatten().sum::<f64>() / 288.0;
        let mut forecaster = Forecaster::empty(grid, &[1, 12, 288], mean, 0);
        slots[..=target - ahead]
            .iter()
            .for_each(|value| forecaster.push(*value));
        let mut horizons = forecaster.horizons.iter();
        let horizon = horizons
            .find(|horizon| horizon.slots == ahead)
            .expect("planned");
        let (seasons, range) = (&forecaster.seasons, forecaster.range);
        let position = seasons.ahead(ahead).expect("not before the first");
        let point = horizon.estimate(seasons, &forecaster.recent, range, position);
        let found = point.forecast * forecaster.unit;
        assert!(
            (found - expected).abs() <= tolerance * expected,
            "{target}, {ahead} ahead: {found} for {expected}"
        );
    }

    #[test]
    fn forecasts_are_those_of_another_program_for_the_same_method() {
        // There the last value is a second vote for yesterday a day ahead. Its share is taken out of
        // three of the rows.
        for (target, ahead, expected) in [
            (300, 1, 123.971_062),
            (300, 12, 126.895_032),
            (300, 288, 124.242_014),
            (700, 1, 128.264_712),
            (700, 12, 127.893_719),
            (700, 288, 127.901_915),
            (1510, 1, 150.015_677),
            (1510, 12, 113.262_504),
            (1510, 288, 160.587_353),
            (2000, 1, 59.371_831),
            (2000, 12, 57.636_877),
            (2000, 288, 66.608_239),
            (2405, 1, 217.676_522),
            (2405, 12, 155.112_771),
            (2405, 288, 157.495_587),
            (2420, 12, 192.887_839),
            (2420, 288, 134.414_586),
            (2879, 1, 156.139_969),
            (2879, 12, 158.460_187),
        ] {
            check(target, ahead, expected, 5e-4);
        }
    }
}
