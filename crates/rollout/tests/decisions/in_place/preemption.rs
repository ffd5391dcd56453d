//! Evictions of other pods for a pending resize.

use k8s_openapi::api::core::v1;
use rollout::{ActionOutcome, ActionReason, PreemptionMethod, PreemptionMode, RolloutState};
use serde_json::{Value, json};
use view::Node;

use super::{add_condition, fixture, pending};
use crate::fixture::Fixture;

#[test]
fn the_least_important_victim_within_its_budget_is_evicted() {
    let mut fixture = fixture("InPlaceOrRecreate", 1);
    fixture.deployment("batch", 2, &json!({"minReplicas": 1}));
    fixture.deployment("bank", 2, &json!({"minReplicas": 1}));
    let content = json!({"cpu": "1"});
    for (app, priority) in [("batch", -5), ("bank", 0)] {
        for index in 0..2 {
            let raise = |pod: &mut Value| pod["spec"]["priority"] = json!(priority);
            fixture.pod_with(app, &format!("{app}-{index}"), &content, raise);
        }
    }
    fixture.pod_with("web", "web-0", &content, |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        }]);
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4500m", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    fixture
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::from_k8s(node)));
    let check = |fixture: &Fixture, actions: usize, preemptions: &[PreemptionMethod]| {
        let plan = fixture.decide(&mut RolloutState::default());
        assert_eq!(
            plan.actions
                .iter()
                .filter(|action| action.reason == ActionReason::Preemption)
                .count(),
            actions,
            "{plan:?}"
        );
        assert_eq!(
            plan.preemptions
                .iter()
                .map(|preemption| preemption.method.clone())
                .collect::<Vec<_>>(),
            preemptions
        );
    };
    let batch = PreemptionMethod::Victims(vec![view::ObjectKey::new("shop", "batch-0")]);
    let other = PreemptionMethod::Victims(vec![view::ObjectKey::new("shop", "batch-1")]);
    check(&fixture, 0, &[]);
    fixture.settings.preemption = PreemptionMode::DryRun;
    check(&fixture, 0, std::slice::from_ref(&batch));
    fixture.settings.preemption = PreemptionMode::On;
    check(&fixture, 1, &[batch]);
    let mut state = RolloutState::default();
    let plan = fixture.decide(&mut state);
    for action in plan
        .actions
        .iter()
        .filter(|action| action.reason == ActionReason::Preemption)
    {
        state.begin(action, fixture.now);
        state.end(
            action,
            &ActionOutcome::TooManyRequests { retry_after: None },
            fixture.now,
        );
    }
    assert_eq!(
        fixture
            .decide(&mut state)
            .preemptions
            .first()
            .map(|preemption| preemption.method.clone()),
        Some(other),
        "the first one backs off"
    );
    fixture.settings.min_replicas = 3;
    fixture.vpa("batch", &json!({}));
    check(
        &fixture,
        1,
        &[PreemptionMethod::Victims(vec![view::ObjectKey::new(
            "shop", "bank-0",
        )])],
    );
    fixture.vpa("bank", &json!({}));
    check(&fixture, 1, &[PreemptionMethod::Itself]);
    fixture.delete("batch-0");
    check(&fixture, 0, &[]);
}

#[test]
fn one_victim_of_each_budget_is_evicted_at_a_time() {
    let mut fixture = fixture("InPlace", 1);
    fixture.recommend("web", "2");
    let content = json!({"cpu": "1"});
    for app in ["batch", "bank"] {
        fixture.deployment(app, 2, &json!({"minReplicas": 1}));
        for index in 0..2 {
            fixture.pod(app, &format!("{app}-{index}"), &content);
        }
    }
    fixture.pod_with("web", "web-0", &json!({"cpu": "2"}), |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    fixture
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::from_k8s(node)));
    fixture.settings.preemption = PreemptionMode::On;
    let made = |fixture: &Fixture| {
        let plan = fixture.decide(&mut RolloutState::default());
        (
            plan.preemptions.len(),
            plan.actions
                .iter()
                .filter(|action| action.reason == ActionReason::Preemption)
                .count(),
        )
    };
    assert_eq!(made(&fixture), (1, 2), "two are needed");
    fixture.budget("web", 1);
    let budget = fixture
        .view
        .disruption_budgets
        .iter()
        .next()
        .expect("it is there");
    let budget = view::DisruptionBudget {
        selector: "app in (batch,bank)".parse(),
        ..budget.as_ref().clone()
    };
    fixture
        .view
        .disruption_budgets
        .apply(std::sync::Arc::new(budget));
    assert_eq!(made(&fixture), (0, 0), "one alone frees too little");
}

/// A pod of 2 CPUs that waits for room on a node that three others, of one CPU each, have filled.
fn crowded() -> Fixture {
    let mut fixture = fixture("InPlace", 1);
    fixture.recommend("web", "2");
    fixture.workload("batch", 3, &json!({"minReplicas": 1}));
    fixture.pod_with("web", "web-0", &json!({"cpu": "2"}), |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    fixture
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::from_k8s(node)));
    fixture.settings.preemption = PreemptionMode::On;
    fixture
}

fn fill(fixture: &mut Fixture, change: impl Fn(&mut Value)) {
    for index in 0..3 {
        fixture.pod_with(
            "batch",
            &format!("batch-{index}"),
            &json!({"cpu": "1"}),
            &change,
        );
    }
}

fn made(fixture: &Fixture, state: &mut RolloutState) -> usize {
    fixture
        .decide(state)
        .actions
        .iter()
        .filter(|action| action.reason == ActionReason::Preemption)
        .count()
}

#[test]
fn a_victim_is_evicted_only_if_its_own_vpa_object_allows_that() {
    let mut fixture = crowded();
    fill(&mut fixture, |_| ());
    assert_eq!(made(&fixture, &mut RolloutState::default()), 1);
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    fixture.vpa(
        "batch",
        &json!({"minReplicas": 1, "evictionRequirements": less}),
    );
    assert_eq!(
        made(&fixture, &mut RolloutState::default()),
        0,
        "its requirement does not hold"
    );
}

#[test]
fn a_pod_with_a_startup_boost_is_no_victim() {
    let mut fixture = crowded();
    fixture.boost("batch", 60);
    fill(&mut fixture, |pod| {
        pod["metadata"]["annotations"] =
            json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"100m\"}}"});
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T11:59:30Z");
    });
    assert_eq!(made(&fixture, &mut RolloutState::default()), 0);
}

#[test]
fn a_victim_of_another_namespace_has_a_lower_priority() {
    for (priority, expected) in [(0, 0), (-1, 1)] {
        let mut fixture = crowded();
        fixture.namespace = "bank".to_owned();
        fixture.workload("batch", 3, &json!({"minReplicas": 1}));
        fill(&mut fixture, |pod| {
            pod["spec"]["priority"] = json!(priority);
        });
        assert_eq!(
            made(&fixture, &mut RolloutState::default()),
            expected,
            "{priority}"
        );
    }
}

#[test]
fn evictions_of_a_victim_that_returns_to_the_node_are_spaced_out() {
    let mut fixture = crowded();
    fill(&mut fixture, |_| ());
    let mut state = RolloutState::default();
    let mut came_back = Vec::new();
    for round in 0..30 {
        let plan = fixture.decide(&mut state);
        for action in plan
            .actions
            .iter()
            .filter(|action| action.reason == ActionReason::Preemption)
        {
            state.begin(action, fixture.now);
            state.end(
                action,
                &ActionOutcome::Accepted { generation: None },
                fixture.now,
            );
            fixture.view.pods.delete(&action.pod);
            came_back.push(round);
        }
        fixture.now.monotonic += std::time::Duration::from_secs(1);
        let missing = 3 - fixture
            .view
            .pods
            .iter()
            .filter(|pod| pod.key.name.starts_with("batch"))
            .count();
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
