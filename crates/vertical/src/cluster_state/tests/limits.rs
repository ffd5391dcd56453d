//! Limits on history of short-lived pods.

use super::super::garbage::MAX_IDLE_HISTORIES;
use crate::{ClusterState, MAX_CONTAINERS};
use jiff::{SignedDuration, Timestamp};

use super::fixture::{
    MIB, WEB, add_usual, checkpoint, container, id, minutes, pod_of, sample, samples, start, web,
    without_pods,
};

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
    cluster.apply_pod(pod_of(name, labels, &[app]), at);
    cluster
        .add_sample(&container(name, app), &sample(at, 100, 100 * MIB), at)
        .unwrap();
    cluster.delete_pod("shop", name);
}

/// Enough pods with containers of different names for the first ones to be merged and then dropped.
/// Afterwards `web-1` is measured. Returns the samples known of `app`.
fn retire_names(mut cluster: ClusterState) -> i64 {
    let count = 2 * MAX_IDLE_HISTORIES as i64;
    for number in 1..=count {
        let name = format!("job-{number:05}");
        pass_by(&mut cluster, &name, WEB, &name, second(number));
    }
    add_usual(&mut cluster, "web-1", second(count + 1));
    samples(&cluster)
}

#[test]
fn of_many_container_names_the_ones_measured_last_are_sized_and_stored() {
    let mut cluster = web();
    assert_eq!(cluster.kept_containers(&id("web")), None);
    for number in 0..1000 {
        let (at, name) = (second(number), format!("job-{number:04}"));
        pass_by(&mut cluster, &name, WEB, &name, at);
    }
    add_usual(&mut cluster, "web-1", second(1000));
    let kept = cluster.kept_containers(&id("web")).unwrap();
    assert_eq!(kept.len(), MAX_CONTAINERS);
    let has = ["app", "job-0999", "job-0000"].map(|name| kept.contains(name));
    assert_eq!(has, [true, true, false], "{kept:?}");
    let recommended = cluster.recommend(&id("web")).unwrap().containers;
    let checkpoints = cluster.checkpoints(&id("web"), second(1001)).unwrap();
    let stored: Vec<_> = checkpoints.keys().map(String::as_str).collect();
    assert_eq!(kept.iter().copied().collect::<Vec<_>>(), stored);
    assert!(
        recommended
            .iter()
            .map(|found| &found.container_name)
            .eq(stored)
    );
}

#[test]
fn histories_of_pods_that_are_gone_are_merged_where_there_are_too_many() {
    let mut cluster = without_pods();
    let count = MAX_IDLE_HISTORIES as i64 + 2000;
    for number in 0..count {
        let run = number.to_string();
        for labels in [&[("app", "web"), ("run", &run)][..], &[("run", &run)]] {
            pass_by(&mut cluster, &run, labels, "app", second(number));
        }
        assert!(cluster.size().histories <= MAX_IDLE_HISTORIES + 1);
    }
    assert_eq!(samples(&cluster), count, "each sample counts once");
}

#[test]
fn stored_histories_of_one_object_are_bounded() {
    let mut cluster = web();
    let stored = checkpoint(&cluster, second(0));
    for number in 0..1000 {
        cluster
            .load_checkpoint(
                &id("web"),
                &format!("old-{number}"),
                &stored,
                second(0),
                false,
            )
            .unwrap();
    }
    assert!(cluster.histories(&id("web")).unwrap().len() <= MAX_CONTAINERS);
    cluster.delete_pod("shop", "web-1");
    let kept = cluster.kept_containers(&id("web"));
    assert!(kept.is_none_or(|kept| kept.len() <= MAX_CONTAINERS));
}

#[test]
fn stored_history_of_a_live_container_outlives_names_that_retire() {
    let mut cluster = web();
    let stored = checkpoint(&cluster, second(0));
    cluster
        .load_checkpoint(&id("web"), "app", &stored, second(0), false)
        .unwrap();
    let before = samples(&cluster);
    assert_eq!(
        retire_names(cluster),
        before + 1,
        "the stored history counts"
    );
}

#[test]
fn retired_history_of_a_live_container_outlives_names_that_retire() {
    let mut cluster = web();
    let before = samples(&cluster);
    for run in ["1", "2"] {
        pass_by(
            &mut cluster,
            run,
            &[("app", "web"), ("run", run)],
            "app",
            second(0),
        );
    }
    let known = retire_names(cluster);
    assert_eq!(
        known,
        before + 2 + 1,
        "the history of pods that are gone counts"
    );
}
