//! Checkpoints: content and loading.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sizing::CheckpointError;
use vertical::AutoscalerSpec;

use crate::fixture::{id, minutes, selecting, start, target, web};

#[test]
fn stored_history_survives_a_change_of_the_selector_and_ends_with_the_autoscaler() {
    let mut cluster = web();
    let now = start() + SignedDuration::from_hours(30);
    let stored = cluster
        .checkpoints(&id("web"), now)
        .unwrap()
        .remove("app")
        .unwrap();
    let mut fresh = crate::fixture::cluster();
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fresh
        .load_checkpoint(&id("web"), "app", &stored, now)
        .unwrap();
    fresh.apply_autoscaler(&id("web"), AutoscalerSpec::default());
    assert_eq!(target(&fresh, "web"), target(&cluster, "web"));
    fresh.delete_autoscaler(&id("web"));
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(target(&fresh, "web"), None);
    assert_eq!(
        cluster.load_checkpoint(&id("other"), "app", &stored, now),
        Err(CheckpointError::UnknownAutoscaler)
    );
}

#[test]
fn stored_history_from_the_far_future_is_refused() {
    let mut cluster = web();
    let now = start() + minutes(60);
    let stored = cluster
        .checkpoints(&id("web"), now)
        .unwrap()
        .remove("app")
        .unwrap();
    let long_before = now - SignedDuration::from_hours(24 * 400);
    let refused = cluster.load_checkpoint(&id("web"), "app", &stored, long_before);
    assert!(
        matches!(refused, Err(CheckpointError::Future { .. })),
        "{refused:?}"
    );
}

#[test]
fn stored_history_from_the_future_is_refused_or_moved_back() {
    let mut cluster = web();
    let now = start() + SignedDuration::from_hours(30);
    let stored = cluster
        .checkpoints(&id("web"), now)
        .unwrap()
        .remove("app")
        .unwrap();
    let moved = |days| {
        let mut fresh = crate::fixture::cluster();
        fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
        let behind = now - SignedDuration::from_hours(24 * days);
        fresh
            .load_checkpoint_moved_back(&id("web"), "app", &stored, behind)
            .unwrap();
        (
            fresh
                .checkpoints(&id("web"), now)
                .unwrap()
                .remove("app")
                .unwrap(),
            behind,
        )
    };
    for days in [0, 1] {
        let behind = now - SignedDuration::from_hours(24 * days);
        assert_eq!(
            cluster.load_checkpoint(&id("web"), "app", &stored, behind),
            Ok(()),
            "{days}"
        );
        assert_eq!(moved(days).0, stored, "{days}");
    }
    for days in [3, 8, 60, 400] {
        let behind = now - SignedDuration::from_hours(24 * days);
        let refused = cluster.load_checkpoint(&id("web"), "app", &stored, behind);
        assert!(
            matches!(refused, Err(CheckpointError::Future { .. })),
            "{days}"
        );
        let (moved, now) = moved(days);
        let age = |stored: &sizing::Checkpoint| {
            stored
                .last_sample_start
                .unwrap()
                .duration_since(stored.first_sample_start.unwrap())
        };
        assert_eq!(moved.last_sample_start, Some(now), "{days}");
        assert_eq!(
            (age(&moved), moved.total_samples_count),
            (age(&stored), stored.total_samples_count),
            "{days}"
        );
        for (moved, stored) in [
            (&moved.cpu_histogram, &stored.cpu_histogram),
            (&moved.memory_histogram, &stored.memory_histogram),
        ] {
            assert_eq!(
                (&moved.bucket_weights, moved.total_weight),
                (&stored.bucket_weights, stored.total_weight)
            );
            let ahead = moved.reference_timestamp.unwrap().duration_since(now);
            assert!(ahead <= SignedDuration::from_hours(48), "{days}: {ahead}");
        }
    }
}

#[test]
fn samples_from_the_future_in_stored_history_leave_the_first_sample_its_time() {
    let mut cluster = web();
    let ahead = start() + SignedDuration::from_hours(24 * 8);
    crate::fixture::add_hour(&mut cluster, "web-1", ahead);
    let stored = cluster
        .checkpoints(&id("web"), ahead + minutes(60))
        .unwrap()
        .remove("app")
        .unwrap();
    let now = start() + minutes(120);
    cluster
        .load_checkpoint_moved_back(&id("other"), "app", &stored, now)
        .unwrap_err();
    let mut fresh = crate::fixture::cluster();
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fresh
        .load_checkpoint_moved_back(&id("web"), "app", &stored, now)
        .unwrap();
    let moved = fresh
        .checkpoints(&id("web"), now)
        .unwrap()
        .remove("app")
        .unwrap();
    assert_eq!(
        (moved.first_sample_start, moved.last_sample_start),
        (Some(start()), Some(now))
    );
}

#[test]
fn the_open_window_is_not_stored() {
    let cluster = web();
    let during = cluster
        .checkpoints(&id("web"), start() + minutes(60))
        .unwrap();
    assert!(during["app"].memory_histogram.bucket_weights.is_empty());
    let after = cluster
        .checkpoints(&id("web"), start() + SignedDuration::from_hours(24))
        .unwrap();
    assert_eq!(
        after["app"].memory_histogram.bucket_weights,
        BTreeMap::from([(8, 10_000)])
    );
}
