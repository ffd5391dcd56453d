//! Accepted and refused samples.

use crate::{Accepted, SampleError};
use jiff::Timestamp;
use model::{Memory, Sample};
use proptest::collection::vec;
use proptest::prelude::*;

use super::fixture::{
    MIB, WEB, add_hour, container, days, hours, id, minutes, pod, sample, samples, start, target,
    web, without_pods,
};

#[test]
fn a_missing_resource_is_not_a_zero_sample() {
    let mut cluster = web();
    let before = cluster.histories(&id("web"));
    let at = start() + minutes(60);
    let nothing = Sample {
        at,
        cpu: None,
        memory: None,
    };
    let accepted = cluster.add_sample(&container("web-1", "app"), &nothing, at);
    assert_eq!(accepted, Ok(Accepted::default()));
    assert_eq!(cluster.histories(&id("web")), before);
}

#[test]
fn samples_of_init_containers_are_dropped_and_of_unknown_containers_refused() {
    let mut cluster = web();
    let size = cluster.size();
    let at = start() + minutes(60);
    let accepted = cluster.add_sample(&container("web-1", "setup"), &sample(at, 1, 1), at);
    assert_eq!(accepted, Ok(Accepted::default()));
    for unknown in [container("web-1", "other"), container("web-2", "app")] {
        let refused = cluster.add_sample(&unknown, &sample(at, 1, 1), at);
        assert_eq!(refused, Err(SampleError::UnknownContainer(unknown)));
    }
    assert_eq!(cluster.size(), size);
}

#[test]
fn samples_that_are_negative_old_or_from_the_future_change_nothing() {
    let mut cluster = web();
    let before = cluster.histories(&id("web"));
    let now = start() + minutes(60);
    let app = container("web-1", "app");
    let future = now + hours(25);
    let refused = cluster.add_sample(&app, &sample(future, 1, 1), now);
    assert!(matches!(refused, Err(SampleError::Future { .. })));
    let refused = cluster.record_oom(&app, Timestamp::MAX, Memory::from_bytes(1), now);
    assert!(matches!(refused, Err(SampleError::Future { .. })));
    for (at, amount) in [(now, -1), (Timestamp::MIN, 1), (start(), 1)] {
        let bad = sample(at, amount, amount);
        assert_eq!(cluster.add_sample(&app, &bad, now), Ok(Accepted::default()));
    }
    assert_eq!(cluster.histories(&id("web")), before);
}

#[test]
fn samples_from_a_clock_that_was_ahead_do_not_keep_right_ones_away() {
    let app = container("web-1", "app");
    for ahead in [2, 8, 200] {
        let mut cluster = web();
        let (now, later) = (start() + minutes(60), start() + days(ahead));
        cluster
            .add_sample(&app, &sample(later, 100, 100 * MIB), later)
            .unwrap();
        let before = samples(&cluster);
        let accepted = cluster.add_sample(&app, &sample(now, 100, 100 * MIB), now);
        let accepted = accepted.map(|accepted| (accepted.cpu, accepted.memory));
        assert_eq!(accepted, Ok((true, true)), "{ahead}");
        assert_eq!(samples(&cluster), before + 1, "{ahead}");
    }
}

/// The memory target after a day whose first window started with these samples, in MiB.
fn memory_target(first: &[i64]) -> Option<i64> {
    let mut cluster = without_pods();
    cluster.apply_pod(pod("web-1", WEB), start());
    for (minute, mebibytes) in first.iter().chain(&[900, 400]).enumerate() {
        let at = start() + minutes(minute as i64);
        let sample = sample(at, 100, mebibytes * MIB);
        cluster
            .add_sample(&container("web-1", "app"), &sample, at)
            .unwrap();
    }
    let recommended = cluster.recommend(&id("web")).unwrap().containers;
    Some(recommended[0].target.memory()?.bytes() / MIB)
}

#[test]
fn a_window_that_begins_with_zero_keeps_its_peak() {
    let without_zero = memory_target(&[]);
    assert!(without_zero > Some(900), "{without_zero:?}");
    for zeros in [&[0][..], &[0, 0, 0]] {
        assert_eq!(memory_target(zeros), without_zero, "{zeros:?}");
    }
}

proptest! {
    #[test]
    fn no_sample_panics_and_a_day_of_real_samples_is_always_enough_to_recommend(
        samples in vec((any::<i64>(), any::<i64>(), any::<i64>(), any::<bool>()), 0..50),
    ) {
        let mut cluster = web();
        let app = container("web-1", "app");
        for (millicores, bytes, seconds, oom) in samples {
            let at = Timestamp::from_second(seconds % 253_402_207_200).unwrap_or(Timestamp::MIN);
            if oom {
                let _ = cluster.record_oom(&app, at, Memory::from_bytes(bytes), start());
            } else {
                let _ = cluster.add_sample(&app, &sample(at, millicores, bytes), start());
            }
        }
        // Thirty half-lives later the accepted samples have no weight.
        let later = start() + days(30);
        add_hour(&mut cluster, "web-1", later);
        prop_assert_eq!(target(&cluster, "web"), Some("126 262144000".to_owned()));
        prop_assert!(cluster.checkpoints(&id("web"), later).is_some());
    }
}
