//! No group of pods loses more than the tolerance allows of the smaller of the wanted and the
//! present pods, over any number of passes: what was lost and not replaced counts until it is.

use std::time::Duration;

use rollout::{ActionOutcome, SkipReason};
use serde_json::json;

use super::fixture::{ACCEPTED, Fixture, TOO_MANY_REQUESTS, evicted};

/// Runs as many passes as evict anything, each of which sees the evictions of the one before as
/// done, and nothing replaced. Checks the number of pods evicted in each.
#[track_caller]
fn check(fixture: &mut Fixture, expected: &[usize], when: &str) {
    let mut passes = Vec::new();
    loop {
        let plan = fixture.pass();
        if plan.actions.is_empty() {
            break;
        }
        fixture.report(&plan, &ACCEPTED);
        fixture.check_idle("the evictions are under way");
        let names = evicted(&plan);
        passes.push(names.len());
        for name in names {
            fixture.delete(name);
        }
        fixture.now.monotonic += Duration::from_secs(1);
    }
    assert_eq!(passes, expected, "{when}");
}

/// `minReadySeconds` of a controller: until then, it does not count the pod as available either.
#[test]
fn a_replacement_counts_once_it_was_ready_for_as_long_as_its_controller_demands() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 4, &json!({}));
    fixture.edit_replica_set("web", |set| set.min_ready = Duration::from_secs(30));
    check(&mut fixture, &[2], "half of four");
    for name in ["web-4", "web-5"] {
        fixture.pod_with("web", name, &json!({"cpu": "1"}), |pod| {
            pod["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T11:59:50Z".into();
        });
    }
    check(&mut fixture, &[], "they are ready for ten seconds");
    let plan = fixture.pass();
    let in_time = |due| due <= Duration::from_secs(20);
    assert!(plan.wake_in.is_some_and(in_time), "{:?}", plan.wake_in);
    fixture.now.wall += Duration::from_secs(20);
    fixture.now.monotonic += Duration::from_secs(20);
    check(&mut fixture, &[2], "the old ones follow");
}

#[test]
fn a_scale_counts_only_for_the_pods_that_it_was_read_with() {
    let mut fixture = Fixture::new();
    fixture.clone_set("web", 4);
    fixture.pods_of("CloneSet", "web", 4..10);
    check(&mut fixture, &[], "the scale may be out of date");
    fixture.read_scale("web", 10);
    check(&mut fixture, &[5], "half of ten");
    fixture.pods_of("CloneSet", "web", 10..12);
    check(&mut fixture, &[], "the scale may be out of date");
    fixture.read_scale("web", 10);
    check(&mut fixture, &[2], "two came back");
}

#[test]
fn a_scale_that_wants_fewer_pods_than_there_are_lets_no_more_go_than_it_tolerates() {
    let mut fixture = Fixture::new();
    fixture.clone_set("web", 10);
    fixture.read_scale("web", 4);
    check(&mut fixture, &[2], "half of four");
    fixture.read_scale("web", 4);
    check(&mut fixture, &[], "two were lost while there were too many");
    fixture.read_scale("web", 10);
    check(&mut fixture, &[3], "half of ten");
}

#[test]
fn a_parallel_job_loses_half_of_its_pods_until_they_are_replaced() {
    let mut fixture = Fixture::new();
    fixture.job("batch", &json!({"parallelism": 10, "completions": 100}), 20);
    fixture.pods_of("Job", "batch", 0..10);
    check(&mut fixture, &[5], "half of ten");
    fixture.pods_of("Job", "batch", 10..12);
    check(&mut fixture, &[2], "two are replaced");
}

#[test]
fn the_last_pods_of_a_job_are_half_of_those_that_it_still_wants() {
    let mut fixture = Fixture::new();
    fixture.job("batch", &json!({"parallelism": 10, "completions": 100}), 96);
    fixture.pods_of("Job", "batch", 0..4);
    check(&mut fixture, &[2], "half of four");
}

#[test]
fn a_scale_down_under_way_lets_no_more_pods_go_than_those_that_stay_tolerate() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 10, &json!({}));
    fixture.scale("web", 5);
    check(&mut fixture, &[2], "half of five");
    // The controller chose five others, and replaces what is missing of the five that it wants.
    for number in 5..10 {
        fixture.delete(&format!("web-{number}"));
    }
    check(&mut fixture, &[], "five are the controller's to choose");
    fixture.pod("web", "web-10", &json!({}));
    fixture.pod("web", "web-11", &json!({}));
    let plan = fixture.pass();
    assert_eq!(
        (plan.actions.len(), plan.wake_in),
        (0, Some(Duration::from_secs(30))),
        "it may delete more"
    );
    fixture.now.monotonic += Duration::from_secs(30);
    check(&mut fixture, &[2], "half of five");
}

#[test]
fn pods_beyond_those_wanted_for_long_are_taken_to_stay() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 10, &json!({}));
    fixture.scale("web", 5);
    check(&mut fixture, &[2], "half of five");
    fixture.now.monotonic += Duration::from_mins(5);
    check(&mut fixture, &[2], "none was replaced or deleted");
}

#[test]
fn evictions_under_way_when_a_scale_down_comes_count_among_its_losses() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 10, &json!({}));
    let plan = fixture.pass();
    assert_eq!(evicted(&plan).len(), 5);
    fixture.report(&plan, &ACCEPTED);
    fixture.scale("web", 5);
    fixture.check_idle("the controller may delete the other five");
    for name in evicted(&plan) {
        fixture.delete(name);
    }
    fixture.check_idle("it may have chosen them before it saw the evictions");
    fixture.now.monotonic += Duration::from_secs(30);
    check(&mut fixture, &[2], "half of five");
}

#[test]
fn a_scale_down_counts_even_where_the_pods_are_seen_to_have_gone_at_the_same_time() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 10, &json!({}));
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    fixture.scale("web", 6);
    for name in evicted(&plan) {
        fixture.delete(name);
    }
    fixture.check_idle("four of the last five may be about to go");
}

#[test]
fn an_eviction_of_which_nothing_was_heard_is_not_asked_for_again_when_others_went_since() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 4, &json!({}));
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    fixture.report(&plan, &ActionOutcome::Unknown);
    fixture.delete("web-2");
    fixture.now.monotonic += Duration::from_secs(1);
    fixture.check_idle("one of four may be left");
    fixture.pod("web", "web-4", &json!({}));
    fixture.check_evicted(&["web-0", "web-1"], "it is replaced");
}

#[test]
fn a_refusal_does_not_take_back_an_attempt_of_which_nothing_was_heard() {
    let mut fixture = Fixture::new();
    fixture.deployment("web", 2, &json!({}));
    let plan = fixture.pass();
    fixture.report(&plan, &ActionOutcome::Unknown);
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["web-0"]);
    fixture.report(&plan, &TOO_MANY_REQUESTS);
    fixture.check_idle("the first attempt may have been carried out");
    fixture.now.monotonic += Duration::from_mins(2);
    fixture.check_evicted(&["web-0"], "it was not");
}

#[test]
fn the_only_pod_is_skipped_for_another_reason_than_a_used_up_tolerance() {
    let mut fixture = super::fixture(1);
    fixture.check_skipped(SkipReason::TooFewReplicas);
    let mut fixture = super::fixture(4);
    let plan = fixture.pass();
    fixture.report(&plan, &ACCEPTED);
    fixture.check_skipped(SkipReason::EvictionTolerance);
}
