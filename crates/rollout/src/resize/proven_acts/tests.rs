use proptest::prelude::*;

use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("in range")
}

/// A pod in the mode `InPlaceOrRecreate` that has its target, was resized at second 100, and whose
/// last killed run began at that second.
fn resized(killed_run: i64) -> Evidence {
    Evidence {
        killed_run: Some([at(killed_run), at(killed_run + 5)]),
        last: Some(OomResize {
            at: at(100),
            act: ResizeAct::Resize,
            refuted: 0,
        }),
        size_since: None,
        was_resized: true,
        is_outdated: false,
        is_bounded: true,
        is_replacement: false,
        has_target: true,
        may_step: true,
        may_evict: true,
    }
}

fn stepped(evidence: Evidence) -> Evidence {
    let last = OomResize {
        at: at(100),
        act: ResizeAct::Step,
        refuted: 1,
    };
    Evidence {
        last: Some(last),
        ..evidence
    }
}

fn check(evidence: Evidence, refuted: Option<RefutedAct>, next: NextAct) {
    let verdict = evidence.judge();
    let found = (verdict.refuted.map(|(act, _)| act), verdict.next);
    assert_eq!(found, (refuted, next), "{evidence:?}");
}

#[test]
fn a_kill_of_a_later_run_refutes_an_act() {
    check(resized(99), None, NextAct::Wait);
    check(resized(100), None, NextAct::Wait);
    check(resized(101), Some(RefutedAct::Resize), NextAct::Step);
    let same_run = Evidence {
        killed_run: Some([at(99), at(111)]),
        ..resized(99)
    };
    check(same_run, Some(RefutedAct::Resize), NextAct::Step);
    let after_step = stepped(resized(101));
    check(after_step, Some(RefutedAct::Step), NextAct::Evict);
    check(stepped(resized(99)), None, NextAct::Wait);
}

#[test]
fn without_evictions_a_refuted_step_is_the_last_act() {
    let evidence = Evidence {
        may_evict: false,
        ..stepped(resized(101))
    };
    check(evidence, Some(RefutedAct::Step), NextAct::Rest);
}

#[test]
fn a_pod_that_was_never_resized_rests() {
    let evidence = Evidence {
        last: None,
        was_resized: false,
        ..resized(101)
    };
    check(evidence, None, NextAct::Rest);
    let replacement = Evidence {
        is_replacement: true,
        ..evidence
    };
    check(replacement, Some(RefutedAct::Eviction), NextAct::Rest);
}

#[test]
fn a_resize_of_unknown_time_is_refuted_by_a_run_with_the_observed_size() {
    let evidence = |killed_run| Evidence {
        last: None,
        size_since: Some(at(100)),
        ..resized(killed_run)
    };
    check(evidence(99), None, NextAct::Wait);
    check(evidence(101), Some(RefutedAct::Resize), NextAct::Step);
}

#[test]
fn a_larger_target_is_tried_in_place_twice() {
    let evidence = |refuted| Evidence {
        has_target: false,
        last: Some(OomResize {
            at: at(100),
            act: ResizeAct::Resize,
            refuted,
        }),
        ..resized(101)
    };
    check(evidence(0), Some(RefutedAct::Resize), NextAct::Resize);
    check(evidence(1), Some(RefutedAct::Resize), NextAct::Evict);
}

fn evidence() -> impl Strategy<Value = Evidence> {
    let last = proptest::option::of((0i64..200, any::<bool>(), 0u32..4));
    let times = (
        proptest::option::of(0i64..200),
        proptest::option::of(0i64..200),
    );
    (times, last, any::<[bool; 7]>()).prop_map(|((killed, since), last, flags)| {
        let [
            was_resized,
            is_outdated,
            is_bounded,
            is_replacement,
            has_target,
            may_step,
            may_evict,
        ] = flags;
        let last = last.map(|(second, is_step, refuted)| OomResize {
            at: at(second),
            act: if is_step {
                ResizeAct::Step
            } else {
                ResizeAct::Resize
            },
            refuted,
        });
        Evidence {
            killed_run: killed.map(|second| [at(second), at(second + 5)]),
            last,
            size_since: since.map(at),
            was_resized: was_resized || last.is_some(),
            is_outdated,
            is_bounded,
            is_replacement,
            has_target,
            may_step,
            may_evict,
        }
    })
}

proptest! {
    /// A refuted act is never repeated on a pod that stays as it is, and the mode is respected.
    #[test]
    fn no_refuted_act_is_repeated_without_a_change(evidence in evidence()) {
        let verdict = evidence.judge();
        let next = verdict.next;
        if evidence.has_target {
            prop_assert_ne!(next, NextAct::Resize);
            if let Some((act, cause)) = verdict.refuted {
                let is_same = match act {
                    RefutedAct::Step => next == NextAct::Step,
                    RefutedAct::Eviction => next == NextAct::Evict,
                    RefutedAct::Resize => false,
                };
                let is_lost = cause == RefutationCause::ContainerStopped && !evidence.may_evict;
                prop_assert!(!is_same || is_lost, "{verdict:?}");
            } else {
                prop_assert!(matches!(next, NextAct::Wait | NextAct::Rest));
            }
        }
        prop_assert!(next != NextAct::Evict || evidence.may_evict);
        prop_assert!(next != NextAct::Step || evidence.may_step && evidence.is_bounded);
    }

    /// A pod whose last killed run began before the last act gets no further one.
    #[test]
    fn a_pod_that_runs_on_gets_no_act(evidence in evidence(), killed in 0i64..=100) {
        let last = evidence.last.map(|last| OomResize { at: at(100), ..last });
        let healed = Evidence {
            last,
            killed_run: Some([at(killed), at(killed + 5)]),
            size_since: Some(at(100)),
            was_resized: true,
            is_outdated: false,
            has_target: true,
            ..evidence
        };
        prop_assert_eq!(healed.judge().next, NextAct::Wait);
    }
}
