//! Neighbours that make room for a resize.

use cluster::Node;
use k8s_openapi::api::core::v1;
use serde_json::{Value, json};

use super::{add_condition, pending, world};
use crate::decide::act::{Outcome, Why};
use crate::decide::tests::world::World;
use crate::decide::{MakeRoom, Memory, Way};

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
    world.view.nodes.apply(std::sync::Arc::new(Node::trim(node)));
    let check = |world: &World, acts: usize, rooms: &[Way]| {
        let plan = world.decide(&mut Memory::default());
        assert_eq!(plan.acts.iter().filter(|act| act.why == Why::MakeRoom).count(), acts, "{plan:?}");
        assert_eq!(plan.rooms.iter().map(|room| room.way.clone()).collect::<Vec<_>>(), rooms);
    };
    let batch = Way::Neighbours(vec![cluster::ObjectKey::new("shop", "batch-0")]);
    let other = Way::Neighbours(vec![cluster::ObjectKey::new("shop", "batch-1")]);
    check(&world, 0, &[]);
    world.settings.make_room = MakeRoom::DryRun;
    check(&world, 0, std::slice::from_ref(&batch));
    world.settings.make_room = MakeRoom::On;
    check(&world, 1, &[batch]);
    let mut memory = Memory::default();
    let plan = world.decide(&mut memory);
    for act in plan.acts.iter().filter(|act| act.why == Why::MakeRoom) {
        memory.begin(act, world.now);
        memory.end(act, &Outcome::TooMany { retry_after: None }, world.now);
    }
    assert_eq!(world.decide(&mut memory).rooms.first().map(|room| room.way.clone()), Some(other), "that one rests");
    world.settings.min_replicas = 3;
    world.autoscaler("batch", &json!({}));
    check(&world, 1, &[Way::Neighbours(vec![cluster::ObjectKey::new("shop", "bank-0")])]);
    world.autoscaler("bank", &json!({}));
    check(&world, 1, &[Way::Move]);
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
    world.view.nodes.apply(std::sync::Arc::new(Node::trim(node)));
    world.settings.make_room = MakeRoom::On;
    let made = |world: &World| {
        let plan = world.decide(&mut Memory::default());
        (plan.rooms.len(), plan.acts.iter().filter(|act| act.why == Why::MakeRoom).count())
    };
    assert_eq!(made(&world), (1, 2), "two are needed");
    world.budget("web", 1);
    let budget = world.view.disruption_budgets.iter().next().expect("it is there");
    let budget = cluster::DisruptionBudget { selector: "app in (batch,bank)".parse(), ..budget.as_ref().clone() };
    world.view.disruption_budgets.apply(std::sync::Arc::new(budget));
    assert_eq!(made(&world), (0, 0), "one alone would go in vain");
}
