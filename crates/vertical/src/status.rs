//! Desired status of one `VerticalPodAutoscaler` object.
//!
//! Conditions, reasons and messages are upstream's (`recommender/model/vpa.go`,
//! `UpdateConditions`). The recommendation differs in one point. Upstream immediately recommends
//! the minimum for containers without samples. Here a minimum never replaces an earlier
//! recommendation, and it waits until usage had time to arrive. The same holds before history has
//! arrived from Prometheus, which a condition reports.

#[cfg(test)]
mod tests;

use api::vpa::{
    CONFIG_DEPRECATED, CONFIG_UNSUPPORTED, Conditions, FETCHING_HISTORY, NO_PODS_MATCHED,
    RECOMMENDATION_PROVIDED, SOURCE_STALE, VerticalPodAutoscaler, VerticalPodAutoscalerCondition,
    VerticalPodAutoscalerStatus,
};
use jiff::Timestamp;
use model::Recommendation;

/// Reason of `NoPodsMatched` and `RecommendationProvided` of a VPA: no pod matches.
const NO_PODS_REASON: &str = "NoPodsMatched";
const NO_PODS_MESSAGE: &str = "No pods match this VPA object";
/// Condition of a VPA: an annotation has an invalid value, and the default applies.
///
/// Not upstream's.
const ANNOTATION_REFUSED: &str = "AnnotationRefused";
/// Reason of `AnnotationRefused` of a VPA: the message names the annotation.
const REFUSED_REASON: &str = "InvalidAnnotation";

/// Condition of a VPA: the sizing method does not use an annotation.
///
/// Not upstream's.
const ANNOTATION_UNUSED: &str = "AnnotationUnused";
/// Reason of `AnnotationUnused` of a VPA: the message names the annotation.
const UNUSED_REASON: &str = "UnusedAnnotation";

/// Condition of a VPA: the object has more than 200 container names.
///
/// Not upstream's.
const CONTAINERS_OMITTED: &str = "ContainersOmitted";
/// Reason of `ContainersOmitted` of a VPA: those measured last are sized.
const OMITTED_REASON: &str = "TooManyContainerNames";

/// Reason of `SourceStale` of a VPA: the metrics API, or the external metrics, do not respond.
const SILENT_REASON: &str = "MetricsUnavailable";
/// Message without a time, so that it is written once.
const SILENT_MESSAGE: &str =
    "No usage from the metrics API for several rounds: the recommendation is frozen";

/// Reason of `FetchingHistory` of a VPA: history is fetched again until it is complete.
const HISTORY_REASON: &str = "WaitingForPrometheus";
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

#[derive(Debug, Clone)]
pub struct StatusInput<'a> {
    pub object: &'a VerticalPodAutoscaler,
    /// Problem of its target, if any.
    pub unsupported: Option<&'a str>,
    pub refused_annotation: Option<&'a str>,
    /// Names of valid annotations without effect.
    pub unused_annotations: &'a [String],
    pub pods: usize,
    /// Recommendation from usage, for every sized container.
    pub recommendation: Recommendation,
    /// Whether any container has samples.
    pub is_measured: bool,
    /// Whether its pods are so new that usage may still arrive.
    pub may_be_measured_soon: bool,
    /// State of the history from before this recommender started.
    pub history: HistoryState<'a>,
    /// Whether the object has more container names than are sized ([`crate::MAX_CONTAINERS`]).
    pub omits_containers: bool,
    /// Whether the source of usage is stale. `None` leaves the condition as it is.
    pub source_is_stale: Option<bool>,
}

pub fn status(input: StatusInput, now: Timestamp) -> VerticalPodAutoscalerStatus {
    let StatusInput {
        object,
        unsupported,
        refused_annotation,
        unused_annotations,
        pods,
        history,
        omits_containers,
        source_is_stale,
        ..
    } = input;
    let recommendation = recommendation(input);
    let is_empty = recommendation.containers.is_empty();
    let old = object.status.iter().flat_map(|status| &status.conditions);
    let mut conditions: Conditions = old.cloned().collect();
    conditions.remove(CONFIG_DEPRECATED);
    set_history(&mut conditions, history, now);
    if let Some(is_stale) = source_is_stale {
        let problem = is_stale.then_some((SILENT_REASON, SILENT_MESSAGE));
        set_problem(&mut conditions, SOURCE_STALE, problem, now);
    }
    // The names are those of known settings, so the message is bounded.
    let unused = (!unused_annotations.is_empty()).then(|| {
        let names = unused_annotations.join(", ");
        format!("The sizing policy of this object does not use: {names}")
    });
    // Without the number of names, so that it is written once.
    let most = crate::MAX_CONTAINERS;
    let omitted = omits_containers.then(|| format!(
        "Pods of this object have had more than {most} container names: only the {most} measured last are sized and stored"
    ));
    let no_pods = (pods == 0).then_some((NO_PODS_REASON, NO_PODS_MESSAGE));
    for (kind, reason, message) in [
        (CONFIG_UNSUPPORTED, "", unsupported),
        (ANNOTATION_REFUSED, REFUSED_REASON, refused_annotation),
        (ANNOTATION_UNUSED, UNUSED_REASON, unused.as_deref()),
        (CONTAINERS_OMITTED, OMITTED_REASON, omitted.as_deref()),
    ] {
        let problem = message.map(|message| (reason, message));
        set_problem(&mut conditions, kind, problem, now);
    }
    set_problem(&mut conditions, NO_PODS_MATCHED, no_pods, now);
    let (reason, message) = no_pods.unwrap_or_default();
    if is_empty {
        conditions.set(RECOMMENDATION_PROVIDED, false, reason, message, now);
    } else {
        conditions.set(RECOMMENDATION_PROVIDED, true, "", "", now);
    }
    VerticalPodAutoscalerStatus {
        recommendation: Some(recommendation).filter(|_| !is_empty),
        conditions: conditions.to_list(),
        observed_generation: object.metadata.generation.unwrap_or(0),
    }
}

/// Sets a condition that tells of a problem, with reason and message, or removes it without one.
pub(crate) fn set_problem(
    conditions: &mut Conditions,
    kind: &str,
    problem: Option<(&str, &str)>,
    now: Timestamp,
) {
    match problem {
        Some((reason, message)) => conditions.set(kind, true, reason, message, now),
        None => conditions.remove(kind),
    };
}

/// The recommendation from usage, or the published one while samples or history are missing.
fn recommendation(input: StatusInput) -> Recommendation {
    let StatusInput {
        object,
        recommendation: found,
        is_measured,
        may_be_measured_soon,
        history,
        ..
    } = input;
    let kept = published(object);
    let has_kept = !kept.containers.is_empty();
    let waits = has_kept
        && matches!(
            history,
            HistoryState::Missing {
                keeps_recommendation: true,
                ..
            }
        );
    if is_measured && !waits || !may_be_measured_soon && !has_kept {
        found
    } else {
        kept
    }
}

/// The published recommendation, without containers that are no longer sized.
fn published(object: &VerticalPodAutoscaler) -> Recommendation {
    let status = object.status.as_ref();
    let published = status.and_then(|status| status.recommendation.clone());
    let mut published = published.unwrap_or_default();
    let is_sized = |name: &str| !object.spec.is_off(name);
    published
        .containers
        .retain(|it| is_sized(&it.container_name));
    published
}

/// Whether the object has a recommendation for at least one container.
pub fn has_recommendation(status: Option<&VerticalPodAutoscalerStatus>) -> bool {
    let recommendation = status.and_then(|status| status.recommendation.as_ref());
    recommendation.is_some_and(|recommendation| !recommendation.containers.is_empty())
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

fn set_history(conditions: &mut Conditions, history: HistoryState, now: Timestamp) {
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

/// Change of a condition that tells of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionChange<'a> {
    /// The problem begins, or differs from the one before; with the message.
    Began(&'a str),
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

/// The first texts, separated by commas, and the number of the others: messages are bounded.
pub(crate) fn first_of(texts: impl ExactSizeIterator<Item = String>, most: usize) -> String {
    let others = texts.len().saturating_sub(most);
    let more = (others > 0).then(|| format!("and {others} more"));
    texts.take(most).chain(more).collect::<Vec<_>>().join(", ")
}
