//! Recommendations with and without samples.

use serde_json::{Value, json};

use super::{input, now, object, published, recommend};
use crate::status::{StatusInput, status};

#[derive(Clone, Copy)]
enum Usage {
    Measured,
    Expected,
    Absent,
}

/// `expected`: the CPU in the status, if there is any.
fn check_cpu(
    old: Option<&str>,
    spec: &Value,
    found: Option<i64>,
    usage: Usage,
    expected: Option<&str>,
) {
    let object = object(spec, &published(old));
    let input = StatusInput {
        recommendation: found.map(recommend).unwrap_or_default(),
        is_measured: matches!(usage, Usage::Measured),
        may_be_measured_soon: matches!(usage, Usage::Expected),
        ..input(&object)
    };
    let status = json!(status(input, now()));
    let cpu = status["recommendation"]["containerRecommendations"][0]["target"]["cpu"].as_str();
    assert_eq!(cpu, expected, "{status}");
    // An empty recommendation is left out.
    assert_eq!(
        status["recommendation"].is_null(),
        expected.is_none(),
        "{status}"
    );
}

#[test]
fn what_was_measured_takes_the_place_of_what_was_recommended_before() {
    let measured = Usage::Measured;
    check_cpu(Some("500m"), &json!({}), Some(25), measured, Some("25m"));
    check_cpu(Some("500m"), &json!({}), None, measured, None);
    check_cpu(None, &json!({}), Some(25), measured, Some("25m"));
}

#[test]
fn a_recommendation_stays_while_nothing_is_measured() {
    for usage in [Usage::Expected, Usage::Absent] {
        check_cpu(Some("500m"), &json!({}), Some(25), usage, Some("500m"));
        check_cpu(Some("500m"), &json!({}), None, usage, Some("500m"));
    }
}

#[test]
fn the_minimum_waits_until_usage_had_time_to_arrive() {
    check_cpu(None, &json!({}), Some(25), Usage::Expected, None);
    check_cpu(None, &json!({}), Some(25), Usage::Absent, Some("25m"));
    check_cpu(None, &json!({}), None, Usage::Absent, None);
}

#[test]
fn a_container_that_is_switched_off_keeps_no_recommendation() {
    let off =
        json!({"resourcePolicy": {"containerPolicies": [{"containerName": "*", "mode": "Off"}]}});
    check_cpu(Some("500m"), &off, None, Usage::Measured, None);
    check_cpu(Some("500m"), &off, None, Usage::Absent, None);
}
