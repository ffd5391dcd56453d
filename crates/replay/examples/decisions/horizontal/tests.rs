//! Replays of demands whose outcome is known.

use forecast::{PeakConfig, PriceOfFailure};
use horizontal::predictions::Method;
use rayon::prelude::*;
use replay::horizontal::{Autoscaler, Bounds, Demand, Program, Score};

use super::predictors::{Oracle, Predictor, SeasonalLevel};

const DAY: usize = 1440;

fn demand(days: usize, load: impl Fn(usize) -> f64) -> Demand {
    let minutes = (0..days * DAY).map(|minute| Some(load(minute)));
    Demand {
        start: 1_767_225_600,
        minutes: minutes.collect(),
    }
}

/// 10 pods of demand, and 30 from 8 to 16 o'clock.
fn office(minute: usize) -> f64 {
    if (480..960).contains(&(minute % DAY)) {
        30.0
    } else {
        10.0
    }
}

/// Replays the last day.
fn replay(demand: &Demand, ready_minutes: i64, predictor: Option<&mut dyn Predictor>) -> Score {
    let values =
        predictor.map(|predictor| demand.published(|end, value| predictor.minute(end, value)));
    let days = demand.minutes.len() / DAY;
    let last = (days - 1) * DAY..days * DAY;
    autoscaler(ready_minutes).run(demand, values.as_deref(), last)
}

fn autoscaler(ready_minutes: i64) -> Autoscaler {
    Autoscaler {
        ready_seconds: 60 * ready_minutes,
        lag_seconds: 15,
        target: 0.7,
        is_measured: true,
        bounds: Bounds {
            min: 1,
            max: 10_000,
        },
    }
}

#[test]
fn a_constant_demand_is_never_scaled() {
    let score = replay(&demand(3, |_| 7.0), 10, None);
    assert_eq!((score.scalings, score.violations), (0.0, 0.0));
    assert!((score.pods() - 10.0).abs() < 1e-9, "{score:?}");
}

#[test]
fn the_native_hpa_is_late_by_the_time_pods_need() {
    for ready_minutes in [2, 10] {
        let score = replay(&demand(3, office), ready_minutes, None);
        // The first minute of the rise is known after it and the lag. It then takes two passes to
        // add the pods, since a pass at most doubles them.
        let expected = ready_minutes as f64 + 1.5;
        assert!(
            (score.violations - expected).abs() <= 0.25,
            "{ready_minutes}: {score:?}"
        );
        assert!(score.oscillations < 1.0, "{score:?}");
    }
}

#[test]
fn predictions_of_a_daily_rise_are_in_time() {
    let demand = demand(9, office);
    for ready_minutes in [2, 10] {
        let window = ready_minutes + 5;
        let method = Method::Peak(PeakConfig {
            step_seconds: 60,
            window_seconds: 60 * window as u32,
            price_of_failure: PriceOfFailure::NORMAL,
        });
        let predictors: [Box<dyn Predictor>; 3] = [
            Box::new(Oracle::new(&demand, window)),
            Box::new(SeasonalLevel::new(window)),
            Box::new(Program::new(method, 3600)),
        ];
        for (which, mut predictor) in predictors.into_iter().enumerate() {
            let score = replay(&demand, ready_minutes as i64, Some(predictor.as_mut()));
            assert!(
                score.violations < 0.1,
                "{which}, {ready_minutes}: {score:?}"
            );
        }
    }
}

#[test]
fn minutes_without_a_measurement_are_not_scored() {
    let mut demand = demand(3, office);
    demand.minutes[2 * DAY + 400..2 * DAY + 500].fill(None);
    let score = replay(&demand, 10, None);
    assert!((score.minutes - 1340.0).abs() < 1e-9, "{score:?}");
}

#[test]
fn a_replay_gives_the_same_scores_each_time_with_any_number_of_threads() {
    let demands: Vec<Demand> = (0..6)
        .map(|shift| demand(4, move |minute| office(minute + 97 * shift)))
        .collect();
    let run = |threads: usize| -> Vec<Score> {
        let score = |demand: &Demand| {
            let method = Method::Peak(PeakConfig {
                step_seconds: 60,
                window_seconds: 420,
                price_of_failure: PriceOfFailure::NORMAL,
            });
            replay(demand, 2, Some(&mut Program::new(method, 3600)))
        };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().expect("threads");
        pool.install(|| demands.par_iter().map(score).collect())
    };
    let one = run(1);
    assert_eq!(run(1), one);
    assert_eq!(run(2), one);
}
