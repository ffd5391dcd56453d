//! Backoff of evictions whose replacement pods came back with their old size.
//!
//! If the webhook does not size new pods, replacements come back as small as before. Evicting them
//! again is useless, so such evictions are spaced out: after 1 s, 2 s, 4 s, up to an hour.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContainerRecommendation, Recommendation};
use view::ObjectKey;

use crate::action::Action;
use crate::clock::ClockReading;

/// The first pause: the webhook may only be late to learn of the recommendation.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// The evictions for each VPA object.
#[derive(Debug, Clone, Default)]
pub(super) struct IneffectiveEvictions(HashMap<ObjectKey, EvictionSeries>);

/// Evictions for one recommendation of a VPA object. Pods created since then were admitted under
/// it.
#[derive(Debug, Clone)]
struct EvictionSeries {
    recommendation: Arc<Recommendation>,
    since: Duration,
    last: Duration,
    /// The number of evictions of pods that were created within the series.
    ineffective: u32,
}

impl EvictionSeries {
    /// The end of the pause after the last eviction.
    fn paused_until(&self) -> Duration {
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.ineffective.min(12))
            .min(LONGEST_PAUSE);
        self.last.saturating_add(pause)
    }

    /// Whether the last eviction is so long ago that the next one begins a new series.
    fn is_over(&self, now: ClockReading) -> bool {
        self.paused_until().saturating_add(LONGEST_PAUSE) <= now.monotonic
    }

    /// Whether a pod first seen at that time was created within the series.
    fn created(&self, first_seen: Option<Duration>) -> bool {
        first_seen.is_some_and(|seen| seen > self.since)
    }
}

impl IneffectiveEvictions {
    /// Records the eviction of a pod that was first seen at `first_seen`.
    pub(super) fn record(
        &mut self,
        action: &Action,
        first_seen: Option<Duration>,
        now: ClockReading,
    ) {
        let is_ineffective = self
            .series(&action.vpa, &action.recommendation)
            .is_some_and(|series| series.created(first_seen));
        let known = self
            .0
            .get_mut(&action.vpa)
            .filter(|known| !known.is_over(now));
        match known {
            Some(known) if same_targets(&known.recommendation, &action.recommendation) => {
                // Pods that are evicted together count once.
                let counts = is_ineffective && known.paused_until() <= now.monotonic;
                known.ineffective = known.ineffective.saturating_add(u32::from(counts));
                known.last = now.monotonic;
            }
            known => {
                // Another recommendation is tried at once. A pause that it cuts short continues
                // with the next one.
                let ineffective = known
                    .filter(|known| known.paused_until() > now.monotonic)
                    .map_or(0, |known| known.ineffective);
                let series = EvictionSeries {
                    recommendation: Arc::clone(&action.recommendation),
                    since: now.monotonic,
                    last: now.monotonic,
                    ineffective,
                };
                self.0.insert(action.vpa.clone(), series);
            }
        }
    }

    /// The rest of the pause before the eviction of a pod first seen at `first_seen`.
    pub(super) fn pause_left(
        &self,
        vpa: &ObjectKey,
        first_seen: Option<Duration>,
        recommendation: &Recommendation,
        now: ClockReading,
    ) -> Option<Duration> {
        let left = self
            .series(vpa, recommendation)
            .filter(|series| series.created(first_seen))?
            .paused_until()
            .checked_sub(now.monotonic)?;
        (!left.is_zero()).then_some(left)
    }

    /// Whether a pod first seen at `first_seen` was created within the series.
    pub(super) fn replaced(
        &self,
        vpa: &ObjectKey,
        first_seen: Option<Duration>,
        recommendation: &Recommendation,
    ) -> bool {
        self.series(vpa, recommendation)
            .is_some_and(|series| series.created(first_seen))
    }

    fn series(&self, vpa: &ObjectKey, recommendation: &Recommendation) -> Option<&EvictionSeries> {
        self.0
            .get(vpa)
            .filter(|series| same_targets(&series.recommendation, recommendation))
    }

    pub(super) fn retain_vpas(&mut self, keep: impl Fn(&ObjectKey) -> bool) {
        self.0.retain(|vpa, _| keep(vpa));
    }
}

/// Whether two recommendations give pods the same size. Bounds move with time alone.
pub(super) fn same_targets(one: &Recommendation, other: &Recommendation) -> bool {
    let is_same = |(one, other): (&ContainerRecommendation, &ContainerRecommendation)| {
        one.container_name == other.container_name && one.target == other.target
    };
    one.containers.len() == other.containers.len()
        && one.containers.iter().zip(&other.containers).all(is_same)
}
