//! The HPA of the replays is the controller's, as the recordings of the controller confirm it in
//! `testing::hpa`.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use replay::{Bounds, Hpa, proposal};
use testing::hpa::{
    self, Behavior, History, Metric, Proposal, ReadinessDelays, Reading, Tolerance, TotalTarget,
    Value, Workload, combine,
};

const DOWNSCALE_WINDOW: SignedDuration = SignedDuration::from_mins(5);

fn workload(replicas: i32) -> Workload<'static> {
    Workload {
        pods: &[],
        spec_replicas: replicas,
        status_replicas: replicas,
        tolerance: Tolerance::default(),
        delays: ReadinessDelays::default(),
        now: Timestamp::UNIX_EPOCH,
    }
}

proptest! {
    #[test]
    fn a_proposal_is_the_controllers(
        total in 0..10_000_000_i64,
        target in 1..100_000_i64,
        replicas in 0..500_i32,
    ) {
        let metric = Metric::External(TotalTarget::AverageMilli(target));
        let expected = workload(replicas).propose(&metric, Reading::External(&[total]));
        prop_assert_eq!(Ok(proposal(total, target, replicas)), expected.map(|it| it.replicas));
    }

    #[test]
    fn passes_are_the_controllers(
        min in 1..20_i32,
        span in 0..200_i32,
        start in 0..100_i32,
        passes in prop::collection::vec(
            (1..120_i64, prop::collection::vec(prop::option::weighted(0.8, 0..300_i32), 1..3)),
            1..60,
        ),
    ) {
        let mut now = Timestamp::UNIX_EPOCH;
        let bounds = Bounds { min, max: min + span };
        let mut current = start.clamp(bounds.min, bounds.max);
        let mut ours = Hpa::new(bounds, current, now);
        let mut controllers = History::new(current, DOWNSCALE_WINDOW, now);
        let bounds = hpa::Bounds { min: bounds.min, max: bounds.max };
        let behavior = Behavior::default();
        for (seconds, proposals) in passes {
            now += SignedDuration::from_secs(seconds);
            let value = Value::Total { milli: 0 };
            let proposed = proposals.iter().map(|replicas| {
                let replicas = replicas.ok_or_else(String::new)?;
                Ok(Proposal { replicas, value })
            });
            let combined = combine(current, &proposed.collect::<Vec<_>>());
            let expected = combined.replicas.map_or(current, |wanted| {
                let found = controllers.normalise(wanted, current, bounds, Some(&behavior), now);
                controllers.scaled(current, found.replicas, Some(&behavior), now);
                found.replicas
            });
            prop_assert_eq!(ours.pass(current, now, &proposals), expected);
            current = expected;
        }
    }
}
