//! Pods whose containers were killed soon after their start.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::Memory;
use super::super::act::{SkipReason, Why};
use super::world::World;
use super::{ACCEPTED, carry_out, evicted};

pub(super) fn killed(pod: &mut Value) {
    pod["status"]["containerStatuses"] = json!([{
        "name": "app", "ready": true, "restartCount": 1, "image": "", "imageID": "",
        "lastState": {"terminated": {
            "exitCode": 137, "reason": "OOMKilled",
            "startedAt": "2026-01-01T11:59:30Z", "finishedAt": "2026-01-01T11:59:59Z",
        }},
    }]);
}

#[test]
fn killed_pods_that_come_back_as_they_were_are_left_alone_for_longer_and_longer() {
    let mut world = World::new();
    world.workload("web", 1, &json!({"minReplicas": 1}));
    world.pod_with("web", "web", &json!({}), killed);
    let mut memory = Memory::default();
    world.decide(&mut memory);
    world.now.steady += Duration::from_secs(1);
    for waits_seconds in [1, 2, 4, 8, 16] {
        let plan = world.decide(&mut memory);
        let [gone] = evicted(&plan)[..] else { panic!("one eviction: {plan:?}") };
        let next = format!("{gone}x");
        assert_eq!(plan.acts[0].why, Why::QuickOom);
        carry_out(&world, &mut memory, &plan, &ACCEPTED);
        world.delete(gone);
        world.now.steady += Duration::from_millis(1);
        world.pod_with("web", &next, &json!({}), killed);
        // Its kill is seen by others meanwhile.
        world.decide(&mut memory);
        world.now.steady += Duration::from_millis(waits_seconds * 1000 - 2);
        let plan = world.decide(&mut memory);
        assert_eq!((evicted(&plan).len(), World::reasons(&plan)), (0, vec![SkipReason::InVain]), "{next}");
        world.now.steady += Duration::from_millis(1);
    }
}
