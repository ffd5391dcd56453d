//! Garbage collection.

use crate::{ClusterState, PodSpec, VpaSpec};
use jiff::SignedDuration;
use view::Phase;

use super::fixture::{
    WEB, checkpoint, cluster, days, id, minutes, pod, pod_of, selecting, start, target, web,
};

#[test]
fn history_outlives_its_pods_until_it_is_too_old_and_then_leaves_nothing_behind() {
    let mut cluster = web();
    cluster.delete_pod("shop", "web-1");
    assert_eq!(cluster.collect_garbage(start() + days(7), true), 0);
    assert_eq!(target(&cluster, "web").as_deref(), Some("126 262144000"));
    assert_eq!(cluster.collect_garbage(start() + days(9), true), 1);
    assert_eq!(target(&cluster, "web"), None);
    cluster.delete_vpa(&id("web"));
    assert_eq!(
        cluster.size(),
        super::inspection::ClusterStateSize::default()
    );
}

#[test]
fn garbage_is_collected_at_most_once_an_hour() {
    let mut cluster = web();
    assert_eq!(cluster.collect_garbage(start() + minutes(1), true), 0);
    cluster.apply_pod(pod("empty-1", &[("app", "empty")]), start());
    cluster.delete_pod("shop", "empty-1");
    assert_eq!(cluster.collect_garbage(start() + minutes(60), true), 0);
    assert_eq!(cluster.collect_garbage(start() + minutes(61), true), 1);
}

#[test]
fn a_clock_that_was_put_back_does_not_stop_the_collection() {
    for ahead in [1, 8, 200] {
        let mut cluster = web();
        assert_eq!(cluster.collect_garbage(start() + days(ahead), false), 0);
        cluster.apply_pod(pod("empty-1", &[("app", "empty")]), start());
        cluster.delete_pod("shop", "empty-1");
        assert_eq!(
            cluster.collect_garbage(start() + minutes(60), false),
            1,
            "{ahead}"
        );
    }
}

#[test]
fn history_of_any_age_stays_where_only_what_is_unused_goes() {
    let mut cluster = web();
    cluster.delete_pod("shop", "web-1");
    assert_eq!(cluster.collect_garbage(start() + days(200), false), 0);
    assert_eq!(target(&cluster, "web").as_deref(), Some("126 262144000"));
}

#[test]
fn an_empty_history_stays_while_a_pod_runs_or_its_target_exists() {
    let collect = |phase: Phase, spec: Option<VpaSpec>| {
        let mut cluster = cluster();
        if let Some(spec) = spec {
            cluster.apply_vpa(&id("web"), spec);
        }
        cluster.apply_pod(
            PodSpec {
                phase,
                ..pod("web-1", WEB)
            },
            start(),
        );
        cluster.collect_garbage(start() + minutes(1), true)
    };
    let orphaned = VpaSpec {
        target_exists: false,
        ..selecting(WEB)
    };
    assert_eq!(collect(Phase::Running, None), 0);
    assert_eq!(collect(Phase::Succeeded, None), 1);
    assert_eq!(collect(Phase::Failed, Some(orphaned)), 1);
    assert_eq!(collect(Phase::Failed, Some(selecting(WEB))), 0);
}

#[test]
fn a_container_is_abandoned_when_it_is_old_and_running_pods_do_without_it() {
    let last_heard = start() + minutes(59);
    let soon = last_heard + days(8) - SignedDuration::from_secs(1);
    let late = last_heard + days(8);
    let mut cluster = web();
    let check = |cluster: &ClusterState, cases: &[(&str, &str, _, _, bool, &str)]| {
        for (vpa, container, last, now, expected, why) in cases {
            let found = cluster.is_abandoned(&id(vpa), container, *last, *now);
            assert_eq!(found, *expected, "{container}: {why}");
        }
    };
    let heard = Some(last_heard);
    let cases = [
        ("web", "app", None, late, false, "its pod has it"),
        ("web", "old", heard, late, true, "it is old"),
        ("web", "old", None, late, true, "it was never measured"),
        ("web", "old", heard, soon, false, "it may come back"),
        ("other", "old", heard, late, false, "no such autoscaler"),
    ];
    check(&cluster, &cases);
    cluster.apply_pod(pod_of("web-1", WEB, &["new"]), late);
    let cases = [
        ("web", "app", None, soon, false, "its live history is young"),
        ("web", "app", None, late, true, "its live history is old"),
    ];
    check(&cluster, &cases);
    let succeeded = PodSpec {
        phase: Phase::Succeeded,
        ..pod("web-1", WEB)
    };
    cluster.apply_pod(succeeded, late);
    let why = "no pod runs to show that";
    check(&cluster, &[("web", "old", heard, late, false, why)]);
}

#[test]
fn a_forgotten_container_takes_no_share_of_the_minimum() {
    let mut cluster = web();
    let late = start() + days(8) + minutes(60);
    let stored = checkpoint(&cluster, late);
    cluster
        .load_checkpoint(&id("web"), "old", &stored, late, false)
        .unwrap();
    cluster.apply_pod(pod_of("web-1", WEB, &["new"]), late);
    let names = |cluster: &ClusterState| -> Vec<String> {
        cluster.histories(&id("web")).unwrap().into_keys().collect()
    };
    assert_eq!(names(&cluster), ["app", "new", "old"]);
    for (container, left) in [
        ("old", &["app", "new"][..]),
        ("app", &["new"]),
        ("new", &["new"]),
    ] {
        cluster.forget_container(&id("web"), container, late);
        assert_eq!(names(&cluster), left);
    }
}
