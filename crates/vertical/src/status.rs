//! From what is known about one `VerticalPodAutoscaler` object to the status that it should have.
//!
//! Conditions, reasons and messages are upstream's (`recommender/model/vpa.go`,
//! `UpdateConditions`), with one difference in what is recommended. Upstream recommends the minimum
//! for containers of which nothing was measured, right away. Here such a minimum never takes the
//! place of an earlier recommendation, and it waits until usage had time to arrive. Neither does
//! what little is known before history has come from Prometheus, and a condition says so.

mod history;
mod recommendation;
#[cfg(test)]
mod tests;

use api::vpa::{
    CONFIG_DEPRECATED, CONFIG_UNSUPPORTED, Conditions, NO_PODS_MATCHED, RECOMMENDATION_PROVIDED,
    SOURCE_STALE, VerticalPodAutoscaler, VerticalPodAutoscalerStatus,
};
use jiff::Timestamp;
use model::Recommendation;

use history::set_history;
use recommendation::{is_empty, recommendation};

pub use history::{History, HistoryChange, history_change};
pub use recommendation::has_recommendation;

const NO_PODS_REASON: &str = "NoPodsMatched";
const NO_PODS_MESSAGE: &str = "No pods match this VPA object";
/// A condition that upstream does not have: annotations ask for what cannot be had, and the default
/// stands in.
const ANNOTATION_REFUSED: &str = "AnnotationRefused";
const REFUSED_REASON: &str = "InvalidAnnotation";

/// A condition that upstream does not have: the object has more container names than are sized.
const CONTAINERS_OMITTED: &str = "ContainersOmitted";
const OMITTED_REASON: &str = "TooManyContainerNames";

const SILENT_REASON: &str = "MetricsUnavailable";
/// Without a time, so that it is written once.
const SILENT_MESSAGE: &str =
    "The source of usage has not answered for several rounds: the recommendation does not move";

/// What is known about one object.
#[derive(Debug, Clone)]
pub struct StatusInput<'a> {
    /// The object as last seen.
    pub object: &'a VerticalPodAutoscaler,
    /// Why its target cannot be used, if it cannot.
    pub unsupported: Option<&'a str>,
    /// Why the way of sizing that it asks for is refused, if it is.
    pub refused_annotation: Option<&'a str>,
    /// How many pods match.
    pub pods: usize,
    /// What usage says, for every container that is known and sized.
    pub recommendation: Recommendation,
    /// Whether any usage of its containers was measured.
    pub is_measured: bool,
    /// Whether its pods are so new that usage may still arrive.
    pub may_be_measured_soon: bool,
    /// Whether usage from before this recommender started is in the recommendation.
    pub history: History<'a>,
    /// Whether the object has more container names than are sized ([`crate::MAX_CONTAINERS`]).
    pub omits_containers: bool,
    /// Whether the source of usage has been silent for so long that the recommendation is out of
    /// date. The condition stays as it is while this is not known.
    pub source_is_stale: Option<bool>,
}

/// The status that the object should have.
pub fn status(input: StatusInput, now: Timestamp) -> VerticalPodAutoscalerStatus {
    let StatusInput {
        object,
        unsupported,
        refused_annotation,
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

/// Without the number of names, so that it is written once.
fn omitted_message() -> String {
    let most = crate::MAX_CONTAINERS;
    format!(
        "Pods of this object have had more than {most} container names: only the {most} measured last are sized and stored"
    )
}
