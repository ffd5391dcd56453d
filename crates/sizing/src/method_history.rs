//! History of one container for a sizing method other than the VPA's: ours, Crane's or
//! Autopilot's.
//!
//! It can be stored and loaded without loss: a loaded history continues with the same
//! recommendations, to the last digit.

use model::MethodStep;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::amount::Amounts;
use crate::autopilot::AutopilotHistory;
use crate::crane::CraneHistory;
use crate::instant::Instant;
use crate::observation::Observation;
use crate::price_of_failure::{RunsHistory, WorkloadHistory};
use crate::sizing_method::{MethodSettings, SizingMethod};

/// History of one container name, over all pods of a VPA.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodHistory {
    first: Instant,
    last: Instant,
    /// Observations until this time are part of the history already, and ignored.
    #[serde(skip)]
    complete_until: Instant,
    history: HistoryKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum HistoryKind {
    Crane(CraneHistory),
    Autopilot(Box<AutopilotHistory>),
    PriceOfFailure(Box<WorkloadHistory>),
    Runs(Box<RunsHistory>),
}

/// Format of a stored history.
const VERSION: u8 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoredMethodHistory {
    version: u8,
    /// Settings that the form of the history depends on.
    shape: String,
    history: MethodHistory,
}

/// Reasons for refusing a stored history.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MethodHistoryError {
    #[error("unsupported version {0} of the history of a sizing method")]
    Version(u8),
    #[error("the history was recorded with another sizing method or other buckets")]
    Shape,
    #[error("invalid {0} in the history of a sizing method")]
    Invalid(&'static str),
}

impl MethodHistory {
    /// Starts an empty history at the time of the first observation.
    pub fn new(policy: &MethodSettings, at: Instant) -> Self {
        let history = match &policy.method {
            SizingMethod::Crane(_) => HistoryKind::Crane(CraneHistory::default()),
            SizingMethod::Autopilot(method) => {
                HistoryKind::Autopilot(Box::new(AutopilotHistory::new(method)))
            }
            method if method.counts_runs() => HistoryKind::Runs(Box::default()),
            SizingMethod::PriceOfFailure(_) => HistoryKind::PriceOfFailure(Box::default()),
        };
        Self {
            first: at,
            last: at,
            complete_until: Instant::NEVER,
            history,
        }
    }

    pub fn save(&self, policy: &MethodSettings) -> StoredMethodHistory {
        let history = match &self.history {
            HistoryKind::PriceOfFailure(history) => {
                HistoryKind::PriceOfFailure(Box::new(history.to_stored()))
            }
            history => history.clone(),
        };
        StoredMethodHistory {
            version: VERSION,
            shape: policy.history_shape(),
            history: Self {
                complete_until: Instant::NEVER,
                history,
                ..*self
            },
        }
    }

    /// Loads a stored history. Observations until its end are ignored from then on: they are
    /// part of it.
    pub fn load(
        policy: &MethodSettings,
        stored: StoredMethodHistory,
    ) -> Result<Self, MethodHistoryError> {
        let StoredMethodHistory {
            version,
            shape,
            mut history,
        } = stored;
        if version != VERSION {
            return Err(MethodHistoryError::Version(version));
        }
        if shape != policy.history_shape() {
            return Err(MethodHistoryError::Shape);
        }
        let Self { first, last, .. } = history;
        if first.is_never() || last < first {
            return Err(MethodHistoryError::Invalid("time"));
        }
        let invalid = match (&history.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.invalid_part(config, last)
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(method)) => {
                history.invalid_part(method, last)
            }
            (HistoryKind::Runs(history), method) if method.counts_runs() => history.invalid_part(),
            (HistoryKind::PriceOfFailure(history), method @ SizingMethod::PriceOfFailure(_))
                if !method.counts_runs() =>
            {
                history.invalid_part()
            }
            _ => Some("method"),
        };
        if let Some(part) = invalid {
            return Err(MethodHistoryError::Invalid(part));
        }
        history.complete();
        Ok(history)
    }

    /// Ignores observations until the last one from now on.
    pub fn complete(&mut self) {
        self.complete_until = self.last;
    }

    /// Adds an observation of a pod's container, unless the loaded history has it. `pod`
    /// identifies the pod, also after a restart.
    pub fn observe(&mut self, policy: &MethodSettings, pod: u64, seen: Observation, at: Instant) {
        if at <= self.complete_until {
            return;
        }
        self.last = self.last.max(at);
        if let Observation::Usage {
            cpu: None,
            memory: None,
        } = seen
        {
            return;
        }
        match (&mut self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.observe(config, pod, seen, at);
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(method)) => {
                history.observe(method, pod, seen, at);
            }
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(config)) => {
                history.observe(config, pod, seen, at);
            }
            (HistoryKind::Runs(history), SizingMethod::PriceOfFailure(config)) => {
                history.observe(config, pod, seen, at);
            }
            // Histories are dropped when the method changes.
            _ => {}
        }
    }

    pub fn last(&self) -> Instant {
        self.last
    }

    /// Nanoseconds between the first and the last observation.
    pub fn lifespan_ns(&self) -> i64 {
        self.last.since(self.first)
    }

    /// The recommendation before rounding and limits; `None` without enough history.
    pub fn recommend(&self, policy: &MethodSettings) -> Option<Amounts> {
        let (cpu, memory) = match (&self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.recommend(config, self.last)
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(_)) => history.recommend(),
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(_)) => {
                history.recommend()
            }
            (HistoryKind::Runs(history), SizingMethod::PriceOfFailure(config)) => {
                history.recommend(config)
            }
            _ => None,
        }?;
        Some(Amounts { cpu, memory })
    }

    /// Whether the recommendation may only rise: it lacks the policy's minimum history, in time or
    /// in ended runs.
    pub fn is_young(&self, policy: &MethodSettings) -> bool {
        let is_short = match (&self.history, &policy.method) {
            (HistoryKind::Runs(history), SizingMethod::PriceOfFailure(config)) => {
                history.ended_runs() < config.minimum_runs
            }
            _ => self.lifespan_ns() < policy.minimum_history_ns,
        };
        is_short || self.recommend(policy).is_none()
    }

    /// Lower and upper bound by the needs of runs; `None` if history does not count in runs, or
    /// without enough of it.
    pub fn bounds_of_runs(&self, policy: &MethodSettings) -> Option<[Amounts; 2]> {
        let (HistoryKind::Runs(history), SizingMethod::PriceOfFailure(config)) =
            (&self.history, &policy.method)
        else {
            return None;
        };
        let bounds = history.bounds(config)?;
        Some(bounds.map(|(cpu, memory)| Amounts { cpu, memory }))
    }

    /// Whether it counts in runs, which [`MethodHistory::end_runs`] ends.
    pub fn counts_runs(&self) -> bool {
        matches!(&self.history, HistoryKind::Runs(_))
    }

    /// Ends the recent runs of pods that are not running, and continues those of pods that are.
    pub fn end_runs(&mut self, is_running: impl Fn(u64) -> bool) {
        if let HistoryKind::Runs(history) = &mut self.history {
            history.end_runs(is_running);
        }
    }

    /// The steps of the recommendation for CPU and memory. The last one of each is the
    /// recommendation, in millicores or bytes. `None` without enough history.
    pub fn explain(&self, policy: &MethodSettings) -> Option<[Vec<MethodStep>; 2]> {
        let Amounts { cpu, memory } = self.recommend(policy)?;
        let mut steps = match (&self.history, &policy.method) {
            (HistoryKind::Crane(history), SizingMethod::Crane(config)) => {
                history.explain(config, self.last)
            }
            (HistoryKind::Autopilot(history), SizingMethod::Autopilot(method)) => {
                history.explain(method)
            }
            (HistoryKind::PriceOfFailure(history), SizingMethod::PriceOfFailure(config)) => {
                history.explain(config)
            }
            (HistoryKind::Runs(history), SizingMethod::PriceOfFailure(config)) => {
                history.explain(config)
            }
            _ => return None,
        };
        let amounts = [(cpu.millicores(), "millicores"), (memory.bytes(), "bytes")];
        for (steps, (amount, unit)) in steps.iter_mut().zip(amounts) {
            steps.push(MethodStep::number("recommendation", amount as f64, unit));
        }
        Some(steps)
    }
}
