//! Replay of one series, slot by slot, with the errors of each method.

use std::collections::VecDeque;

use forecast::{ForecastConfig, Forecaster};
use jiff::Timestamp;
use model::Series;

use crate::calibration::{Chance, Outcome};
use crate::crane_dsp::CranePeer;
use crate::simple::{self, METHODS, Simple};
use crate::trace::Trace;

pub(crate) const HORIZONS: [&str; 3] = ["1 slot", "1 h", "24 h"];
const SCORED_SHARE: f64 = 0.3;
const TRAILING_DAYS: usize = 7;
const LIVE_SHARE: f64 = 0.05;

/// Sums over one horizon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) count: f64,
    pub(crate) actual: f64,
    pub(crate) ours: f64,
    pub(crate) simple: [f64; METHODS],
    /// Errors of the simple methods before the scored part, from the second day on.
    pub(crate) simple_before: [f64; METHODS],
    pub(crate) crane: f64,
    pub(crate) pinball: f64,
    pub(crate) simple_pinball: [f64; METHODS],
    /// Slots with a value of at most p90, p95, p99.
    pub(crate) covered: [f64; 3],
    pub(crate) chance: Chance,
    pub(crate) unforecast: u32,
    /// Mean absolute value before the scored part.
    pub(crate) usual: f64,
    /// Simple methods with at least one evaluated day before the scored part.
    pub(crate) judged: [bool; METHODS],
}

pub(crate) struct Result {
    pub(crate) name: String,
    /// `None` if the horizon equals that of another column.
    pub(crate) scores: [Option<Score>; 3],
}

/// Forecasts for one slot, made before it.
struct Forecasts {
    ours: Option<[f64; 4]>,
    simple: [f64; METHODS],
    simple_p95: [f64; METHODS],
    crane: f64,
}

/// Residuals of the last days of each simple method, for a quantile.
#[derive(Default)]
struct Trailing([VecDeque<f64>; METHODS]);

impl Trailing {
    fn push(&mut self, residuals: [f64; METHODS], most: usize) {
        for (queue, residual) in self.0.iter_mut().zip(residuals) {
            queue.push_back(residual);
            if queue.len() > most {
                queue.pop_front();
            }
        }
    }

    fn p95(&self) -> [f64; METHODS] {
        std::array::from_fn(|method| {
            let mut sorted: Vec<f64> = self.0[method].iter().copied().collect();
            if sorted.is_empty() {
                return 0.0;
            }
            let rank = (0.95 * (sorted.len() - 1) as f64) as usize;
            *sorted.select_nth_unstable_by(rank, f64::total_cmp).1
        })
    }
}

/// Scores before the first slot, with the facts about the part that is not scored.
fn empty_scores(trace: &Trace, scored_from: usize, per_day: usize) -> [Score; 3] {
    let before: Vec<f64> = trace.slots[..scored_from]
        .iter()
        .flatten()
        .map(|value| value.abs())
        .collect();
    let usual = before.iter().sum::<f64>() / before.len() as f64;
    let judged = simple::DAYS.map(|days| (days + 1) * per_day <= scored_from);
    std::array::from_fn(|_| Score {
        usual,
        judged,
        ..Score::default()
    })
}

/// Replays a trace slot by slot. The last [`SCORED_SHARE`] of it is scored.
pub(crate) fn replay(trace: &Trace) -> Result {
    let step = i64::from(trace.slot_seconds);
    let begin = |slot: usize| (trace.first_slot + slot as i64) * step;
    let time = |slot: usize| Timestamp::from_second(begin(slot)).expect("a recorded time");
    let horizons_seconds = [trace.slot_seconds, 3600, 86_400];
    let ahead = horizons_seconds.map(|seconds| (seconds / trace.slot_seconds) as usize);
    let config = ForecastConfig {
        step_seconds: trace.slot_seconds,
        horizons_seconds: horizons_seconds.to_vec(),
    };
    let per_day = (86_400 / trace.slot_seconds) as usize;
    // The first day sets the unit, so the forecaster starts with it.
    let day = trace.slots.iter().take(per_day).enumerate();
    let day = day
        .filter_map(|(slot, value)| Some((time(slot), (*value)?)))
        .collect();
    let mut forecaster =
        Forecaster::fit(&Series::new(day), &config).expect("the first day has samples");
    let (mut simple, mut crane) = (
        Simple::new(trace.slot_seconds),
        CranePeer::new(trace.slot_seconds),
    );

    let scored_from = (trace.slots.len() as f64 * (1.0 - SCORED_SHARE)) as usize;
    let mut pending: [VecDeque<Forecasts>; 3] = Default::default();
    let mut trailing: [Trailing; 3] = Default::default();
    let mut outcomes: [Vec<Outcome>; 3] = Default::default();
    let mut scores = empty_scores(trace, scored_from, per_day);
    for (slot, value) in trace.slots.iter().enumerate() {
        for which in 0..HORIZONS.len() {
            let Some(before) = (pending[which].len() == ahead[which])
                .then(|| pending[which].pop_front())
                .flatten()
            else {
                continue;
            };
            let Some(actual) = *value else { continue };
            outcomes[which].extend(before.ours.map(|said| Outcome { slot, actual, said }));
            if slot >= scored_from {
                scores[which].add(actual, &before);
            } else if slot >= per_day {
                scores[which]
                    .simple_before
                    .iter_mut()
                    .zip(before.simple)
                    .for_each(|(sum, forecast)| *sum += (actual - forecast).abs());
            }
            trailing[which].push(
                before.simple.map(|forecast| actual - forecast),
                TRAILING_DAYS * per_day,
            );
        }
        simple.push(*value);
        crane.push(begin(slot), *value, slot + per_day >= scored_from);
        if let Some(value) = value
            && slot >= per_day
        {
            forecaster
                .observe(time(slot), *value)
                .expect("slots come in order");
        }
        forecaster
            .advance(time(slot + 1))
            .expect("no gap is as long");
        for which in 0..HORIZONS.len() {
            let target = slot + ahead[which];
            let simple_forecasts = simple.forecasts(ahead[which]);
            let is_scored = target >= scored_from;
            let p95 = if is_scored {
                trailing[which].p95()
            } else {
                [0.0; METHODS]
            };
            let ours = forecaster.forecast(horizons_seconds[which]).ok();
            pending[which].push_back(Forecasts {
                ours: ours.map(|ours| [ours.expected, ours.p90, ours.p95, ours.p99]),
                simple: simple_forecasts,
                simple_p95: std::array::from_fn(|method| simple_forecasts[method] + p95[method]),
                crane: crane.forecast(begin(target)).unwrap_or(simple_forecasts[0]),
            });
        }
    }
    for (score, outcomes) in scores.iter_mut().zip(&outcomes) {
        score.chance = Chance::of(outcomes, scored_from, per_day);
    }
    let is_own = |which: usize| which != 0 || trace.slot_seconds < 3600;
    let mut which = 0;
    let scores = scores.map(|score| {
        which += 1;
        is_own(which - 1).then_some(score)
    });
    Result {
        name: trace.name.clone(),
        scores,
    }
}

impl Score {
    fn add(&mut self, actual: f64, forecasts: &Forecasts) {
        self.count += 1.0;
        self.actual += actual.abs();
        let ours = forecasts.ours.unwrap_or_else(|| {
            self.unforecast += 1;
            [forecasts.simple[0]; 4]
        });
        self.ours += (actual - ours[0]).abs();
        self.pinball += pinball(actual - ours[2]);
        for (covered, quantile) in self.covered.iter_mut().zip(&ours[1..]) {
            *covered += f64::from(u8::from(actual <= *quantile));
        }
        self.crane += (actual - forecasts.crane).abs();
        for method in 0..METHODS {
            self.simple[method] += (actual - forecasts.simple[method]).abs();
            self.simple_pinball[method] += pinball(actual - forecasts.simple_p95[method]);
        }
    }

    /// Whether the scored part has at least a twentieth of the former size.
    pub(crate) fn is_live(&self) -> bool {
        self.actual / self.count >= LIVE_SHARE * self.usual
    }

    /// The error of the best simple method in hindsight.
    pub(crate) fn best(&self) -> f64 {
        self.least(&self.simple)
    }

    /// The error of the simple method that was best before the scored part.
    pub(crate) fn best_before(&self) -> f64 {
        let known = self.simple.into_iter().zip(self.simple_before);
        known
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
            .map_or(f64::INFINITY, |(error, _)| error)
    }

    /// The same over all methods, including those that could not be evaluated before.
    pub(crate) fn best_of_all(&self) -> f64 {
        self.simple.into_iter().fold(f64::INFINITY, f64::min)
    }

    /// The smallest pinball loss of a simple method with its trailing quantile, in hindsight.
    pub(crate) fn best_pinball(&self) -> f64 {
        self.least(&self.simple_pinball)
    }

    fn least(&self, losses: &[f64; METHODS]) -> f64 {
        let judged = losses.iter().zip(self.judged).filter(|(_, judged)| *judged);
        judged.map(|(loss, _)| *loss).fold(f64::INFINITY, f64::min)
    }
}

fn pinball(above: f64) -> f64 {
    (0.95 * above).max(-0.05 * above)
}
