//! Forecasts of one horizon: seven opinions, weighted by how wrong each was at this horizon, and
//! quantiles around them.

use crate::do_no_harm::DoNoHarm;
use crate::experts::{EXPERTS, Earlier, Opinions, REGRESSION, features, opinions};
use crate::grid::Grid;
use crate::quantiles::{Quantiles, Said};
use crate::recent::Recent;
use crate::regression::{FEATURES, Regression};
use crate::seasons::{Place, Seasons};
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
        if self.least >= 0.0 {
            value.max(0.0)
        } else {
            value
        }
    }
}

/// What is said of one slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Saying {
    pub(crate) forecast: f64,
    mixed: f64,
    pub(crate) weights: [f64; EXPERTS],
}

/// What has come in the next slot, before it is stored, and what is known of it from earlier days.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Come {
    place: Place,
    value: f64,
    /// In asinh, from the profile.
    deviation: f64,
    earlier: Option<Earlier>,
}

impl Come {
    pub(crate) fn new(seasons: &Seasons, value: f64, asinh: f64) -> Self {
        let place = seasons.next();
        let deviation = asinh - f64::from(seasons.profile(place).mean_asinh);
        Self {
            place,
            value,
            deviation,
            earlier: Earlier::new(seasons, place),
        }
    }
}

/// What the regression was told of a slot, and what it said.
#[derive(Clone, Copy, Debug)]
struct Told {
    features: [f32; FEATURES],
    deviation: f64,
    value: f64,
}

/// What the opinions on a slot that has not been yet rest on. Those that follow from values alone
/// are made again when it comes.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    level: f32,
    is_told: bool,
    features: [f32; FEATURES],
    deviation: f32,
    value: f32,
}

/// What was said of a slot that has not been yet.
#[derive(Clone, Copy, Debug, Default)]
struct Statement {
    forecast: f32,
    mixed: f32,
    quantiles: Said,
}

/// Forecasts so many slots ahead.
#[derive(Clone, Debug)]
pub(crate) struct Horizon {
    pub(crate) slots: usize,
    /// Every so many slots the regression is solved, and forecast and quantiles are said and
    /// judged. Those in between differ little.
    every: usize,
    /// A day ahead the last value is yesterday's, and the present deviates as the wanted slot does.
    /// So where these errors are lent to a nearer slot, yesterday stands for the last value, and
    /// the profile for the regression.
    is_day: bool,
    regression: Regression,
    trust: Trust<EXPERTS, 3>,
    do_no_harm: Option<DoNoHarm>,
    quantiles: Quantiles,
    /// Of the next slot and those after it, in a ring.
    pending: Vec<Pending>,
    /// Where in the ring the next slot is.
    next: usize,
    statements: Vec<Statement>,
}

impl Horizon {
    /// `floor` is the least error that counts.
    pub(crate) fn new(grid: &Grid, slots: usize, floor: f64) -> Self {
        let is_long = grid.is_long(slots);
        let half_lives = if is_long {
            [24.0, 96.0, 384.0]
        } else {
            [1.0, 12.0, 192.0]
        };
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
            pending: vec![Pending::default(); slots],
            next: 0,
            statements: vec![Statement::default(); slots / every + 2],
        }
    }

    /// Memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + size_of_val(&*self.pending)
            + size_of_val(&*self.statements)
            + self.quantiles.bytes()
    }

    /// Judges what was said of the next slot, before it is stored.
    pub(crate) fn judge(&mut self, seasons: &Seasons, come: &Come) {
        let origin = seasons.shifted(come.place, -(self.slots as isize));
        let Some(last) = origin.and_then(|origin| seasons.value(origin)) else {
            return;
        };
        let pending = &self.pending[self.next];
        let mut opinions = opinions(come.earlier.as_ref(), last, f64::from(pending.level));
        if pending.is_told {
            opinions[REGRESSION] = Some(f64::from(pending.value));
            self.regression.learn(
                &pending.features,
                f64::from(pending.deviation),
                come.deviation,
            );
        }
        let errors = opinions.map(|opinion| (come.value - opinion.unwrap_or_default()).abs());
        self.trust
            .add(errors, opinions.map(|opinion| opinion.is_some()));
        if let Some(place) = self.statement_place(come.place.slot) {
            let statement = &self.statements[place];
            if let Some(do_no_harm) = &mut self.do_no_harm {
                do_no_harm.judge(&opinions, f64::from(statement.mixed), come.value);
            }
            let error = come.value - f64::from(statement.forecast);
            self.quantiles
                .judge(&statement.quantiles, seasons, come.place, come.value, error);
        }
    }

    /// Where the statement of a slot is kept, if one is made of it.
    fn statement_place(&self, slot: usize) -> Option<usize> {
        slot.is_multiple_of(self.every)
            .then(|| slot / self.every % self.statements.len())
    }

    /// Learns from what was judged, and says what comes so many slots after the newest one.
    pub(crate) fn step(&mut self, seasons: &Seasons, recent: &Recent, range: Range) {
        let Some(newest) = seasons.len().checked_sub(1) else {
            return;
        };
        if newest.is_multiple_of(self.every) {
            self.regression.solve();
        }
        let Some(target) = seasons.ahead(self.slots) else {
            return;
        };
        let told = self.tell(seasons, recent, range, target);
        let pending = Pending {
            level: recent.level() as f32,
            ..Pending::default()
        };
        // The place in the ring where the newest slot was: the ring is as long as the horizon.
        self.pending[self.next] = told.as_ref().map_or(pending, |told| Pending {
            is_told: true,
            features: told.features,
            deviation: told.deviation as f32,
            value: told.value as f32,
            ..pending
        });
        self.next = if self.next + 1 == self.slots {
            0
        } else {
            self.next + 1
        };
        if let Some(place) = self.statement_place(target.slot) {
            let saying = self.mix(seasons, recent, range, target, told.as_ref());
            self.statements[place] = Statement {
                forecast: saying.forecast as f32,
                mixed: saying.mixed as f32,
                quantiles: self.quantiles(seasons, range, target, saying.forecast),
            };
        }
    }

    /// What comes at a slot at most a day ahead.
    pub(crate) fn say(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: Range,
        target: Place,
    ) -> Saying {
        let told = self.tell(seasons, recent, range, target);
        self.mix(seasons, recent, range, target, told.as_ref())
    }

    /// What the regression says of it; nothing on the first day.
    fn tell(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: Range,
        target: Place,
    ) -> Option<Told> {
        let features = self.regression.counted(features(seasons, recent, target)?);
        let is_lent = self.is_day && target.slot + 1 != seasons.len() + self.slots;
        let deviation = if is_lent {
            0.0
        } else {
            self.regression.predict(&features)
        };
        let asinh = f64::from(seasons.profile(target).mean_asinh) + deviation;
        let value = range.floor(sinh(asinh.clamp(-LARGEST_ASINH, LARGEST_ASINH)));
        Some(Told {
            features,
            deviation,
            value,
        })
    }

    /// All opinions on it, and what they are together.
    fn mix(
        &self,
        seasons: &Seasons,
        recent: &Recent,
        range: Range,
        target: Place,
        told: Option<&Told>,
    ) -> Saying {
        let earlier = Earlier::new(seasons, target);
        let mut opinions = opinions(earlier.as_ref(), recent.last, recent.level());
        if self.is_day {
            opinions[0] = opinions[1].or(opinions[0]);
        }
        opinions[REGRESSION] = told.map(|told| told.value);
        let weights = self.weights(&opinions);
        let mix = |weights: [f64; EXPERTS]| {
            let parts = opinions
                .iter()
                .zip(weights)
                .map(|(opinion, weight)| opinion.unwrap_or_default() * weight);
            range.limit(parts.sum())
        };
        let mixed = mix(weights);
        let replacement = self
            .do_no_harm
            .as_ref()
            .and_then(|guard| guard.replacement(&opinions));
        let Some(which) = replacement else {
            return Saying {
                forecast: mixed,
                mixed,
                weights,
            };
        };
        let weights = std::array::from_fn(|part| f64::from(u8::from(part == which)));
        Saying {
            forecast: mix(weights),
            mixed,
            weights,
        }
    }

    /// The quantiles of a slot with this forecast.
    pub(crate) fn quantiles(
        &self,
        seasons: &Seasons,
        range: Range,
        target: Place,
        forecast: f64,
    ) -> Said {
        self.quantiles
            .say(seasons, target, forecast, (range.largest, range.width()))
    }

    fn weights(&self, opinions: &Opinions) -> [f64; EXPERTS] {
        let is_there = opinions.map(|opinion| opinion.is_some());
        self.trust.weights(is_there).unwrap_or_else(|| {
            // Nothing was judged yet: the last value counts most.
            let mut weights =
                is_there.map(|is_there| if is_there { (-1.0_f64).exp() } else { 0.0 });
            weights[0] = 1.0;
            normalised(weights)
        })
    }
}

/// By one exponential: the library's is exact near zero, which does not matter here, and takes
/// several times as long.
fn sinh(value: f64) -> f64 {
    let up = value.exp();
    (up - 1.0 / up) / 2.0
}
