//! Controller of `TimeSeriesPrediction` objects: reads the histories of their metrics in every
//! replica, so that a new leader is warm, and in the leader publishes forecasts on the feed and
//! writes statuses. The decisions are in [`horizontal::predictions`].

mod collector;
mod controller;
mod metrics;
mod settings;
mod writer;

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use feed::{Forecast, Publisher};
use horizontal::ehpa::Rules;
use horizontal::predictions::MetricPipeline;
use tokio::sync::watch;
use tokio::task::JoinSet;
use view::View;

pub use collector::{Round, Source};
pub use controller::PredictionController;
pub use metrics::ForecastMetrics;
pub use settings::{DataSource, PredictionArgs, PredictionSettings};

pub struct PredictionInputs {
    /// View with predictions. Empty until their kinds are installed.
    pub horizontal: watch::Receiver<View>,
    pub recommender: String,
    pub settings: PredictionSettings,
    /// Maximum number of concurrent writes.
    pub workers: usize,
    /// Rules that allow queries more than the flags do, if there are any.
    pub rules: Option<watch::Receiver<Option<Arc<Rules>>>>,
    pub source: Source,
    pub publisher: Option<Publisher<Forecast>>,
}

/// Maximum number of concurrent fits. Each takes about ten megabytes.
const MAX_FITS: usize = 4;

/// Pool of threads for fits that take seconds, as by Crane's DSP predictor. A slow series delays no
/// other.
struct FitPool {
    size: usize,
    /// Each task delivers its result by itself.
    running: JoinSet<()>,
    metrics: ForecastMetrics,
}

impl FitPool {
    fn new(size: usize, metrics: ForecastMetrics) -> Self {
        Self {
            size,
            running: JoinSet::new(),
            metrics,
        }
    }

    /// All cores but one, at least one and at most [`MAX_FITS`].
    fn default_size() -> usize {
        let cores = available_parallelism().map_or(1, NonZero::get);
        cores.saturating_sub(1).clamp(1, MAX_FITS)
    }

    fn has_capacity(&self) -> bool {
        self.running.len() < self.size
    }

    /// Starts due fits while the pool has capacity. The others wait, and take no memory.
    fn start<'a>(&mut self, pipelines: impl Iterator<Item = &'a mut MetricPipeline>) {
        for pipeline in pipelines {
            while self.has_capacity()
                && let Some(fit_task) = pipeline.fit_task()
            {
                let metrics = self.metrics.clone();
                self.run(move || {
                    let _timer = metrics.update_timer();
                    fit_task.run();
                });
            }
        }
    }

    /// Returns after a fit ended; `None` without any.
    async fn ended(&mut self) -> Option<()> {
        self.running.join_next().await.map(drop)
    }

    fn run(&mut self, work: impl FnOnce() + Send + 'static) {
        self.running.spawn_blocking(work);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::f64::consts::TAU;
    use std::sync::Arc;

    use api::condition::ConditionStatus;
    use forecast::crane;
    use horizontal::predictions::{
        Expression, ForecastSpec, Method, PredictionResult, PredictionSpec, Quantile, Query,
        ReadIntervals, ReadRange, Samples,
    };
    use jiff::Timestamp;
    use model::Forecast;
    use prometheus::Registry;
    use view::ObjectKey;

    use super::*;

    const DAY: i64 = 86_400;
    /// Midnight.
    const START: i64 = 1_767_225_600;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    /// All points of a span: twice as much at noon as on average, and nothing at midnight.
    fn answer(range: ReadRange) -> Samples {
        let load =
            |second: i64| 10.0 - 10.0 * (TAU * second.rem_euclid(DAY) as f64 / DAY as f64).cos();
        let seconds = (range.first.max(START)..=range.last).step_by(range.step as usize);
        let samples = seconds.map(|second| (second, load(second))).collect();
        Samples::from([(BTreeMap::new(), samples)])
    }

    fn own() -> Method {
        Method::Plimsoll {
            step_seconds: 300,
            quantile: Quantile::Expected,
        }
    }

    fn of_crane() -> Method {
        let dsp = crane::Dsp {
            step_seconds: 300,
            ..crane::Dsp::default()
        };
        Method::Dsp {
            dsp,
            history_seconds: u32::try_from(3 * DAY).expect("three days"),
        }
    }

    struct Fixture(MetricPipeline);

    impl Fixture {
        fn new(method: Method, now: i64) -> Self {
            let metric = ForecastSpec {
                identifier: "resource.cpu".to_owned(),
                query: Ok(Query::Expression(Expression {
                    text: "sum(load)".to_owned(),
                    confined_by: None,
                })),
                method,
                note: None,
            };
            let intervals = ReadIntervals {
                read_seconds: 300,
                refit_seconds: DAY / 2,
            };
            Self(MetricPipeline::new("u-1", metric, 3600, intervals, at(now)))
        }

        fn read(&mut self, now: i64) {
            let range = self.0.range(at(now));
            self.0.append(range, answer(range), at(now));
        }

        fn result(&self) -> PredictionResult {
            let spec = PredictionSpec {
                key: ObjectKey::new("shop", "ehpa-web"),
                uid: "u-1".to_owned(),
                generation: 3,
                window_seconds: 3600,
            };
            PredictionResult {
                spec: Arc::new(spec),
                metrics: vec![self.0.result().clone()],
            }
        }

        fn forecast(&self, now: i64) -> Forecast {
            self.result().forecast(None, at(now))
        }
    }

    #[tokio::test]
    async fn plimsoll_forecasts_continue_during_a_slow_fit() {
        let now = START + 5 * DAY + 40;
        let metrics = ForecastMetrics::register(&Registry::new()).expect("metrics");
        let mut fits = FitPool::new(1, metrics);
        let (resume, resumed) = std::sync::mpsc::channel::<()>();
        let slow = move || resumed.recv().expect("it goes on");
        fits.run(slow);
        let mut waiting = [Fixture::new(of_crane(), now), Fixture::new(of_crane(), now)];
        for fixture in &mut waiting {
            fixture.read(now);
        }
        fits.start(waiting.iter_mut().map(|fixture| &mut fixture.0));

        let mut own = Fixture::new(own(), now);
        for later in [0, 300, 600] {
            own.read(now + later);
            fits.start([&mut own.0].into_iter());
            let metric = &own.forecast(now + later).metrics[0];
            assert_eq!(
                (metric.is_ready, metric.made_at),
                (true, Some(at(now + later))),
                "{}",
                metric.reason
            );
            for fixture in &mut waiting {
                fixture.0.collect_fits(at(now + later));
                let result = fixture.result();
                assert!(result.is_known(), "a fit in progress is a result");
                let metric = &fixture.forecast(now + later).metrics[0];
                assert_eq!(
                    (metric.is_ready, metric.reason.as_str()),
                    (false, "its history is being read")
                );
                assert_eq!(result.history().0, ConditionStatus::Unknown);
            }
        }

        resume.send(()).expect("the fit waits");
        while waiting
            .iter()
            .any(|fixture| !fixture.forecast(now).metrics[0].is_ready)
        {
            fits.ended().await;
            fits.start(waiting.iter_mut().map(|fixture| &mut fixture.0));
            for fixture in &mut waiting {
                fixture.0.collect_fits(at(now));
            }
        }
    }
}
