//! Pauses between evictions whose replacement pods came back with their old size.
//!
//! Another program may change what the webhook sized. Evicting the replacements again is useless.
//! So a VPA object has one more try after ten seconds, in which the webhook learns of the
//! recommendation, and later tries after pauses that grow sixfold, up to a day, or up to an hour for
//! another recommendation.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{ContainerRecommendation, Quantity, Recommendation, ResourceName};
use view::ObjectKey;

use crate::action::Action;
use crate::clock::ClockReading;
use crate::resize::size_change::SizeChange;

/// The pause before the second try: the webhook may only be late to learn of the recommendation.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// A later pause in lengths of the time for which evictions have had no effect.
const PAUSE_FACTOR: u32 = 5;
/// The longest pause before another try of the same recommendation.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);
/// The longest pause before a try of another recommendation.
const LONGEST_PAUSE_OF_OTHERS: Duration = Duration::from_hours(1);

#[derive(Debug, Clone, Default)]
pub(crate) struct IneffectiveEvictions(pub(super) HashMap<ObjectKey, EvictionSeries>);

/// Evictions for one recommendation of a VPA object. Pods created since then were admitted under
/// it.
#[derive(Debug, Clone)]
pub(super) struct EvictionSeries {
    recommendation: Arc<Recommendation>,
    /// The requests that the evictions were for, by container.
    requests: HashMap<(String, ResourceName), Quantity>,
    since: Duration,
    /// The first eviction that had no effect, perhaps for an earlier recommendation.
    ineffective_since: Duration,
    last: Duration,
    /// Whether pods that came back with another size were evicted again.
    is_repeated: bool,
}

impl IneffectiveEvictions {
    /// The last eviction of a pod of a VPA object, by the monotonic clock.
    pub(crate) fn last(&self, vpa: &ObjectKey) -> Option<Duration> {
        self.0.get(vpa).map(|series| series.last)
    }
}

impl EvictionSeries {
    /// The end of the pause after the last eviction.
    fn paused_until(&self, recommendation: &Recommendation) -> Duration {
        let ineffective_for = self.last.saturating_sub(self.ineffective_since);
        let grown = (ineffective_for * PAUSE_FACTOR).max(FIRST_PAUSE);
        let pause = match (self.is_repeated, self.is_for(recommendation)) {
            (false, true) => FIRST_PAUSE,
            (false, false) => Duration::ZERO,
            (true, true) => grown.min(LONGEST_PAUSE),
            (true, false) => grown.min(LONGEST_PAUSE_OF_OTHERS),
        };
        self.last.saturating_add(pause)
    }

    fn is_for(&self, recommendation: &Recommendation) -> bool {
        same_targets(&self.recommendation, recommendation)
    }

    /// Whether a pod first seen at that time was created within the series.
    fn created(&self, first_seen: Option<Duration>) -> bool {
        first_seen.is_some_and(|seen| seen > self.since)
    }

    /// Whether a pod was created within the series without the requests that the evictions were for.
    /// One that got them may need others since, after a change of the object's policy.
    fn is_ineffective(&self, first_seen: Option<Duration>, changes: &[SizeChange]) -> bool {
        let is_other = |change: &SizeChange| {
            let expected = self.requests.get(&request(change));
            expected.is_some_and(|expected| change.from.as_ref() != Some(expected))
        };
        self.created(first_seen) && (self.requests.is_empty() || changes.iter().any(is_other))
    }
}

fn request(change: &SizeChange) -> (String, ResourceName) {
    (change.container.clone(), change.resource.clone())
}

impl IneffectiveEvictions {
    /// Records the eviction of a pod that was first seen at `first_seen`.
    pub(super) fn record(
        &mut self,
        action: &Action,
        first_seen: Option<Duration>,
        now: ClockReading,
    ) {
        let is_open = |series: &EvictionSeries| {
            let is_over = series.last.saturating_add(2 * LONGEST_PAUSE) <= now.monotonic;
            let is_effective =
                series.created(first_seen) && !series.is_ineffective(first_seen, &action.changes);
            !is_over && !is_effective
        };
        let earlier = self.0.remove(&action.vpa).filter(is_open);
        let mut series = match earlier {
            Some(mut series) if series.is_for(&action.recommendation) => {
                series.is_repeated |= series.created(first_seen);
                series
            }
            earlier => EvictionSeries {
                recommendation: Arc::clone(&action.recommendation),
                requests: HashMap::new(),
                since: now.monotonic,
                ineffective_since: earlier
                    .filter(|earlier| earlier.is_repeated)
                    .map_or(now.monotonic, |earlier| earlier.ineffective_since),
                last: now.monotonic,
                is_repeated: false,
            },
        };
        series.last = now.monotonic;
        let requests = action.changes.iter();
        let requests = requests.map(|change| (request(change), change.to.clone()));
        series.requests.extend(requests);
        self.0.insert(action.vpa.clone(), series);
    }

    /// The rest of the pause before the eviction of a pod first seen at `first_seen`, which needs
    /// changes.
    pub(crate) fn pause_left(
        &self,
        vpa: &ObjectKey,
        first_seen: Option<Duration>,
        changes: &[SizeChange],
        recommendation: &Recommendation,
        now: ClockReading,
    ) -> Option<Duration> {
        let series = self.0.get(vpa);
        let series = series.filter(|series| series.is_ineffective(first_seen, changes))?;
        now.left(series.paused_until(recommendation))
    }

    /// Whether a pod first seen at `first_seen` was created within the series.
    pub(crate) fn replaced(
        &self,
        vpa: &ObjectKey,
        first_seen: Option<Duration>,
        recommendation: &Recommendation,
    ) -> bool {
        let series = self.0.get(vpa);
        let series = series.filter(|series| series.is_for(recommendation));
        series.is_some_and(|series| series.created(first_seen))
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
