use super::*;

const DAY: usize = 24 * 12;

/// Slots of five minutes.
fn series(days: usize, usage: impl Fn(usize) -> f64) -> Series {
    Series {
        start: 1_577_836_800,
        step: 300,
        usage: (0..days * DAY).map(usage).collect(),
        provisioned: 2000.0,
    }
}

/// 1,000 for eight hours of a day, with some noise, else 200.
fn daily(slot: usize) -> f64 {
    let noise = 1.0 + (slot * 7919 % 101) as f64 / 1000.0;
    let is_busy = (8 * 12..16 * 12).contains(&(slot % DAY));
    noise * if is_busy { 1000.0 } else { 200.0 }
}

/// A level that changes at random every three hours.
fn random(slot: usize) -> f64 {
    let mut state = (slot / 36) as u64;
    100.0 + (crate::bootstrap::split_mix(&mut state) % 1000) as f64
}

#[test]
fn forecasts_depend_on_no_later_sample() {
    for usage in [daily, random] {
        let whole = Forecasts::new(&series(20, usage));
        let days = 15;
        let past = Forecasts::new(&series(days, usage));
        let hours = days * 24 + 1;
        assert_eq!(past.is_proven[..], whole.is_proven[..hours]);
        assert_eq!(past.profile[..], whole.profile[..hours]);
        assert_eq!(past.forecaster[..], whole.forecaster[..hours]);
    }
}

#[test]
fn a_daily_profile_is_proven_within_eight_days_and_a_random_one_never() {
    let daily = Forecasts::new(&series(20, daily));
    assert!(daily.is_proven[8 * 24..].iter().all(|is_proven| *is_proven));
    let random = Forecasts::new(&series(20, random));
    assert!(!random.is_proven.contains(&true));
}

fn requests(series: &Series, early_raises: bool, policy: &mut dyn Policy) -> Vec<f64> {
    let executor = Executor {
        early_raises,
        ..Executor::new(Resource::Cpu)
    };
    let mut requests = Vec::new();
    executor.trace_pods(std::slice::from_ref(series), policy, |_, request| {
        requests.push(request);
    });
    requests
}

fn by_hour(series: &Series, design: Design, early_raises: bool) -> ByHour {
    let executor = Executor {
        early_raises,
        ..Executor::new(Resource::Cpu)
    };
    let rules = Rules {
        design,
        settings: settings(&executor),
        lasts: !early_raises,
        change: CHEAP,
    };
    ByHour::new(rules, Arc::new(Forecasts::new(series)))
}

#[test]
fn a_proven_request_is_lower_at_night_and_raised_before_the_day() {
    let series = series(20, daily);
    for (_, design) in DESIGNS {
        for early_raises in [true, false] {
            let mut policy = by_hour(&series, design, early_raises);
            let requests = requests(&series, early_raises, &mut policy);
            let day = 18 * DAY;
            let night = requests[day + 3 * 12];
            assert!(night < 500.0, "{design:?}: {night}");
            let short = (day..day + DAY).find(|slot| requests[*slot] < series.usage[*slot]);
            assert_eq!(short, None, "{design:?}");
        }
    }
}

#[test]
fn an_unproven_request_is_the_flat_one() {
    let series = series(20, random);
    let executor = Executor {
        early_raises: true,
        ..Executor::new(Resource::Cpu)
    };
    let flat = requests(&series, true, &mut PriceOfFailure::new(settings(&executor)));
    let mut policy = by_hour(&series, Design::Profile, true);
    assert_eq!(requests(&series, true, &mut policy), flat);
}

/// Wants 100 until the second hour, then 500.
struct Step;

impl Policy for Step {
    fn observe(&mut self, _pod: usize, _at: jiff::Timestamp, _usage: f64) {}

    fn recommend(&mut self, now: jiff::Timestamp, _request: f64) -> Option<f64> {
        let is_late = now.as_second() >= 1_577_836_800 + 2 * HOUR;
        Some(if is_late { 500.0 } else { 100.0 })
    }
}

#[test]
fn a_late_raise_comes_a_slot_late_and_a_refused_one_does_not_come() {
    for (failure, share, changes) in [
        (Failure::Late, 0.0, Some(24)),
        (Failure::Late, 1.0, Some(25)),
        (Failure::Refused(6), 1.0, None),
    ] {
        let mut policy = FailingRaises {
            policy: Box::new(Step),
            share,
            failure,
            seed: 1,
            late: None,
            refused_until: None,
        };
        let requests = requests(&series(1, |_| 10.0), true, &mut policy);
        let raised = requests.iter().skip(13).position(|it| *it > 400.0);
        assert_eq!(raised.map(|slot| slot + 13), changes, "{failure:?}");
    }
}
