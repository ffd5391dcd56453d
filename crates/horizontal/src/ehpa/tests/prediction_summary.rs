//! Method and window of the prediction in the status.

use api::condition::{self, ConditionStatus};
use api::ehpa::{EffectiveHorizontalPodAutoscalerStatus, PredictionSummary};
use api::prediction::PREDICTION_ACCURATE;
use serde_json::{Value, json};

use super::fixture::Fixture;
use crate::ehpa::status::status;

fn status_of(fixture: &Fixture) -> EffectiveHorizontalPodAutoscalerStatus {
    status(&fixture.observed(), &[], false)
}

fn summary(method: &str, window_seconds: i32, pod_ready_seconds: Option<i32>) -> PredictionSummary {
    PredictionSummary {
        method: method.to_owned(),
        window_seconds,
        pod_ready_seconds,
    }
}

fn check(fixture: Fixture, ready_seconds: Option<u32>, expected: Option<&PredictionSummary>) {
    let fixture = Fixture {
        ready_seconds,
        ..fixture
    };
    assert_eq!(status_of(&fixture).prediction.as_ref(), expected);
}

fn prediction(extra: &Value) -> Value {
    json!({ "prediction": extra })
}

#[test]
fn the_status_shows_the_method_and_the_measured_window() {
    let fixture = Fixture::example;
    check(fixture(), None, Some(&summary("peak", 600, None)));
    check(fixture(), Some(95), Some(&summary("peak", 420, Some(95))));
    let own = fixture().annotated("plimsoll.dev/forecast-quantile", "p95");
    check(own, Some(95), Some(&summary("own", 3600, None)));
    let crane = fixture().annotated("plimsoll.dev/forecast", "crane");
    check(crane, Some(95), Some(&summary("dsp", 3600, None)));
    let requested = fixture().annotated("plimsoll.dev/forecast-window", "20m");
    check(requested, Some(95), Some(&summary("peak", 1200, Some(95))));
    let algorithm = json!({"algorithmType": "dsp"});
    let short =
        prediction(&json!({"predictionWindowSeconds": 600, "predictionAlgorithm": algorithm}));
    let short = || Fixture::new(&short);
    check(short(), Some(95), Some(&summary("peak", 420, Some(95))));
    check(short(), Some(900), Some(&summary("peak", 600, Some(900))));
    check(Fixture::new(&prediction(&Value::Null)), Some(95), None);
    check(Fixture::new(&prediction(&json!({}))), Some(95), None);
}

#[test]
fn a_measured_window_stays_while_no_pod_is_known() {
    let mut fixture = Fixture {
        ready_seconds: Some(700),
        ..Fixture::example()
    };
    let measured = Some(summary("peak", 1020, Some(700)));
    for ready_seconds in [Some(700), None, None] {
        fixture.ready_seconds = ready_seconds;
        let status = status_of(&fixture);
        assert_eq!(status.prediction, measured);
        fixture.object.status = Some(status);
    }
    fixture.ready_seconds = Some(20);
    let found = status_of(&fixture).prediction;
    assert_eq!(found, Some(summary("peak", 360, Some(20))));
}

#[test]
fn the_status_repeats_whether_the_prediction_is_accurate() {
    let mut fixture = Fixture::example().predicted(&[("resource.cpu", true, 1)]);
    let accurate = |fixture: &Fixture| {
        let mut conditions = status_of(fixture).conditions.into_iter();
        let condition = conditions.find(|condition| condition.kind == PREDICTION_ACCURATE);
        condition.map(|condition| (condition.status, condition.reason, condition.message))
    };
    assert_eq!(accurate(&fixture), None);
    let prediction = fixture.prediction.as_mut().expect("a prediction");
    condition::set(
        &mut prediction.status.as_mut().expect("a status").conditions,
        PREDICTION_ACCURATE,
        ConditionStatus::False,
        "WorseThanSimpleMethod",
        "resource.cpu: ...",
        "2026-01-01T00:00:00Z".parse().expect("a time"),
    );
    let expected = (
        ConditionStatus::False,
        "WorseThanSimpleMethod".to_owned(),
        "resource.cpu: ...".to_owned(),
    );
    assert_eq!(accurate(&fixture), Some(expected));
}
