//! Garbage collection.

use jiff::SignedDuration;
use vertical::{AutoscalerSpec, ClusterState, Phase, PodSpec};

use crate::fixture::{cluster, id, minutes, pod, selecting, start, target, web};

#[test]
fn history_outlives_its_pods_until_it_is_too_old_and_then_leaves_nothing_behind() {
    let mut cluster = web();
    cluster.delete_pod("shop", "web-1");
    let days = |days: i64| start() + SignedDuration::from_hours(24 * days);
    assert_eq!(cluster.collect_garbage(days(7)), 0);
    assert_eq!(target(&cluster, "web").as_deref(), Some("126 262144000"));
    assert_eq!(cluster.collect_garbage(days(9)), 1);
    assert_eq!(target(&cluster, "web"), None);
    cluster.delete_autoscaler(&id("web"));
    assert_eq!(cluster.size(), vertical::ClusterStateSize::default());
}

#[test]
fn garbage_is_collected_at_most_once_an_hour() {
    let mut cluster = web();
    assert_eq!(cluster.collect_garbage(start() + minutes(1)), 0);
    cluster.apply_pod(pod("empty-1", &[("app", "empty")]), start());
    cluster.delete_pod("shop", "empty-1");
    assert_eq!(cluster.collect_garbage(start() + minutes(60)), 0);
    assert_eq!(cluster.collect_garbage(start() + minutes(61)), 1);
}

#[test]
fn a_clock_that_was_put_back_does_not_stop_the_collection() {
    for days in [1, 8, 200] {
        let mut cluster = web();
        assert_eq!(
            cluster.collect_unused(start() + SignedDuration::from_hours(24 * days)),
            0
        );
        cluster.apply_pod(pod("empty-1", &[("app", "empty")]), start());
        cluster.delete_pod("shop", "empty-1");
        assert_eq!(cluster.collect_unused(start() + minutes(60)), 1, "{days}");
    }
}

#[test]
fn history_of_any_age_stays_where_only_what_is_unused_goes() {
    let mut cluster = web();
    cluster.delete_pod("shop", "web-1");
    assert_eq!(
        cluster.collect_unused(start() + SignedDuration::from_hours(24 * 200)),
        0
    );
    assert_eq!(target(&cluster, "web").as_deref(), Some("126 262144000"));
}

#[test]
fn an_empty_history_stays_while_a_pod_runs_or_its_target_exists() {
    let collect = |phase: Phase, spec: Option<AutoscalerSpec>| {
        let mut cluster = cluster();
        if let Some(spec) = spec {
            cluster.apply_autoscaler(&id("web"), spec);
        }
        cluster.apply_pod(
            PodSpec {
                phase,
                ..pod("web-1", &[("app", "web")])
            },
            start(),
        );
        cluster.collect_garbage(start() + minutes(1))
    };
    let orphaned = AutoscalerSpec {
        target_exists: false,
        ..selecting(&[("app", "web")])
    };
    assert_eq!(collect(Phase::Running, None), 0);
    assert_eq!(collect(Phase::Succeeded, None), 1);
    assert_eq!(collect(Phase::Failed, Some(orphaned)), 1);
    assert_eq!(
        collect(Phase::Failed, Some(selecting(&[("app", "web")]))),
        0
    );
}

#[test]
fn a_container_is_abandoned_when_it_is_old_and_running_pods_do_without_it() {
    let last_heard = start() + minutes(59);
    let soon = last_heard + SignedDuration::from_hours(8 * 24) - SignedDuration::from_secs(1);
    let late = last_heard + SignedDuration::from_hours(8 * 24);
    let mut cluster = web();
    assert!(
        !cluster.is_abandoned(&id("web"), "app", None, late),
        "its pod has it"
    );
    assert!(cluster.is_abandoned(&id("web"), "old", Some(last_heard), late));
    assert!(
        cluster.is_abandoned(&id("web"), "old", None, late),
        "it was never measured"
    );
    assert!(
        !cluster.is_abandoned(&id("web"), "old", Some(last_heard), soon),
        "it may come back"
    );
    assert!(
        !cluster.is_abandoned(&id("other"), "old", Some(last_heard), late),
        "there is no such autoscaler"
    );
    cluster.apply_pod(
        PodSpec {
            containers: vec!["new".to_owned()],
            ..pod("web-1", &[("app", "web")])
        },
        late,
    );
    assert!(
        !cluster.is_abandoned(&id("web"), "app", None, soon),
        "its live history is young"
    );
    assert!(cluster.is_abandoned(&id("web"), "app", None, late));
    cluster.apply_pod(
        PodSpec {
            phase: Phase::Succeeded,
            ..pod("web-1", &[("app", "web")])
        },
        late,
    );
    assert!(
        !cluster.is_abandoned(&id("web"), "old", Some(last_heard), late),
        "no pod runs to show that it is gone"
    );
}

#[test]
fn a_forgotten_container_takes_no_share_of_the_minimum() {
    let mut cluster = web();
    let late = start() + SignedDuration::from_hours(8 * 24 + 1);
    let stored = cluster
        .checkpoints(&id("web"), late)
        .unwrap()
        .remove("app")
        .unwrap();
    cluster
        .load_checkpoint(&id("web"), "old", &stored, late)
        .unwrap();
    cluster.apply_pod(
        PodSpec {
            containers: vec!["new".to_owned()],
            ..pod("web-1", &[("app", "web")])
        },
        late,
    );
    let names = |cluster: &ClusterState| {
        cluster
            .histories(&id("web"))
            .unwrap()
            .into_keys()
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&cluster), ["app", "new", "old"]);
    for (container, left) in [
        ("old", vec!["app", "new"]),
        ("app", vec!["new"]),
        ("new", vec!["new"]),
    ] {
        cluster.forget_container(&id("web"), container, late);
        assert_eq!(names(&cluster), left);
    }
}
