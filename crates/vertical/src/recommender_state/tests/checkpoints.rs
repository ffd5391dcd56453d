//! Stored history: what is stored, what is taken over from it, and when it is forgotten.

use std::sync::Arc;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use view::ObjectKey;

use super::fixture::{Cluster, MI, at, stored, usage, vpa, web_key};
use crate::recommender_state::LoadedCheckpoints;

#[test]
fn a_restart_goes_on_from_what_was_stored() {
    let mut before = Cluster::web(&["web-1"]);
    for second in 1..=60 {
        before.measure("web-1", "main", second);
    }
    before.delete_pod("web-1");
    before.load(61);
    before.store(61);
    let recommended = before.decide_status(62);
    let mut after = before.restarted(63);
    assert_eq!(after.decide_status(64), recommended);
    assert_eq!(after.samples(64), 60);
    assert_eq!(
        after.load_stored(65),
        LoadedCheckpoints::default(),
        "nothing is loaded twice"
    );
    assert_eq!(after.samples(65), 60);
}

#[test]
fn a_restart_keeps_the_peak_of_the_open_memory_window() {
    let memory = |cluster: &mut Cluster, second| {
        let status = cluster.decide_status(second).recommendation;
        let containers = status.expect("a recommendation").containers;
        let target = containers[0].target.get(&model::ResourceName::Memory);
        target.expect("memory").value()
    };
    let mut process = Cluster::web(&["web-1"]);
    process.add_usage(&usage("web-1", 60, 250, 900 * MI), 60);
    process.add_usage(&usage("web-1", 7200, 250, 300 * MI), 7200);
    let by_day = memory(&mut process, 7201);
    // Restarts of all replicas within the window: each process measures the lower usage of the
    // night.
    for second in [7300, 14_500, 21_700] {
        process.store(second - 40);
        process = process.restarted(second);
        process.add_usage(&usage("web-1", second + 20, 250, 300 * MI), second + 20);
        let by_night = memory(&mut process, second + 21);
        assert!(
            by_night >= by_day,
            "{by_night} after a restart, {by_day} before"
        );
    }
}

#[test]
fn a_stand_by_does_not_add_what_the_leader_stores_of_the_same_samples() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let mut stand_by = before.restarted(3);
    stand_by.measure("web-1", "main", 10);
    stand_by.store(11);
    assert_eq!(stand_by.load_stored(12), LoadedCheckpoints::default());
    assert_eq!(stand_by.samples(12), 2);
}

#[test]
fn an_object_that_comes_later_gets_its_stored_history() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    before.view.vpas.delete(&web_key());
    let mut after = before.restarted(3);
    after.measure("web-1", "main", 10);
    after.make_web_again("u2", 11);
    assert_eq!(
        after.samples(12),
        2,
        "what was stored, and what was measured since"
    );
}

#[test]
fn an_object_that_is_made_again_neither_loses_history_nor_counts_it_twice() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let mut after = before.restarted(3);
    after.measure("web-1", "main", 10);
    after.store(11);
    after.delete_web(12);
    after.make_web_again("u2", 13);
    assert_eq!(after.samples(14), 2);
}

#[test]
fn a_checkpoint_that_cannot_be_used_is_reported_once_and_the_others_are_loaded() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let odd = VerticalPodAutoscalerCheckpointStatus {
        version: "v4".to_owned(),
        last_sample_start: Some(Time(at(1))),
        ..Default::default()
    };
    before
        .view
        .checkpoints
        .apply(Arc::new(stored("web", "a", odd)));
    let mut after = before.new_process();
    after.load(3);
    let loaded = after.load_stored(4);
    assert_eq!((loaded.accepted, loaded.refused.len()), (1, 1));
    assert_eq!(
        loaded.refused[0].1,
        sizing::CheckpointError::Version("v4".to_owned())
    );
    assert_eq!(after.load_stored(5), LoadedCheckpoints::default());
}

#[test]
fn nothing_is_stored_while_pods_are_not_known_or_another_loads_history() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    assert_eq!(cluster.state.checkpointed(at(1)), Some(vec![web_key()]));
    let fetching = json!([{"type": "FetchingHistory", "status": "True"}]);
    let mut object = vpa("web", "web", "u1");
    let status = json!({"conditions": fetching});
    object.object.status = serde_json::from_value(status).expect("a status");
    for object in [object, vpa("web", "gone", "u1")] {
        cluster.apply(object);
        cluster.load(2);
        assert_eq!(cluster.state.checkpointed(at(2)), Some(Vec::new()));
        assert_eq!(cluster.samples(3), 0);
    }
}

#[test]
fn an_abandoned_container_is_forgotten_with_its_checkpoint_and_not_stored_again() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    let old = before
        .state
        .checkpoints(&web_key(), at(2))
        .remove("main")
        .expect("stored");
    before
        .view
        .checkpoints
        .apply(Arc::new(stored("web", "old", old)));
    let nine_days = 9 * 86_400;
    let mut after = before.restarted(nine_days);
    after.measure("web-1", "main", nine_days + 1);
    let names = |cluster: &Cluster, second| -> Vec<String> {
        let status = cluster.state.decide(at(second)).remove(0).status;
        let found = status.recommendation.expect("one").containers;
        found
            .into_iter()
            .map(|container| container.container_name)
            .collect()
    };
    assert_eq!(names(&after, nine_days + 2), ["main", "old"]);
    after.store(nine_days + 3);
    let old = ObjectKey::new("shop", "web-old");
    let object = after.view.checkpoints.get(&old).expect("still there");
    let last = object
        .status
        .as_ref()
        .and_then(|status| status.last_sample_start.clone());
    assert_eq!(last.map(|time| time.0), Some(at(1)), "it was not written");
    after.view.checkpoints.delete(&old);
    after.load_stored(nine_days + 4);
    assert_eq!(names(&after, nine_days + 5), ["main"]);
}
