//! What takes long to find out, as by Crane's DSP predictor, is found out on a few threads of its
//! own. A slow series delays no other.

use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use forecast::crane::{Dsp, DspForecast};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;

use super::track::Track;
use crate::metrics::ForecastMetrics;

/// The most fits at a time: each takes about ten megabytes.
const MOST_PLACES: usize = 4;

/// What was found.
pub(super) type Findings = Result<DspForecast, String>;

/// A history that is to be looked at, whole.
#[derive(Debug)]
pub(super) struct Study {
    predictor: Dsp,
    samples: Vec<(i64, f64)>,
    answer: oneshot::Sender<Findings>,
}

impl Study {
    /// With what will be found. Nothing is if it is dropped, or fails.
    pub(super) fn new(
        predictor: Dsp,
        samples: Vec<(i64, f64)>,
    ) -> (Self, oneshot::Receiver<Findings>) {
        let (answer, findings) = oneshot::channel();
        (
            Self {
                predictor,
                samples,
                answer,
            },
            findings,
        )
    }

    /// Forecasts the history; stops at the next estimator once the findings are not waited for any
    /// more.
    pub(super) fn run(self) {
        let Self {
            predictor,
            samples,
            answer,
        } = self;
        if !answer.is_closed() {
            let findings = predictor.forecast_while(&samples, || !answer.is_closed());
            // The receiver may be gone by now.
            drop(answer.send(findings.map_err(|error| error.to_string())));
        }
    }
}

/// The threads.
pub(super) struct Studies {
    places: Arc<Semaphore>,
    ended: Arc<Notify>,
    metrics: ForecastMetrics,
}

impl Studies {
    /// So many at the same time.
    pub(super) fn new(places: NonZero<usize>, metrics: ForecastMetrics) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places.get())),
            ended: Arc::default(),
            metrics,
        }
    }

    /// All cores but one, which is for everything else, and at most [`MOST_PLACES`].
    pub(super) fn places() -> NonZero<usize> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        NonZero::new(cores.saturating_sub(1).min(MOST_PLACES)).unwrap_or(NonZero::<usize>::MIN)
    }

    /// Whether another one may begin.
    pub(super) fn has_room(&self) -> bool {
        self.places.available_permits() > 0
    }

    /// Begins what is to be found out, as far as there are places. The rest waits, and takes no
    /// memory.
    pub(super) fn begin<'a>(&self, tracks: impl Iterator<Item = &'a mut Track>) {
        for track in tracks {
            loop {
                let Some(place) = self.place() else { return };
                let Some(study) = track.study() else { break };
                let metrics = self.metrics.clone();
                self.run(place, move || {
                    let _timer = metrics.learning();
                    study.run();
                });
            }
        }
    }

    /// Returns when one has ended since this was called last.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.places).try_acquire_owned().ok()
    }

    pub(super) fn run(&self, place: OwnedSemaphorePermit, work: impl FnOnce() + Send + 'static) {
        let ended = Arc::clone(&self.ended);
        // It says what it found by itself.
        drop(spawn_blocking(move || {
            work();
            drop(place);
            ended.notify_one();
        }));
    }
}
