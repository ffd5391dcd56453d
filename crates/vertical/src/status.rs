//! Desired status of one `VerticalPodAutoscaler` object.
//!
//! Conditions, reasons and messages are upstream's (`recommender/model/vpa.go`,
//! `UpdateConditions`). The recommendation differs in one point. Upstream immediately recommends
//! the minimum for containers without samples. Here a minimum never replaces an earlier
//! recommendation, and it waits until usage had time to arrive. The same holds before history has
//! arrived from Prometheus, which a condition reports.

mod backfill;
mod recommendation;
#[cfg(test)]
mod tests;

use api::vpa::{
    CONFIG_DEPRECATED, CONFIG_UNSUPPORTED, Conditions, NO_PODS_MATCHED, RECOMMENDATION_PROVIDED,
    SOURCE_STALE, VerticalPodAutoscaler, VerticalPodAutoscalerStatus,
};
use jiff::Timestamp;
use model::Recommendation;

use backfill::set_history;
use recommendation::{is_empty, recommendation};

pub use backfill::{HistoryState, history_change};
pub use recommendation::has_recommendation;

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

/// Input of an object's status.
#[derive(Debug, Clone)]
pub struct StatusInput<'a> {
    pub object: &'a VerticalPodAutoscaler,
    /// Problem of its target, if any.
    pub unsupported: Option<&'a str>,
    pub refused_annotation: Option<&'a str>,
    /// Names of valid annotations without effect.
    pub unused_annotations: &'a [String],
    /// Number of matching pods.
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

/// Returns the desired status.
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
    let old = object.status.iter().flat_map(|status| &status.conditions);
    let mut conditions: Conditions = old.cloned().collect();
    conditions.remove(CONFIG_DEPRECATED);
    match unsupported {
        Some(message) => conditions.set(CONFIG_UNSUPPORTED, true, "", message, now),
        None => conditions.remove(CONFIG_UNSUPPORTED),
    };
    set_history(&mut conditions, history, now);
    match source_is_stale {
        Some(true) => {
            conditions.set(SOURCE_STALE, true, SILENT_REASON, SILENT_MESSAGE, now);
        }
        Some(false) => {
            conditions.remove(SOURCE_STALE);
        }
        None => {}
    }
    match refused_annotation {
        Some(message) => conditions.set(ANNOTATION_REFUSED, true, REFUSED_REASON, message, now),
        None => conditions.remove(ANNOTATION_REFUSED),
    };
    if unused_annotations.is_empty() {
        conditions.remove(ANNOTATION_UNUSED);
    } else {
        let message = unused_message(unused_annotations);
        conditions.set(ANNOTATION_UNUSED, true, UNUSED_REASON, &message, now);
    }
    if omits_containers {
        conditions.set(
            CONTAINERS_OMITTED,
            true,
            OMITTED_REASON,
            &omitted_message(),
            now,
        );
    } else {
        conditions.remove(CONTAINERS_OMITTED);
    }
    let (reason, message) = if pods == 0 {
        conditions.set(NO_PODS_MATCHED, true, NO_PODS_REASON, NO_PODS_MESSAGE, now);
        (NO_PODS_REASON, NO_PODS_MESSAGE)
    } else {
        conditions.remove(NO_PODS_MATCHED);
        ("", "")
    };
    if is_empty(&recommendation) {
        conditions.set(RECOMMENDATION_PROVIDED, false, reason, message, now);
    } else {
        conditions.set(RECOMMENDATION_PROVIDED, true, "", "", now);
    }
    VerticalPodAutoscalerStatus {
        recommendation: Some(recommendation).filter(|recommendation| !is_empty(recommendation)),
        conditions: conditions.to_list(),
        observed_generation: object.metadata.generation.unwrap_or(0),
    }
}

/// The names are those of known settings, so the message is bounded.
fn unused_message(names: &[String]) -> String {
    format!(
        "The sizing policy of this object does not use: {}",
        names.join(", ")
    )
}

/// Message without the number of names, so that it is written once.
fn omitted_message() -> String {
    let most = crate::MAX_CONTAINERS;
    format!(
        "Pods of this object have had more than {most} container names: only the {most} measured last are sized and stored"
    )
}
