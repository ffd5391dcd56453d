//! Rolling updates of Deployments: the last one for each VPA object, and the pause before the next.
//!
//! A pause follows each rolling update, twice as long after one that did not bring the size, and
//! each refusal. The annotation of the Deployment's template bounds the rate across restarts.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::Recommendation;
use view::ObjectKey;

use super::backoff::doubled;
use super::ineffective_evictions::same_targets;
use crate::action::{Action, ActionOutcome};
use crate::clock::ClockReading;
use crate::resize::rolling_update::ROLLING_UPDATE_INTERVAL;
use crate::skip::SkipReason;

/// The longest pause after rolling updates that did not bring the size.
const LONGEST_INTERVAL: Duration = Duration::from_hours(6);
/// The pause after the first refusal. Each further one is twice as long.
const FIRST_RETRY: Duration = Duration::from_secs(5);
/// The longest pause after refusals.
const LONGEST_RETRY: Duration = Duration::from_mins(10);

#[derive(Debug, Clone, Default)]
pub(crate) struct RollingUpdates(pub(super) HashMap<ObjectKey, Record>);

#[derive(Debug, Clone, Default)]
pub(super) struct Record {
    /// The last one that the API server accepted.
    accepted: Option<Accepted>,
    /// Whether one is sent and has no outcome yet.
    is_sent: bool,
    /// Consecutive refusals since then, and the end of the pause after the last one.
    refusals: u32,
    retry_at: Duration,
}

/// An accepted rolling update. Pods created since then were admitted under its recommendation.
#[derive(Debug, Clone)]
struct Accepted {
    recommendation: Arc<Recommendation>,
    at: Duration,
    /// The number of rolling updates before it that did not bring the size.
    ineffective: u32,
}

impl Accepted {
    fn next_at(&self) -> Duration {
        let pause = doubled(ROLLING_UPDATE_INTERVAL, self.ineffective, LONGEST_INTERVAL);
        self.at.saturating_add(pause)
    }
}

impl RollingUpdates {
    pub(super) fn begin(&mut self, action: &Action) {
        self.0.entry(action.vpa.clone()).or_default().is_sent = true;
    }

    pub(super) fn end(&mut self, action: &Action, outcome: &ActionOutcome, now: ClockReading) {
        let record = self.0.entry(action.vpa.clone()).or_default();
        record.is_sent = false;
        if !matches!(outcome, ActionOutcome::Accepted { .. }) {
            let pause = doubled(FIRST_RETRY, record.refusals, LONGEST_RETRY);
            record.refusals = record.refusals.saturating_add(1);
            record.retry_at = now.monotonic.saturating_add(pause);
            return;
        }
        // The next one for the same targets follows one that did not bring the size, unless that
        // was long ago.
        let earlier = record.accepted.take().filter(|earlier| {
            same_targets(&earlier.recommendation, &action.recommendation)
                && earlier.next_at().saturating_add(LONGEST_INTERVAL) > now.monotonic
        });
        *record = Record {
            accepted: Some(Accepted {
                recommendation: Arc::clone(&action.recommendation),
                at: now.monotonic,
                ineffective: earlier.map_or(0, |earlier| earlier.ineffective.saturating_add(1)),
            }),
            ..Record::default()
        };
    }

    /// The reason for which no rolling update is sent now for a pod first seen at `first_seen`, and
    /// the rest of the pause; `None` until the outcome of the one that is sent.
    pub(crate) fn refusal(
        &self,
        vpa: &ObjectKey,
        first_seen: Option<Duration>,
        recommendation: &Recommendation,
        now: ClockReading,
    ) -> Result<(), (SkipReason, Option<Duration>)> {
        let Some(record) = self.0.get(vpa) else {
            return Ok(());
        };
        if record.is_sent {
            return Err((SkipReason::RollingUpdatePending, None));
        }
        if let Some(accepted) = &record.accepted
            && let Some(left) = now.left(accepted.next_at())
        {
            let is_ineffective = first_seen.is_some_and(|seen| seen > accepted.at)
                && same_targets(&accepted.recommendation, recommendation);
            let reason = if is_ineffective {
                SkipReason::RollingUpdateIneffective
            } else {
                SkipReason::RollingUpdatePending
            };
            return Err((reason, Some(left)));
        }
        now.left(record.retry_at).map_or(Ok(()), |left| {
            Err((SkipReason::RollingUpdateRefused, Some(left)))
        })
    }
}
