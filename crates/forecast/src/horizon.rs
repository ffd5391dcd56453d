//! Forecasts of one horizon: seven opinions, weighted by how wrong each was at this horizon, and quantiles around them.

use crate::do_no_harm::DoNoHarm;
use crate::experts::{EXPERTS, Opinions, REGRESSION, features, opinions};
use crate::grid::Grid;
use crate::quantiles::{Quantiles, Said};
use crate::recent::Recent;
use crate::regression::{FEATURES, Regression};
use crate::seasons::Seasons;
use crate::trust::{Speed, Trust, normalised};

const LARGEST_ASINH: f64 = 12.0;

/// What is known of all values seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Range {
    pub(crate) least: f64,
    pub(crate) largest: f64,
}

impl Range {
    fn width(self) -> f64 {
        self.largest - self.least
    }

    /// Not further out than half the range seen; not below zero where nothing was.
    fn limit(self, value: f64) -> f64 {
        let out = self.width() / 2.0;
        self.floor(value.clamp(self.least - out, self.largest + out))
    }

    fn floor(self, value: f64) -> f64 {
        if self.least >= 0.0 { value.max(0.0) } else { value }
    }
}

/// What is said of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saying {
    pub(crate) forecast: f64,
    mixed: f64,
    pub(crate) weights: [f64; EXPERTS],
    told: Told,
}

/// What the regression was told of a slot, and what it said.
#[derive(Clone, Copy, Debug)]
struct Told {
    features: [f32; FEATURES],
    deviation: f32,
    value: f32,
}

/// What was said of a slot that has not been yet. Opinions that follow from values alone are made again when it comes.
#[derive(Clone, Copy, Debug)]
struct Pending {
    is_said: bool,
    is_told: bool,
    forecast: f32,
    mixed: f32,
    level: f32,
    told: Told,
}

/// Forecasts so many slots ahead.
#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    pub(crate) slots: usize,
    /// Every so many slots the regression is solved, and quantiles are said and judged. Those in between differ little.
    every: usize,
    /// A day ahead the last value is yesterday's, and the present deviates as the wanted slot does. So where these errors are lent to a
    /// nearer slot, yesterday stands for the last value, and the profile for the regression.
    is_day: bool,
    regression: Regression,
    trust: Trust<EXPERTS, 3>,
    do_no_harm: Option<DoNoHarm>,
    quantiles: Quantiles,
    pending: Vec<Pending>,
    said: Vec<Said>,
}

const NOT_TOLD: Told = Told { features: [0.0; FEATURES], deviation: 0.0, value: 0.0 };
const NOT_SAID: Pending =
    Pending { is_said: false, is_told: false, forecast: 0.0, mixed: 0.0, level: 0.0, told: NOT_TOLD };

impl Horizon {
    /// `floor` is the least error that counts.
    pub(crate) fn new(grid: &Grid, slots: usize, floor: f64) -> Self {
        let is_long = grid.is_long(slots);
        let half_lives = if is_long { [24.0, 96.0, 384.0] } else { [1.0, 12.0, 192.0] };
        let exponents = if is_long { [1, 2, 4] } else { [2, 1, 2] };
        let speeds = std::array::from_fn(|index| Speed {
            half_life: grid.hours(half_lives[index]).max(slots as f64),
            exponent: exponents[index],
        });
        let every = (grid.per_hour / if is_long { 2 } else { 4 }).max(1);
        Self {
            slots,
            every,
            is_day: slots == grid.per_day,
            regression: Regression::new(grid, slots),
            trust: Trust::new(speeds, 3, floor),
            do_no_harm: is_long.then(|| DoNoHarm::new(grid, every, floor)),
            quantiles: Quantiles::new(grid, slots, every, floor),
            pending: vec![NOT_SAID; slots + 1],
            said: vec![Said::default(); slots / every + 2],
        }
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.pending) + size_of_val(&*self.said) + self.quantiles.bytes()
    }

    /// Judges what was said of the next slot, before it is stored.
    pub(crate) fn judge(&mut self, seasons: &Seasons, actual: f64, asinh: f64) {
        let slot = seasons.len();
        let place = slot % self.pending.len();
        let pending = std::mem::replace(&mut self.pending[place], NOT_SAID);
        let Some(last) = slot.checked_sub(self.slots).and_then(|origin| seasons.value(origin)) else { return };
        if !pending.is_said {
            return;
        }
        let here = seasons.place(slot);
        let mut opinions = opinions(seasons, last, f64::from(pending.level), here);
        if pending.is_told {
            opinions[REGRESSION] = Some(f64::from(pending.told.value));
            let deviation = asinh - f64::from(seasons.profile(here).mean_asinh);
            self.regression.learn(&pending.told.features, f64::from(pending.told.deviation), deviation);
        }
        for (which, opinion) in opinions.iter().enumerate() {
            if let Some(opinion) = opinion {
                self.trust.add(which, (actual - opinion).abs());
            }
        }
        if let Some(place) = self.said_place(slot) {
            if let Some(do_no_harm) = &mut self.do_no_harm {
                do_no_harm.judge(&opinions, f64::from(pending.mixed), actual);
            }
            let error = actual - f64::from(pending.forecast);
            self.quantiles.judge(&self.said[place], slot, actual, error);
        }
    }

    /// Where the quantiles of a slot are kept, for one of which they are.
    fn said_place(&self, slot: usize) -> Option<usize> {
        slot.is_multiple_of(self.every).then(|| slot / self.every % self.said.len())
    }

    /// Forgets what was said of the next slot, which is missing.
    pub(crate) fn skip(&mut self, seasons: &Seasons) {
        let place = seasons.len() % self.pending.len();
        self.pending[place] = NOT_SAID;
    }

    /// Learns from what was judged, and says what comes so many slots after the newest one.
    pub(crate) fn step(&mut self, seasons: &Seasons, recent: &Recent, range: Range) {
        let Some(newest) = seasons.len().checked_sub(1) else { return };
        if newest.is_multiple_of(self.every) {
            self.regression.solve();
        }
        let target = newest + self.slots;
        let saying = self.say(seasons, recent, range, target);
        let place = target % self.pending.len();
        self.pending[place] = Pending {
            is_said: true,
            is_told: recent.profile.is_some(),
            forecast: saying.forecast as f32,
            mixed: saying.mixed as f32,
            level: recent.level() as f32,
            told: saying.told,
        };
        if let Some(place) = self.said_place(target) {
            self.said[place] = self.quantiles(seasons, range, target, saying.forecast);
        }
    }

    /// What comes at a slot at most a day ahead.
    pub(crate) fn say(&self, seasons: &Seasons, recent: &Recent, range: Range, target: usize) -> Saying {
        let there = seasons.place(target);
        let mut opinions = opinions(seasons, recent.last, recent.level(), there);
        if self.is_day {
            opinions[0] = opinions[1].or(opinions[0]);
        }
        let mut told = NOT_TOLD;
        if let Some(features) = features(seasons, recent, there) {
            told.features = self.regression.counted(features);
            let is_lent = self.is_day && target + 1 != seasons.len() + self.slots;
            let deviation = if is_lent { 0.0 } else { self.regression.predict(&told.features) };
            told.deviation = deviation as f32;
            let asinh = f64::from(seasons.profile(there).mean_asinh) + deviation;
            let value = range.floor(sinh(asinh.clamp(-LARGEST_ASINH, LARGEST_ASINH)));
            told.value = value as f32;
            opinions[REGRESSION] = Some(value);
        }
        let weights = self.weights(&opinions);
        let mix = |weights: [f64; EXPERTS]| {
            let parts = opinions.iter().zip(weights).map(|(opinion, weight)| opinion.unwrap_or_default() * weight);
            range.limit(parts.sum())
        };
        let mixed = mix(weights);
        let replacement = self.do_no_harm.as_ref().and_then(|guard| guard.replacement(&opinions));
        let Some(which) = replacement else { return Saying { forecast: mixed, mixed, weights, told } };
        let weights = std::array::from_fn(|part| f64::from(u8::from(part == which)));
        Saying { forecast: mix(weights), mixed, weights, told }
    }

    /// The quantiles of a slot with this forecast.
    pub(crate) fn quantiles(&self, seasons: &Seasons, range: Range, target: usize, forecast: f64) -> Said {
        self.quantiles.say(seasons, target, forecast, (range.largest, range.width()))
    }

    fn weights(&self, opinions: &Opinions) -> [f64; EXPERTS] {
        let is_there = opinions.map(|opinion| opinion.is_some());
        self.trust.weights(is_there).unwrap_or_else(|| {
            // Nothing was judged yet: the last value counts most.
            let mut weights = is_there.map(|is_there| if is_there { (-1.0_f64).exp() } else { 0.0 });
            weights[0] = 1.0;
            normalised(weights)
        })
    }
}

/// By one exponential: the library's is exact near zero, which does not matter here, and takes several times as long.
fn sinh(value: f64) -> f64 {
    let up = value.exp();
    (up - 1.0 / up) / 2.0
}
