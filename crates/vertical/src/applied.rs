//! The condition `Applied`: whether the pods of an object have the recommended requests, as the
//! updater reports it.
//!
//! Without any report an existing condition stays as it is: a new leader has no reports yet. If the
//! updater ceases to report, the state of the pods is unknown.

use api::vpa::applied::NO_REPORT;
use api::vpa::{APPLIED, ConditionStatus, Conditions, VerticalPodAutoscalerStatus};
use jiff::{SignedDuration, Timestamp};
use view::ObjectKey;

/// Validity of a report.
const VALID_FOR: SignedDuration = SignedDuration::from_mins(15);
const SILENT_MESSAGE: &str = "The updater has not reported for 15 minutes";

/// A report of the updater about one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub key: ObjectKey,
    pub uid: String,
    /// Whether no pod needs other requests.
    pub applied: bool,
    /// Reason in CamelCase.
    pub reason: String,
    /// Sentence with numbers of pods.
    pub message: String,
}

#[derive(Debug, Clone)]
pub(crate) struct LastReport {
    pub(crate) report: Report,
    pub(crate) received_at: Timestamp,
}

/// Sets the condition of an object. Without pods to update it has none.
pub(crate) fn apply_report(
    status: &mut VerticalPodAutoscalerStatus,
    has_pods_to_update: bool,
    last: Option<&LastReport>,
    now: Timestamp,
) {
    let mut conditions: Conditions = status.conditions.drain(..).collect();
    if !has_pods_to_update {
        conditions.remove(APPLIED);
    } else if let Some(LastReport {
        report,
        received_at,
    }) = last
    {
        let is_valid = now.duration_since(*received_at) <= VALID_FOR;
        let (status, reason, message) = if is_valid {
            let applied = ConditionStatus::from(report.applied);
            (applied, report.reason.as_str(), report.message.as_str())
        } else {
            (ConditionStatus::Unknown, NO_REPORT, SILENT_MESSAGE)
        };
        conditions.set(APPLIED, status, reason, message, now);
    }
    status.conditions = conditions.to_list();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    fn last(applied: bool, reason: &str) -> LastReport {
        LastReport {
            report: Report {
                key: ObjectKey::new("shop", "web"),
                uid: "of-web".to_owned(),
                applied,
                reason: reason.to_owned(),
                message: "m".to_owned(),
            },
            received_at: at(100),
        }
    }

    type Found = Option<(&'static str, &'static str, i64)>;

    /// Status, reason and second of the condition after each step.
    fn check(steps: &[(i64, bool, Option<LastReport>, Found)]) {
        let mut status = VerticalPodAutoscalerStatus::default();
        for (now, has_pods, last, expected) in steps {
            apply_report(&mut status, *has_pods, last.as_ref(), at(*now));
            let found = status.conditions.first().map(|condition| {
                let since = condition.last_transition_time.as_ref().expect("a time");
                let second = since.0.as_second();
                (condition.status.as_str(), condition.reason.as_str(), second)
            });
            assert_eq!(found, *expected, "at {now}");
        }
    }

    #[test]
    fn reports_become_the_condition_until_they_are_too_old() {
        let waits = last(false, "DisruptionBudget");
        let end = 100 + 15 * 60;
        check(&[
            (100, true, None, None),
            (
                101,
                true,
                Some(waits.clone()),
                Some(("False", "DisruptionBudget", 101)),
            ),
            (
                105,
                true,
                Some(last(false, "Stopped")),
                Some(("False", "Stopped", 101)),
            ),
            (
                110,
                true,
                Some(last(true, "Applied")),
                Some(("True", "Applied", 110)),
            ),
            // A new leader has no reports yet.
            (120, true, None, Some(("True", "Applied", 110))),
            (
                end,
                true,
                Some(waits.clone()),
                Some(("False", "DisruptionBudget", end)),
            ),
            (
                end + 1,
                true,
                Some(waits),
                Some(("Unknown", "NoReport", end + 1)),
            ),
            (end + 2, false, None, None),
        ]);
    }
}
