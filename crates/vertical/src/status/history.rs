//! Usage from before this recommender started: what a condition says while it is still to come, and
//! what people are told of it.

use api::vpa::{Conditions, FETCHING_HISTORY, VerticalPodAutoscalerStatus};
use jiff::Timestamp;

/// Tells our own condition from one that somebody else has set.
pub(super) const HISTORY_REASON: &str = "WaitingForPrometheus";
/// What the condition says after a failure, before it says why.
const HISTORY_PROBLEM: &str = "History cannot be fetched from Prometheus yet: ";

/// Usage from before this recommender started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum History<'a> {
    /// All that there is to know is known.
    Known,
    /// It is still to come.
    Missing {
        /// Why the last attempt to fetch it failed.
        problem: Option<&'a str>,
        /// Whether an earlier recommendation says more than what is known.
        keeps_recommendation: bool,
    },
}

/// What people should be told about an object's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryChange<'a> {
    /// It cannot be fetched, and why.
    Missing(&'a str),
    /// It has come after it was missing.
    Fetched,
}

/// What has changed about the history of an object from one status to the next.
pub fn history_change<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
) -> Option<HistoryChange<'a>> {
    let before = old.and_then(awaited_history);
    match (before.is_some_and(is_problem), awaited_history(new)) {
        (false, Some(message)) if is_problem(message) => Some(HistoryChange::Missing(message)),
        (true, None) => Some(HistoryChange::Fetched),
        _ => None,
    }
}

/// What our own condition says while history is missing.
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

pub(super) fn set_history(conditions: &mut Conditions, history: History, now: Timestamp) {
    match history {
        History::Missing { problem, .. } => {
            let message = match problem {
                Some(problem) => format!("{HISTORY_PROBLEM}{problem}"),
                None => "History is being fetched from Prometheus".to_owned(),
            };
            conditions.set(FETCHING_HISTORY, true, HISTORY_REASON, &message, now);
        }
        History::Known => {
            if conditions
                .get(FETCHING_HISTORY)
                .is_some_and(|condition| condition.reason == HISTORY_REASON)
            {
                conditions.remove(FETCHING_HISTORY);
            }
        }
    }
}
