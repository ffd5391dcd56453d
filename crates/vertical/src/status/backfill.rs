//! Condition about the backfill of usage from before the recommender started, and its changes.

use api::vpa::{Conditions, FETCHING_HISTORY, VerticalPodAutoscalerStatus};
use jiff::Timestamp;

use crate::condition_change::ConditionChange;

/// Reason of `FetchingHistory` of a VPA: history is fetched again until it is complete.
pub(super) const HISTORY_REASON: &str = "WaitingForPrometheus";
/// Prefix of the message after a failure.
const HISTORY_PROBLEM: &str = "History cannot be fetched from Prometheus yet: ";

/// State of the usage from before this recommender started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryState<'a> {
    /// The history has arrived, or is not needed.
    Known,
    Missing {
        /// Error of the last attempt to fetch it.
        problem: Option<&'a str>,
        /// Whether an earlier recommendation is kept.
        keeps_recommendation: bool,
    },
}

/// The change of the problem with an object's history from one status to the next. It ends when the
/// history has arrived.
pub fn history_change<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
) -> Option<ConditionChange<'a>> {
    let before = old.and_then(awaited_history);
    match (before.is_some_and(is_problem), awaited_history(new)) {
        (false, Some(message)) if is_problem(message) => Some(ConditionChange::Began(message)),
        (true, None) => Some(ConditionChange::Ended),
        _ => None,
    }
}

/// The message of our own condition, if history is missing.
fn awaited_history(status: &VerticalPodAutoscalerStatus) -> Option<&str> {
    let own = status.conditions.iter();
    let mut own = own.filter(|condition| {
        condition.kind == FETCHING_HISTORY && condition.reason == HISTORY_REASON
    });
    own.next().map(|condition| condition.message.as_str())
}

fn is_problem(message: &str) -> bool {
    message.starts_with(HISTORY_PROBLEM)
}

pub(super) fn set_history(conditions: &mut Conditions, history: HistoryState, now: Timestamp) {
    match history {
        HistoryState::Missing { problem, .. } => {
            let message = match problem {
                Some(problem) => format!("{HISTORY_PROBLEM}{problem}"),
                None => "History is being fetched from Prometheus".to_owned(),
            };
            conditions.set(FETCHING_HISTORY, true, HISTORY_REASON, &message, now);
        }
        HistoryState::Known => {
            if conditions
                .get(FETCHING_HISTORY)
                .is_some_and(|condition| condition.reason == HISTORY_REASON)
            {
                conditions.remove(FETCHING_HISTORY);
            }
        }
    }
}
