//! Scores by load, reservations and policies.

use std::collections::HashMap;

use placement::{FallbackReason, LowRiskOverCommitment};
use serde_json::json;

use super::super::*;
use super::fixture::{Fixture, START, args, config, pod};

/// Two nodes, of which the second has a load above the target.
const LOADS: [f64; 2] = [25.0, 75.0];
const NAMES: [&str; 2] = ["node-1", "node-2"];

async fn check(fixture: &Fixture, path: &str, pod: &serde_json::Value, expected: (&str, [i64; 2])) {
    let found = fixture.post(path, args(pod, &NAMES)).await;
    let found = (found.basis.as_deref(), found.scores());
    assert_eq!(
        found,
        (Some(expected.0), expected.1.to_vec()),
        "{path} {pod}"
    );
}

#[tokio::test]
async fn without_fresh_metrics_requests_decide_and_no_node_is_removed() {
    let mut config = config();
    config.filter.cpu_percent = Some(50.0);
    // An idle node counts as known.
    config.min_coverage_percent = 60;
    let fixture = Fixture::new(config, &LOADS);
    let bound = json!({
        "metadata": {"namespace": "shop", "name": "old", "uid": "old", "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"nodeName": "node-2", "containers": [{"name": "app", "resources": {"requests": {"cpu": "3", "memory": "6Gi"}}}]},
    });
    fixture.bind(None, &bound);
    check(&fixture, "/prioritize", &pod("", 0), ("load", [8, 3])).await;
    let removed = async |fixture: &Fixture| {
        let found = fixture.post("/filter", args(&pod("u", 0), &NAMES)).await;
        let names = found.json()["NodeNames"].as_array().map_or(0, Vec::len);
        (found.basis.unwrap_or_default(), 2 - names)
    };
    assert_eq!(removed(&fixture).await, ("load".to_owned(), 1));
    for (change, reason) in [
        (
            &(|fixture: &Fixture| fixture.set_time(START + 301)) as &dyn Fn(&Fixture),
            "stale_metrics",
        ),
        (&|fixture| fixture.measure(START + 301, &[]), "low_coverage"),
        (&|fixture| fixture.forget_metrics(), "no_metrics"),
    ] {
        change(&fixture);
        // Target load packing packs by requests then.
        check(&fixture, "/prioritize", &pod("", 0), ("allocation", [0, 8])).await;
        assert_eq!(removed(&fixture).await, ("allocation".to_owned(), 0));
        let answers = "plimsoll_extender_answers_total";
        let count = fixture.metric(answers, &["prioritize", "allocation", reason]);
        assert!((count - 1.0).abs() < 0.5, "{reason}: {count}");
    }
    let reason = FallbackReason::StaleMetrics { age_seconds: 301 };
    assert_eq!(reason.to_string(), "node metrics are 301 s old");
}

#[tokio::test]
async fn before_the_first_complete_view_scores_are_equal() {
    let fixture = Fixture::new(config(), &LOADS);
    fixture.scheduler.is_synced.store(false, Ordering::Release);
    check(&fixture, "/prioritize", &pod("u", 0), ("neutral", [5, 5])).await;
}

#[tokio::test]
async fn policies_are_by_path_and_annotation() {
    let mut config = config();
    let packing = "TargetLoadPacking(targetUtilization=80)";
    let packing = packing.parse().expect("a policy");
    config.profiles.insert("dense".to_owned(), packing);
    let low_risk = Policy::LowRiskOverCommitment(LowRiskOverCommitment::default());
    config.profiles.insert("risk".to_owned(), low_risk);
    let fixture = Fixture::new(config, &LOADS);
    let with = |text: &str| {
        let mut pod = pod("", 0);
        pod["metadata"]["annotations"] = json!({"plimsoll.dev/placement-policy": text});
        pod
    };
    for (path, pod, expected) in [
        ("/prioritize", pod("", 0), [8, 3]),
        ("/profiles/dense/prioritize", pod("", 0), [9, 10]),
        ("/prioritize", with("LoadVariationRiskBalancing"), [9, 6]),
        (
            "/profiles/dense/prioritize",
            with("TargetLoadPacking(targetUtilization=25)"),
            [10, 1],
        ),
        ("/profiles/dense/prioritize", with("Least"), [9, 10]),
        (
            "/profiles/dense/prioritize",
            with(&"x".repeat(100_000)),
            [9, 10],
        ),
        // A pod without requests and limits is without risk information.
        ("/profiles/risk/prioritize", pod("", 0), [0, 0]),
    ] {
        check(&fixture, path, &pod, ("load", expected)).await;
    }
    let invalid = fixture.metric("plimsoll_extender_invalid_policies_total", &[]);
    assert!((invalid - 2.0).abs() < 0.5, "{invalid}");
}

/// Places 100 pods of 100m between two updates of the metrics, each on the best node. `binds` says
/// whether the watch delivers the bindings. Returns the number of pods by node.
async fn burst(binds: bool) -> HashMap<String, usize> {
    let mut config = config();
    config.max_score = 100;
    let loads: Vec<f64> = (0..20).map(|number| f64::from(number) * 2.0).collect();
    let fixture = Fixture::new(config, &loads);
    let names: Vec<_> = (1..=20).map(|number| format!("node-{number}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut counts = HashMap::new();
    for number in 0..100 {
        let mut pod = pod(&format!("u{number}"), 100);
        let found = fixture.post("/prioritize", args(&pod, &names)).await;
        let scores = found.scores();
        let best = scores.iter().max().expect("scores");
        let node = scores.iter().position(|score| score == best);
        let node = names[node.expect("a best node")];
        if binds {
            pod["spec"]["nodeName"] = json!(node);
            fixture.bind(None, &pod);
        }
        *counts.entry(node.to_owned()).or_default() += 1;
    }
    counts
}

#[tokio::test]
async fn a_burst_between_two_updates_does_not_pile_up() {
    // With a target of 50 %, a node takes pods of 2.5 % each up to the target: the one with 38 %
    // takes four. Without reservations the first of them would take all.
    for binds in [true, false] {
        let counts = burst(binds).await;
        let most = counts.values().max().copied().unwrap_or(0);
        assert!(most <= 20 && counts.len() >= 8, "binds {binds}: {counts:?}");
    }
}

#[tokio::test]
async fn a_bound_pod_counts_until_metrics_show_it() {
    let fixture = Fixture::new(config(), &[25.0, 25.0]);
    let mut bound = pod("u1", 1000);
    bound["spec"]["nodeName"] = json!("node-1");
    bound["status"] = json!({"conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time(START)},
    ]});
    let bound = fixture.bind(None, &bound);
    // 25 % and 25 % reserved are the target.
    check(&fixture, "/prioritize", &pod("", 0), ("load", [10, 8])).await;
    fixture.set_time(START + 60);
    fixture.measure(START + 60, &[25.0, 25.0]);
    check(&fixture, "/prioritize", &pod("", 0), ("load", [8, 8])).await;
    // A pod that is deleted does not count, nor does one that was bound long ago.
    fixture.measure(START, &[25.0, 25.0]);
    check(&fixture, "/prioritize", &pod("", 0), ("load", [10, 8])).await;
    fixture.scheduler.apply_pod(&Change {
        old: Some(bound),
        new: None,
    });
    check(&fixture, "/prioritize", &pod("", 0), ("load", [8, 8])).await;
    let mut old = pod("u2", 1000);
    old["metadata"]["creationTimestamp"] = json!(time(START - 1000));
    old["spec"]["nodeName"] = json!("node-1");
    fixture.bind(None, &old);
    check(&fixture, "/prioritize", &pod("", 0), ("load", [8, 8])).await;
}

fn time(second: i64) -> String {
    let time = Timestamp::from_second(second).expect("a time");
    time.to_string()
}

#[tokio::test]
async fn one_namespace_cannot_push_out_the_reservations_of_another() {
    let fixture = Fixture::new(config(), &[25.0, 25.0]);
    let mut bound = pod("mine", 1000);
    bound["spec"]["nodeName"] = json!("node-1");
    fixture.bind(None, &bound);
    for number in 0..30_000 {
        let mut other = pod(&format!("other-{number}"), 0);
        other["metadata"]["namespace"] = json!(format!("tenant-{}", number % 2));
        other["spec"]["nodeName"] = json!("node-2");
        fixture.bind(None, &other);
    }
    check(&fixture, "/prioritize", &pod("", 0), ("load", [10, 8])).await;
    fixture.scheduler.prune();
    let held = fixture.metric("plimsoll_extender_reservations", &[]);
    assert!((held - 10_001.0).abs() < 0.5, "{held}");
    let evicted = fixture.metric("plimsoll_extender_evicted_reservations_total", &[]);
    assert!((evicted - 20_000.0).abs() < 0.5, "{evicted}");
}
