//! Evictions of other pods for a pending resize.

use std::sync::Arc;

use rollout::{ActionReason, Plan, PreemptionMethod, PreemptionMode};
use serde_json::{Value, json};
use view::ObjectKey;

use super::{fixture, not_resized_yet, pending};
use crate::fixture::{ACCEPTED, Fixture, TOO_MANY_REQUESTS, boosted};

/// The number of evictions for a pending resize.
fn evictions(plan: &Plan) -> usize {
    plan.actions
        .iter()
        .filter(|action| action.reason == ActionReason::Preemption)
        .count()
}

fn methods(plan: &Plan) -> Vec<PreemptionMethod> {
    plan.preemptions
        .iter()
        .map(|preemption| preemption.method.clone())
        .collect()
}

fn victim(name: &str) -> PreemptionMethod {
    PreemptionMethod::Victims(vec![ObjectKey::new("shop", name)])
}

fn deferred(pod: &mut Value) {
    pending(pod, "Deferred", "2026-01-01T11:59:00Z");
}

/// Pods of one CPU each, changed in some way.
fn fill(fixture: &mut Fixture, app: &str, pods: usize, change: impl Fn(&mut Value)) {
    for index in 0..pods {
        fixture.pod_with(
            app,
            &format!("{app}-{index}"),
            &json!({"cpu": "1"}),
            &change,
        );
    }
}

/// A pod of 2 CPUs that waits for room on a node that four CPUs have filled.
fn crowded() -> Fixture {
    let mut fixture = fixture("InPlace", 1);
    fixture.recommend("web", "2");
    fixture.workload("batch", 3, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({"cpu": "2"}), deferred);
    fixture.node("4", "8Gi");
    fixture.settings.preemption = PreemptionMode::On;
    fixture
}

#[test]
fn the_least_important_victim_within_its_budget_is_evicted() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    for (app, priority) in [("batch", -5), ("bank", 0)] {
        fixture.deployment(app, 2, &json!({"minReplicas": 1}));
        fill(&mut fixture, app, 2, |pod| {
            pod["spec"]["priority"] = json!(priority);
        });
    }
    fixture.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
        deferred(pod);
        not_resized_yet(pod);
    });
    fixture.node("4500m", "8Gi");
    let check = |fixture: &Fixture, expected: usize, expected_methods: &[PreemptionMethod]| {
        let plan = fixture.first_pass();
        assert_eq!(evictions(&plan), expected, "{plan:?}");
        assert_eq!(methods(&plan), expected_methods);
    };
    check(&fixture, 0, &[]);
    fixture.settings.preemption = PreemptionMode::DryRun;
    check(&fixture, 0, &[victim("batch-0")]);
    fixture.settings.preemption = PreemptionMode::On;
    check(&fixture, 1, &[victim("batch-0")]);
    let mut plan = fixture.pass();
    plan.actions
        .retain(|action| action.reason == ActionReason::Preemption);
    fixture.report(&plan, &TOO_MANY_REQUESTS);
    let next = methods(&fixture.pass()).into_iter().next();
    assert_eq!(next, Some(victim("batch-1")), "the first one backs off");
    fixture.settings.min_replicas = 3;
    fixture.vpa("batch", &json!({}));
    check(&fixture, 1, &[victim("bank-0")]);
    fixture.vpa("bank", &json!({}));
    check(&fixture, 1, &[PreemptionMethod::Itself]);
    fixture.delete("batch-0");
    check(&fixture, 0, &[]);
}

#[test]
fn one_victim_of_each_budget_is_evicted_at_a_time() {
    let mut fixture = crowded();
    for app in ["batch", "bank"] {
        fixture.deployment(app, 2, &json!({"minReplicas": 1}));
        fill(&mut fixture, app, 2, |_| ());
    }
    let plan = fixture.first_pass();
    assert_eq!(
        (plan.preemptions.len(), evictions(&plan)),
        (1, 2),
        "two are needed"
    );
    fixture.budget_over("web", "app in (batch,bank)", [1, 3], &[]);
    let plan = fixture.first_pass();
    let found = (plan.preemptions.len(), evictions(&plan));
    assert_eq!(found, (0, 0), "one alone frees too little");
}

#[test]
fn a_victim_is_evicted_only_if_its_own_vpa_object_allows_that() {
    let mut fixture = crowded();
    fill(&mut fixture, "batch", 3, |_| ());
    assert_eq!(evictions(&fixture.first_pass()), 1);
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    fixture.vpa(
        "batch",
        &json!({"minReplicas": 1, "evictionRequirements": less}),
    );
    assert_eq!(
        evictions(&fixture.first_pass()),
        0,
        "its requirement does not hold"
    );
}

#[test]
fn a_pod_with_a_startup_boost_is_no_victim() {
    let mut fixture = crowded();
    fixture.boost("batch", 60);
    fill(&mut fixture, "batch", 3, |pod| {
        boosted(pod, "100m", "2026-01-01T11:59:30Z");
    });
    assert_eq!(evictions(&fixture.first_pass()), 0);
}

#[test]
fn a_victim_of_another_namespace_has_a_lower_priority() {
    for (priority, expected) in [(0, 0), (-1, 1)] {
        let mut fixture = crowded();
        fixture.namespace = "bank".to_owned();
        fixture.workload("batch", 3, &json!({"minReplicas": 1}));
        fill(&mut fixture, "batch", 3, |pod| {
            pod["spec"]["priority"] = json!(priority);
        });
        assert_eq!(evictions(&fixture.first_pass()), expected, "{priority}");
    }
}

#[test]
fn evictions_of_a_victim_that_returns_to_the_node_are_spaced_out() {
    let mut fixture = crowded();
    fill(&mut fixture, "batch", 3, |_| ());
    let mut came_back = Vec::new();
    for round in 0..30 {
        let mut plan = fixture.pass();
        plan.actions
            .retain(|action| action.reason == ActionReason::Preemption);
        fixture.report(&plan, &ACCEPTED);
        for action in &plan.actions {
            fixture.view.pods.delete(&action.pod);
            came_back.push(round);
        }
        fixture.now.monotonic += std::time::Duration::from_secs(1);
        let is_batch = |pod: &&Arc<view::Pod>| pod.key.name.starts_with("batch");
        let missing = 3 - fixture.view.pods.iter().filter(is_batch).count();
        for index in 0..missing {
            fixture.pod(
                "batch",
                &format!("batch-{round}-{index}"),
                &json!({"cpu": "1"}),
            );
        }
    }
    assert!(
        came_back.len() < 12,
        "it was evicted in the rounds {came_back:?}"
    );
}

#[test]
fn pods_that_other_tools_keep_are_no_victims() {
    let mut fixture = crowded();
    fill(&mut fixture, "batch", 3, |pod| {
        let kept = json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"});
        pod["metadata"]["annotations"] = kept;
    });
    assert_eq!(evictions(&fixture.pass()), 0);
    fill(&mut fixture, "batch", 3, |pod| {
        pod["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] = json!("gang");
    });
    assert_eq!(evictions(&fixture.pass()), 0);
    fill(&mut fixture, "batch", 3, |_| ());
    assert_eq!(evictions(&fixture.pass()), 1);
}
