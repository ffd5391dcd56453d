//! What time alone changes is decided about when it is due.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1;
use rollout::{Action, ActionOutcome, MAINTENANCE_WINDOW, REVERTED_AT};
use serde_json::{Value, json};
use view::{Node, ObjectKey};

use super::super::oom::killed;
use super::super::world::World;
use super::budget;
use super::pair::Pair;

const NOON: &str = "2026-01-01T12:00:00Z";

/// Passes in half a second, in a second, and so on, until more than twelve hours are over.
fn pauses() -> impl Iterator<Item = Duration> {
    let [half, second, minute] = [
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_mins(1),
    ];
    let often = std::iter::repeat_n(half, 10).chain(std::iter::repeat_n(second, 40));
    often
        .chain(std::iter::repeat_n(second * 7, 60))
        .chain(std::iter::repeat_n(minute * 9, 90))
}

/// A Deployment of three pods, which have the size that is recommended.
fn deployment(policy: &Value) -> World {
    let mut world = World::new();
    (world.settings.in_place, world.settings.startup_boost) = (true, true);
    world.workload("web", 3, policy);
    for name in ["web-0", "web-1", "web-2"] {
        world.pod("web", name, &json!({"cpu": "1"}));
    }
    world
}

/// Checks that nothing but time changes what is decided, once it was decided about `world` and
/// `change` came after that.
fn check(world: World, change: impl FnOnce(&mut Pair)) {
    let mut pair = Pair::new(world);
    pair.pass();
    change(&mut pair);
    let first = pair.pass();
    let mut changes = 0;
    for pause in pauses() {
        pair.wait(pause);
        changes += u32::from(pair.pass() != first);
    }
    assert!(changes > 0, "{first:#?}");
}

/// Asks for the first that is to be done.
fn begin(pair: &mut Pair) -> Arc<Action> {
    let action = Arc::clone(pair.plan.actions.first().expect("something is to be done"));
    pair.begin(&action);
    action
}

fn end(pair: &mut Pair, outcome: &ActionOutcome) {
    let action = begin(pair);
    pair.end(&action, outcome);
}

fn in_place() -> Value {
    json!({"updateMode": "InPlaceOrRecreate"})
}

fn resizing(pod: &mut Value) {
    let condition = json!({"type": "PodResizePending", "status": "True", "reason": "Deferred", "lastTransitionTime": NOON});
    pod["status"]["conditions"]
        .as_array_mut()
        .expect("a list")
        .push(condition);
}

#[test]
fn the_age_of_pods_within_the_bounds() {
    let mut world = deployment(&json!({}));
    world.pod("web", "web-0", &json!({"cpu": "900m"}));
    check(world, |_| ());
}

#[test]
fn the_age_of_oom_kills() {
    let mut world = deployment(&json!({}));
    world.pod_with("web", "web-0", &json!({"cpu": "990m"}), killed);
    world.bound("web", "500m");
    check(world, |_| ());
}

#[test]
fn what_a_pod_got_back() {
    let mut world = deployment(&in_place());
    world.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
        pod["metadata"]["annotations"] = json!({REVERTED_AT: NOON});
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": "1", "memory": "300Mi"}});
    });
    check(world, |_| ());
}

fn boosted(ready_at: &str) -> World {
    let mut world = deployment(&in_place());
    world.boost("web", 60);
    world.pod_with("web", "web-0", &json!({"cpu": "3"}), |pod| {
        pod["metadata"]["annotations"] =
            json!({"vpaCpuStartupBoost/app": "{\"requests\":{\"cpu\":\"1\"}}"});
        pod["status"]["conditions"][0]["lastTransitionTime"] = json!(ready_at);
    });
    world
}

#[test]
fn a_startup_boost() {
    check(boosted(NOON), |_| ());
}

#[test]
fn the_rest_after_a_refused_resize() {
    check(boosted("2026-01-01T11:00:00Z"), |pair| {
        end(pair, &ActionOutcome::Rejected);
    });
}

#[test]
fn a_deferred_resize() {
    for mode in ["InPlaceOrRecreate", "Recreate"] {
        let mut world = deployment(&json!({"updateMode": mode}));
        world.pod_with("web", "web-0", &json!({"cpu": "100m"}), resizing);
        check(world, |_| ());
    }
}

fn small_pods() -> World {
    let mut world = World::new();
    world.deployment("web", 3, &json!({}));
    world
}

#[test]
fn pauses_after_refusals_and_unknown_outcomes() {
    for outcome in [
        ActionOutcome::TooManyRequests { retry_after: None },
        ActionOutcome::Unknown,
        ActionOutcome::Rejected,
    ] {
        check(small_pods(), |pair| end(pair, &outcome));
    }
}

#[test]
fn pauses_of_evictions_in_vain() {
    check(small_pods(), |pair| {
        end(pair, &ActionOutcome::Accepted { generation: None });
        pair.world.delete("web-0");
        pair.wait(Duration::from_millis(1));
        pair.pass();
        pair.world.pod("web", "web-3", &json!({}));
        for name in ["web-1", "web-2"] {
            pair.world.pod("web", name, &json!({"cpu": "1"}));
        }
    });
}

#[test]
fn settling() {
    check(small_pods(), |pair| {
        pair.world.vpa("web", &json!({"minReplicas": 1}));
    });
}

#[test]
fn maintenance_windows() {
    let mut world = small_pods();
    world.annotate("web", MAINTENANCE_WINDOW, "5 12 * * *; for=1h");
    check(world, |_| ());
}

#[test]
fn evictions_that_only_the_status_of_a_budget_shows() {
    let mut world = small_pods();
    world.settings.eviction_tolerance = 1.0;
    let disrupted = ["web-0".to_owned()];
    world.view.disruption_budgets.apply(Arc::new(budget(
        "web",
        "app=web",
        1,
        &disrupted,
        world.now.wall,
    )));
    check(world, |_| ());
}

#[test]
fn pods_that_went_while_a_group_shrank() {
    check(small_pods(), |pair| {
        pair.world.scale("web", 1);
        pair.world.delete("web-0");
    });
    check(small_pods(), |pair| {
        pair.world.scale("web", 2);
        pair.world.delete("web-0");
    });
}

#[test]
fn pods_that_go_after_nothing_has_changed_for_long() {
    let mut pair = Pair::new(small_pods());
    for _ in 0..10 {
        pair.pass();
        pair.wait(Duration::from_mins(1));
    }
    pair.world.scale("web", 1);
    pair.world.delete("web-0");
    pair.pass();
    assert!(
        pair.plan.actions.is_empty(),
        "one of three is missing: {:?}",
        pair.plan
    );
}

#[test]
fn a_group_that_has_too_many_pods_for_long() {
    let mut pair = Pair::new(small_pods());
    pair.world.scale("web", 2);
    for _ in 0..10 {
        pair.pass();
        pair.wait(Duration::from_mins(1));
    }
    pair.world.delete("web-0");
    pair.pass();
    pair.world.scale("web", 3);
    pair.pass();
}

#[test]
fn a_group_that_was_gone_and_comes_back_is_new() {
    let mut pair = Pair::new(small_pods());
    pair.pass();
    pair.world.scale("web", 2);
    pair.world.delete("web-0");
    pair.pass();
    for name in ["web-1", "web-2"] {
        pair.world.delete(name);
    }
    pair.pass();
    for name in ["web-3", "web-4"] {
        pair.world.pod("web", name, &json!({}));
    }
    pair.pass();
    assert_eq!(pair.plan.actions.len(), 1);
}

#[test]
fn a_size_that_is_too_large_for_nodes_of_a_shape() {
    let mut world = deployment(&json!({"updateMode": "InPlace"}));
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}});
    let node: v1::Node = serde_json::from_value(node).expect("a node");
    world.view.nodes.apply(Arc::new(Node::trim(node)));
    world.pod("web", "web-1", &json!({"cpu": "100m"}));
    world.pod_with("web", "web-0", &json!({"cpu": "1"}), |pod| {
        pod["status"]["containerStatuses"] = json!([{
            "name": "app", "ready": true, "restartCount": 0, "image": "", "imageID": "",
            "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}},
        }]);
        resizing(pod);
        pod["status"]["conditions"][1]["reason"] = json!("Infeasible");
    });
    assert!(
        world
            .view
            .pods
            .get(&ObjectKey::new("shop", "web-0"))
            .is_some()
    );
    let mut pair = Pair::new(world);
    let first = pair.pass();
    assert_ne!(
        pair.pass(),
        first,
        "the second pass knows what the first one found"
    );
}
