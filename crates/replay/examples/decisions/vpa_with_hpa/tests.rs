//! A VPA and an HPA on the same metric: they never settle on a share of the request, and do on an
//! amount per pod.

use proptest::prelude::*;
use rayon::prelude::*;
use replay::horizontal::Demand;
use testing::hpa::PerPodTarget;

use super::workload::{Day, FIRST_REQUEST, Sizing, VpaWithHpa};

const DAY: usize = 1440;
const SCALE_POINT: PerPodTarget = PerPodTarget::AverageMilli(700);

fn demand(hours: &[f64]) -> Demand {
    let minutes = hours.iter().flat_map(|level| [Some(*level); 60]);
    Demand {
        start: 1_767_225_600,
        minutes: minutes.collect(),
    }
}

fn run(target: PerPodTarget, sizing: Sizing, demand: &Demand) -> Vec<Day> {
    VpaWithHpa { target, sizing }.run(demand, demand.minutes.len().div_ceil(DAY))
}

/// Factors of request and pods between the first and the last of 14 days of constant demand, as the
/// ranges in which they must be.
fn check(
    target: PerPodTarget,
    sizing: Sizing,
    request: std::ops::Range<f64>,
    pods: std::ops::Range<f64>,
) {
    let days = run(target, sizing, &demand(&[20.0; 14 * 24]));
    let (first, last) = (&days[0], &days[13]);
    let factors = (last.request() / first.request(), last.pods() / first.pods());
    assert!(
        request.contains(&factors.0) && pods.contains(&factors.1),
        "{target:?}, {sizing:?}: {factors:?}"
    );
}

#[test]
fn on_a_share_of_the_request_the_pair_ratchets() {
    check(
        PerPodTarget::Utilization(70),
        Sizing::Vpa,
        0.0..0.5,
        2.0..100.0,
    );
    check(
        PerPodTarget::Utilization(70),
        Sizing::Fixed,
        1.0..1.01,
        1.0..1.01,
    );
}

#[test]
fn on_an_amount_per_pod_the_pair_settles() {
    for sizing in [Sizing::Vpa, Sizing::PriceOfFailure] {
        check(SCALE_POINT, sizing, 0.7..1.3, 0.99..1.01);
        let days = run(SCALE_POINT, sizing, &demand(&[20.0; 14 * 24]));
        let late = Day::total(&days[10..]);
        assert!(late.scalings + late.resizes < 0.5, "{sizing:?}: {late:?}");
        // Requests cover the usage.
        assert!(late.short_minutes < 0.5, "{sizing:?}: {late:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_amount_per_pod_gives_the_same_pods_under_every_policy(hours in prop::collection::vec(0.0_f64..60.0, 24..72)) {
        let demand = demand(&hours);
        let replicas = |sizing| -> Vec<(f64, f64)> {
            let days = run(SCALE_POINT, sizing, &demand);
            days.iter().map(|day| (day.pod_minutes, day.scalings)).collect()
        };
        let fixed = replicas(Sizing::Fixed);
        prop_assert_eq!(&replicas(Sizing::Vpa), &fixed);
        prop_assert_eq!(&replicas(Sizing::PriceOfFailure), &fixed);
    }

    #[test]
    fn on_an_amount_per_pod_every_constant_demand_settles(level in 2.0_f64..60.0) {
        for sizing in [Sizing::Vpa, Sizing::PriceOfFailure] {
            let days = run(SCALE_POINT, sizing, &demand(&[level; 8 * 24]));
            let last = days[7];
            prop_assert!(last.scalings + last.resizes < 0.5, "{:?}: {:?}", sizing, last);
            let largest = 1.5 * 1.1 * FIRST_REQUEST as f64;
            prop_assert!(last.request() < largest, "{:?}: {:?}", sizing, last);
        }
    }
}

#[test]
fn a_replay_gives_the_same_days_each_time_with_any_number_of_threads() {
    let hours: Vec<f64> = (0..72)
        .map(|hour| f64::from(10 + 7 * (hour % 13)))
        .collect();
    let demand = demand(&hours);
    let sizings = [Sizing::Fixed, Sizing::Vpa, Sizing::PriceOfFailure];
    let all = |threads: usize| -> Vec<Vec<Day>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let of = |sizing: &Sizing| run(PerPodTarget::Utilization(70), *sizing, &demand);
        let pool = pool.build().expect("threads");
        pool.install(|| sizings.par_iter().map(of).collect())
    };
    let one = all(1);
    assert_eq!(all(1), one);
    assert_eq!(all(2), one);
}
