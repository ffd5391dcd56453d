//! Conditions in statuses: search, number by label, and changes from one status to the next.

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

/// The condition of a type.
pub(crate) fn condition<'a>(
    status: &'a VerticalPodAutoscalerStatus,
    kind: &str,
) -> Option<&'a VerticalPodAutoscalerCondition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.kind == kind)
}

/// Number of words by label value, also of values without any. `labels` has each word with its
/// value.
pub(crate) fn count_by_label<'a, const N: usize>(
    labels: [(&str, &'static str); N],
    words: impl Iterator<Item = &'a str>,
) -> [(&'static str, i64); N] {
    let mut counts = labels.map(|(_, label)| (label, 0));
    for word in words {
        if let Some(index) = labels.iter().position(|(known, _)| *known == word) {
            counts[index].1 += 1;
        }
    }
    counts
}
