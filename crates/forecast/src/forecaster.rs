//! One series: what it was, and what it will be at each of several horizons, or why that cannot be
//! said.

use jiff::{SignedDuration, Timestamp};
use model::Series;

use crate::grid::Grid;
use crate::horizon::{Come, Horizon, Range, Saying};
use crate::outcome::{Forecast, NotForecast, NotObserved, Part};
use crate::quantiles::Said;
use crate::recent::Recent;
use crate::seasons::{DAYS, Place, Seasons};

/// Unit in which values are kept: this share of the mean of the first day.
const UNIT_SHARE: f64 = 0.2;
/// The least error that counts, as a share of that mean.
const FLOOR_SHARE: f64 = 1e-6;
/// In units: what is further out is a mistake of whoever measured it.
const LARGEST: f64 = 1e12;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How far apart samples come, in seconds. They are averaged into slots of at least five
    /// minutes.
    pub step_seconds: u32,
    /// How far ahead, in seconds, at most a day each. Rounded up to whole slots.
    pub horizons_seconds: Vec<u32>,
}

/// The state of one series: fourteen days of it, and how good each way to forecast it was.
///
/// It has no clock. The same samples give the same state and the same forecasts.
#[derive(Clone, Debug)]
pub struct Forecaster {
    grid: Grid,
    unit: f64,
    /// The slot since 1970 in which the first sample lies.
    first_slot: i64,
    /// How many slots had a sample.
    measured: usize,
    filling: Filling,
    seasons: Seasons,
    recent: Recent,
    range: Range,
    horizons: Vec<Horizon>,
}

/// The slot that samples are going into.
#[derive(Clone, Copy, Debug, Default)]
struct Filling {
    slot: i64,
    sum: f64,
    count: u32,
}

impl Filling {
    fn mean(self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / f64::from(self.count))
    }
}

impl Forecaster {
    /// Learns a history. The slot of the newest sample stays open until a later sample, or
    /// [`Self::advance`].
    pub fn fit(history: &Series, plan: &Plan) -> Result<Self, NotForecast> {
        let grid = Grid::new(plan.step_seconds)?;
        let horizons = plan
            .horizons_seconds
            .iter()
            .map(|seconds| grid.ahead(*seconds))
            .collect::<Result<Vec<_>, _>>()?;
        let samples = || {
            history
                .points()
                .iter()
                .filter(|(_, value)| value.is_finite())
        };
        let first = samples()
            .next()
            .ok_or(NotForecast::NoSamples)?
            .0
            .as_second();
        let first_slot = grid.slot(first);
        let day_end = first_slot + grid.per_day as i64;
        let (mut sum, mut count) = (0.0, 0_u32);
        for (_, value) in samples().take_while(|(at, _)| grid.slot(at.as_second()) < day_end) {
            sum += value.abs();
            count += 1;
        }
        let mean = sum / f64::from(count.max(1));
        let mut forecaster = Self::empty(grid, &horizons, mean, first_slot);
        for (at, value) in samples() {
            // A gap of fourteen days leaves nothing to go on from: what comes after it is all there
            // is.
            if forecaster.observe(*at, *value) == Err(NotObserved::Gap) {
                let after = history
                    .points()
                    .iter()
                    .filter(|(later, _)| later >= at)
                    .copied()
                    .collect();
                return Self::fit(&Series::new(after), plan);
            }
        }
        Ok(forecaster)
    }

    fn empty(grid: Grid, horizons: &[usize], mean: f64, first_slot: i64) -> Self {
        let mean = if mean.is_normal() { mean } else { 1.0 };
        let floor = FLOOR_SHARE / UNIT_SHARE;
        Self {
            grid,
            unit: UNIT_SHARE * mean,
            first_slot,
            measured: 0,
            filling: Filling {
                slot: first_slot,
                ..Filling::default()
            },
            seasons: Seasons::new(grid.per_day),
            recent: Recent::new(&grid),
            range: Range {
                least: f64::INFINITY,
                largest: f64::NEG_INFINITY,
            },
            horizons: horizons
                .iter()
                .map(|slots| Horizon::new(&grid, *slots, floor))
                .collect(),
        }
    }

    /// Takes in a sample. One of a later slot completes those before it.
    pub fn observe(&mut self, at: Timestamp, value: f64) -> Result<(), NotObserved> {
        if !value.is_finite() {
            return Err(NotObserved::NotFinite);
        }
        // Mostly the slot is the one that is being filled; then there is no need to divide.
        let into = at.as_second() - self.filling.slot * i64::from(self.grid.slot_seconds);
        if into < 0 {
            return Err(NotObserved::Late);
        }
        if into >= i64::from(self.grid.slot_seconds) {
            self.complete_before(self.grid.slot(at.as_second()))?;
        }
        self.filling.sum += value;
        self.filling.count += 1;
        Ok(())
    }

    /// Completes the slots that ended by `now`, with or without samples.
    pub fn advance(&mut self, now: Timestamp) -> Result<(), NotObserved> {
        self.complete_before(self.grid.slot(now.as_second()))
    }

    fn complete_before(&mut self, slot: i64) -> Result<(), NotObserved> {
        if slot.saturating_sub(self.filling.slot) > (DAYS * self.grid.per_day) as i64 {
            return Err(NotObserved::Gap);
        }
        while self.filling.slot < slot {
            let next = self.filling.slot + 1;
            let complete = std::mem::replace(
                &mut self.filling,
                Filling {
                    slot: next,
                    ..Filling::default()
                },
            );
            self.push(complete.mean());
        }
        Ok(())
    }

    /// The next slot, in units of the metric; none where nothing was measured.
    fn push(&mut self, value: Option<f64>) {
        let value = value.map(|value| (value / self.unit).clamp(-LARGEST, LARGEST));
        let Some(stored) = value.or_else(|| self.seasons.substitute()) else {
            return;
        };
        let asinh = asinh(stored);
        if let Some(value) = value {
            let come = Come::new(&self.seasons, value, asinh);
            for horizon in &mut self.horizons {
                horizon.judge(&self.seasons, &come);
            }
            self.measured += 1;
            self.range = Range {
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

    /// What will be so many seconds after the newest complete slot; up to the longest of the plan's
    /// horizons.
    ///
    /// Between two horizons the errors of the longer one count.
    pub fn forecast(&self, ahead_seconds: u32) -> Result<Forecast, NotForecast> {
        let slots = self.grid.ahead(ahead_seconds)?;
        let longer = self
            .horizons
            .iter()
            .filter(|horizon| horizon.slots >= slots);
        let horizon = longer
            .min_by_key(|horizon| horizon.slots)
            .ok_or(NotForecast::Horizon {
                seconds: ahead_seconds,
            })?;
        self.check_history(horizon.slots)?;
        let target = self
            .seasons
            .ahead(slots)
            .ok_or_else(|| self.too_little(horizon.slots))?;
        let saying = horizon.say(&self.seasons, &self.recent, self.range, target);
        let said = horizon.quantiles(&self.seasons, self.range, target, saying.forecast);
        self.published(&saying, &said, target)
            .ok_or_else(|| self.too_little(horizon.slots))
    }

    fn check_history(&self, slots: usize) -> Result<(), NotForecast> {
        let needed = self.needed(slots);
        let is_enough = self.seasons.len() >= needed && self.measured >= needed / 2;
        if is_enough {
            Ok(())
        } else {
            Err(self.too_little(slots))
        }
    }

    /// Two days, so that every time of day was forecast and judged once, and the horizon itself.
    fn needed(&self, slots: usize) -> usize {
        2 * self.grid.per_day + slots
    }

    fn too_little(&self, slots: usize) -> NotForecast {
        let seconds = |slots: usize| slots as u64 * u64::from(self.grid.slot_seconds);
        NotForecast::TooLittle {
            history_seconds: seconds(self.seasons.len()),
            measured_seconds: seconds(self.measured),
            needed_seconds: seconds(self.needed(slots)),
        }
    }

    fn published(&self, saying: &Saying, said: &Said, place: Place) -> Option<Forecast> {
        let [p90, p95, p99] = said.quantiles()?.map(|value| value * self.unit);
        let expected = saying.forecast * self.unit;
        Some(Forecast {
            from: self.time(place.slot)?,
            length: SignedDuration::from_secs(i64::from(self.grid.slot_seconds)),
            as_of: self.time(self.seasons.len())?,
            expected,
            // Stored in single precision: rounding must not put them in the wrong order.
            p90: p90.max(expected),
            p95: p95.max(expected),
            p99: p99.max(expected),
            parts: std::array::from_fn(|which| (Part::ALL[which], saying.weights[which])),
        })
    }

    /// About the memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.seasons.bytes()
            + self.horizons.iter().map(Horizon::bytes).sum::<usize>()
    }

    /// When a slot begins.
    fn time(&self, slot: usize) -> Option<Timestamp> {
        Timestamp::from_second(
            (self.first_slot + slot as i64).checked_mul(i64::from(self.grid.slot_seconds))?,
        )
        .ok()
    }
}

/// By one logarithm: the library's is exact near zero, which does not matter here, and takes
/// several times as long.
fn asinh(value: f64) -> f64 {
    let size = value.abs();
    (size + (size * size + 1.0).sqrt()).ln().copysign(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Day and week, noise, a gap, and a rise of a half, as spec'd with the method.
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
        let horizon = forecaster
            .horizons
            .iter()
            .find(|horizon| horizon.slots == ahead)
            .expect("planned");
        let place = forecaster
            .seasons
            .ahead(ahead)
            .expect("not before the first");
        let saying = horizon.say(
            &forecaster.seasons,
            &forecaster.recent,
            forecaster.range,
            place,
        );
        let found = saying.forecast * forecaster.unit;
        assert!(
            (found - expected).abs() <= tolerance * expected,
            "{target}, {ahead} ahead: {found} for {expected}"
        );
    }

    #[test]
    fn forecasts_are_those_of_another_program_for_the_same_method() {
        for (target, ahead, expected) in [
            (300, 1, 123.971_062),
            (300, 12, 126.895_032),
            (300, 288, 124.242_014),
            (700, 1, 128.264_712),
            (700, 12, 127.893_719),
            (700, 288, 127.888_001),
            (1510, 1, 150.015_677),
            (1510, 12, 113.262_504),
            (1510, 288, 160.563_715),
            (2000, 1, 59.371_831),
            (2000, 12, 57.636_877),
            (2000, 288, 65.215_964),
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
