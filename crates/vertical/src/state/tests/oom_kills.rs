//! OOM kills: each counts once, however it is seen and whenever the pod is taken
//! over.

use std::sync::Arc;

use model::{Cpu, Memory};
use serde_json::json;
use sizing::Config;
use view::{ContainerState, ContainerStatus, ObjectKey, OomKill, Pod, Resources, Termination};

use super::fixture::{Cluster, MI, at, autoscaler, pod};
use crate::state::{OomKillCounts, RecommenderState};

const DAY: i64 = 24 * 3600;

/// A pod whose container was killed at this second and runs again.
fn killed_pod(name: &str, second: i64) -> Arc<Pod> {
    let end = Termination {
        reason: "OOMKilled".to_owned(),
        started_at: None,
        finished_at: Some(at(second)),
    };
    let status = ContainerStatus {
        restart_count: 1,
        state: ContainerState::Running,
        last_termination: Some(end),
    };
    let mut pod = pod(name, "web");
    pod.containers[0].status = Some(status);
    pod.containers[0].requests = Resources {
        cpu: None,
        memory: Some(Memory::from_bytes(1024 * MI)),
    };
    Arc::new(pod)
}

/// The kill in that pod as the watch tells it.
fn told(pod: &Arc<Pod>, second: i64) -> OomKill {
    OomKill {
        pod: pod.key.clone(),
        container: "main".to_owned(),
        at: at(second),
        memory: Memory::from_bytes(1024 * MI),
        seen_in: Some(Arc::clone(pod)),
    }
}

fn accepted(count: u64) -> OomKillCounts {
    OomKillCounts {
        accepted: count,
        ..OomKillCounts::default()
    }
}

impl Cluster {
    fn tell(&mut self, kill: &OomKill, second: i64) -> OomKillCounts {
        let mut count = OomKillCounts::default();
        self.state
            .add_oom_kill(kill, &self.view, at(second), &mut count);
        count
    }

    fn target(&mut self, second: i64) -> model::ResourceList {
        let status = self.decide(second).remove(0).status;
        status
            .recommendation
            .expect("a recommendation")
            .container_recommendations
            .remove(0)
            .target
    }
}

#[test]
fn a_kill_before_the_start_is_found_in_the_pod_and_counts_once() {
    let mut cluster = Cluster::web(&[]);
    let pod = killed_pod("web-1", 10);
    cluster.view.pods.apply(Arc::clone(&pod));
    assert_eq!(cluster.state.load_pods(&cluster.view, at(20)), accepted(1));
    assert_eq!(cluster.state.load_pods(&cluster.view, at(21)), accepted(0));
    assert_eq!(
        cluster.tell(&told(&pod, 10), 22),
        accepted(0),
        "it was found before it was told"
    );
    assert_eq!(
        cluster.tell(&told(&pod, 23), 24),
        accepted(1),
        "this is another one"
    );
    assert!(
        cluster
            .target(25)
            .memory()
            .is_some_and(|memory| memory.bytes() > 1124 * MI)
    );
}

#[test]
fn a_kill_does_not_wait_until_its_pod_is_taken_over() {
    let mut cluster = Cluster::web(&[]);
    let (seen, unseen) = (killed_pod("web-1", 10), killed_pod("web-2", 11));
    cluster.view.pods.apply(Arc::clone(&seen));
    assert_eq!(cluster.tell(&told(&seen, 10), 12), accepted(1));
    assert_eq!(
        cluster.tell(&told(&unseen, 11), 12),
        accepted(1),
        "it came and went meanwhile"
    );
    let concerned: Vec<_> = cluster.state.autoscalers_of(&unseen.key).collect();
    assert_eq!(concerned, [ObjectKey::new("shop", "web")]);
    assert_eq!(cluster.state.decide_objects(&concerned, at(13)).len(), 1);
    assert_eq!(cluster.state.load_pods(&cluster.view, at(14)), accepted(0));
    cluster.state.delete_removed_pods();
    assert_eq!(cluster.state.autoscalers_of(&unseen.key).count(), 0);
}

#[test]
fn with_memory_saver_a_kill_in_a_pod_that_no_vpa_sizes_is_passed_over() {
    let mut cluster = Cluster::new("default", true);
    let pod = killed_pod("web-1", 10);
    cluster.view.pods.apply(Arc::clone(&pod));
    assert_eq!(
        cluster.tell(&told(&pod, 10), 12),
        OomKillCounts {
            refused: 1,
            ..OomKillCounts::default()
        }
    );
}

#[test]
fn a_pod_of_the_same_name_that_was_made_again_is_looked_at_anew() {
    let mut cluster = Cluster::web(&["web-1"]);
    let mut again = (*killed_pod("web-1", 10)).clone();
    again.uid = "made again".to_owned();
    cluster.view.pods.apply(Arc::new(again));
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
    let mut after = Cluster {
        view: before.view,
        ..Cluster::new("default", false)
    };
    after.view.pods.apply(killed_pod("web-1", 0));
    after.state.load_autoscalers(&after.view);
    after.load_stored(started);
    assert_eq!(
        after.state.load_pods(&after.view, at(started)),
        expected,
        "stored {stored:?}, started {started}"
    );
}

#[test]
fn a_kill_that_stored_history_must_hold_is_passed_over() {
    let stored = OomKillCounts {
        stored: 1,
        ..OomKillCounts::default()
    };
    let refused = OomKillCounts {
        refused: 1,
        ..OomKillCounts::default()
    };
    check_stored(None, 10, accepted(1));
    check_stored(None, 8 * DAY - 1, accepted(1));
    check_stored(None, 8 * DAY, refused);
    check_stored(Some(10), 20, accepted(1));
    check_stored(Some(DAY - 1), 2 * DAY, accepted(1));
    check_stored(Some(DAY), 2 * DAY, stored);
}

#[test]
fn a_kill_before_any_usage_keeps_what_was_recommended_of_cpu() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let mut after = Cluster {
        view: before.view,
        ..Cluster::new("default", false)
    };
    after.view.pods.apply(killed_pod("web-1", 3));
    after.load(10);
    let target = after.target(11);
    assert_eq!(target.cpu(), Some(Cpu::from_millicores(296)));
    assert!(
        target
            .memory()
            .is_some_and(|memory| memory.bytes() > 1124 * MI),
        "{target:?}"
    );
}

/// Kills a container of 1Gi under a policy and gives the memory target.
fn target_under(cluster: &mut Cluster, policy: &serde_json::Value, second: i64) -> i64 {
    let mut web = autoscaler("web", "web", "u1", None);
    let policies = json!({"containerPolicies": [policy]});
    web.object.spec.resource_policy = Some(serde_json::from_value(policies).expect("a policy"));
    cluster.view.autoscalers.apply(Arc::new(web));
    cluster.load(second);
    cluster.kill("web-1", second);
    cluster.target(second).memory().expect("a target").bytes()
}

#[test]
fn settings_of_an_object_for_kills_go_with_the_field() {
    let config = Config {
        per_autoscaler_rules: true,
        ..Config::default()
    };
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.state = RecommenderState::new(cluster.state.config.clone(), config).expect("valid");
    let plain = json!({"containerName": "main"});
    let usual = target_under(&mut cluster, &plain, 0);
    for (day, field, value) in [(1, "oomBumpUpRatio", "4"), (3, "oomMinBumpUp", "3Gi")] {
        let fourfold = target_under(
            &mut cluster,
            &json!({"containerName": "main", field: value}),
            day * DAY,
        );
        assert!(fourfold > 3 * usual, "{field}: {fourfold} and {usual}");
    }
    // Long after, when what was bumped so far has no weight.
    assert_eq!(target_under(&mut cluster, &plain, 60 * DAY), usual);
}
