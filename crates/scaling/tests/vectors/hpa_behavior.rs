//! Sequences of proposals and the resulting counts of the native HPA.

use std::fmt::Debug;

use jiff::{SignedDuration, Timestamp};
use model::Quantity;
use scaling::hpa::{
    Behavior, Bounds, History, Policy, PolicyKind, Rules, ScalingLimited, SelectPolicy, Tolerance,
};
use serde::Deserialize;
use testing::vectors::each_case;

#[derive(Deserialize)]
struct Case {
    behavior: Option<BehaviorObject>,
    expect_behavior_defaulted: Option<BehaviorObject>,
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

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BehaviorObject {
    #[serde(default)]
    scale_up: RulesObject,
    #[serde(default)]
    scale_down: RulesObject,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RulesObject {
    stabilization_window_seconds: Option<i32>,
    select_policy: Option<String>,
    #[serde(default)]
    policies: Vec<PolicyObject>,
    tolerance: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PolicyObject {
    r#type: String,
    value: i32,
    period_seconds: i32,
}

impl BehaviorObject {
    pub(crate) fn to_behavior(&self) -> Behavior {
        Behavior {
            up: self.scale_up.to_rules(),
            down: self.scale_down.to_rules(),
        }
    }
}

impl RulesObject {
    fn to_rules(&self) -> Rules {
        Rules {
            stabilization_seconds: self.stabilization_window_seconds,
            select_policy: self.select_policy.as_deref().map(|name| match name {
                "Max" => SelectPolicy::Max,
                "Min" => SelectPolicy::Min,
                "Disabled" => SelectPolicy::Disabled,
                other => panic!("select policy {other}"),
            }),
            policies: self.policies.iter().map(PolicyObject::to_policy).collect(),
            tolerance: self
                .tolerance
                .as_ref()
                .map(|text| text.parse::<Quantity>().expect("a quantity")),
        }
    }
}

impl PolicyObject {
    fn to_policy(&self) -> Policy {
        let kind = match self.r#type.as_str() {
            "Pods" => PolicyKind::Pods,
            "Percent" => PolicyKind::Percent,
            other => panic!("policy {other}"),
        };
        Policy {
            kind,
            value: self.value,
            period_seconds: self.period_seconds,
        }
    }
}

impl Case {
    fn check(&self, number: usize) {
        let behavior = self.behavior.as_ref().map(BehaviorObject::to_behavior);
        let defaulted = self.expect_behavior_defaulted.as_ref();
        let defaulted = defaulted.map(BehaviorObject::to_behavior);
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
        let Some(behavior) = &case.behavior else {
            return;
        };
        // The flag's value is not recorded: it applies where the object has none.
        let flag = Tolerance {
            up: case.expect_tolerance_up,
            down: case.expect_tolerance_down,
        };
        let found = behavior.to_behavior().tolerance(flag);
        // The recording does not distinguish `0.3` and `300m`, and the controller parses them to
        // different last bits.
        let close = |found: f64, recorded: f64| (found - recorded).abs() <= f64::EPSILON * recorded;
        assert!(
            close(found.up, flag.up) && close(found.down, flag.down),
            "case {number}: {found:?}, not {flag:?}"
        );
    });
}
