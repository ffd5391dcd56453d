//! Our own sizing policy: bounds, caution; and the steps of every policy.

use std::collections::BTreeMap;

use crate::ClusterState;
use model::{Cpu, Memory};

use super::fixture::{MIB, container, id};
use super::sizing_method::{DAY, add, add_steady, at, cluster, recommended, target, with_policy};

#[test]
fn a_change_of_our_own_policy_by_more_than_the_updaters_threshold_is_outside_the_bounds() {
    let mut cluster = with_policy("plimsoll");
    add_steady(&mut cluster, 0..2 * DAY);
    let own = recommended(&cluster, "web").unwrap();
    let vpa = recommended(&cluster, "plain").unwrap();
    let milli = |quantity: Option<Cpu>| quantity.unwrap().millicores();
    let [lower, target, upper] =
        [&own.lower_bound, &own.target, &own.upper_bound].map(|list| milli(list.cpu()));
    assert!((500..700).contains(&target), "{target}");
    // A request differs by more than 10 % of itself exactly outside of these.
    for request in 1..3 * target {
        let is_urgent = request < lower || request > milli(vpa.upper_bound.cpu()).max(upper);
        let differs = 10 * (target - request).abs() > request;
        assert!(
            differs || !is_urgent,
            "{request}, bounds {lower} to {upper}"
        );
        assert!(
            is_urgent || !differs || request > target,
            "{request} below {target}"
        );
    }
    assert!(upper >= milli(vpa.upper_bound.cpu()));
    let bytes = |list: &model::ResourceList| list.memory().unwrap().bytes();
    assert_eq!(
        bytes(&own.lower_bound),
        bytes(&own.target) - bytes(&own.target) / 11
    );
}

/// Mean memory target over the last three of six days with a busy hour in eight.
fn mean_memory(caution: &str) -> f64 {
    let mut cluster = cluster(&[("policy", "plimsoll"), ("caution", caution)]);
    let mut sum = 0.0;
    for minute in 0..6 * DAY {
        let busy = if minute % (8 * 60) < 60 { 4 } else { 1 };
        add(&mut cluster, "web-1", minute, 300 * busy, 400 * busy);
        if minute >= 3 * DAY && minute % 60 == 0 {
            sum += target(&cluster, "web").unwrap().1 as f64;
        }
    }
    sum / 72.0
}

#[test]
fn more_caution_leads_to_larger_targets() {
    let [low, normal, high, most] = ["0.1", "normal", "high", "10"].map(mean_memory);
    assert!(
        low < normal && normal < high && high < most,
        "{low} {normal} {high} {most}"
    );
}

/// The steps of the CPU and memory targets, as names with numbers.
fn steps(policy: &str, cluster: &ClusterState) -> [BTreeMap<String, f64>; 2] {
    let explained = cluster.explain(&id("web"), "app").unwrap();
    let own = recommended(cluster, "web").unwrap();
    assert_eq!(explained.len(), 2, "{policy}");
    [0, 1].map(|index| {
        let number = &explained[index];
        let target = own.target.get(&number.resource);
        assert_eq!(Some(&number.capped), target, "{policy}");
        let steps = number.method_steps.iter();
        steps
            .map(|step| (step.name.clone(), step.value.unwrap_or(0.0)))
            .collect()
    })
}

#[test]
fn the_steps_of_every_policy_lead_to_its_numbers() {
    // Steps of CPU, and those that memory has in addition after an OOM kill.
    for (policy, of_both, of_memory) in [
        (
            "crane",
            "percentile usage margin-fraction with-margin target-utilization prediction",
            "oom-killed-request oom-protection",
        ),
        (
            "autopilot-window",
            "statistic half-life usage margin-fraction with-margin maximum-of-last-hour",
            "oom-need-of-last-hour",
        ),
        (
            "autopilot-ml",
            "model-half-life model-margin model-cost model-limit next-best-model-cost next-best-model-limit",
            "oom-need-of-last-hour",
        ),
        (
            "plimsoll",
            "highest-peak-of-seven-days largest-expected-need caution price-of-one-failure \
             cheapest-request chance-of-failure expected-cost present-request \
             present-expected-cost reason chosen-request request-after-10-percent-rule",
            "minimum-after-oom-kill",
        ),
    ] {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..2 * DAY);
        let memory = Memory::from_bytes(1024 * MIB);
        cluster
            .record_oom(&container("web-1", "app"), at(2 * DAY), memory, at(2 * DAY))
            .unwrap();
        add_steady(&mut cluster, 2 * DAY..2 * DAY + 1);
        let [cpu, memory] = steps(policy, &cluster);
        for name in of_both.split(' ') {
            assert!(cpu.contains_key(name), "{policy}: {name} in {cpu:?}");
        }
        for name in of_both.split(' ').chain(of_memory.split(' ')) {
            assert!(memory.contains_key(name), "{policy}: {name} in {memory:?}");
        }
        if policy == "plimsoll" {
            let near = |a: &str, b: f64| assert!((cpu[a] - b).abs() < 1.0, "{a}: {cpu:?}");
            near("request-after-10-percent-rule", cpu["recommendation"]);
            let possible = ["cheapest-request", "present-request"].map(|name| cpu[name]);
            assert!(possible.contains(&cpu["chosen-request"]), "{cpu:?}");
            assert!(
                cpu["expected-cost"] <= cpu["present-expected-cost"],
                "{cpu:?}"
            );
        } else {
            let limit = ["prediction", "maximum-of-last-hour", "model-limit"];
            let limit = limit.iter().find_map(|name| cpu.get(*name)).unwrap();
            assert!(
                (cpu["recommendation"] - limit).abs() <= 1.0,
                "{policy}: {cpu:?}"
            );
        }
        if let Some(usage) = cpu.get("usage") {
            let with_margin = usage * (1.0 + cpu["margin-fraction"]);
            assert!(
                (cpu["with-margin"] - with_margin).abs() < 1e-6,
                "{policy}: {cpu:?}"
            );
        }
    }
}
