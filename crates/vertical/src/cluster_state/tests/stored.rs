//! Checkpoints: content and loading.

use std::collections::BTreeMap;

use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use sizing::CheckpointError;

use crate::VpaSpec;
use crate::checkpoint::content::time;

use super::fixture::{
    WEB, add_hour, checkpoint, days, hours, id, minutes, selecting, start, target, web,
    without_pods,
};

#[test]
fn stored_history_survives_a_change_of_the_selector_and_ends_with_the_vpa() {
    let mut cluster = web();
    let now = start() + hours(30);
    let stored = checkpoint(&cluster, now);
    let mut fresh = without_pods();
    fresh
        .load_checkpoint(&id("web"), "app", &stored, now, false)
        .unwrap();
    fresh.apply_vpa(&id("web"), VpaSpec::default());
    assert_eq!(target(&fresh, "web"), target(&cluster, "web"));
    fresh.delete_vpa(&id("web"));
    fresh.apply_vpa(&id("web"), selecting(WEB));
    assert_eq!(target(&fresh, "web"), None);
    let refused = cluster.load_checkpoint(&id("other"), "app", &stored, now, false);
    assert_eq!(refused, Err(CheckpointError::UnknownVpa));
}

#[test]
fn stored_history_from_the_far_future_is_refused() {
    let mut cluster = web();
    let now = start() + minutes(60);
    let stored = checkpoint(&cluster, now);
    let long_before = now - days(400);
    let refused = cluster.load_checkpoint(&id("web"), "app", &stored, long_before, false);
    assert!(
        matches!(refused, Err(CheckpointError::Future { .. })),
        "{refused:?}"
    );
}

#[test]
fn stored_history_from_the_future_is_refused_or_moved_back() {
    let mut cluster = web();
    let now = start() + hours(30);
    let stored = checkpoint(&cluster, now);
    let mut load = |ahead| {
        let behind = now - days(ahead);
        let loaded = cluster.load_checkpoint(&id("web"), "app", &stored, behind, false);
        let mut fresh = without_pods();
        fresh
            .load_checkpoint(&id("web"), "app", &stored, behind, true)
            .unwrap();
        (loaded, checkpoint(&fresh, now), behind)
    };
    for ahead in [0, 1] {
        let (loaded, moved, _) = load(ahead);
        assert_eq!((loaded, &moved), (Ok(()), &stored), "{ahead}");
    }
    for ahead in [3, 8, 60, 400] {
        let (refused, moved, now) = load(ahead);
        assert!(
            matches!(refused, Err(CheckpointError::Future { .. })),
            "{ahead}"
        );
        let known = |stored: &VerticalPodAutoscalerCheckpointStatus| {
            let [first, last] = [&stored.first_sample_start, &stored.last_sample_start]
                .map(|field| time(field.as_ref()).unwrap());
            (last.duration_since(first), stored.total_samples_count)
        };
        assert_eq!(time(moved.last_sample_start.as_ref()), Some(now), "{ahead}");
        assert_eq!(known(&moved), known(&stored), "{ahead}");
        for (moved, stored) in [
            (&moved.cpu_histogram, &stored.cpu_histogram),
            (&moved.memory_histogram, &stored.memory_histogram),
        ] {
            let [found, expected] = [moved, stored]
                .map(|histogram| (&histogram.bucket_weights, histogram.total_weight));
            assert_eq!(found, expected);
            let reference = time(moved.reference_timestamp.as_ref())
                .unwrap()
                .duration_since(now);
            assert!(reference <= days(2), "{ahead}: {reference}");
        }
    }
}

#[test]
fn samples_from_the_future_in_stored_history_leave_the_first_sample_its_time() {
    let mut cluster = web();
    let ahead = start() + days(8);
    add_hour(&mut cluster, "web-1", ahead);
    let stored = checkpoint(&cluster, ahead + minutes(60));
    let now = start() + minutes(120);
    cluster
        .load_checkpoint(&id("other"), "app", &stored, now, true)
        .unwrap_err();
    let mut fresh = without_pods();
    fresh
        .load_checkpoint(&id("web"), "app", &stored, now, true)
        .unwrap();
    let moved = checkpoint(&fresh, now);
    assert_eq!(time(moved.first_sample_start.as_ref()), Some(start()));
    assert_eq!(time(moved.last_sample_start.as_ref()), Some(now));
}

#[test]
fn the_open_window_is_stored() {
    let cluster = web();
    let peaks = |after| {
        checkpoint(&cluster, start() + after)
            .memory_histogram
            .bucket_weights
    };
    for after in [hours(1), days(1)] {
        assert_eq!(peaks(after), BTreeMap::from([(8, 10_000)]));
    }
}
