//! Stored history: what is stored, and when it is taken over.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use sizing::{AutoscalerSpec, CheckpointError};

use crate::shop::{id, minutes, selecting, start, target, web};

#[test]
fn stored_history_survives_a_change_of_the_selector_and_ends_with_the_autoscaler() {
    let mut fleet = web();
    let now = start() + SignedDuration::from_hours(30);
    let stored = fleet.checkpoints(&id("web"), now).unwrap().remove("app").unwrap();
    let mut fresh = crate::shop::fleet();
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    fresh.load_checkpoint(&id("web"), "app", &stored, now).unwrap();
    fresh.apply_autoscaler(&id("web"), AutoscalerSpec::default());
    assert_eq!(target(&fresh, "web"), target(&fleet, "web"));
    fresh.delete_autoscaler(&id("web"));
    fresh.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(target(&fresh, "web"), None);
    assert_eq!(fleet.load_checkpoint(&id("other"), "app", &stored, now), Err(CheckpointError::UnknownAutoscaler));
}

#[test]
fn stored_history_from_the_far_future_is_refused() {
    let mut fleet = web();
    let now = start() + minutes(60);
    let stored = fleet.checkpoints(&id("web"), now).unwrap().remove("app").unwrap();
    let long_before = now - SignedDuration::from_hours(24 * 400);
    let refused = fleet.load_checkpoint(&id("web"), "app", &stored, long_before);
    assert!(matches!(refused, Err(CheckpointError::Future { .. })), "{refused:?}");
}

#[test]
fn stored_history_is_loaded_by_a_clock_that_is_weeks_behind() {
    let mut fleet = web();
    let now = start() + minutes(60);
    let stored = fleet.checkpoints(&id("web"), now).unwrap().remove("app").unwrap();
    for days in [2, 8, 60] {
        let behind = now - SignedDuration::from_hours(24 * days);
        assert_eq!(fleet.load_checkpoint(&id("web"), "app", &stored, behind), Ok(()), "{days}");
    }
}

#[test]
fn the_open_window_is_not_stored() {
    let fleet = web();
    let during = fleet.checkpoints(&id("web"), start() + minutes(60)).unwrap();
    assert!(during["app"].memory_histogram.bucket_weights.is_empty());
    let after = fleet.checkpoints(&id("web"), start() + SignedDuration::from_hours(24)).unwrap();
    assert_eq!(after["app"].memory_histogram.bucket_weights, BTreeMap::from([(8, 10_000)]));
}
