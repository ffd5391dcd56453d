//! Pipeline of one metric: next range to read, models of its series, forecast. No I/O and no clock.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use forecast::PeakAccuracy;
use jiff::Timestamp;
use promql::Excess;

use super::access::{Expression, SCOPE_LABEL};
use super::method::Method;
use super::model::{Dsp, FARTHEST, FitTask, ForecastRange, Labels, Model, floor};
use super::published_series::{MAX_SERIES_POINTS, thin_series};
use super::query::Query;
use super::result::{MetricForecasts, MetricResult, label_bytes};
use super::spec::ForecastSpec;
use super::{ReadChunk, ReadIntervals, ReadRange, Samples, truncate};

const DAY: i64 = 86_400;
/// Seconds before now up to which points are read: later scrapes may be missing still.
const LAG: i64 = 30;
/// Seconds over which reads are spread after the end of a slot.
const SPREAD: u64 = 60;
/// Clock steps back by up to this many seconds are waited out, because past rounds of usage cannot
/// be read again. Longer than any pause beyond the read interval.
const MAX_CLOCK_STEP: i64 = 300;
/// From this interval on reads follow the clock, so that they come soon after a slot is complete.
const CLOCK_ALIGNED: i64 = 300;
/// Maximum number of forecast series. An HPA scales by one.
pub(super) const MAX_SERIES: usize = 10;
/// Maximum number of points per series in one read. Prometheus rejects more than 11,000.
const MAX_POINTS: i64 = 2000;
/// Minimum number of points after reads that took too long: each attempt costs the store up to a
/// query timeout.
const MIN_POINTS_OF_SLOW: i64 = MAX_POINTS / 4;
/// Minimum number of points after responses that were too large: an hour of minutes.
const MIN_POINTS_OF_LARGE: i64 = 60;
/// Minimum ratio of a pause to the duration of the failure before it. The pause is limited to
/// [`MAX_CLOCK_STEP`].
const PAUSE_RATIO: i64 = 4;
/// Maximum size of the labels of a series. They are kept, and published with each forecast.
const MAX_LABEL_BYTES: usize = 1024;
const MAX_ERROR: usize = 500;
/// Maximum length of an expression in a message, in characters.
const MAX_SHOWN: usize = 300;
/// Pauses after consecutive failures, in seconds.
const PAUSES: [i64; 7] = [1, 2, 4, 8, 16, 32, 60];

#[derive(Debug)]
pub struct MetricPipeline {
    spec: ForecastSpec,
    window_seconds: u32,
    intervals: ReadIntervals,
    offset: i64,
    models: BTreeMap<Labels, ModelledSeries>,
    /// End of the history read so far.
    read_until: Option<i64>,
    /// Time of the next read, in seconds since 1970.
    due: i64,
    failures: usize,
    /// Maximum number of points of the next read, until the history is complete.
    points: i64,
    /// Whether the history is complete up to now. There is no forecast before.
    is_caught_up: bool,
    /// Whether the last read had a series with too long labels.
    has_long_labels: bool,
    result: MetricResult,
    /// Whether the result is newer than the published one.
    pub(super) is_changed: bool,
}

#[derive(Debug)]
struct ModelledSeries {
    model: Model,
    last: i64,
}

impl MetricPipeline {
    pub fn new(
        uid: &str,
        spec: ForecastSpec,
        window_seconds: u32,
        intervals: ReadIntervals,
        now: Timestamp,
    ) -> Self {
        let mut hasher = DefaultHasher::new();
        (uid, &spec.identifier).hash(&mut hasher);
        let result = MetricResult {
            identifier: spec.identifier.clone(),
            missing: spec.query.as_ref().err().cloned(),
            note: note(&spec, window_seconds),
            reach_seconds: i64::from(window_seconds).min(farthest(&spec.method)),
            ..MetricResult::default()
        };
        Self {
            spec,
            window_seconds,
            intervals,
            offset: i64::try_from(hasher.finish() % SPREAD).unwrap_or_default(),
            models: BTreeMap::new(),
            read_until: None,
            due: now.as_second(),
            failures: 0,
            points: MAX_POINTS,
            is_caught_up: false,
            has_long_labels: false,
            result,
            is_changed: true,
        }
    }

    /// Whether the pipeline can continue with this spec, so that its history stays.
    pub fn is_for(&self, spec: &ForecastSpec, window_seconds: u32) -> bool {
        spec.method.continues(&self.spec.method)
            && self.spec.query == spec.query
            && self.spec.identifier == spec.identifier
            && self.window_seconds == window_seconds
    }

    /// Continues with a spec for which [`Self::is_for`] is true. Another window or price of the peak
    /// method counts from the next read on.
    pub fn continue_with(&mut self, spec: &ForecastSpec) {
        if self.spec == *spec {
            return;
        }
        self.spec.clone_from(spec);
        let note = note(spec, self.window_seconds);
        self.is_changed |= note != self.result.note;
        self.result.note = note;
        for series in self.models.values_mut() {
            series.model.continue_with(&spec.method);
        }
    }

    pub fn result(&self) -> &MetricResult {
        &self.result
    }

    pub fn method(&self) -> &Method {
        &self.spec.method
    }

    pub fn query(&self) -> Option<&Query> {
        self.spec.query.as_ref().ok()
    }

    /// Time of the next read; `None` without a query.
    pub fn due(&self) -> Option<i64> {
        self.query().map(|_| self.due)
    }

    pub fn is_due(&self, now: i64) -> bool {
        // No pause is this long: the clock stepped back.
        let pause = self.intervals.read_seconds.max(1);
        let latest = now.saturating_add(pause).saturating_add(MAX_CLOCK_STEP);
        self.due().is_some_and(|due| due <= now || due > latest)
    }

    pub fn series(&self) -> usize {
        self.models.len()
    }

    /// Approximate memory of the pipeline with its forecast.
    pub fn bytes(&self) -> usize {
        let models = self
            .models
            .iter()
            .map(|(labels, series)| label_bytes(labels) + series.model.bytes());
        self.spec.text_bytes() + models.sum::<usize>() + self.result.bytes()
    }

    /// Memory that the pipeline needs: before its history is complete at least the usual memory of
    /// one series.
    pub fn needed_bytes(&self) -> usize {
        let usual = self.spec.usual_bytes();
        let least = if self.is_caught_up { 0 } else { usual };
        self.bytes().max(least)
    }

    pub fn await_history(&mut self) {
        (self.result.is_pending, self.is_changed) = (true, true);
    }

    pub fn chunk(&self, now: Timestamp) -> ReadChunk {
        let range = self.range(now);
        let length = i64::from(range.step).saturating_mul(self.points.saturating_sub(1));
        let last = range.last.min(range.first.saturating_add(length));
        ReadChunk {
            range: ReadRange { last, ..range },
            is_last: last == range.last,
        }
    }

    /// Halves the next chunks, since the response to this one exceeds a limit. Returns false if
    /// they would be too small to be of use.
    pub fn reduce_chunk(&mut self, chunk: ReadChunk, excess: Excess, now: Timestamp) -> bool {
        let ReadRange { first, last, step } = chunk.range;
        let half = ((last - first) / i64::from(step.max(1)) + 1) / 2;
        let least = match excess {
            Excess::Time => MIN_POINTS_OF_SLOW,
            Excess::Size => MIN_POINTS_OF_LARGE,
        };
        if half < least {
            return false;
        }
        (self.points, self.due) = (half, now.as_second());
        true
    }

    /// Points to read: the whole history at first, then those since the last one. That one is read
    /// again, so that a store without the series is noticed.
    pub fn range(&self, now: Timestamp) -> ReadRange {
        let step = self.spec.method.step_seconds();
        self.range_until(floor(now.as_second() - LAG, step))
    }

    fn range_until(&self, last: i64) -> ReadRange {
        let step = self.spec.method.step_seconds();
        let earliest = last - floor(i64::from(self.spec.method.history_seconds()), step);
        let first = self
            .read_until
            .filter(|until| (earliest..=last).contains(until))
            .unwrap_or(earliest);
        ReadRange { first, last, step }
    }

    /// Appends a current sample, if there is one, and forecasts. Earlier ones cannot be read.
    pub fn append_current(&mut self, at: Timestamp, sample: Option<f64>, now: Timestamp) {
        let second = floor(at.as_second(), self.spec.method.step_seconds());
        let samples = sample.map(|value| (Labels::new(), vec![(second, value)]));
        self.append(self.range_until(second), samples.into_iter().collect(), now);
    }

    /// Appends the samples of a range that ends now, and forecasts.
    pub fn append(&mut self, range: ReadRange, samples: Samples, now: Timestamp) {
        let is_last = true;
        self.append_chunk(ReadChunk { range, is_last }, samples, now);
    }

    /// Appends the samples of a chunk, and forecasts after the last one. Returns whether the
    /// previous read had failed.
    pub fn append_chunk(&mut self, chunk: ReadChunk, samples: Samples, now: Timestamp) -> bool {
        let range = chunk.range;
        let until = self.read_until.unwrap_or(range.first);
        let slack = MAX_CLOCK_STEP.max(range.step.into());
        if until < range.first || until > range.last.saturating_add(slack) {
            // The gap is too long, or the clock was ahead.
            self.models.clear();
            self.read_until = None;
        }
        let after = self.read_until.unwrap_or(i64::MIN);
        self.has_long_labels = false;
        for (labels, samples) in self.merged(samples) {
            if label_bytes(&labels) > MAX_LABEL_BYTES {
                self.has_long_labels = true;
                continue;
            }
            // With too many series only the fact matters.
            if self.models.len() > MAX_SERIES && !self.models.contains_key(&labels) {
                continue;
            }
            let newer: Vec<_> = samples
                .into_iter()
                .filter(|(second, _)| *second > after)
                .collect();
            let Some((last, _)) = newer.last().copied() else {
                continue;
            };
            let series = self.models.entry(labels).or_insert_with(|| {
                let (method, refit_seconds) = (&self.spec.method, self.intervals.refit_seconds);
                let model = Model::new(method, self.window_seconds, refit_seconds);
                ModelledSeries { model, last }
            });
            series.last = last;
            series.model.append(&newer, range.last);
        }
        let silent = self.models.values_mut().filter(|it| it.last <= after);
        silent.for_each(|series| series.model.append(&[], range.last));
        self.forget(range.last);
        self.read_until = Some(range.last.max(after));
        self.failures = 0;
        self.is_caught_up = chunk.is_last;
        let was_unread = self.result.read_error.take().is_some();
        if chunk.is_last {
            self.points = MAX_POINTS;
            self.due = self.next(now.as_second());
            self.forecast(now);
        } else {
            self.due = now.as_second();
            let was_awaited = std::mem::replace(&mut self.result.is_pending, true);
            self.is_changed |= was_unread || !was_awaited;
        }
        was_unread
    }

    pub fn awaits_fit(&self) -> bool {
        let mut models = self.models.values().filter_map(|it| it.model.dsp());
        self.is_caught_up && models.any(Dsp::awaits_fit)
    }

    pub fn fit_task(&mut self) -> Option<FitTask> {
        if !self.is_caught_up {
            return None;
        }
        let mut models = self.models.values_mut();
        models.find_map(|series| series.model.dsp_mut()?.fit_task())
    }

    /// Takes the results of finished fits, and forecasts.
    pub fn collect_fits(&mut self, now: Timestamp) {
        let models = self.models.values_mut().filter_map(|it| it.model.dsp_mut());
        let fitted = models.fold(false, |fitted, model| model.collect_fits() | fitted);
        if fitted && self.is_caught_up {
            self.forecast(now);
        }
    }

    fn merged(&self, samples: Samples) -> Samples {
        let Method::Percentile { predictor, .. } = &self.spec.method else {
            return samples;
        };
        if !predictor.aggregated {
            return samples;
        }
        let mut samples: Vec<_> = samples.into_values().flatten().collect();
        samples.sort_by_key(|(second, _)| *second);
        Samples::from([(Labels::new(), samples)])
    }

    /// Drops series without a sample for a day, unless all are: their pods are gone.
    fn forget(&mut self, until: i64) {
        let is_recent = |series: &ModelledSeries| series.last >= until - DAY;
        if self.models.values().any(is_recent) {
            self.models.retain(|_, series| is_recent(series));
        }
    }

    fn next(&self, now: i64) -> i64 {
        let pause = self.intervals.read_seconds.max(1);
        if pause < CLOCK_ALIGNED {
            return now + pause;
        }
        now - now.rem_euclid(pause) + pause + LAG + self.offset
    }

    fn forecast(&mut self, now: Timestamp) {
        let windows = 2 * i64::from(self.window_seconds);
        let range = ForecastRange {
            now: now.as_second(),
            until: now.as_second().saturating_add(windows),
        };
        let (mut series, mut missing) = (Vec::new(), None);
        if self.models.is_empty() {
            missing = Some(match self.query() {
                Some(Query::Expression(expression)) => no_samples(expression),
                _ => "there are no samples of its pods".to_owned(),
            });
        }
        if self.models.len() > MAX_SERIES {
            missing = Some(format!(
                "the query gives more than {MAX_SERIES} series; sum() makes them one"
            ));
        }
        if self.has_long_labels {
            missing = Some(format!(
                "a series has more than {MAX_LABEL_BYTES} bytes of labels; sum() leaves them out"
            ));
        }
        let mut is_pending = false;
        for (labels, modelled) in self.models.iter().take(MAX_SERIES) {
            if modelled.model.dsp().is_some_and(Dsp::is_pending) {
                is_pending = true;
                continue;
            }
            match modelled.model.forecast(range) {
                Ok(mut one) => {
                    one.labels.clone_from(labels);
                    thin_series(&mut one, MAX_SERIES_POINTS);
                    series.push(one);
                }
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        // A part of the series is no forecast of the metric.
        self.result.forecasts = (!series.is_empty() && !is_pending)
            .then(|| Arc::new(MetricForecasts { at: now, series }));
        self.result.missing = missing;
        self.result.is_pending = is_pending;
        self.result.accuracy = self.accuracy();
        self.is_changed = true;
    }

    /// Accuracy of the least accurate series; one that is set aside comes first.
    fn accuracy(&self) -> Option<PeakAccuracy> {
        let models = self.models.values();
        let known = models.filter_map(|series| series.model.accuracy());
        let rank = |accuracy: &PeakAccuracy| (accuracy.set_aside.is_some(), accuracy.wape);
        known.max_by(|one, other| {
            let ((one_aside, one), (other_aside, other)) = (rank(one), rank(other));
            (one_aside.cmp(&other_aside)).then(one.total_cmp(&other))
        })
    }

    /// Records a failed read. The previous forecast stays as far as it reaches.
    pub fn fail(&mut self, why: &str, now: Timestamp) {
        self.fail_after(why, Duration::ZERO, now);
    }

    /// Records a read that failed after some time. Slow failures have longer pauses. Returns
    /// whether the reason changed.
    pub fn fail_after(&mut self, why: &str, took: Duration, now: Timestamp) -> bool {
        let pause = PAUSES[self.failures.min(PAUSES.len() - 1)];
        let rest = i64::try_from(took.as_secs())
            .unwrap_or(MAX_CLOCK_STEP)
            .saturating_mul(PAUSE_RATIO);
        let pause = pause.max(rest.min(MAX_CLOCK_STEP));
        self.failures = self.failures.saturating_add(1);
        self.due = now.as_second() + pause;
        let why = truncate(why, MAX_ERROR);
        let is_new = self.result.read_error.as_ref() != Some(&why);
        if is_new {
            self.result.read_error = Some(why);
            self.is_changed = true;
        }
        is_new
    }
}

/// Seconds that a method always reaches ahead.
fn farthest(method: &Method) -> i64 {
    match method {
        Method::Plimsoll { .. } => FARTHEST.into(),
        _ => i64::MAX,
    }
}

/// The note of a spec, and one about a window that is too long for its method.
fn note(spec: &ForecastSpec, window_seconds: u32) -> Option<String> {
    let short = (i64::from(window_seconds) > farthest(&spec.method)).then(|| {
        "the method forecasts one day, which is repeated for the rest of the window".to_owned()
    });
    [spec.note.clone(), short]
        .into_iter()
        .flatten()
        .reduce(|one, other| format!("{one}; {other}"))
}

/// The reason for a missing forecast if an expression has no samples.
fn no_samples(Expression { text, confined_by }: &Expression) -> String {
    let missing = format!("there are no samples of {}", truncate(text, MAX_SHOWN));
    match confined_by {
        None => missing,
        Some(matcher) => format!(
            "{missing}; only series with {matcher} are read, unless the namespace has the label {SCOPE_LABEL}=cluster"
        ),
    }
}
