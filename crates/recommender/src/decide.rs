//! From what is known about one `VerticalPodAutoscaler` object to the status that it should have.
//!
//! Conditions, reasons and messages are upstream's (`recommender/model/vpa.go`, `UpdateConditions`), with one difference in
//! what is recommended. Upstream recommends the minimum for containers of which nothing was measured, right away. Here
//! such a minimum never takes the place of an earlier recommendation, and it waits until usage had time to arrive. Neither
//! does what little is known before history has come from Prometheus, and a condition says so.

use api::vpa::{
    CONFIG_DEPRECATED, CONFIG_UNSUPPORTED, Conditions, ContainerScalingMode, FETCHING_HISTORY, NO_PODS_MATCHED,
    RECOMMENDATION_PROVIDED, RecommendedPodResources, SOURCE_STALE, VerticalPodAutoscaler, VerticalPodAutoscalerStatus,
};
use jiff::Timestamp;
use model::Recommendation;

const NO_PODS_REASON: &str = "NoPodsMatched";
const NO_PODS_MESSAGE: &str = "No pods match this VPA object";
/// Tells our own condition from one that somebody else has set.
const HISTORY_REASON: &str = "WaitingForPrometheus";
/// What the condition says after a failure, before it says why.
const HISTORY_PROBLEM: &str = "History cannot be fetched from Prometheus yet: ";

/// A condition that upstream does not have: annotations ask for what cannot be had, and the default stands in.
const ANNOTATION_REFUSED: &str = "AnnotationRefused";
const REFUSED_REASON: &str = "InvalidAnnotation";

const SILENT_REASON: &str = "NoAnswer";
/// Without a time, so that it is written once.
const SILENT_MESSAGE: &str =
    "The source of usage has not answered for several rounds: the recommendation does not move";

/// What is known about one object.
#[derive(Debug, Clone)]
pub struct Finding<'a> {
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
    /// Whether the source of usage has been silent for so long that the recommendation is out of date.
    pub source_is_stale: bool,
}

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

/// The status that the object should have.
pub fn status(finding: Finding, now: Timestamp) -> VerticalPodAutoscalerStatus {
    let Finding { object, unsupported, refused_annotation, pods, history, source_is_stale, .. } = finding;
    let recommendation = recommendation(finding);
    let old = object.status.iter().flat_map(|status| &status.conditions);
    let mut conditions: Conditions = old.cloned().collect();
    conditions.remove(CONFIG_DEPRECATED);
    match unsupported {
        Some(message) => conditions.set(CONFIG_UNSUPPORTED, true, "", message, now),
        None => conditions.remove(CONFIG_UNSUPPORTED),
    };
    set_history(&mut conditions, history, now);
    if source_is_stale {
        conditions.set(SOURCE_STALE, true, SILENT_REASON, SILENT_MESSAGE, now);
    } else {
        conditions.remove(SOURCE_STALE);
    }
    match refused_annotation {
        Some(message) => conditions.set(ANNOTATION_REFUSED, true, REFUSED_REASON, message, now),
        None => conditions.remove(ANNOTATION_REFUSED),
    };
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
        recommendation: Some(recommendation),
        conditions: conditions.to_list(),
        observed_generation: object.metadata.generation.unwrap_or(0),
    }
}

/// What people should be told about an object's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HistoryNews<'a> {
    /// It cannot be fetched, and why.
    Missing(&'a str),
    /// It has come after it was missing.
    Come,
}

/// What has changed about the history of an object from one status to the next.
pub fn history_news<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
) -> Option<HistoryNews<'a>> {
    let before = old.and_then(awaited_history);
    match (before.is_some_and(is_problem), awaited_history(new)) {
        (false, Some(message)) if is_problem(message) => Some(HistoryNews::Missing(message)),
        (true, None) => Some(HistoryNews::Come),
        _ => None,
    }
}

/// What our own condition says while history is missing.
fn awaited_history(status: &VerticalPodAutoscalerStatus) -> Option<&str> {
    let own = status.conditions.iter();
    let mut own = own.filter(|condition| condition.kind == FETCHING_HISTORY && condition.reason == HISTORY_REASON);
    own.next().map(|condition| condition.message.as_str())
}

fn is_problem(message: &str) -> bool {
    message.starts_with(HISTORY_PROBLEM)
}

fn set_history(conditions: &mut Conditions, history: History, now: Timestamp) {
    match history {
        History::Missing { problem, .. } => {
            let message = match problem {
                Some(problem) => format!("{HISTORY_PROBLEM}{problem}"),
                None => "History is being fetched from Prometheus".to_owned(),
            };
            conditions.set(FETCHING_HISTORY, true, HISTORY_REASON, &message, now);
        }
        History::Known => {
            if conditions.get(FETCHING_HISTORY).is_some_and(|condition| condition.reason == HISTORY_REASON) {
                conditions.remove(FETCHING_HISTORY);
            }
        }
    }
}

/// Whether the object has a recommendation for at least one container.
pub fn has_recommendation(status: Option<&VerticalPodAutoscalerStatus>) -> bool {
    let recommendation = status.and_then(|status| status.recommendation.as_ref());
    recommendation.is_some_and(|recommendation| !is_empty(recommendation))
}

fn is_empty(recommendation: &RecommendedPodResources) -> bool {
    recommendation.container_recommendations.is_empty()
}

fn recommendation(finding: Finding) -> RecommendedPodResources {
    let Finding { object, recommendation: found, is_measured, may_be_measured_soon, history, .. } = finding;
    let kept = published(object);
    let waits = matches!(history, History::Missing { keeps_recommendation: true, .. }) && !is_empty(&kept);
    if is_measured && !waits {
        return found.into();
    }
    if may_be_measured_soon || !is_empty(&kept) { kept } else { found.into() }
}

/// The recommendation in the object, without containers that are no longer sized.
fn published(object: &VerticalPodAutoscaler) -> RecommendedPodResources {
    let published = object.status.as_ref().and_then(|status| status.recommendation.clone());
    let mut published = published.unwrap_or_default();
    published.container_recommendations.retain(|container| {
        let policy = object.spec.container_policy(&container.container_name);
        policy.is_none_or(|policy| policy.effective_mode() == ContainerScalingMode::Auto)
    });
    published
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use model::{ContainerRecommendation, Cpu, Memory, ResourceList};
    use serde_json::{Value, json};

    use super::*;

    const BEFORE: &str = "2026-01-01T00:00:00Z";
    const NOW: &str = "2026-01-01T01:00:00Z";

    fn object(spec: Value, status: Value) -> VerticalPodAutoscaler {
        let mut object = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"namespace": "shop", "name": "web", "generation": 7},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        });
        if let Value::Object(fields) = spec {
            object["spec"].as_object_mut().expect("a map").extend(fields);
        }
        if !status.is_null() {
            object["status"] = status;
        }
        api::vpa::parse(object).expect("an autoscaler")
    }

    fn recommend(millicores: i64) -> Recommendation {
        let target = ResourceList::of(Cpu::from_millicores(millicores), Memory::from_bytes(1 << 20));
        Recommendation {
            containers: vec![ContainerRecommendation {
                container_name: "web".to_owned(),
                target,
                ..Default::default()
            }],
        }
    }

    fn condition(kind: &str, status: &str, time: &str, reason: &str, message: &str) -> Value {
        let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": time});
        for (field, text) in [("reason", reason), ("message", message)] {
            if !text.is_empty() {
                condition[field] = json!(text);
            }
        }
        condition
    }

    fn no_pods(time: &str) -> Value {
        condition("NoPodsMatched", "True", time, "NoPodsMatched", "No pods match this VPA object")
    }

    fn provided(time: &str) -> Value {
        condition("RecommendationProvided", "True", time, "", "")
    }

    fn conditions_of(
        object: &VerticalPodAutoscaler,
        unsupported: Option<&str>,
        pods: usize,
        recommendation: Recommendation,
    ) -> Value {
        let finding = Finding {
            object,
            unsupported,
            refused_annotation: None,
            pods,
            recommendation,
            is_measured: true,
            may_be_measured_soon: false,
            history: History::Known,
            source_is_stale: false,
        };
        let status = status(finding, NOW.parse().expect("a time"));
        assert_eq!(status.observed_generation, 7);
        serde_json::to_value(status.conditions).expect("conditions")
    }

    fn check(old: &[Value], unsupported: Option<&str>, pods: usize, found: Option<i64>, expected: &[Value]) {
        let object = object(Value::Null, json!({"conditions": old, "observedGeneration": 1}));
        let found = found.map(recommend).unwrap_or_default();
        assert_eq!(conditions_of(&object, unsupported, pods, found), json!(expected));
    }

    #[test]
    fn a_recommendation_is_provided_when_there_is_one() {
        check(&[], None, 3, Some(100), &[provided(NOW)]);
        check(&[], None, 3, None, &[condition("RecommendationProvided", "False", NOW, "", "")]);
    }

    #[test]
    fn missing_pods_are_reported_and_explain_a_missing_recommendation() {
        let missing =
            condition("RecommendationProvided", "False", NOW, "NoPodsMatched", "No pods match this VPA object");
        check(&[], None, 0, None, &[no_pods(NOW), missing]);
        check(&[], None, 0, Some(100), &[no_pods(NOW), provided(NOW)]);
        check(&[no_pods(BEFORE), provided(BEFORE)], None, 1, Some(100), &[provided(BEFORE)]);
    }

    #[test]
    fn a_target_that_cannot_be_used_is_reported_until_it_can() {
        let unsupported = |time: &str, message: &str| condition("ConfigUnsupported", "True", time, "", message);
        check(&[], Some("why"), 1, Some(100), &[unsupported(NOW, "why"), provided(NOW)]);
        check(&[unsupported(BEFORE, "old")], Some("why"), 1, Some(100), &[unsupported(BEFORE, "why"), provided(NOW)]);
        check(&[unsupported(BEFORE, "old")], None, 1, Some(100), &[provided(NOW)]);
    }

    #[test]
    fn a_refused_annotation_is_reported_until_it_is_right() {
        let check = |old: &[Value], refused_annotation: Option<&str>, expected: &[Value]| {
            let object = object(Value::Null, json!({"conditions": old}));
            let finding = Finding {
                object: &object,
                unsupported: None,
                refused_annotation,
                pods: 1,
                recommendation: recommend(100),
                is_measured: true,
                may_be_measured_soon: false,
                history: History::Known,
                source_is_stale: false,
            };
            let status = status(finding, NOW.parse().expect("a time"));
            assert_eq!(serde_json::to_value(status.conditions).expect("conditions"), json!(expected));
        };
        let refused = |time| condition("AnnotationRefused", "True", time, "InvalidAnnotation", "why");
        check(&[], Some("why"), &[refused(NOW), provided(NOW)]);
        check(&[refused(BEFORE), provided(BEFORE)], Some("why"), &[refused(BEFORE), provided(BEFORE)]);
        check(&[refused(BEFORE), provided(BEFORE)], None, &[provided(BEFORE)]);
    }

    #[test]
    fn conditions_of_others_stay_and_the_deprecated_one_goes() {
        let other = condition("FetchingHistory", "True", BEFORE, "x", "y");
        let deprecated = condition("ConfigDeprecated", "True", BEFORE, "", "");
        check(&[deprecated, other.clone()], None, 1, Some(100), &[other, provided(NOW)]);
    }

    fn published(millicores: Option<&str>) -> Value {
        let container = |cpu| json!({"containerName": "web", "target": {"cpu": cpu, "memory": "1Mi"}});
        match millicores {
            Some(cpu) => json!({"recommendation": {"containerRecommendations": [container(cpu)]}}),
            None => Value::Null,
        }
    }

    #[derive(Clone, Copy)]
    enum Usage {
        Measured,
        Expected,
        Absent,
    }

    /// `expected`: the CPU in the status, if there is any.
    fn check_cpu(old: Option<&str>, spec: Value, found: Option<i64>, usage: Usage, expected: Option<&str>) {
        let object = object(spec, published(old));
        let finding = Finding {
            object: &object,
            unsupported: None,
            refused_annotation: None,
            pods: 1,
            recommendation: found.map(recommend).unwrap_or_default(),
            is_measured: matches!(usage, Usage::Measured),
            may_be_measured_soon: matches!(usage, Usage::Expected),
            history: History::Known,
            source_is_stale: false,
        };
        let status = status(finding, NOW.parse().expect("a time"));
        let status = serde_json::to_value(status).expect("a status");
        let cpu = status["recommendation"]["containerRecommendations"][0]["target"]["cpu"].as_str();
        assert_eq!(cpu, expected, "{status}");
        assert!(status["recommendation"].is_object(), "an empty recommendation is still there: {status}");
    }

    #[test]
    fn what_was_measured_takes_the_place_of_what_was_recommended_before() {
        check_cpu(Some("500m"), Value::Null, Some(25), Usage::Measured, Some("25m"));
        check_cpu(Some("500m"), Value::Null, None, Usage::Measured, None);
        check_cpu(None, Value::Null, Some(25), Usage::Measured, Some("25m"));
    }

    #[test]
    fn a_recommendation_stays_while_nothing_is_measured() {
        for usage in [Usage::Expected, Usage::Absent] {
            check_cpu(Some("500m"), Value::Null, Some(25), usage, Some("500m"));
            check_cpu(Some("500m"), Value::Null, None, usage, Some("500m"));
        }
    }

    #[test]
    fn the_minimum_waits_until_usage_had_time_to_arrive() {
        check_cpu(None, Value::Null, Some(25), Usage::Expected, None);
        check_cpu(None, Value::Null, Some(25), Usage::Absent, Some("25m"));
        check_cpu(None, Value::Null, None, Usage::Absent, None);
    }

    #[test]
    fn a_container_that_is_switched_off_keeps_no_recommendation() {
        let off = json!({"resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}});
        check_cpu(Some("500m"), off.clone(), None, Usage::Measured, None);
        check_cpu(Some("500m"), off, None, Usage::Absent, None);
    }

    /// `expected`: the CPU in the status, and the message of the condition.
    fn check_history(old: Value, history: History, expected: (&str, Option<&str>)) {
        let object = object(Value::Null, old);
        let recommendation = recommend(25);
        let finding = Finding {
            object: &object,
            unsupported: None,
            refused_annotation: None,
            pods: 1,
            recommendation,
            is_measured: true,
            may_be_measured_soon: false,
            history,
            source_is_stale: false,
        };
        let status = serde_json::to_value(status(finding, NOW.parse().expect("a time"))).expect("a status");
        let cpu = &status["recommendation"]["containerRecommendations"][0]["target"]["cpu"];
        let conditions = status["conditions"].as_array().expect("a list").iter();
        let message = conditions.filter(|condition| condition["type"] == "FetchingHistory");
        let message = message.map(|condition| condition["message"].as_str().expect("a text")).next();
        assert_eq!((cpu.as_str().expect("a target"), message), expected, "{status}");
    }

    #[test]
    fn while_history_is_missing_the_recommendation_stays_and_a_condition_says_so() {
        let missing = |problem, keeps_recommendation| History::Missing { problem, keeps_recommendation };
        let fetching = "History is being fetched from Prometheus";
        check_history(published(Some("500m")), missing(None, true), ("500m", Some(fetching)));
        let failing = "History cannot be fetched from Prometheus yet: it is down";
        check_history(published(Some("500m")), missing(Some("it is down"), true), ("500m", Some(failing)));
        check_history(published(Some("500m")), missing(None, false), ("25m", Some(fetching)));
        check_history(Value::Null, missing(None, true), ("25m", Some(fetching)));
    }

    #[test]
    fn the_condition_goes_when_history_has_come_and_only_if_it_is_ours() {
        let fetching = |reason| json!({"conditions": [condition("FetchingHistory", "True", BEFORE, reason, "m")]});
        check_history(fetching(HISTORY_REASON), History::Known, ("25m", None));
        check_history(fetching("Other"), History::Known, ("25m", Some("m")));
    }

    /// `before` and `after`: what the condition said, if there was one.
    fn check_news(before: Option<&str>, after: Option<&str>, expected: Option<HistoryNews>) {
        let status = |message: Option<&str>| {
            let condition = message.map(|message| condition("FetchingHistory", "True", NOW, HISTORY_REASON, message));
            let conditions: Vec<Value> = condition.into_iter().collect();
            serde_json::from_value::<VerticalPodAutoscalerStatus>(json!({"conditions": conditions})).expect("a status")
        };
        assert_eq!(history_news(Some(&status(before)), &status(after)), expected, "{before:?} {after:?}");
    }

    #[test]
    fn people_are_told_when_history_cannot_be_fetched_and_when_it_came_after_all() {
        let down = "History cannot be fetched from Prometheus yet: it is down";
        let slow = "History cannot be fetched from Prometheus yet: it is slow";
        let fetching = "History is being fetched from Prometheus";
        check_news(None, Some(down), Some(HistoryNews::Missing(down)));
        check_news(Some(fetching), Some(down), Some(HistoryNews::Missing(down)));
        check_news(Some(down), Some(slow), None);
        check_news(Some(down), None, Some(HistoryNews::Come));
        check_news(None, Some(fetching), None);
        check_news(Some(fetching), None, None);
    }

    #[test]
    fn a_silent_source_of_usage_is_reported_until_it_answers() {
        let silent = condition("SourceStale", "True", BEFORE, SILENT_REASON, SILENT_MESSAGE);
        let check = |old: &[Value], source_is_stale: bool, expected: &[Value]| {
            let object = object(Value::Null, json!({"conditions": old}));
            let finding = Finding {
                object: &object,
                unsupported: None,
                refused_annotation: None,
                pods: 1,
                recommendation: recommend(100),
                is_measured: true,
                may_be_measured_soon: false,
                history: History::Known,
                source_is_stale,
            };
            let status = status(finding, NOW.parse().expect("a time"));
            assert_eq!(serde_json::to_value(status.conditions).expect("conditions"), json!(expected));
        };
        let provided = provided(BEFORE);
        check(&[provided.clone(), silent.clone()], true, &[provided.clone(), silent.clone()]);
        check(&[provided.clone(), silent], false, from_ref(&provided));
        let silent_now = condition("SourceStale", "True", NOW, SILENT_REASON, SILENT_MESSAGE);
        check(from_ref(&provided), true, &[provided.clone(), silent_now]);
    }

    #[test]
    fn the_same_findings_give_the_same_status() {
        let before = object(Value::Null, Value::Null);
        let finding = |object| Finding {
            object,
            unsupported: None,
            refused_annotation: None,
            pods: 0,
            recommendation: recommend(100),
            is_measured: true,
            may_be_measured_soon: false,
            history: History::Known,
            source_is_stale: false,
        };
        let first = status(finding(&before), BEFORE.parse().expect("a time"));
        let after = VerticalPodAutoscaler { status: Some(first.clone()), ..before.clone() };
        assert_eq!(status(finding(&after), NOW.parse().expect("a time")), first);
    }
}
