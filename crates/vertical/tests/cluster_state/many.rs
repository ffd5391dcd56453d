//! Limits on history of short-lived pods.

use jiff::{SignedDuration, Timestamp};
use vertical::{ClusterState, MAX_CONTAINERS, MAX_IDLE_HISTORIES, PodSpec};

use crate::fixture::{MIB, cluster, container, id, minutes, pod, sample, selecting, start, web};

fn second(second: i64) -> Timestamp {
    start() + minutes(60) + SignedDuration::from_secs(second)
}

/// A pod with one sample, deleted afterwards.
fn pass_by(
    cluster: &mut ClusterState,
    name: &str,
    labels: &[(&str, &str)],
    app: &str,
    at: Timestamp,
) {
    cluster.apply_pod(
        PodSpec {
            containers: vec![app.to_owned()],
            ..pod(name, labels)
        },
        at,
    );
    cluster
        .add_sample(&container(name, app), &sample(at, 100, 100 * MIB), at)
        .unwrap();
    cluster.delete_pod("shop", name);
}

#[test]
fn of_many_container_names_the_ones_measured_last_are_sized_and_stored() {
    let mut cluster = web();
    assert_eq!(cluster.kept_containers(&id("web")), None);
    for number in 0..1000 {
        let (at, name) = (second(number), format!("job-{number:04}"));
        pass_by(&mut cluster, &name, &[("app", "web")], &name, at);
    }
    cluster
        .add_sample(
            &container("web-1", "app"),
            &sample(second(1000), 100, 100 * MIB),
            second(1000),
        )
        .unwrap();
    let kept = cluster.kept_containers(&id("web")).unwrap();
    assert_eq!(kept.len(), MAX_CONTAINERS);
    assert!(
        kept.contains("app") && kept.contains("job-0999") && !kept.contains("job-0000"),
        "{kept:?}"
    );
    let recommended = cluster.recommend(&id("web")).unwrap().containers;
    let checkpoints = cluster.checkpoints(&id("web"), second(1001)).unwrap();
    let stored: Vec<_> = checkpoints.keys().map(String::as_str).collect();
    assert_eq!(kept.iter().copied().collect::<Vec<_>>(), stored);
    assert_eq!(
        recommended
            .iter()
            .map(|found| found.container_name.as_str())
            .collect::<Vec<_>>(),
        stored
    );
}

#[test]
fn histories_of_pods_that_are_gone_are_merged_where_there_are_too_many() {
    let mut cluster = cluster();
    cluster.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    let count = MAX_IDLE_HISTORIES as i64 + 2000;
    for number in 0..count {
        let run = number.to_string();
        pass_by(
            &mut cluster,
            &run,
            &[("app", "web"), ("run", &run)],
            "app",
            second(number),
        );
        pass_by(&mut cluster, &run, &[("run", &run)], "app", second(number));
        assert!(cluster.size().histories <= MAX_IDLE_HISTORIES + 1);
    }
    let known = cluster.histories(&id("web")).unwrap();
    assert_eq!(known["app"].samples(), count, "each sample counts once");
}

#[test]
fn stored_histories_of_one_object_are_bounded() {
    let mut cluster = web();
    let stored = cluster
        .checkpoints(&id("web"), second(0))
        .unwrap()
        .remove("app")
        .unwrap();
    for number in 0..1000 {
        cluster
            .load_checkpoint(&id("web"), &format!("old-{number}"), &stored, second(0))
            .unwrap();
    }
    assert!(cluster.histories(&id("web")).unwrap().len() <= MAX_CONTAINERS);
    cluster.delete_pod("shop", "web-1");
    assert!(
        cluster
            .kept_containers(&id("web"))
            .is_none_or(|kept| kept.len() <= MAX_CONTAINERS)
    );
}

#[test]
fn stored_history_of_a_live_container_outlives_names_that_retire() {
    let mut cluster = web();
    let stored = cluster
        .checkpoints(&id("web"), second(0))
        .unwrap()
        .remove("app")
        .unwrap();
    cluster
        .load_checkpoint(&id("web"), "app", &stored, second(0))
        .unwrap();
    let before = cluster.histories(&id("web")).unwrap()["app"].samples();
    // Enough names for the first ones to be merged and then dropped.
    let count = 2 * MAX_IDLE_HISTORIES as i64;
    for number in 0..count {
        let name = format!("job-{number:05}");
        pass_by(
            &mut cluster,
            &name,
            &[("app", "web")],
            &name,
            second(number),
        );
    }
    let at = second(count);
    cluster
        .add_sample(&container("web-1", "app"), &sample(at, 100, 100 * MIB), at)
        .unwrap();
    let known = cluster.histories(&id("web")).unwrap();
    assert_eq!(
        known["app"].samples(),
        before + 1,
        "the stored history counts"
    );
}

#[test]
fn retired_history_of_a_live_container_outlives_names_that_retire() {
    let mut cluster = web();
    let before = cluster.histories(&id("web")).unwrap()["app"].samples();
    for run in ["1", "2"] {
        pass_by(
            &mut cluster,
            run,
            &[("app", "web"), ("run", run)],
            "app",
            second(0),
        );
    }
    let count = 2 * MAX_IDLE_HISTORIES as i64;
    for number in 1..count {
        let name = format!("job-{number:05}");
        pass_by(
            &mut cluster,
            &name,
            &[("app", "web")],
            &name,
            second(number),
        );
    }
    let at = second(count);
    cluster
        .add_sample(&container("web-1", "app"), &sample(at, 100, 100 * MIB), at)
        .unwrap();
    let known = cluster.histories(&id("web")).unwrap();
    assert_eq!(
        known["app"].samples(),
        before + 2 + 1,
        "the history of pods that are gone counts"
    );
}
