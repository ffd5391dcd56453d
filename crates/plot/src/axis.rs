//! Axes: ranges, ticks and their labels.

use jiff::Timestamp;
use jiff::tz::TimeZone;

const DAY: i64 = 86_400;
/// Distances of round times in seconds.
const INTERVALS: [i64; 6] = [60, 600, 1_800, 3_600, 6 * 3_600, 12 * 3_600];

#[derive(Clone, Debug)]
pub enum Scale {
    /// Equal distances are equal differences, from 0.
    FromZero(Unit),
    /// Seconds since 1970, in UTC.
    Time,
    /// These ticks, from the first to the last, and the function whose equal differences are equal distances.
    Ticks(Vec<f64>, fn(f64) -> f64),
}

#[derive(Clone, Copy, Debug)]
pub struct Unit {
    pub label: fn(f64) -> String,
    /// The round distance of ticks that is at least this.
    pub step: fn(f64) -> f64,
}

impl Unit {
    pub const NUMBER: Self = Self {
        label: |number| ((number * 1e6).round() / 1e6 + 0.0).to_string(),
        step: round_step,
    };
}

/// The least of 1, 2 and 5 times the powers of ten that is at least this; 1 for no distance.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= least && *step > 0.0);
    step.unwrap_or(1.0)
}

/// The range of some numbers with its ticks.
pub(crate) struct Axis {
    scale: fn(f64) -> f64,
    range: (f64, f64),
    pub(crate) ticks: Vec<(f64, String)>,
}

impl Axis {
    pub(crate) fn new(scale: &Scale, numbers: impl Iterator<Item = f64> + Clone) -> Self {
        let high = numbers.clone().fold(f64::MIN, f64::max);
        let labelled = |unit: Unit| move |tick: f64| (tick, (unit.label)(tick));
        let (range, ticks) = match scale {
            Scale::FromZero(unit) => {
                let step = (unit.step)(high / 5.0);
                let last = (high / step).ceil().max(1.0) as usize;
                let ticks = (0..=last).map(|tick| tick as f64 * step);
                (
                    (0.0, last as f64 * step),
                    ticks.map(labelled(*unit)).collect(),
                )
            }
            Scale::Time => {
                let low = numbers.fold(f64::MAX, f64::min);
                ((low, high.max(low + 1.0)), times(low as i64, high as i64))
            }
            Scale::Ticks(ticks, _) => {
                let range = (ticks[0], ticks[ticks.len() - 1]);
                (
                    range,
                    ticks.iter().copied().map(labelled(Unit::NUMBER)).collect(),
                )
            }
        };
        let scale = match scale {
            Scale::Ticks(_, scale) => *scale,
            _ => std::convert::identity,
        };
        Self {
            scale,
            range,
            ticks,
        }
    }

    /// The place of a number: 0 at the beginning of the axis, 1 at its end.
    pub(crate) fn share(&self, number: f64) -> f64 {
        let [low, high, number] = [self.range.0, self.range.1, number].map(self.scale);
        ((number - low) / (high - low)).clamp(0.0, 1.0)
    }
}

/// Form of a midnight.
const DATE: &str = "%b %-d";

/// Midnights with dates; for less than two days also round times.
fn times(low: i64, high: i64) -> Vec<(f64, String)> {
    let span = high.saturating_sub(low);
    let (every, form) = if span < 2 * DAY {
        let interval = INTERVALS.iter().find(|interval| span / **interval <= 6);
        (interval.copied().unwrap_or(DAY), "%H:%M")
    } else {
        ((span / DAY / 6).max(1) * DAY, DATE)
    };
    let unit = every.min(DAY);
    let first = low.saturating_add(unit - 1).div_euclid(unit) * unit;
    let label = |time: i64| {
        let at = Timestamp::from_second(time).unwrap_or_default();
        let at = at.to_zoned(TimeZone::UTC);
        let form = if time.rem_euclid(DAY) == 0 {
            DATE
        } else {
            form
        };
        (time as f64, at.strftime(form).to_string())
    };
    (first..=high).step_by(every as usize).map(label).collect()
}
