//! Upstream's choice and order of pods to update.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use testing::vectors::each_case;

use super::{Attempts, at, limits, pod, recommendation, running, to_size, vpa};
use crate::resize::oom_kill::quick_oom;
use crate::selection::eviction_requirements;
use crate::selection::priority::Priority;
use crate::settings::Settings;
use crate::state::is_any_lower;

#[derive(Deserialize)]
struct Case {
    now: Timestamp,
    vpa: Value,
    pods: Vec<Value>,
    limit_ranges: Option<Vec<Value>>,
    infeasible_attempts: Attempts,
    gate_in_place: bool,
    gate_per_vpa_config: bool,
    lifetime_threshold_ns: u64,
    oom_threshold_ns: u64,
    pod_update_threshold: f64,
    expect: Expected,
}

#[derive(Deserialize)]
struct Expected {
    pods: Vec<ExpectedPod>,
    order: Option<Vec<String>>,
    order_after_eviction_requirements: Option<Vec<String>>,
}

// The fields of the recordings.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, PartialEq, Deserialize)]
struct ExpectedPod {
    pod: String,
    accepted: bool,
    admitted_by_eviction_requirements: bool,
    error: bool,
    outside_recommended_range: bool,
    scale_up: bool,
    resource_diff: f64,
}

#[test]
fn vectors_priority() {
    each_case("vpa/priority", |index, case: Case| {
        let vpa = vpa(case.vpa);
        let recommendation = recommendation(&vpa).unwrap_or_default();
        let limits = limits(case.limit_ranges);
        let settings = Settings {
            update_threshold: case.pod_update_threshold,
            lifetime_threshold: Duration::from_nanos(case.lifetime_threshold_ns),
            quick_oom_threshold: Duration::from_nanos(case.oom_threshold_ns),
            in_place: case.gate_in_place,
            per_vpa_config: case.gate_per_vpa_config,
            ..Settings::default()
        };
        let in_place = vpa.spec.effective_update_mode() == api::vpa::EffectiveUpdateMode::InPlace;
        let attempts = case.infeasible_attempts.unwrap_or_default();
        let (mut found, mut accepted) = (Vec::new(), Vec::new());
        for pod in case.pods.into_iter().map(pod) {
            let own = to_size(running(&pod), &vpa, &limits).capped(&recommendation);
            let priority = Priority::of(running(&pod), &own, false);
            let quick_oom =
                quick_oom(&pod, running(&pod), &vpa.spec, &settings, at(case.now)).is_some();
            let attempt = attempts
                .get(&pod.uid)
                .filter(|_| in_place && settings.in_place);
            let known = attempt.is_some_and(|attempt| !is_any_lower(&own, attempt));
            let is_accepted =
                !known && priority.needs_update(&pod, quick_oom, &settings, at(case.now));
            let admitted = eviction_requirements::admit(running(&pod), &own, &vpa.spec, false);
            found.push(ExpectedPod {
                pod: pod.key.name.clone(),
                accepted: is_accepted,
                admitted_by_eviction_requirements: admitted,
                error: false,
                outside_recommended_range: priority.outside_recommended_range,
                scale_up: priority.scale_up,
                resource_diff: priority.resource_diff,
            });
            if is_accepted {
                accepted.push((pod.key.name.clone(), priority, admitted));
            }
        }
        assert_eq!(found, case.expect.pods, "case {index}");
        accepted.sort_by(|(_, a, _), (_, b, _)| a.cmp_urgency(b));
        let names = |admitted_only: bool| -> Vec<String> {
            let chosen = accepted
                .iter()
                .filter(|(_, _, admitted)| *admitted || !admitted_only);
            chosen.map(|(name, ..)| name.clone()).collect()
        };
        assert_eq!(
            names(false),
            case.expect.order.unwrap_or_default(),
            "case {index}"
        );
        assert_eq!(
            names(true),
            case.expect
                .order_after_eviction_requirements
                .unwrap_or_default(),
            "case {index}"
        );
    });
}
