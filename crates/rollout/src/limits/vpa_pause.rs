//! Pauses of the updates of one VPA object's pods: a frozen recommendation, or a closed
//! maintenance window.

use std::collections::HashMap;
use std::time::Duration;

use api::vpa::{VerticalPodAutoscaler, VerticalPodAutoscalerCondition};
use jiff::Timestamp;
use view::{ObjectKey, View, Vpa};

use crate::clock::ClockReading;
use crate::limits::maintenance_window::{MAINTENANCE_WINDOW, MaintenanceWindow};

/// A VPA object whose pods are not updated now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedVpa {
    pub vpa: ObjectKey,
    pub reason: VpaPauseReason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VpaPauseReason {
    /// Usage is missing, so the recommendation does not move (condition `SourceStale`).
    RecommendationFrozen,
    OutsideWindow {
        /// The time until it opens; [`Duration::MAX`] if it never does.
        opens_in: Duration,
    },
    /// Its maintenance window cannot be parsed, and counts as closed.
    InvalidWindow(String),
    /// Pods got worse with the recommendation. They get their former requests back.
    RolledBack(String),
}

/// Cache of the times at which windows open or close, by their texts, so that no pass parses and
/// searches a text again.
#[derive(Debug, Clone, Default)]
pub(crate) struct WindowCache {
    known: HashMap<String, (Timestamp, Result<Duration, VpaPauseReason>)>,
    /// Entries from before the last full pass. Those that are not used again are dropped.
    before: HashMap<String, (Timestamp, Result<Duration, VpaPauseReason>)>,
}

impl WindowCache {
    /// Ages the cache: entries that are not used until the next call are dropped then.
    pub(crate) fn age(&mut self) {
        self.before = std::mem::take(&mut self.known);
    }

    /// The time for which the window is still open, or the reason for a pause.
    fn open_for(&mut self, text: &str, now: Timestamp) -> Result<Duration, VpaPauseReason> {
        if !self.known.contains_key(text)
            && let Some((text, known)) = self.before.remove_entry(text)
        {
            self.known.insert(text, known);
        }
        if let Some(found) = self
            .known
            .get(text)
            .and_then(|(at, found)| if_valid(found, *at, now))
        {
            return found;
        }
        let found = text
            .parse::<MaintenanceWindow>()
            .map_err(VpaPauseReason::InvalidWindow)
            .and_then(|window| {
                let open_for = window.open_for(now);
                open_for.map_err(|opens_in| VpaPauseReason::OutsideWindow { opens_in })
            });
        self.known.insert(text.to_owned(), (now, found.clone()));
        found
    }
}

/// The result of an earlier search, if it is still valid.
fn if_valid(
    found: &Result<Duration, VpaPauseReason>,
    at: Timestamp,
    now: Timestamp,
) -> Option<Result<Duration, VpaPauseReason>> {
    let passed = Duration::try_from(now.duration_since(at)).ok()?;
    let left = |due: Duration| due.checked_sub(passed).filter(|left| !left.is_zero());
    match found {
        Ok(closes_in) => left(*closes_in).map(Ok),
        Err(VpaPauseReason::OutsideWindow { opens_in }) if *opens_in < Duration::MAX => {
            left(*opens_in).map(|opens_in| Err(VpaPauseReason::OutsideWindow { opens_in }))
        }
        Err(_) => Some(found.clone()),
    }
}

/// Checks whether a VPA object's pods may be updated. Returns the time until its maintenance window
/// closes, `None` without a window.
pub(crate) fn check_pause(
    vpa: &Vpa,
    view: &View,
    windows: &mut WindowCache,
    now: ClockReading,
) -> Result<Option<Duration>, VpaPauseReason> {
    if is_frozen(vpa) {
        return Err(VpaPauseReason::RecommendationFrozen);
    }
    let annotations = vpa.object.metadata.annotations.as_ref();
    let own = annotations.and_then(|all| all.get(MAINTENANCE_WINDOW));
    let namespace = view.namespaces.get(&vpa.key.namespace);
    let Some(written) = own.or_else(|| namespace?.annotations.get(MAINTENANCE_WINDOW)) else {
        return Ok(None);
    };
    windows.open_for(written, now.wall).map(Some)
}

fn is_frozen(vpa: &Vpa) -> bool {
    condition(&vpa.object, api::vpa::SOURCE_STALE).is_some_and(|it| it.status == "True")
}

/// The condition of this type, if any.
pub(crate) fn condition<'a>(
    object: &'a VerticalPodAutoscaler,
    kind: &str,
) -> Option<&'a VerticalPodAutoscalerCondition> {
    let conditions = &object.status.as_ref()?.conditions;
    conditions.iter().find(|condition| condition.kind == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Whether an object with this condition is frozen.
    fn check_frozen(kind: &str, status: &str, expected: bool) {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "uid": "of-web"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": {"conditions": [{"type": kind, "status": status}]},
        });
        let object = api::vpa::parse(object).expect("a VPA object");
        let vpa = Vpa {
            key: ObjectKey::new("shop", "web"),
            object,
        };
        assert_eq!(is_frozen(&vpa), expected, "{kind} is {status}");
    }

    #[test]
    fn a_recommendation_is_frozen_while_its_source_is_stale() {
        check_frozen("SourceStale", "True", true);
        check_frozen("SourceStale", "False", false);
        check_frozen("RecommendationProvided", "True", false);
    }

    /// Minutes until it closes, or until it opens, at consecutive times.
    fn check(text: &str, expected: &[(&str, Result<u64, u64>)]) {
        let mut windows = WindowCache::default();
        for (at, expected) in expected {
            windows.age();
            let found = windows.open_for(text, at.parse().expect("a time"));
            let expected = expected.map(Duration::from_mins).map_err(|minutes| {
                VpaPauseReason::OutsideWindow {
                    opens_in: Duration::from_mins(minutes),
                }
            });
            assert_eq!(found, expected, "{at}");
        }
    }

    #[test]
    fn cached_times_are_valid_until_the_window_opens_or_closes() {
        check(
            "0 2 * * *; for=1h",
            &[
                ("2026-01-03T01:00:00Z", Err(60)),
                ("2026-01-03T01:59:00Z", Err(1)),
                ("2026-01-03T02:00:00Z", Ok(60)),
                ("2026-01-03T02:30:00Z", Ok(30)),
                ("2026-01-03T03:00:00Z", Err(23 * 60)),
                // The clock goes back.
                ("2026-01-03T02:15:00Z", Ok(45)),
            ],
        );
    }

    #[test]
    fn a_day_that_never_comes_is_searched_once() {
        let (mut windows, mut now) = (WindowCache::default(), Timestamp::UNIX_EPOCH);
        for _ in 0..10_000 {
            windows.age();
            now += Duration::from_secs(1);
            let never = VpaPauseReason::OutsideWindow {
                opens_in: Duration::MAX,
            };
            assert_eq!(windows.open_for("0 0 31 2 *; for=1h", now), Err(never));
        }
    }

    #[test]
    fn unused_windows_are_dropped() {
        let mut windows = WindowCache::default();
        assert!(windows.open_for("whenever", Timestamp::UNIX_EPOCH).is_err());
        windows.age();
        assert_eq!((windows.known.len(), windows.before.len()), (0, 1));
        windows.age();
        assert_eq!((windows.known.len(), windows.before.len()), (0, 0));
    }
}
