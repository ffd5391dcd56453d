//! Values of a predicted metric, minute by minute: of our programs, of peers, and of one with knowledge
//! of the future.

use std::collections::VecDeque;
use std::ops::Range;

use replay::horizontal::{Demand, Program};

/// Source of a predicted metric. Times are seconds since 1970.
pub(crate) trait Predictor {
    /// Adds the demand of the minute that ended at `end`, if it was measured. Returns the value that
    /// the HPA reads during the next minute, if there is a prediction.
    fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64>;
}

impl Predictor for Program {
    fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64> {
        Self::minute(self, end, demand)
    }
}

const SLOT: usize = 5;
const PER_DAY: usize = 24 * 60 / SLOT;
const PER_HOUR: usize = 60 / SLOT;

/// The mean of the last seven days at that time, times the level of the last hour; the largest of a
/// window.
#[derive(Default)]
pub(crate) struct SeasonalLevel {
    window: usize,
    open: OpenSlot,
    slots: Vec<f64>,
    value: Option<f64>,
}

impl SeasonalLevel {
    pub(crate) fn new(window_minutes: usize) -> Self {
        Self {
            window: window_minutes.div_ceil(SLOT),
            ..Self::default()
        }
    }

    fn mean(&self, slot: usize) -> Option<f64> {
        let days = (1..=7).filter_map(|day| self.slots.get(slot.checked_sub(day * PER_DAY)?));
        let (sum, count) = days.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        (count > 0.0).then(|| sum / count)
    }

    fn forecast(&self) -> Option<f64> {
        let next = self.slots.len();
        let hour = next.checked_sub(PER_HOUR)?..next;
        let usual: f64 = hour
            .clone()
            .map(|slot| self.mean(slot))
            .sum::<Option<f64>>()?;
        let now: f64 = self.slots[hour].iter().sum();
        let level = if usual > 0.0 {
            (now / usual).clamp(0.2, 5.0)
        } else {
            1.0
        };
        let ahead = (next..=next + self.window).filter_map(|slot| self.mean(slot));
        Some(level * ahead.reduce(f64::max)?)
    }
}

impl Predictor for SeasonalLevel {
    fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64> {
        if self.open.is_completed_by(end, demand) {
            let measured = self.open.take_mean();
            let next = self.slots.len();
            let before = |days: usize| self.slots.get(next.checked_sub(days * PER_DAY)?).copied();
            let filled = measured.or_else(|| before(7)).or_else(|| before(1));
            self.slots
                .extend(filled.or_else(|| self.slots.last().copied()));
            self.value = self.forecast();
        }
        self.value
    }
}

/// Autopilot's horizontal scaling: the 95th percentile of three days of slots, and the largest such
/// value of two days.
#[derive(Default)]
pub(crate) struct Autopilot {
    open: OpenSlot,
    slots: VecDeque<f64>,
    percentiles: VecDeque<f64>,
    value: Option<f64>,
}

impl Predictor for Autopilot {
    fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64> {
        if self.open.is_completed_by(end, demand)
            && let Some(measured) = self.open.take_mean()
        {
            push(&mut self.slots, measured, 3 * PER_DAY);
            let mut sorted: Vec<f64> = self.slots.iter().copied().collect();
            let rank = (sorted.len() - 1) * 95 / 100;
            let percentile = *sorted.select_nth_unstable_by(rank, f64::total_cmp).1;
            push(&mut self.percentiles, percentile, 2 * PER_DAY);
            self.value = self.percentiles.iter().copied().reduce(f64::max);
        }
        self.value
    }
}

/// Adds a value to the last `most` ones.
fn push(values: &mut VecDeque<f64>, value: f64, most: usize) {
    values.push_back(value);
    if values.len() > most {
        values.pop_front();
    }
}

/// Demands of the slot in progress.
#[derive(Default)]
struct OpenSlot(Vec<f64>);

impl OpenSlot {
    /// Adds the minute that ended at `end`. Returns whether it was the last one of the slot.
    fn is_completed_by(&mut self, end: i64, demand: Option<f64>) -> bool {
        self.0.extend(demand);
        end % (60 * SLOT as i64) == 0
    }

    /// The mean of the slot, if anything was measured. Begins the next one.
    fn take_mean(&mut self) -> Option<f64> {
        let values = std::mem::take(&mut self.0);
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (!values.is_empty()).then_some(mean)
    }
}

fn peak(demand: &Demand, minutes: Range<usize>) -> Option<f64> {
    let minutes = minutes.start..minutes.end.min(demand.minutes.len());
    let known = demand.minutes.get(minutes)?.iter().copied().flatten();
    known.reduce(f64::max)
}

/// The largest demand of the coming minutes.
pub(crate) struct Oracle {
    values: VecDeque<Option<f64>>,
}

impl Oracle {
    pub(crate) fn new(demand: &Demand, window_minutes: usize) -> Self {
        let values =
            (1..=demand.minutes.len()).map(|minute| peak(demand, minute..minute + window_minutes));
        Self {
            values: values.collect(),
        }
    }
}

impl Predictor for Oracle {
    fn minute(&mut self, _: i64, _: Option<f64>) -> Option<f64> {
        self.values.pop_front().flatten()
    }
}
