//! Actions that were sent, and whose effect the view does not show yet.

use std::collections::BTreeMap;
use std::time::Duration;

use view::{ObjectKey, Running};

use crate::action::{Action, ActionKind};
use crate::clock::ClockReading;
use crate::limits::disruption_limit::Disruption;
use crate::resize::memory_restore;

/// The time after which an action of unknown outcome is taken not to have happened, if its pod
/// still exists.
const UNKNOWN_TIMEOUT: Duration = Duration::from_mins(2);
/// The time for which an accepted resize counts if the answer has no generation to recognise it by, or
/// if its annotations could not be written.
const RESIZE_TIMEOUT: Duration = Duration::from_mins(1);

/// An action on one pod that counts although the view does not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PendingAction {
    pub(crate) disruption: Disruption,
    /// Whether the action may be sent again, since its outcome is unknown.
    pub(crate) may_retry: bool,
}

#[derive(Debug, Clone)]
pub(super) struct InFlight {
    pub(super) pod: ObjectKey,
    disruption: Disruption,
    stage: Stage,
    since: Duration,
    /// Annotations that the pod has afterwards. They are written after the size, so the view may show
    /// the size alone for a moment.
    annotations: BTreeMap<String, String>,
    /// The end of an earlier attempt of unknown outcome. It may have happened even if this one is
    /// refused.
    unknown_since: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Stage {
    /// Sent, without an answer.
    Sent,
    /// The answer is lost, or does not say whether it happened.
    Unknown,
    /// Accepted by the API server. A resize carries the pod's new generation.
    Accepted { generation: Option<i64> },
}

impl InFlight {
    /// An action that is sent now, after an `earlier` one on the same pod.
    pub(super) fn new(action: &Action, earlier: Option<&Self>, now: ClockReading) -> Self {
        let annotations = match &action.kind {
            ActionKind::Resize { annotations, .. } => memory_restore::notes(annotations),
            _ => BTreeMap::new(),
        };
        Self {
            pod: action.pod.clone(),
            disruption: action.disruption,
            stage: Stage::Sent,
            since: now.monotonic,
            annotations,
            unknown_since: earlier.and_then(Self::unknown_since),
        }
    }

    pub(super) fn pending(&self) -> PendingAction {
        PendingAction {
            disruption: self.disruption,
            may_retry: matches!(self.stage, Stage::Unknown),
        }
    }

    pub(super) fn set_stage(&mut self, stage: Stage, now: ClockReading) {
        (self.stage, self.since) = (stage, now.monotonic);
    }

    /// The earlier attempt of unknown outcome that remains once this one is refused.
    pub(super) fn retracted(self) -> Option<Self> {
        let since = self.unknown_since?;
        Some(Self {
            stage: Stage::Unknown,
            since,
            ..self
        })
    }

    fn unknown_since(&self) -> Option<Duration> {
        if matches!(self.stage, Stage::Unknown) {
            Some(self.since)
        } else {
            self.unknown_since
        }
    }

    /// Whether the view shows the effect, or none is to be expected any more.
    pub(super) fn is_over(&self, running: &Running, now: ClockReading) -> bool {
        let waited = now.monotonic.saturating_sub(self.since);
        let Stage::Accepted { generation } = self.stage else {
            return matches!(self.stage, Stage::Unknown) && waited >= UNKNOWN_TIMEOUT;
        };
        // An eviction is over when the pod is gone.
        if self.disruption == Disruption::Eviction {
            return false;
        }
        let Some(generation) = generation else {
            return waited >= RESIZE_TIMEOUT;
        };
        let is_resized = running.generation.is_some_and(|seen| seen >= generation);
        let mut notes = self.annotations.iter();
        let is_noted = notes.all(|(key, value)| running.annotations.get(key) == Some(value));
        is_resized && (is_noted || waited >= RESIZE_TIMEOUT)
    }
}
