//! One metric: what is read of its history and when, what was made of it. No input or output, and
//! no clock.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use std::time::Duration;

use jiff::Timestamp;

use super::access::SCOPE_LABEL;
use super::fit_task::FitTask;
use super::model::{FARTHEST, ForecastRange, Labels, Model, floor};
use super::points::{MOST_OF_SERIES, thin_series};
use super::query::{Expression, Query};
use super::read::{Excess, ReadChunk, ReadIntervals, ReadRange, Samples};
use super::result::{MetricForecasts, MetricResult, label_bytes};
use super::spec::{ForecastSpec, Method};
use super::text::cut;

const DAY: i64 = 86_400;
/// The newest points are not asked for: scrapes may still be on their way.
const LAG: i64 = 30;
/// Reads are spread over so long after the end of a slot.
const SPREAD: u64 = 60;
/// When a clock was put back by no more, it is waited until it has caught up: what was heard cannot
/// be asked for again. Longer than any pause lasts beyond the pace of reads.
const PUT_BACK: i64 = 300;
/// From this distance on reads follow the clock, so that they come soon after a slot is complete.
const BY_THE_CLOCK: i64 = 300;
/// More series than this are no forecast that anybody scales by; an autoscaler takes one.
pub(super) const MOST_SERIES: usize = 10;
/// The most points per series in one question. Prometheus refuses more than 11,000.
const MOST_POINTS: i64 = 2000;
/// The fewest points after answers that took too long: each attempt costs the store as much as a
/// question may.
const LEAST_POINTS_OF_SLOW: i64 = MOST_POINTS / 4;
/// The fewest points after answers that were too large: an hour of minutes.
const LEAST_POINTS_OF_LARGE: i64 = 60;
/// A pause lasts at least four times as long as the failure before it took, up to [`PUT_BACK`].
const REST: i64 = 4;
/// The most labels of a series that is forecast: they are kept, and published with each forecast.
const MOST_LABEL_BYTES: usize = 1024;
/// The most characters that are kept of an error of the store.
const MOST_ERROR: usize = 500;
/// The most characters that are shown of an expression.
const MOST_SHOWN: usize = 300;
/// Pauses after failures.
const PAUSES: [i64; 7] = [1, 2, 4, 8, 16, 32, 60];

/// One metric.
#[derive(Debug)]
pub struct MetricPipeline {
    spec: ForecastSpec,
    window_seconds: u32,
    intervals: ReadIntervals,
    /// Its share of [`SPREAD`].
    offset: i64,
    models: BTreeMap<Labels, ModelledSeries>,
    /// Up to when its history was read.
    read_until: Option<i64>,
    /// When it is looked at next, in seconds since 1970.
    due: i64,
    failures: usize,
    /// The most points that are asked for at once, until all of the history is read.
    points: i64,
    /// Whether the history was read up to the present. Nothing is forecast before.
    is_caught_up: bool,
    /// Whether a series was left out for its labels in the last read.
    has_long_labels: bool,
    result: MetricResult,
    /// Whether the outlook is newer than what was published.
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
        let farthest = if matches!(spec.method, Method::Plimsoll { .. }) {
            FARTHEST.into()
        } else {
            i64::MAX
        };
        let window = i64::from(window_seconds);
        let short =
            (window > farthest).then(|| "the method looks a day ahead, which repeats".to_owned());
        let result = MetricResult {
            identifier: spec.identifier.clone(),
            missing: spec.query.as_ref().err().cloned(),
            note: [spec.note.clone(), short]
                .into_iter()
                .flatten()
                .reduce(|one, other| format!("{one}; {other}")),
            reach_seconds: window.min(farthest),
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
            points: MOST_POINTS,
            is_caught_up: false,
            has_long_labels: false,
            result,
            is_changed: true,
        }
    }

    /// Whether it is the same as is wanted, so that its history serves on.
    pub fn is_for(&self, spec: &ForecastSpec, window_seconds: u32) -> bool {
        self.spec == *spec && self.window_seconds == window_seconds
    }

    pub fn result(&self) -> &MetricResult {
        &self.result
    }

    pub fn method(&self) -> &Method {
        &self.spec.method
    }

    /// How its history is asked for.
    pub fn query(&self) -> Option<&Query> {
        self.spec.query.as_ref().ok()
    }

    /// When it is to be looked at; none if never.
    pub fn due(&self) -> Option<i64> {
        self.query().map(|_| self.due)
    }

    /// Whether it is to be looked at.
    pub fn is_due(&self, now: i64) -> bool {
        // No pause is as long as that: the clock was put back.
        let latest = now
            .saturating_add(self.intervals.read_seconds.max(1))
            .saturating_add(PUT_BACK);
        self.due().is_some_and(|due| due <= now || due > latest)
    }

    pub fn series(&self) -> usize {
        self.models.len()
    }

    /// About the memory that it takes, with its forecast.
    pub fn bytes(&self) -> usize {
        let models = self
            .models
            .iter()
            .map(|(labels, series)| label_bytes(labels) + series.model.bytes());
        self.spec.text_bytes() + models.sum::<usize>() + self.result.bytes()
    }

    /// The memory that it needs: what it takes, or before its history is read at least what one
    /// series usually takes.
    pub fn needed_bytes(&self) -> usize {
        let least = if self.is_caught_up {
            0
        } else {
            self.spec.usual_bytes()
        };
        self.bytes().max(least)
    }

    /// Says that its history is being looked at, from now on.
    pub fn await_history(&mut self) {
        (self.result.is_pending, self.is_changed) = (true, true);
    }

    /// The part of its history that is asked for next.
    pub fn chunk(&self, now: Timestamp) -> ReadChunk {
        let range = self.range(now);
        let length = i64::from(range.step).saturating_mul(self.points.saturating_sub(1));
        let last = range.last.min(range.first.saturating_add(length));
        ReadChunk {
            range: ReadRange { last, ..range },
            is_last: last == range.last,
        }
    }

    /// Asks for half as much from now on, since the answer to this part exceeds a bound; false if
    /// that is too little to be of use.
    pub fn asks_for_less(&mut self, chunk: ReadChunk, excess: Excess, now: Timestamp) -> bool {
        let ReadRange { first, last, step } = chunk.range;
        let half = ((last - first) / i64::from(step.max(1)) + 1) / 2;
        let least = match excess {
            Excess::Time => LEAST_POINTS_OF_SLOW,
            Excess::Size => LEAST_POINTS_OF_LARGE,
        };
        if half < least {
            return false;
        }
        (self.points, self.due) = (half, now.as_second());
        true
    }

    /// Which points are to be read: all of the history at first, then those since the last, which
    /// is asked for again so that it is noticed when nobody answers.
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

    /// Takes in what was measured just now, if anything was: there is no asking for what was
    /// before.
    pub fn hear(&mut self, at: Timestamp, sample: Option<f64>, now: Timestamp) {
        let second = floor(at.as_second(), self.spec.method.step_seconds());
        let samples = sample.map(|value| (Labels::new(), vec![(second, value)]));
        self.take(self.range_until(second), samples.into_iter().collect(), now);
    }

    /// Takes in what was found in a span that ends at present, and forecasts.
    pub fn take(&mut self, range: ReadRange, samples: Samples, now: Timestamp) {
        self.take_chunk(
            ReadChunk {
                range,
                is_last: true,
            },
            samples,
            now,
        );
    }

    /// Takes in what was found in a part of a span, and forecasts after the last one. Returns
    /// whether the history could not be read before.
    pub fn take_chunk(&mut self, chunk: ReadChunk, samples: Samples, now: Timestamp) -> bool {
        let range = chunk.range;
        let until = self.read_until.unwrap_or(range.first);
        let slack = PUT_BACK.max(range.step.into());
        if until < range.first || until > range.last.saturating_add(slack) {
            // Too long ago to go on from, or by a clock that was ahead.
            self.models.clear();
            self.read_until = None;
        }
        let after = self.read_until.unwrap_or(i64::MIN);
        self.has_long_labels = false;
        for (labels, samples) in self.merged(samples) {
            if label_bytes(&labels) > MOST_LABEL_BYTES {
                self.has_long_labels = true;
                continue;
            }
            // Of too many series it only matters that there are.
            if self.models.len() > MOST_SERIES && !self.models.contains_key(&labels) {
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
                let model = Model::new(
                    &self.spec.method,
                    self.window_seconds,
                    self.intervals.refit_seconds,
                );
                ModelledSeries { model, last }
            });
            series.last = last;
            series.model.take(&newer, range.last);
        }
        for series in self
            .models
            .values_mut()
            .filter(|series| series.last <= after)
        {
            series.model.take(&[], range.last);
        }
        self.forget(range.last);
        self.read_until = Some(range.last.max(after));
        self.failures = 0;
        self.is_caught_up = chunk.is_last;
        let was_unread = self.result.read_error.take().is_some();
        if chunk.is_last {
            self.points = MOST_POINTS;
            self.due = self.next(now.as_second());
            self.forecast(now);
        } else {
            self.due = now.as_second();
            let was_awaited = std::mem::replace(&mut self.result.is_pending, true);
            self.is_changed |= was_unread || !was_awaited;
        }
        was_unread
    }

    /// Whether a series waits to be fitted.
    pub fn awaits_fit(&self) -> bool {
        self.is_caught_up && self.models.values().any(|series| series.model.awaits_fit())
    }

    /// What takes long to find out, if it is to be found out; once.
    pub fn fit_task(&mut self) -> Option<FitTask> {
        if !self.is_caught_up {
            return None;
        }
        self.models
            .values_mut()
            .find_map(|series| series.model.fit_task())
    }

    /// Takes in what was found out since, and forecasts.
    pub fn learn(&mut self, now: Timestamp) {
        let learnt = self
            .models
            .values_mut()
            .filter_map(|series| series.model.learn().then_some(()))
            .count();
        if learnt > 0 && self.is_caught_up {
            self.forecast(now);
        }
    }

    /// All series in one where the method wants that.
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

    /// Of several series those go that have had no sample for a day: their pods are gone.
    fn forget(&mut self, until: i64) {
        if self.models.len() > 1
            && self
                .models
                .values()
                .any(|series| series.last >= until - DAY)
        {
            self.models.retain(|_, series| series.last >= until - DAY);
        }
    }

    fn next(&self, now: i64) -> i64 {
        let pause = self.intervals.read_seconds.max(1);
        if pause < BY_THE_CLOCK {
            return now + pause;
        }
        now - now.rem_euclid(pause) + pause + LAG + self.offset
    }

    fn forecast(&mut self, now: Timestamp) {
        let until = now
            .as_second()
            .saturating_add(2 * i64::from(self.window_seconds));
        let range = ForecastRange {
            now: now.as_second(),
            until,
        };
        let (mut series, mut missing) = (Vec::new(), None);
        if self.models.is_empty() {
            missing = Some(match self.query() {
                Some(Query::Expression(expression)) => no_samples(expression),
                _ => "there are no samples of its pods".to_owned(),
            });
        }
        if self.models.len() > MOST_SERIES {
            missing = Some(format!(
                "the query gives more than {MOST_SERIES} series; sum() makes them one"
            ));
        }
        if self.has_long_labels {
            missing = Some(format!(
                "a series has more than {MOST_LABEL_BYTES} bytes of labels; sum() leaves them out"
            ));
        }
        let mut is_pending = false;
        for (labels, modelled) in self.models.iter().take(MOST_SERIES) {
            if modelled.model.is_pending() {
                is_pending = true;
                continue;
            }
            match modelled.model.forecast(range) {
                Ok(mut one) => {
                    one.labels.clone_from(labels);
                    thin_series(&mut one, MOST_OF_SERIES);
                    series.push(one);
                }
                Err(why) => missing = missing.or(Some(why)),
            }
        }
        // Some of the series are not the forecast.
        self.result.made = (!series.is_empty() && !is_pending)
            .then(|| Arc::new(MetricForecasts { at: now, series }));
        self.result.missing = missing;
        self.result.is_pending = is_pending;
        self.is_changed = true;
    }

    /// Nothing could be read. What was made of the history before holds on as far as it reaches.
    pub fn fail(&mut self, why: &str, now: Timestamp) {
        self.fail_after(why, Duration::ZERO, now);
    }

    /// Nothing could be read, and it took some time to find that out. A metric that is slow to fail
    /// is asked for less often. Returns whether the reason differs from the one before.
    pub fn fail_after(&mut self, why: &str, took: Duration, now: Timestamp) -> bool {
        let pause = PAUSES
            .get(self.failures)
            .or(PAUSES.last())
            .copied()
            .unwrap_or(1);
        let rest = i64::try_from(took.as_secs())
            .unwrap_or(PUT_BACK)
            .saturating_mul(REST);
        let pause = pause.max(rest.min(PUT_BACK));
        self.failures = self.failures.saturating_add(1);
        self.due = now.as_second() + pause;
        let why = cut(why, MOST_ERROR);
        let is_new = self.result.read_error.as_ref() != Some(&why);
        if is_new {
            self.result.read_error = Some(why);
            self.is_changed = true;
        }
        is_new
    }
}

/// The reason where an expression has no samples.
fn no_samples(Expression { text, confined_by }: &Expression) -> String {
    let text = cut(text, MOST_SHOWN);
    let confinement = confined_by.as_ref().map(|matcher| {
        format!("; only series with {matcher} are read, unless the namespace has the label {SCOPE_LABEL}=cluster")
    });
    format!(
        "there are no samples of {text}{}",
        confinement.unwrap_or_default()
    )
}
