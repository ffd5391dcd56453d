//! No group of pods loses more than the tolerance allows of the smaller of the wanted and the
//! present pods, over any number of passes: what was lost and not replaced counts until it is.

use std::time::Duration;

use rollout::{ActionOutcome, RolloutState};
use serde_json::json;

use super::fixture::Fixture;
use super::{ACCEPTED, carry_out, evicted};

/// Runs as many passes as evict anything, each of which sees the evictions of the one before as
/// done, and nothing replaced. Returns the number of pods evicted in each.
fn evictions(fixture: &mut Fixture, state: &mut RolloutState) -> Vec<usize> {
    let mut passes = Vec::new();
    loop {
        let plan = fixture.decide(state);
        if plan.actions.is_empty() {
            return passes;
        }
        carry_out(fixture, state, &plan, &ACCEPTED);
        assert_eq!(
            fixture.decide(state).actions,
            [],
            "the evictions are under way"
        );
        let names = evicted(&plan);
        passes.push(names.len());
        for name in names {
            fixture.delete(name);
        }
        fixture.now.monotonic += Duration::from_secs(1);
    }
}

#[test]
fn a_scale_counts_only_for_the_pods_that_it_was_read_with() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.clone_set("web", 4);
    fixture.pods_of("CloneSet", "web", 4..10);
    assert_eq!(
        evictions(&mut fixture, &mut state),
        [0_usize; 0],
        "the scale may be out of date"
    );
    fixture.read_scale("web", 10);
    assert_eq!(evictions(&mut fixture, &mut state), [5]);
    fixture.pods_of("CloneSet", "web", 10..12);
    assert_eq!(evictions(&mut fixture, &mut state), [0_usize; 0]);
    fixture.read_scale("web", 10);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
}

#[test]
fn a_scale_that_wants_fewer_pods_than_there_are_lets_no_more_go_than_it_tolerates() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.clone_set("web", 10);
    fixture.read_scale("web", 4);
    assert_eq!(evictions(&mut fixture, &mut state), [2], "half of four");
    fixture.read_scale("web", 4);
    assert_eq!(
        evictions(&mut fixture, &mut state),
        [0_usize; 0],
        "two were lost while there were too many"
    );
    fixture.read_scale("web", 10);
    assert_eq!(evictions(&mut fixture, &mut state), [3], "half of ten");
}

#[test]
fn a_parallel_job_loses_half_of_its_pods_until_they_are_replaced() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.job("batch", &json!({"parallelism": 10, "completions": 100}), 20);
    fixture.pods_of("Job", "batch", 0..10);
    assert_eq!(evictions(&mut fixture, &mut state), [5]);
    fixture.pods_of("Job", "batch", 10..12);
    assert_eq!(evictions(&mut fixture, &mut state), [2], "two are replaced");
}

#[test]
fn the_last_pods_of_a_job_are_half_of_those_that_it_still_wants() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.job("batch", &json!({"parallelism": 10, "completions": 100}), 96);
    fixture.pods_of("Job", "batch", 0..4);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
}

#[test]
fn a_scale_down_under_way_lets_no_more_pods_go_than_those_that_stay_tolerate() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 10, &json!({}));
    fixture.scale("web", 5);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
    // The controller chose five others, and replaces what is missing of the five that it wants.
    for number in 5..10 {
        fixture.delete(&format!("web-{number}"));
    }
    assert_eq!(evictions(&mut fixture, &mut state), [0_usize; 0]);
    fixture.pod("web", "web-10", &json!({}));
    fixture.pod("web", "web-11", &json!({}));
    let plan = fixture.decide(&mut state);
    assert_eq!(
        (plan.actions.len(), plan.wake_in),
        (0, Some(Duration::from_secs(30))),
        "it may delete more"
    );
    fixture.now.monotonic += Duration::from_secs(30);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
}

#[test]
fn pods_beyond_those_wanted_for_long_are_taken_to_stay() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 10, &json!({}));
    fixture.scale("web", 5);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
    fixture.now.monotonic += Duration::from_mins(5);
    assert_eq!(
        evictions(&mut fixture, &mut state),
        [2],
        "none was replaced or deleted"
    );
}

#[test]
fn evictions_under_way_when_a_scale_down_comes_count_among_its_losses() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 10, &json!({}));
    let plan = fixture.decide(&mut state);
    assert_eq!(evicted(&plan).len(), 5);
    carry_out(&fixture, &mut state, &plan, &ACCEPTED);
    fixture.scale("web", 5);
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "the controller may delete the other five"
    );
    for name in evicted(&plan) {
        fixture.delete(name);
    }
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "it may have chosen them before it saw the evictions"
    );
    fixture.now.monotonic += Duration::from_secs(30);
    assert_eq!(evictions(&mut fixture, &mut state), [2]);
}

#[test]
fn a_scale_down_counts_even_where_the_pods_are_seen_to_have_gone_at_the_same_time() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 10, &json!({}));
    let plan = fixture.decide(&mut state);
    carry_out(&fixture, &mut state, &plan, &ACCEPTED);
    fixture.scale("web", 6);
    for name in evicted(&plan) {
        fixture.delete(name);
    }
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "four of the last five may be about to go"
    );
}

#[test]
fn an_eviction_of_which_nothing_was_heard_is_not_asked_for_again_when_others_went_since() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 4, &json!({}));
    let plan = fixture.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-0", "web-1"]);
    carry_out(&fixture, &mut state, &plan, &ActionOutcome::Unknown);
    fixture.delete("web-2");
    fixture.now.monotonic += Duration::from_secs(1);
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "one of four may be left"
    );
    fixture.pod("web", "web-4", &json!({}));
    assert_eq!(evicted(&fixture.decide(&mut state)), ["web-0", "web-1"]);
}

#[test]
fn a_refusal_does_not_take_back_an_attempt_of_which_nothing_was_heard() {
    let (mut fixture, mut state) = (Fixture::new(), RolloutState::default());
    fixture.deployment("web", 2, &json!({}));
    let plan = fixture.decide(&mut state);
    carry_out(&fixture, &mut state, &plan, &ActionOutcome::Unknown);
    fixture.now.monotonic += Duration::from_secs(1);
    let plan = fixture.decide(&mut state);
    assert_eq!(evicted(&plan), ["web-0"]);
    carry_out(
        &fixture,
        &mut state,
        &plan,
        &ActionOutcome::TooManyRequests { retry_after: None },
    );
    assert_eq!(
        fixture.decide(&mut state).actions,
        [],
        "the first attempt may have been carried out"
    );
    fixture.now.monotonic += Duration::from_mins(2);
    assert_eq!(
        evicted(&fixture.decide(&mut state)),
        ["web-0"],
        "it was not"
    );
}
