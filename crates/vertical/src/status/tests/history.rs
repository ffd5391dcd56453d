//! Conditions and recommendations while history is missing, and after it has arrived.

use api::vpa::VerticalPodAutoscalerStatus;
use serde_json::{Value, json};

use super::{BEFORE, NOW, condition, input, object, published, recommend};
use crate::status::history::HISTORY_REASON;
use crate::status::{HistoryChange, HistoryState, StatusInput, history_change, status};

/// `expected`: the CPU in the status, and the message of the condition.
fn check_history(old: &Value, history: HistoryState, expected: (&str, Option<&str>)) {
    let object = object(&json!({}), old);
    let input = StatusInput {
        recommendation: recommend(25),
        history,
        ..input(&object)
    };
    let status =
        serde_json::to_value(status(input, NOW.parse().expect("a time"))).expect("a status");
    let cpu = &status["recommendation"]["containerRecommendations"][0]["target"]["cpu"];
    let conditions = status["conditions"].as_array().expect("a list").iter();
    let message = conditions.filter(|condition| condition["type"] == "FetchingHistory");
    let message = message
        .map(|condition| condition["message"].as_str().expect("a text"))
        .next();
    assert_eq!(
        (cpu.as_str().expect("a target"), message),
        expected,
        "{status}"
    );
}

#[test]
fn while_history_is_missing_the_recommendation_stays_and_a_condition_says_so() {
    let missing = |problem, keeps_recommendation| HistoryState::Missing {
        problem,
        keeps_recommendation,
    };
    let fetching = "History is being fetched from Prometheus";
    check_history(
        &published(Some("500m")),
        missing(None, true),
        ("500m", Some(fetching)),
    );
    let failing = "History cannot be fetched from Prometheus yet: it is down";
    check_history(
        &published(Some("500m")),
        missing(Some("it is down"), true),
        ("500m", Some(failing)),
    );
    check_history(
        &published(Some("500m")),
        missing(None, false),
        ("25m", Some(fetching)),
    );
    check_history(&Value::Null, missing(None, true), ("25m", Some(fetching)));
}

#[test]
fn the_condition_goes_when_history_has_come_and_only_if_it_is_ours() {
    let fetching =
        |reason| json!({"conditions": [condition("FetchingHistory", "True", BEFORE, reason, "m")]});
    check_history(
        &fetching(HISTORY_REASON),
        HistoryState::Known,
        ("25m", None),
    );
    check_history(&fetching("Other"), HistoryState::Known, ("25m", Some("m")));
}

/// `before` and `after`: what the condition said, if there was one.
fn check_news(before: Option<&str>, after: Option<&str>, expected: Option<HistoryChange>) {
    let status = |message: Option<&str>| {
        let condition = message
            .map(|message| condition("FetchingHistory", "True", NOW, HISTORY_REASON, message));
        let conditions: Vec<Value> = condition.into_iter().collect();
        serde_json::from_value::<VerticalPodAutoscalerStatus>(json!({"conditions": conditions}))
            .expect("a status")
    };
    assert_eq!(
        history_change(Some(&status(before)), &status(after)),
        expected,
        "{before:?} {after:?}"
    );
}

#[test]
fn people_are_told_when_history_cannot_be_fetched_and_when_it_came_after_all() {
    let down = "History cannot be fetched from Prometheus yet: it is down";
    let slow = "History cannot be fetched from Prometheus yet: it is slow";
    let fetching = "History is being fetched from Prometheus";
    check_news(None, Some(down), Some(HistoryChange::Missing(down)));
    check_news(
        Some(fetching),
        Some(down),
        Some(HistoryChange::Missing(down)),
    );
    check_news(Some(down), Some(slow), None);
    check_news(Some(down), None, Some(HistoryChange::Fetched));
    check_news(None, Some(fetching), None);
    check_news(Some(fetching), None, None);
}
