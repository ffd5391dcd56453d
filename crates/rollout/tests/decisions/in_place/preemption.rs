//! Neighbours that make room for a resize.

use k8s_openapi::api::core::v1;
use rollout::{ActionOutcome, ActionReason, PreemptionMethod, PreemptionMode, RolloutState};
use serde_json::{Value, json};
use view::Node;

use super::{add_condition, pending, world};
use crate::world::World;

#[test]
fn room_is_made_by_the_least_important_neighbour_within_its_budget() {
    let mut world = world("InPlaceOrRecreate", 1);
    world.deployment("batch", 2, &json!({"minReplicas": 1}));
    world.deployment("bank", 2, &json!({"minReplicas": 1}));
    let content = json!({"cpu": "1"});
    for (app, priority) in [("batch", -5), ("bank", 0)] {
        for index in 0..2 {
            let raise = |pod: &mut Value| pod["spec"]["priority"] = json!(priority);
            world.pod_with(app, &format!("{app}-{index}"), &content, raise);
        }
    }
    world.pod_with("web", "web-0", &content, |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        }]);
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4500m", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    world
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::trim(node)));
    let check = |world: &World, actions: usize, preemptions: &[PreemptionMethod]| {
        let plan = world.decide(&mut RolloutState::default());
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
    check(&world, 0, &[]);
    world.settings.preemption = PreemptionMode::DryRun;
    check(&world, 0, std::slice::from_ref(&batch));
    world.settings.preemption = PreemptionMode::On;
    check(&world, 1, &[batch]);
    let mut state = RolloutState::default();
    let plan = world.decide(&mut state);
    for action in plan
        .actions
        .iter()
        .filter(|action| action.reason == ActionReason::Preemption)
    {
        state.begin(action, world.now);
        state.end(
            action,
            &ActionOutcome::TooManyRequests { retry_after: None },
            world.now,
        );
    }
    assert_eq!(
        world
            .decide(&mut state)
            .preemptions
            .first()
            .map(|preemption| preemption.method.clone()),
        Some(other),
        "that one rests"
    );
    world.settings.min_replicas = 3;
    world.vpa("batch", &json!({}));
    check(
        &world,
        1,
        &[PreemptionMethod::Victims(vec![view::ObjectKey::new(
            "shop", "bank-0",
        )])],
    );
    world.vpa("bank", &json!({}));
    check(&world, 1, &[PreemptionMethod::Itself]);
    world.delete("batch-0");
    check(&world, 0, &[]);
}

#[test]
fn of_neighbours_under_one_budget_one_at_a_time_goes() {
    let mut world = world("InPlace", 1);
    world.recommend("web", "2");
    let content = json!({"cpu": "1"});
    for app in ["batch", "bank"] {
        world.deployment(app, 2, &json!({"minReplicas": 1}));
        for index in 0..2 {
            world.pod(app, &format!("{app}-{index}"), &content);
        }
    }
    world.pod_with("web", "web-0", &json!({"cpu": "2"}), |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    world
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::trim(node)));
    world.settings.preemption = PreemptionMode::On;
    let made = |world: &World| {
        let plan = world.decide(&mut RolloutState::default());
        (
            plan.preemptions.len(),
            plan.actions
                .iter()
                .filter(|action| action.reason == ActionReason::Preemption)
                .count(),
        )
    };
    assert_eq!(made(&world), (1, 2), "two are needed");
    world.budget("web", 1);
    let budget = world
        .view
        .disruption_budgets
        .iter()
        .next()
        .expect("it is there");
    let budget = view::DisruptionBudget {
        selector: "app in (batch,bank)".parse(),
        ..budget.as_ref().clone()
    };
    world
        .view
        .disruption_budgets
        .apply(std::sync::Arc::new(budget));
    assert_eq!(made(&world), (0, 0), "one alone would go in vain");
}

/// A pod of 2 CPUs that waits for room on a node that three others, of one CPU each, have filled.
fn crowded() -> World {
    let mut world = world("InPlace", 1);
    world.recommend("web", "2");
    world.workload("batch", 3, &json!({"minReplicas": 1}));
    world.pod_with("web", "web-0", &json!({"cpu": "2"}), |pod| {
        add_condition(pod, pending("Deferred", "2026-01-01T11:59:00Z"));
    });
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    world
        .view
        .nodes
        .apply(std::sync::Arc::new(Node::trim(node)));
    world.settings.preemption = PreemptionMode::On;
    world
}

fn fill(world: &mut World, change: impl Fn(&mut Value)) {
    for index in 0..3 {
        world.pod_with(
            "batch",
            &format!("batch-{index}"),
            &json!({"cpu": "1"}),
            &change,
        );
    }
}

fn made(world: &World, state: &mut RolloutState) -> usize {
    world
        .decide(state)
        .actions
        .iter()
        .filter(|action| action.reason == ActionReason::Preemption)
        .count()
}

#[test]
fn a_neighbour_goes_only_where_its_own_vpa_object_lets_it_go() {
    let mut world = crowded();
    fill(&mut world, |_| ());
    assert_eq!(made(&world, &mut RolloutState::default()), 1);
    let less = json!([{"resources": ["cpu"], "changeRequirement": "TargetLowerThanRequests"}]);
    world.vpa(
        "batch",
        &json!({"minReplicas": 1, "evictionRequirements": less}),
    );
    assert_eq!(
        made(&world, &mut RolloutState::default()),
        0,
        "its requirement does not hold"
    );
}

#[test]
fn a_neighbour_with_a_startup_boost_stays() {
    let mut world = crowded();
    world.boost("batch", 60);
    fill(&mut world, |pod| {
        pod["metadata"]["annotations"] =
            json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"100m\"}}"});
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T11:59:30Z");
    });
    assert_eq!(made(&world, &mut RolloutState::default()), 0);
}

#[test]
fn a_neighbour_in_another_namespace_goes_only_for_a_pod_of_higher_priority() {
    for (priority, expected) in [(0, 0), (-1, 1)] {
        let mut world = crowded();
        world.namespace = "bank".to_owned();
        world.workload("batch", 3, &json!({"minReplicas": 1}));
        fill(&mut world, |pod| pod["spec"]["priority"] = json!(priority));
        assert_eq!(
            made(&world, &mut RolloutState::default()),
            expected,
            "{priority}"
        );
    }
}

#[test]
fn a_neighbour_that_comes_back_to_the_same_node_is_left_alone_for_longer_and_longer() {
    let mut world = crowded();
    fill(&mut world, |_| ());
    let mut state = RolloutState::default();
    let mut came_back = Vec::new();
    for round in 0..30 {
        let plan = world.decide(&mut state);
        for action in plan
            .actions
            .iter()
            .filter(|action| action.reason == ActionReason::Preemption)
        {
            state.begin(action, world.now);
            state.end(
                action,
                &ActionOutcome::Accepted { generation: None },
                world.now,
            );
            world.view.pods.delete(&action.pod);
            came_back.push(round);
        }
        world.now.monotonic += std::time::Duration::from_secs(1);
        let missing = 3 - world
            .view
            .pods
            .iter()
            .filter(|pod| pod.key.name.starts_with("batch"))
            .count();
        for index in 0..missing {
            world.pod(
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
