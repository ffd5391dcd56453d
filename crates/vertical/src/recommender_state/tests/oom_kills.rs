//! OOM kills: each counts once, however it is seen and whenever the pod is taken
//! over.

use std::sync::Arc;

use model::{Cpu, Memory};
use serde_json::json;
use sizing::Config;
use view::{OomKill, Pod, Resources};

use super::fixture::{Cluster, MI, at, kill, killed_status, pod, vpa, web_key};
use crate::recommender_state::{OomKillCounts, RecommenderState};

const DAY: i64 = 24 * 3600;

/// A pod whose container was killed at this second and runs again.
fn killed_pod(name: &str, second: i64) -> Arc<Pod> {
    let mut pod = pod(name, "web");
    pod.containers[0].status = Some(killed_status(second));
    let memory = Some(Memory::from_bytes(1024 * MI));
    pod.containers[0].requests = Resources { cpu: None, memory };
    Arc::new(pod)
}

/// The kill in that pod as the watch tells it.
fn told(pod: &Arc<Pod>, second: i64) -> OomKill {
    OomKill {
        seen_in: Some(Arc::clone(pod)),
        ..kill(&pod.key.name, second)
    }
}

fn accepted(count: u64) -> OomKillCounts {
    OomKillCounts {
        accepted: count,
        ..OomKillCounts::default()
    }
}

fn refused() -> OomKillCounts {
    OomKillCounts {
        refused: 1,
        ..OomKillCounts::default()
    }
}

/// Whether a target of memory holds the kill at 1 GiB.
fn is_bumped(target: &model::ResourceList) -> bool {
    target
        .memory()
        .is_some_and(|memory| memory.bytes() > 1124 * MI)
}

impl Cluster {
    fn target(&mut self, second: i64) -> model::ResourceList {
        let recommended = self
            .decide_status(second)
            .recommendation
            .expect("a recommendation");
        recommended.containers[0].target.clone()
    }
}

#[test]
fn a_kill_before_the_start_is_found_in_the_pod_and_counts_once() {
    let mut cluster = Cluster::web(&[]);
    let pod = killed_pod("web-1", 10);
    cluster.view.pods.apply(Arc::clone(&pod));
    assert_eq!(cluster.state.load_pods(&cluster.view, at(20)), accepted(1));
    assert_eq!(cluster.state.load_pods(&cluster.view, at(21)), accepted(0));
    // It was found before it was told.
    assert_eq!(cluster.tell(&told(&pod, 10), 22), accepted(0));
    // This is another one.
    assert_eq!(cluster.tell(&told(&pod, 23), 24), accepted(1));
    assert!(is_bumped(&cluster.target(25)));
}

#[test]
fn a_kill_does_not_wait_until_its_pod_is_taken_over() {
    let mut cluster = Cluster::web(&[]);
    let (seen, unseen) = (killed_pod("web-1", 10), killed_pod("web-2", 11));
    cluster.view.pods.apply(Arc::clone(&seen));
    assert_eq!(cluster.tell(&told(&seen, 10), 12), accepted(1));
    // It came and went meanwhile.
    assert_eq!(cluster.tell(&told(&unseen, 11), 12), accepted(1));
    let concerned: Vec<_> = cluster.state.vpas_of(&unseen.key).collect();
    assert_eq!(concerned, [web_key()]);
    assert_eq!(cluster.state.decide_objects(&concerned, at(13)).len(), 1);
    assert_eq!(cluster.state.load_pods(&cluster.view, at(14)), accepted(0));
    cluster.state.delete_removed_pods();
    assert_eq!(cluster.state.vpas_of(&unseen.key).count(), 0);
}

#[test]
fn with_memory_saver_a_kill_in_a_pod_that_no_vpa_sizes_is_passed_over() {
    let mut cluster = Cluster::new("default", true);
    let pod = killed_pod("web-1", 10);
    cluster.view.pods.apply(Arc::clone(&pod));
    assert_eq!(cluster.tell(&told(&pod, 10), 12), refused());
}

#[test]
fn a_pod_of_the_same_name_that_was_made_again_is_looked_at_anew() {
    let mut cluster = Cluster::web(&["web-1"]);
    let mut again = (*killed_pod("web-1", 10)).clone();
    again.uid = "made again".to_owned();
    cluster.add_pod(again);
    assert_eq!(cluster.state.load_pods(&cluster.view, at(20)), accepted(1));
}

/// A kill at second 0 when history was stored at `stored`, if it was, and the process started at
/// `started`.
fn check_stored(stored: Option<i64>, started: i64, expected: OomKillCounts) {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    if let Some(second) = stored {
        before.store(second);
    }
    let mut after = before.new_process();
    after.view.pods.apply(killed_pod("web-1", 0));
    after.state.load_vpas(&after.view);
    after.load_stored(started);
    let found = after.state.load_pods(&after.view, at(started));
    assert_eq!(found, expected, "stored {stored:?}, started {started}");
}

#[test]
fn a_kill_that_stored_history_must_hold_is_passed_over() {
    let stored = OomKillCounts {
        stored: 1,
        ..OomKillCounts::default()
    };
    check_stored(None, 10, accepted(1));
    check_stored(None, 8 * DAY - 1, accepted(1));
    check_stored(None, 8 * DAY, refused());
    check_stored(Some(10), 20, accepted(1));
    check_stored(Some(DAY - 1), 2 * DAY, accepted(1));
    check_stored(Some(DAY), 2 * DAY, stored);
}

#[test]
fn a_kill_before_any_usage_keeps_what_was_recommended_of_cpu() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let mut after = before.new_process();
    after.view.pods.apply(killed_pod("web-1", 3));
    after.load(10);
    let target = after.target(11);
    assert_eq!(target.cpu(), Some(Cpu::from_millicores(296)));
    assert!(is_bumped(&target), "{target:?}");
}

/// Kills a container of 1Gi under a policy and gives the memory target.
fn target_under(cluster: &mut Cluster, policy: &serde_json::Value, second: i64) -> i64 {
    let mut web = vpa("web", "web", "u1");
    let policies = json!({"containerPolicies": [policy]});
    web.object.spec.resource_policy = Some(serde_json::from_value(policies).expect("a policy"));
    cluster.apply(web);
    cluster.load(second);
    cluster.kill("web-1", second);
    cluster.target(second).memory().expect("a target").bytes()
}

#[test]
fn settings_of_an_object_for_kills_go_with_the_field() {
    let config = Config {
        per_vpa_rules: true,
        ..Config::default()
    };
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.state = RecommenderState::new(cluster.state.config.clone(), config).expect("valid");
    let plain = json!({"containerName": "main"});
    let usual = target_under(&mut cluster, &plain, 0);
    for (day, field, value) in [(1, "oomBumpUpRatio", "4"), (3, "oomMinBumpUp", "3Gi")] {
        let policy = json!({"containerName": "main", field: value});
        let fourfold = target_under(&mut cluster, &policy, day * DAY);
        assert!(fourfold > 3 * usual, "{field}: {fourfold} and {usual}");
    }
    // Long after, when what was bumped so far has no weight.
    assert_eq!(target_under(&mut cluster, &plain, 60 * DAY), usual);
}
