//! Change of a condition from one status to the next.

use api::vpa::{VerticalPodAutoscalerCondition, VerticalPodAutoscalerStatus};

/// Change of a condition that tells of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionChange<'a> {
    /// The problem begins, or differs from the one before; with the message.
    Began(&'a str),
    /// The problem has ended.
    Ended,
}

/// The change of the condition that `find` finds. `text` returns the text whose change counts.
pub(crate) fn condition_change<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
    find: fn(&VerticalPodAutoscalerStatus) -> Option<&VerticalPodAutoscalerCondition>,
    text: fn(&VerticalPodAutoscalerCondition) -> &str,
) -> Option<ConditionChange<'a>> {
    match (old.and_then(find), find(new)) {
        (Some(_), None) => Some(ConditionChange::Ended),
        (before, Some(now)) if before.is_none_or(|before| text(before) != text(now)) => {
            Some(ConditionChange::Began(&now.message))
        }
        _ => None,
    }
}
