//! Autopilot's moving-window recommender of one resource: a statistic over decayed usage, a margin,
//! and the maximum of the last hour.
//!
//! Half-lives are 12 hours for CPU and 48 hours for memory. A limit decreases an hour after the
//! statistic at the earliest. Memory: at most 1.4 KiB of weights (8 bytes per bucket between the
//! lowest and the highest usage), 168 bytes of peaks and 192 bytes of limits. Source: section
//! 3.2.2.

use std::collections::VecDeque;

use model::MethodStep;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::margin::{self, Range, margin};
use super::open_window::{Counts, WINDOW_NS};
use super::statistic::Statistic;
use crate::Buckets;
use crate::decaying_histogram::{DecayingHistogram, HalfLife, HistogramConfig};
use crate::instant::Instant;
use crate::packed::{deserialize_bytes, serialize_bytes};

const HOUR_NS: i64 = 3_600_000_000_000;

const CPU_HALF_LIFE: i64 = 12 * HOUR_NS;
const MEMORY_HALF_LIFE: i64 = 48 * HOUR_NS;

/// Statistics that become limits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MovingWindowConfig {
    /// For CPU: the 95th percentile of load, the paper's choice for serving work.
    pub cpu: Statistic,
    /// For memory: the 98th percentile of load, the paper's choice for a low tolerance of OOM
    /// kills.
    pub memory: Statistic,
    /// Margin as a share of the limit; by default 15 to 10 %, less for large limits.
    pub margin: Option<f64>,
}

impl Default for MovingWindowConfig {
    fn default() -> Self {
        Self {
            cpu: Statistic::LoadPercentile(0.95),
            memory: Statistic::LoadPercentile(0.98),
            margin: None,
        }
    }
}

/// Parameters of one resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rule {
    statistic: Statistic,
    margin: Option<f64>,
    range: Range,
    shape: HistogramConfig,
}

impl MovingWindowConfig {
    pub(super) fn cpu_rule(&self) -> Rule {
        self.rule(self.cpu, margin::CPU, Buckets::cpu(), CPU_HALF_LIFE)
    }

    pub(super) fn memory_rule(&self) -> Rule {
        let (range, buckets) = (margin::MEMORY, Buckets::memory());
        self.rule(self.memory, range, buckets, MEMORY_HALF_LIFE)
    }

    fn rule(
        &self,
        statistic: Statistic,
        range: Range,
        buckets: &'static Buckets,
        half_life_ns: i64,
    ) -> Rule {
        let half_life = HalfLife::from_nanoseconds(half_life_ns).expect("a half-life above zero");
        Rule {
            statistic,
            margin: self.margin,
            range,
            shape: HistogramConfig { buckets, half_life },
        }
    }
}

impl Rule {
    fn margin_of(&self, statistic: f64) -> f64 {
        self.margin.unwrap_or_else(|| margin(statistic, self.range))
    }
}

/// State of one resource of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct MovingWindow {
    usage: DecayingHistogram,
    peaks: HourlyPeaks,
    limits: RecentMaximum,
}

impl MovingWindow {
    pub(super) fn close(&mut self, rule: &Rule, window: i64, counts: &Counts) {
        let Some(highest) = counts.highest() else {
            return;
        };
        let start = Instant::from_nanoseconds(window.saturating_mul(WINDOW_NS));
        for (bucket, count) in counts.iter() {
            self.usage
                .add_to_bucket(&rule.shape, u16::from(bucket), count, start);
        }
        self.peaks
            .add(window.div_euclid(HOUR_NS / WINDOW_NS), highest);
        let statistic = self.statistic(rule);
        let limit = statistic * (1.0 + rule.margin_of(statistic));
        self.limits.push(window, limit);
    }

    /// Whether samples until `last`, in the window `newest`, can lead to this state.
    pub(super) fn is_valid(&self, rule: &Rule, last: Instant, newest: i64) -> bool {
        self.usage.is_valid(rule.shape.half_life, last)
            && self.peaks.is_valid(newest.div_euclid(HOUR_NS / WINDOW_NS))
            && self.limits.is_valid(newest)
    }

    /// The limit; `None` before the first window.
    pub(super) fn limit(&self) -> Option<f64> {
        self.limits.get()
    }

    /// The steps of the limit. Amounts are multiplied by `factor` to be in `unit`.
    pub(super) fn explain(&self, rule: &Rule, factor: f64, unit: &str) -> Vec<MethodStep> {
        let statistic = self.statistic(rule);
        let margin = rule.margin_of(statistic);
        let half_life = rule.shape.half_life.nanoseconds() as f64 / HOUR_NS as f64;
        let limit = self.limit().unwrap_or(0.0);
        vec![
            MethodStep::text("statistic", &rule.statistic.name()),
            MethodStep::number("half-life", half_life, "hours"),
            MethodStep::number("usage", statistic * factor, unit),
            MethodStep::number("margin-fraction", margin, ""),
            MethodStep::number("with-margin", statistic * (1.0 + margin) * factor, unit),
            MethodStep::number("maximum-of-last-hour", limit * factor, unit),
        ]
    }

    fn statistic(&self, rule: &Rule) -> f64 {
        let bound = |bucket: usize| rule.shape.buckets.end(bucket);
        let usage: Vec<_> = self
            .usage
            .weights()
            .map(|(bucket, weight)| (bound(bucket), weight))
            .collect();
        let peak = self
            .peaks
            .highest()
            .map_or(0.0, |bucket| bound(usize::from(bucket)));
        rule.statistic.of(&usage, peak)
    }
}

const HOURS: usize = 168;

/// Peak of the last seven days, kept as the highest bucket of each of 168 hours. The paper takes the
/// maximum over an unspecified number of windows; seven days cover a weekly pattern.
/// The highest bucket of each of the last hours, plus one; zero if empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HourlyPeaks {
    newest: i64,
    #[serde(
        serialize_with = "serialize_peaks",
        deserialize_with = "deserialize_peaks"
    )]
    peaks: [u8; HOURS],
}

impl Default for HourlyPeaks {
    fn default() -> Self {
        Self {
            newest: i64::MIN,
            peaks: [0; HOURS],
        }
    }
}

impl HourlyPeaks {
    /// Records a bucket of an hour since 1970. Hours must not decrease.
    pub(super) fn add(&mut self, hour: i64, bucket: u8) {
        let skipped = hour.saturating_sub(self.newest).clamp(0, HOURS as i64);
        for hour in hour - skipped + 1..=hour {
            self.peaks[slot(hour)] = 0;
        }
        self.newest = self.newest.max(hour);
        let peak = &mut self.peaks[slot(self.newest)];
        *peak = (*peak).max(bucket.saturating_add(1));
    }

    /// Whether samples until this hour can lead to these peaks.
    pub(super) fn is_valid(&self, hour: i64) -> bool {
        let is_known = |peak: &u8| usize::from(*peak) <= Buckets::COUNT;
        (self.newest == i64::MIN || (0..=hour).contains(&self.newest))
            && self.peaks.iter().all(is_known)
    }

    pub(super) fn highest(&self) -> Option<u8> {
        self.peaks.iter().max()?.checked_sub(1)
    }
}

fn serialize_peaks<S: Serializer>(peaks: &[u8; HOURS], to: S) -> Result<S::Ok, S::Error> {
    serialize_bytes(*peaks, to)
}

fn deserialize_peaks<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; HOURS], D::Error> {
    let peaks = deserialize_bytes(from, HOURS)?.try_into();
    peaks.map_err(|_| D::Error::custom("not one week of peaks"))
}

fn slot(hour: i64) -> usize {
    hour.rem_euclid(HOURS as i64) as usize
}

const WINDOWS: i64 = 12;

/// Maximum of the last hour, which is the last twelve windows: a limit decreases an hour later.
/// Source: section 3.2.2.
/// Values by window, oldest first, at most one per window of the last hour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RecentMaximum(VecDeque<(i64, f64)>);

impl RecentMaximum {
    /// Records the value of a window. Windows must not decrease. Of several values in one window
    /// the largest counts.
    pub(super) fn push(&mut self, window: i64, value: f64) {
        self.forget_before(window);
        match self.0.back_mut() {
            Some((known, largest)) if *known == window => *largest = largest.max(value),
            _ => self.0.push_back((window, value)),
        }
    }

    /// Drops values an hour older than a window.
    pub(super) fn forget_before(&mut self, window: i64) {
        self.0.retain(|(known, _)| *known > window - WINDOWS);
    }

    /// Whether values until the window `newest` can lead to these.
    pub(super) fn is_valid(&self, newest: i64) -> bool {
        let windows = || self.0.iter().map(|(window, _)| *window);
        self.0.len() <= WINDOWS as usize
            && windows().is_sorted_by(|one, next| one < next)
            && windows().all(|window| (0..=newest).contains(&window))
            && self
                .0
                .iter()
                .all(|(_, value)| value.is_finite() && *value >= 0.0)
    }

    pub(super) fn get(&self) -> Option<f64> {
        self.0.iter().map(|(_, value)| *value).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(statistic: Statistic) -> Rule {
        MovingWindowConfig {
            cpu: statistic,
            margin: Some(0.0),
            ..MovingWindowConfig::default()
        }
        .cpu_rule()
    }

    fn counts(cores: f64, samples: usize) -> Counts {
        let mut counts = Counts::default();
        (0..samples).for_each(|_| counts.add(Buckets::cpu().find(cores) as u8));
        counts
    }

    fn bound(cores: f64) -> f64 {
        Buckets::cpu().end(Buckets::cpu().find(cores))
    }

    /// Windows with the cores used in them, one sample each.
    fn check(statistic: Statistic, usage: &[(i64, f64)], expected: f64) {
        let rule = rule(statistic);
        let mut recommender = MovingWindow::default();
        for (window, cores) in usage {
            recommender.close(&rule, *window, &counts(*cores, 1));
        }
        let found = recommender.limit().unwrap_or(0.0);
        let is_near = (found - expected).abs() < 1e-9 * expected.max(1.0);
        assert!(
            is_near,
            "{statistic:?} of {usage:?}: {found}, not {expected}"
        );
    }

    /// Windows in twelve hours.
    const HALF_LIFE: i64 = 144;

    #[test]
    fn a_window_counts_half_as_much_after_a_half_life() {
        let check = |usage: &[_], expected| check(Statistic::Average, usage, expected);
        check(&[(0, 1.0)], bound(1.0));
        // Far enough that the last hour has only the second value: (1/2 * a + b) / (3/2).
        let expected = (0.5 * bound(1.0) + bound(4.0)) / 1.5;
        check(&[(0, 1.0), (HALF_LIFE, 4.0)], expected);
        let expected = (0.25 * bound(4.0) + bound(1.0)) / 1.25;
        check(&[(0, 4.0), (2 * HALF_LIFE, 1.0)], expected);
    }

    #[test]
    fn a_gap_without_samples_changes_no_proportion() {
        let usage = [(0, 1.0), (1_000_000, 4.0), (1_000_012, 4.0)];
        check(Statistic::Average, &usage, bound(4.0));
    }

    #[test]
    fn a_limit_goes_up_at_once_and_down_after_an_hour() {
        let mut usage = vec![(0, 0.1), (1, 8.0)];
        check(Statistic::LoadPercentile(0.95), &usage, bound(8.0));
        usage.extend((2..=HALF_LIFE * 20).map(|window| (window, 0.1)));
        check(Statistic::LoadPercentile(0.95), &usage, bound(0.1));

        let rule = rule(Statistic::Average);
        let mut recommender = MovingWindow::default();
        recommender.close(&rule, 0, &counts(8.0, 1));
        for window in 1..=11 {
            recommender.close(&rule, window, &counts(0.1, 1000));
            assert_eq!(recommender.limit(), Some(bound(8.0)), "window {window}");
        }
        recommender.close(&rule, 12, &counts(0.1, 1000));
        assert!(recommender.limit() < Some(bound(8.0)));
    }

    #[test]
    fn the_peak_is_never_below_any_usage_of_seven_days() {
        let usage = [(0, 3.0), (1, 0.5), (2000, 0.2)];
        check(Statistic::Peak, &usage, bound(3.0));
        check(Statistic::Peak, &[(0, 3.0), (2016, 0.2)], bound(0.2));
    }

    fn check_hourly_peaks(added: &[(i64, u8)], expected: Option<u8>) {
        let mut peaks = HourlyPeaks::default();
        for (hour, bucket) in added {
            peaks.add(*hour, *bucket);
        }
        assert_eq!(peaks.highest(), expected, "{added:?}");
    }

    #[test]
    fn a_peak_counts_for_seven_days() {
        check_hourly_peaks(&[], None);
        check_hourly_peaks(&[(500, 0)], Some(0));
        check_hourly_peaks(&[(500, 9), (501, 3)], Some(9));
        check_hourly_peaks(&[(500, 9), (667, 3)], Some(9));
        check_hourly_peaks(&[(500, 9), (668, 3)], Some(3));
        check_hourly_peaks(&[(500, 9), (500_000, 3)], Some(3));
        check_hourly_peaks(&[(500, 175), (500, 3), (499, 9)], Some(175));
    }

    fn check_recent_maximum(pushed: &[(i64, f64)], expected: Option<f64>) {
        let mut recent = RecentMaximum::default();
        for (window, value) in pushed {
            recent.push(*window, *value);
        }
        assert_eq!(recent.get(), expected, "{pushed:?}");
    }

    #[test]
    fn a_value_counts_for_twelve_windows() {
        check_recent_maximum(&[], None);
        check_recent_maximum(&[(0, 3.0), (11, 1.0)], Some(3.0));
        check_recent_maximum(&[(0, 3.0), (12, 1.0)], Some(1.0));
        check_recent_maximum(&[(0, 3.0), (0, 4.0), (0, 1.0)], Some(4.0));
    }
}
