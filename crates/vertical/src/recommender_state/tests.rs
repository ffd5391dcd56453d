//! Small clusters: what is decided about their objects as pods, usage and targets come and go.

mod annotations;
mod backfill;
mod checkpoints;
mod churn;
mod clock;
mod crowd;
mod fixture;
mod node_groups;
mod oom_kills;
mod quality;
mod schedulable;
mod sidecars;
mod sizing_history;
mod targets;
mod whole_pods;

use model::ContainerUsage;
use serde_json::json;
use view::ObjectKey;

use crate::recommender_state::{Ingested, OomKillCounts};
use fixture::{Cluster, at, check, pod, vpa};

#[test]
fn usage_becomes_a_recommendation() {
    let mut cluster = Cluster::web(&["web-1", "web-2", "web-3"]);
    for pod in ["web-1", "web-2", "web-3"] {
        assert_eq!(cluster.measure(pod, "main", 1).accepted, 1);
    }
    check(&mut cluster, 2, &[("web", Some("296m"))]);
}

#[test]
fn the_minimum_waits_for_usage_for_one_interval() {
    let mut cluster = Cluster::web(&["web-1"]);
    check(&mut cluster, 59, &[("web", None)]);
    check(&mut cluster, 60, &[("web", Some("25m"))]);
    cluster.measure("web-1", "main", 61);
    check(&mut cluster, 62, &[("web", Some("296m"))]);
}

#[test]
fn no_recommendation_is_written_before_there_is_one() {
    let mut cluster = Cluster::web(&["web-1"]);
    assert_eq!(cluster.decide_status(2).recommendation, None);
    cluster.measure("web-1", "main", 3);
    assert!(cluster.decide_status(4).recommendation.is_some());
}

#[test]
fn ready_pods_without_usage_are_known_after_a_while() {
    let mut cluster = Cluster::web(&["web-1"]);
    for (name, started_at, ready_after_seconds) in [
        ("new", 250, Some(1)),
        ("old", 0, Some(1)),
        ("measured", 0, Some(1)),
        ("unready", 0, None),
    ] {
        let mut pod = pod(name, "web");
        (pod.started_at, pod.ready_after_seconds) = (Some(at(started_at)), ready_after_seconds);
        cluster.add_pod(pod);
    }
    cluster.load(300);
    let usage = |pod: &str| fixture::usage(pod, 240, 250, fixture::MI);
    let judge = |usage: &[ContainerUsage], is_complete| {
        cluster.state.judge_usage(usage, is_complete, at(300))
    };
    let key = |name: &str| ObjectKey::new("shop", name);
    let found = judge(&[usage("measured")], false);
    assert_eq!(
        (found.unmeasured, found.is_answer),
        (vec![key("old")], true)
    );
    let found = judge(&[], true);
    let unmeasured = vec![key("measured"), key("old")];
    assert_eq!((found.unmeasured, found.is_answer), (unmeasured, false));
    let none = Cluster::web(&[]);
    let is_answer = |is_complete| none.state.judge_usage(&[], is_complete, at(300)).is_answer;
    assert_eq!([true, false].map(is_answer), [true, false]);
}

/// The state of `SourceStale` after each round, in a process that finds it set, or not, and has
/// seen these rounds.
fn stale_after(found: bool, rounds: &[bool]) -> Vec<bool> {
    let mut cluster = Cluster::web(&["web-1"]);
    let mut object = vpa("web", "web", "u1");
    let stale = json!({"conditions": [{"type": "SourceStale", "status": "True", "reason": "MetricsUnavailable"}]});
    object.object.status = found.then(|| serde_json::from_value(stale).expect("a status"));
    cluster.apply(object);
    cluster.load(0);
    let is_stale = |cluster: &mut Cluster| {
        let status = cluster.decide_status(1);
        cluster.load(1);
        status
            .conditions
            .iter()
            .any(|condition| condition.kind == "SourceStale")
    };
    let mut seen = vec![is_stale(&mut cluster)];
    for answered in rounds {
        cluster.state.source_read(*answered);
        seen.push(is_stale(&mut cluster));
    }
    seen
}

#[test]
fn a_new_process_keeps_what_is_said_of_the_source_until_it_knows() {
    assert_eq!(
        stale_after(true, &[false, false, true]),
        [true, true, true, false]
    );
    assert_eq!(stale_after(true, &[false; 5]), [true; 6]);
    let at_last = [false, false, false, false, false, true];
    assert_eq!(stale_after(false, &[false; 5]), at_last);
    assert_eq!(stale_after(false, &[true, false]), [false; 3]);
}

#[test]
fn a_decision_that_was_written_is_no_change_any_more() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    let is_new = |cluster: &mut Cluster, second| {
        let decision = cluster.decide(second).remove(0);
        (decision.is_change(), decision.is_first_recommendation())
    };
    assert_eq!(is_new(&mut cluster, 2), (true, true));
    cluster.load(3);
    assert_eq!(is_new(&mut cluster, 4), (false, false));
}

#[test]
fn a_recommendation_outlives_the_pods() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    cluster.delete_pod("web-1");
    cluster.load(2);
    check(&mut cluster, 3, &[("web", Some("296m"))]);
    assert_eq!(cluster.decide(4)[0].pods, 0);
}

#[test]
fn a_restart_keeps_what_was_recommended_until_usage_arrives() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let mut after = before.new_process();
    after.load(10);
    check(&mut after, 11, &[("web", Some("296m"))]);
    check(&mut after, 1000, &[("web", Some("296m"))]);
}

#[test]
fn samples_that_cannot_be_used_say_why() {
    let mut cluster = Cluster::web(&["web-1"]);
    let count = |accepted, repeated, unknown| Ingested {
        accepted,
        repeated,
        unknown,
        future: 0,
    };
    assert_eq!(cluster.measure("web-1", "main", 10), count(1, 0, 0));
    assert_eq!(cluster.measure("web-1", "main", 5), count(0, 1, 0));
    // Init containers are passed over.
    assert_eq!(cluster.measure("web-1", "setup", 10), count(0, 1, 0));
    assert_eq!(cluster.measure("web-1", "other", 10), count(0, 0, 1));
    assert_eq!(cluster.measure("gone", "main", 10), count(0, 0, 1));
}

#[test]
fn a_kill_counts_until_its_pod_is_forgotten() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.delete_pod("web-1");
    cluster.state.load_pods(&cluster.view, at(1));
    let count = |accepted, refused| OomKillCounts {
        accepted,
        refused,
        ..OomKillCounts::default()
    };
    assert_eq!(cluster.kill("web-1", 2), count(1, 0));
    cluster.state.delete_removed_pods();
    assert_eq!(cluster.kill("web-1", 3), count(0, 1));
}

#[test]
fn empty_optional_fields_are_accepted() {
    let spec = json!({
        "updatePolicy": {}, "startupBoost": {},
        "resourcePolicy": {"containerPolicies": [{"containerName": "main", "minAllowed": {}, "startupBoost": {}}]},
    });
    let mut cluster = Cluster::web(&["web-1"]);
    let object = json!({"spec": spec, "status": {"recommendation": {}}});
    let web = crate::fixture::vpa("web", &object);
    cluster.apply(web);
    cluster.load(0);
    cluster.measure("web-1", "main", 1);
    check(&mut cluster, 2, &[("web", Some("296m"))]);
}

#[test]
fn memory_saver_keeps_nothing_of_pods_that_no_object_selects() {
    for (memory_saver, expected) in [(true, 1), (false, 2)] {
        let mut cluster = Cluster::new("default", memory_saver);
        cluster.deploy("web");
        cluster.apply(vpa("web", "web", "u1"));
        cluster.add_pod(pod("web-1", "web"));
        cluster.add_pod(pod("other-1", "other"));
        cluster.load(0);
        for pod in ["web-1", "other-1"] {
            cluster.measure(pod, "main", 1);
        }
        assert_eq!(
            cluster.state.history_count(),
            expected,
            "memory saver {memory_saver}"
        );
    }
}
