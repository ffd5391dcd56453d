//! The prediction of our programs: the pipeline of the recommender, and the value that the adapter
//! serves.

use std::collections::BTreeMap;

use horizontal::predictions::{ForecastSpec, Method, MetricPipeline, ReadIntervals};
use jiff::Timestamp;
use scaling::{Predicted, window_maximum};

/// Time from the end of a minute until it is read, in seconds.
const READ: i64 = 30;
const INTERVALS: ReadIntervals = ReadIntervals {
    read_seconds: 60,
    refit_seconds: 12 * 3600,
};
const IDENTIFIER: &str = "demand";

pub struct Program {
    method: Method,
    window_seconds: u32,
    pipeline: Option<MetricPipeline>,
    waiting: Vec<(i64, f64)>,
}

impl Program {
    pub fn new(method: Method, window_seconds: u32) -> Self {
        Self {
            method,
            window_seconds,
            pipeline: None,
            waiting: Vec::new(),
        }
    }

    /// Adds the demand of the minute that ended at `end`, if it was measured. Returns the value that
    /// the HPA reads during the next minute, if there is a prediction.
    pub fn minute(&mut self, end: i64, demand: Option<f64>) -> Option<f64> {
        let now = end + READ;
        let at = Timestamp::from_second(now).ok()?;
        let pipeline = self.pipeline.get_or_insert_with(|| {
            let spec = ForecastSpec {
                identifier: IDENTIFIER.to_owned(),
                query: Err(String::new()),
                method: self.method.clone(),
                note: None,
            };
            MetricPipeline::new("replay", spec, self.window_seconds, INTERVALS, at)
        });
        self.waiting.extend(demand.map(|value| (end, value)));
        let samples = BTreeMap::from([(BTreeMap::new(), std::mem::take(&mut self.waiting))]);
        pipeline.append(pipeline.range(at), samples, at);
        while let Some(task) = pipeline.fit_task() {
            task.run();
            pipeline.collect_fits(at);
        }
        let result = pipeline.result();
        let forecasts = result.forecasts.as_ref();
        let forecasts = forecasts.filter(|_| result.missing.is_none())?;
        let series = forecasts.series.iter().map(|it| it.points().collect());
        let series: Vec<Vec<(i64, f64)>> = series.collect();
        let predicted = Predicted {
            identifier: IDENTIFIER,
            ready: true,
            series: &series,
        };
        let window_seconds = self.window_seconds.cast_signed();
        window_maximum(&[predicted], IDENTIFIER, now, window_seconds).ok()
    }
}
