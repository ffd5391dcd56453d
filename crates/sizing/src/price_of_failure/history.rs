//! The history of one container and resource: peaks of the last seven days, and decaying histograms
//! of needs by state.
//!
//! A block counts the same however many samples it has. A block without samples leaves everything as
//! it was. Memory: 1.3 KiB of peaks and at most 3 KiB of histograms (4 bytes per bucket between the
//! lowest and the highest need of a state).

use std::collections::VecDeque;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::histogram::{Histogram, bucket};
use super::quiet::Quiet;
use super::settings::{Need, Settings};
use super::state::{Ranks, STATES};

/// Seconds in a block.
const BLOCK: i64 = 3600;
/// Blocks in a day.
const DAY: usize = 24;
/// Blocks of peaks: seven days.
const PEAKS: usize = 7 * DAY;
/// Factor between the request of an OOM-killed container and its assumed need.
pub(super) const OOM_FACTOR: f64 = 1.2;

/// Format of a stored history.
const VERSION: u8 = 1;

/// History of one container and resource, recorded with one set of [`Settings`]. Prices may change,
/// other settings not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct History {
    version: u8,
    /// Number of the open block since 1970; `None` before the first sample.
    open: Option<i64>,
    /// Samples of the open block by bucket, the number of them and the largest.
    samples: Histogram,
    count: u32,
    peak: f64,
    /// The last sample and its time in seconds since 1970.
    last: (i64, f64),
    /// Rise of usage per second up to the last sample.
    rise: f64,
    /// Peaks of the blocks before the open one, newest first.
    peaks: VecDeque<Option<f32>>,
    /// Complete blocks with samples.
    pub(super) age: u32,
    /// Needs by the state in which they began.
    pub(super) needs: Vec<Histogram>,
    ranks: Ranks,
    quiet: Quiet,
    /// States of the last complete blocks, newest first.
    states: VecDeque<u8>,
    /// Decayed sum of recent peaks, and its weight.
    scale: (f64, f64),
    /// Cost of the present request above that of the best one, since the last change.
    pub(super) regret: f64,
    /// The request that the regret belongs to.
    pub(super) request: Option<f64>,
    /// Time of the first of the last samples that are all above that request.
    pub(super) above_since: Option<i64>,
    /// Whether a block ended since the last choice.
    pub(super) is_due: bool,
}

pub(crate) fn first_invalid<const N: usize>(
    parts: [(bool, &'static str); N],
) -> Option<&'static str> {
    let (_, part) = parts.into_iter().find(|(is_valid, _)| !is_valid)?;
    Some(part)
}

/// Whether no sample leads to more, in millicores or MiB.
pub(super) fn is_amount(amount: f64) -> bool {
    (0.0..=1e15).contains(&amount)
}

impl Default for History {
    fn default() -> Self {
        Self {
            version: VERSION,
            open: None,
            samples: Histogram::default(),
            count: 0,
            peak: 0.0,
            last: (0, 0.0),
            rise: 0.0,
            peaks: VecDeque::new(),
            age: 0,
            needs: vec![Histogram::default(); STATES],
            ranks: Ranks::default(),
            quiet: Quiet::default(),
            states: VecDeque::new(),
            scale: (0.0, 0.0),
            regret: 0.0,
            request: None,
            above_since: None,
            is_due: false,
        }
    }
}

impl History {
    /// The first part of a stored history that no samples lead to.
    pub fn invalid_part(&self) -> Option<&'static str> {
        let others = [&self.samples, &self.ranks.recent, &self.ranks.seasonal];
        let mut histograms = self.needs.iter().chain(others);
        let are_histograms = self.needs.len() == STATES && histograms.all(Histogram::is_valid);
        let mut peaks = self.peaks.iter().flatten();
        let numbers = [
            self.peak,
            self.last.1,
            self.rise,
            self.scale.0,
            self.scale.1,
            self.regret,
        ];
        let are_peaks = self.peaks.len() <= PEAKS && peaks.all(|peak| is_amount(f64::from(*peak)));
        let are_states = self.states.iter().all(|state| usize::from(*state) < STATES);
        let are_amounts = numbers.into_iter().chain(self.request).all(is_amount);
        first_invalid([
            (self.version == VERSION, "version"),
            (are_histograms, "histogram"),
            (are_peaks, "peak"),
            (are_states, "state"),
            (are_amounts, "number"),
            ((self.scale.1 > 0.0) == (self.age > 0), "age"),
        ])
    }

    /// Adds a sample. Negative ones, and those that are no numbers, are ignored; a late one counts
    /// in the open block.
    pub fn add(&mut self, settings: &Settings, usage: f64, at: Timestamp) {
        let before = self.last;
        self.add_after(settings, Some(before), usage, at);
    }

    /// Adds a sample of one of several series. `before` is the second and usage of the one before
    /// it in its series.
    pub(super) fn add_after(
        &mut self,
        settings: &Settings,
        before: Option<(i64, f64)>,
        usage: f64,
        at: Timestamp,
    ) {
        if !(usage.is_finite() && usage >= 0.0) {
            return;
        }
        self.close_blocks(settings, at);
        self.last = (at.as_second(), usage);
        self.rise = before.map_or(0.0, |(second, before)| {
            let seconds = at.as_second().saturating_sub(second);
            if (1..=BLOCK).contains(&seconds) {
                ((usage - before) / seconds as f64).max(0.0)
            } else {
                0.0
            }
        });
        self.above_since = self
            .request
            .filter(|request| usage > *request)
            .map(|_| self.above_since.unwrap_or(at.as_second()));
        self.add_to_block(usage);
    }

    /// Adds an OOM kill of a container with this request. Its need is unknown: more than the request.
    pub fn add_oom(&mut self, settings: &Settings, request: f64, at: Timestamp) {
        if request.is_finite() && request >= 0.0 {
            self.close_blocks(settings, at);
            self.add_to_block(request * OOM_FACTOR);
        }
    }

    fn add_to_block(&mut self, usage: f64) {
        self.samples.add(bucket(Settings::FIRST_BOUND, usage), 1.0);
        self.count = self.count.saturating_add(1);
        self.peak = self.peak.max(usage);
    }

    /// Closes the open block if `now` is after it.
    pub(super) fn close_blocks(&mut self, settings: &Settings, now: Timestamp) {
        let number = now.as_second().div_euclid(BLOCK);
        let open = *self.open.get_or_insert(number);
        if number <= open {
            if number.saturating_add(DAY as i64) < open {
                // The clock was ahead: blocks must not wait until it is right.
                self.open = Some(number);
            }
            return;
        }
        if self.count > 0 {
            self.close(settings);
        } else {
            self.push_peak(None);
        }
        // Blocks without samples.
        for _ in open + 1..number.min(open + 1 + PEAKS as i64) {
            self.push_peak(None);
        }
        self.open = Some(number);
    }

    pub(super) fn with_open_block(&self, settings: &Settings) -> Self {
        let mut history = self.clone();
        if history.count > 0 {
            history.close(settings);
        }
        history
    }

    /// Usage that is imminent: the last sample, and its rise continued.
    pub(super) fn imminent(&self, settings: &Settings) -> f64 {
        self.last.1 + self.rise * settings.lead
    }

    /// Seconds for which all samples have been above the request of the last choice.
    pub(super) fn seconds_above(&self) -> i64 {
        self.above_since
            .map_or(0, |since| self.last.0.saturating_sub(since))
    }

    pub(super) fn usage(&self) -> f64 {
        self.last.1
    }

    /// The scale of the container: the decayed mean of recent peaks.
    pub(super) fn scale(&self) -> f64 {
        self.scale.0 / self.scale.1
    }

    /// The state of the last complete block.
    pub(super) fn state(&self) -> u8 {
        self.states.front().copied().unwrap_or(0)
    }

    /// The highest peak of the last seven days.
    pub(super) fn highest(&self) -> f64 {
        self.peak_of(0..PEAKS).unwrap_or(0.0)
    }

    fn close(&mut self, settings: &Settings) {
        let peak = std::mem::take(&mut self.peak);
        let samples = std::mem::take(&mut self.samples);
        let sample = 1.0 / std::mem::take(&mut self.count).max(1) as f32;
        self.push_peak(Some(peak));
        if settings.restarts
            && let Some(quiet) = self.quiet.add(peak, self.highest())
        {
            self.restart(settings, quiet);
            return;
        }
        self.age = self.age.saturating_add(1);
        self.is_due = true;
        self.decay(settings.decay);
        match settings.need {
            Need::Peak => self.add_peak(settings),
            Need::Sample => self.add_samples(settings, &samples, sample),
        }
        let recent = self.peak_of(0..settings.recent).unwrap_or(peak);
        self.scale.0 += recent;
        self.scale.1 += 1.0;
        let seasonal = self.seasonal_peak(settings.ahead);
        self.states.push_front(self.ranks.add(recent, seasonal));
        self.states.truncate(settings.ahead);
    }

    /// Adds the peak of the last blocks to the state before them.
    fn add_peak(&mut self, settings: &Settings) {
        let state = self.states.get(settings.ahead - 1).copied().unwrap_or(0);
        let need = self.peak_of(0..settings.ahead).unwrap_or(0.0);
        self.needs[usize::from(state)].add(bucket(Settings::FIRST_BOUND, need), 1.0);
    }

    /// Adds the samples of the block to the states of the blocks before it, in equal parts.
    fn add_samples(&mut self, settings: &Settings, samples: &Histogram, weight: f32) {
        if self.states.is_empty() {
            self.needs[0].add_all(samples, weight);
        }
        let before = self.states.iter().take(settings.ahead);
        let part = weight / before.len().max(1) as f32;
        for state in before {
            self.needs[usize::from(*state)].add_all(samples, part);
        }
    }

    /// Begins anew with the last blocks, of which only the peaks are known.
    fn restart(&mut self, settings: &Settings, blocks: usize) {
        let peaks = self.peaks.range(..blocks.min(self.peaks.len()));
        let peaks: Vec<f32> = peaks.flatten().copied().collect();
        let before = std::mem::take(self);
        let silent = Settings {
            restarts: false,
            ..*settings
        };
        for peak in peaks.into_iter().rev() {
            self.add_to_block(f64::from(peak));
            self.close(&silent);
        }
        // The change to the new level is free.
        self.age = 1;
        self.open = before.open;
        self.last = before.last;
        self.rise = before.rise;
        self.quiet = before.quiet;
        self.request = before.request;
        self.above_since = before.above_since;
    }

    fn decay(&mut self, factor: f64) {
        for histogram in &mut self.needs {
            histogram.scale(factor as f32);
        }
        self.ranks.scale(factor as f32);
        self.scale.0 *= factor;
        self.scale.1 *= factor;
    }

    fn push_peak(&mut self, peak: Option<f64>) {
        self.peaks.push_front(peak.map(|peak| peak as f32));
        self.peaks.truncate(PEAKS);
    }

    /// The highest peak of the blocks this many blocks ago.
    fn peak_of(&self, ago: std::ops::Range<usize>) -> Option<f64> {
        let end = ago.end.min(self.peaks.len());
        let peaks = self.peaks.range(ago.start.min(end)..end).flatten();
        peaks.copied().reduce(f32::max).map(f64::from)
    }

    /// The highest peak, on the last seven days, of the hours that come next.
    fn seasonal_peak(&self, ahead: usize) -> Option<f64> {
        let days = (1..=7).map(|day| day * DAY);
        let of_day = |day: usize| self.peak_of(day - ahead..day);
        days.filter_map(of_day).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(minutes: i64) -> Timestamp {
        Timestamp::from_second(minutes * 60).expect("a time")
    }

    /// Adds a sample every ten minutes, for hours with these usages.
    fn history(settings: &Settings, hours: &[f64]) -> History {
        let mut history = History::default();
        for (hour, usage) in (0..).zip(hours) {
            for sample in 0..6 {
                history.add(settings, *usage, at(hour * 60 + sample * 10));
            }
        }
        history.close_blocks(settings, at(hours.len() as i64 * 60));
        history
    }

    #[test]
    fn a_block_counts_once_however_many_samples_it_has() {
        let settings = Settings::CPU_HOURLY;
        let mut often = History::default();
        for minute in 0..600 {
            often.add(
                &settings,
                if minute % 2 == 0 { 100.0 } else { 300.0 },
                at(minute),
            );
        }
        let mut seldom = History::default();
        for minute in (0..600).step_by(15) {
            seldom.add(
                &settings,
                if minute % 2 == 0 { 100.0 } else { 300.0 },
                at(minute),
            );
        }
        for history in [often, seldom] {
            let total: f64 = history.needs.iter().map(Histogram::total).sum();
            assert!((total - 8.7).abs() < 0.1, "nine decayed blocks: {total}");
        }
    }

    #[test]
    fn a_gap_changes_nothing_but_the_peaks() {
        let settings = Settings::MEMORY;
        let mut history = history(&settings, &[100.0, 200.0, 150.0, 90.0]);
        let (needs, scale) = (history.needs.clone(), history.scale());
        history.close_blocks(&settings, at(37 * 60));
        assert_eq!((&history.needs, history.scale()), (&needs, scale));
        assert_eq!(history.peaks.len(), 37);
        assert!((history.highest() - 200.0).abs() < 1e-9);
        history.close_blocks(&settings, at(400 * 60));
        assert!(history.highest() < 1e-9, "peaks are older than seven days");
    }

    #[test]
    fn a_clock_that_was_ahead_stops_nothing() {
        let settings = Settings::MEMORY;
        let mut history = history(&settings, &[100.0, 200.0]);
        history.add(&settings, 100.0, at(1000 * 60));
        for hour in 2..6 {
            history.add(&settings, 300.0, at(hour * 60));
        }
        assert_eq!(history.age, 5);
        history.close_blocks(&settings, at(6 * 60));
        assert_eq!(history.age, 6);
    }

    #[test]
    fn a_lasting_fall_begins_a_new_history() {
        let mut hours = vec![1000.0; 100];
        hours.extend([100.0; 13]);
        let fallen = history(&Settings::CPU, &hours);
        assert!((fallen.highest() - 100.0).abs() < 1e-9 && fallen.peaks.len() == 13);
        let kept = history(&Settings::MEMORY, &hours);
        assert!((kept.highest() - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn invalid_stored_histories_are_refused() {
        let good = history(&Settings::CPU, &[10.0; 30]);
        assert_eq!(good.invalid_part(), None);
        let check = |change: fn(&mut History), expected| {
            let mut bad = good.clone();
            change(&mut bad);
            assert_eq!(bad.invalid_part(), Some(expected));
        };
        check(|bad| bad.version = 9, "version");
        check(|bad| bad.needs.truncate(1), "histogram");
        check(|bad| bad.peaks.extend([None; 200]), "peak");
        check(|bad| bad.states.push_back(9), "state");
        check(|bad| bad.regret = f64::NAN, "number");
        check(|bad| bad.age = 0, "age");
    }
}
