//! Conditions and recommendations while history is missing, and after it has arrived.

use api::vpa::VerticalPodAutoscalerStatus;
use serde_json::{Value, json};

use super::{BEFORE, NOW, condition, input, now, object, published, recommend};
use crate::status::{
    ConditionChange, HISTORY_REASON, HistoryState, StatusInput, history_change, status,
};

/// `expected`: the CPU in the status, and the message of the condition.
fn check_history(old: &Value, history: HistoryState, expected: (&str, Option<&str>)) {
    let object = object(&json!({}), old);
    let input = StatusInput {
        recommendation: recommend(25),
        history,
        ..input(&object)
    };
    let status = json!(status(input, now()));
    let cpu = &status["recommendation"]["containerRecommendations"][0]["target"]["cpu"];
    let conditions = status["conditions"].as_array().expect("a list").iter();
    let message = conditions
        .filter(|condition| condition["type"] == "FetchingHistory")
        .map(|condition| condition["message"].as_str().expect("a text"))
        .next();
    let found = (cpu.as_str().expect("a target"), message);
    assert_eq!(found, expected, "{status}");
}

#[test]
fn while_history_is_missing_the_recommendation_stays_and_a_condition_says_so() {
    let missing = |problem, keeps_recommendation| HistoryState::Missing {
        problem,
        keeps_recommendation,
    };
    let fetching = "History is being fetched from Prometheus";
    let kept = published(Some("500m"));
    check_history(&kept, missing(None, true), ("500m", Some(fetching)));
    let failing = "History cannot be fetched from Prometheus yet: it is down";
    check_history(
        &kept,
        missing(Some("it is down"), true),
        ("500m", Some(failing)),
    );
    check_history(&kept, missing(None, false), ("25m", Some(fetching)));
    check_history(&Value::Null, missing(None, true), ("25m", Some(fetching)));
}

#[test]
fn the_condition_goes_when_history_has_come_and_only_if_it_is_ours() {
    let fetching =
        |reason| json!({"conditions": [condition("FetchingHistory", "True", BEFORE, reason, "m")]});
    let ours = fetching(HISTORY_REASON);
    check_history(&ours, HistoryState::Known, ("25m", None));
    check_history(&fetching("Other"), HistoryState::Known, ("25m", Some("m")));
}

/// `before` and `after`: what the condition said, if there was one.
fn check_news(before: Option<&str>, after: Option<&str>, expected: Option<ConditionChange>) {
    let status = |message: Option<&str>| {
        let fetching = |message| condition("FetchingHistory", "True", NOW, HISTORY_REASON, message);
        let conditions: Vec<Value> = message.map(fetching).into_iter().collect();
        let status: VerticalPodAutoscalerStatus =
            serde_json::from_value(json!({"conditions": conditions})).expect("a status");
        status
    };
    let (old, new) = (status(before), status(after));
    assert_eq!(
        history_change(Some(&old), &new),
        expected,
        "{before:?} {after:?}"
    );
}

#[test]
fn people_are_told_when_history_cannot_be_fetched_and_when_it_came_after_all() {
    let down = "History cannot be fetched from Prometheus yet: it is down";
    let slow = "History cannot be fetched from Prometheus yet: it is slow";
    let fetching = "History is being fetched from Prometheus";
    let missing = Some(ConditionChange::Began(down));
    check_news(None, Some(down), missing);
    check_news(Some(fetching), Some(down), missing);
    check_news(Some(down), Some(slow), None);
    check_news(Some(down), None, Some(ConditionChange::Ended));
    check_news(None, Some(fetching), None);
    check_news(Some(fetching), None, None);
}
