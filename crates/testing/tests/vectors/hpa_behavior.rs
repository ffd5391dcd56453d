//! Sequences of proposals and the resulting counts of the native HPA.

use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use testing::hpa::{
    Behavior, Bounds, History, Policy, PolicyKind, Rules, ScalingLimited, SelectPolicy, Tolerance,
};
use testing::vectors::{each_case, items, or_default};

#[derive(Deserialize)]
struct Case {
    behavior: Option<Value>,
    expect_behavior_defaulted: Option<Value>,
    expect_tolerance_up: f64,
    expect_tolerance_down: f64,
    downscale_stabilization_window_ns: i64,
    min_replicas: i32,
    max_replicas: i32,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    now: Timestamp,
    current_replicas: i32,
    metric_replicas: i32,
    expect: Expected,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Expected {
    replicas: i32,
    able_to_scale: Condition,
    scaling_limited: Condition,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Condition {
    reason: String,
    status: String,
}

pub(crate) fn behavior(object: &Value) -> Behavior {
    Behavior {
        up: rules(&object["scaleUp"]),
        down: rules(&object["scaleDown"]),
    }
}

fn rules(object: &Value) -> Rules {
    let policy = |policy: &Value| Policy {
        kind: match policy["type"].as_str() {
            Some("Pods") => PolicyKind::Pods,
            Some("Percent") => PolicyKind::Percent,
            other => panic!("policy {other:?}"),
        },
        value: or_default(&policy["value"]),
        period_seconds: or_default(&policy["periodSeconds"]),
    };
    Rules {
        stabilization_seconds: or_default(&object["stabilizationWindowSeconds"]),
        select_policy: object["selectPolicy"].as_str().map(|name| match name {
            "Max" => SelectPolicy::Max,
            "Min" => SelectPolicy::Min,
            "Disabled" => SelectPolicy::Disabled,
            other => panic!("select policy {other}"),
        }),
        policies: items(&object["policies"]).map(policy).collect(),
        tolerance: or_default(&object["tolerance"]),
    }
}

impl Case {
    fn check(&self, number: usize) {
        let behavior = self.behavior.as_ref().map(behavior);
        let defaulted = self.expect_behavior_defaulted.as_ref().map(self::behavior);
        let found = behavior.clone().map(Behavior::with_defaults);
        assert_eq!(found, defaulted, "case {number}");
        let bounds = Bounds {
            min: self.min_replicas,
            max: self.max_replicas,
        };
        let window = SignedDuration::from_nanos(self.downscale_stabilization_window_ns);
        let first = self.steps.first().expect("a step");
        let mut history = History::new(first.current_replicas, window, first.now);
        for (index, step) in self.steps.iter().enumerate() {
            let (proposal, current) = (step.metric_replicas, step.current_replicas);
            let found = history.normalise(proposal, current, bounds, behavior.as_ref(), step.now);
            if found.replicas != current {
                history.scaled(current, found.replicas, behavior.as_ref(), step.now);
            }
            let is_limited = found.scaling_limited != ScalingLimited::DesiredWithinRange;
            let condition = |reason: &dyn Debug, is_met: bool| Condition {
                reason: format!("{reason:?}"),
                status: if is_met { "True" } else { "False" }.to_owned(),
            };
            let found = Expected {
                replicas: found.replicas,
                able_to_scale: condition(&found.able_to_scale, true),
                scaling_limited: condition(&found.scaling_limited, is_limited),
            };
            assert_eq!(found, step.expect, "case {number}, step {index}");
        }
    }
}

#[test]
fn vectors_hpa_behavior() {
    each_case("hpa/behavior", |number, case: Case| {
        case.check(number);
    });
}

#[test]
fn vectors_hpa_tolerance() {
    each_case("hpa/behavior", |number, case: Case| {
        let Some(object) = &case.behavior else {
            return;
        };
        // The flag's value is not recorded: it applies where the object has none.
        let flag = Tolerance {
            up: case.expect_tolerance_up,
            down: case.expect_tolerance_down,
        };
        let found = behavior(object).tolerance(flag);
        // The recording does not distinguish `0.3` and `300m`, and the controller parses them to
        // different last bits.
        let close = |found: f64, recorded: f64| (found - recorded).abs() <= f64::EPSILON * recorded;
        assert!(
            close(found.up, flag.up) && close(found.down, flag.down),
            "case {number}: {found:?}, not {flag:?}"
        );
    });
}
