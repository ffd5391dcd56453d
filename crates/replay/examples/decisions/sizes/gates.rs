//! Gates of our own policy on generated usage: bounded reactions, no absurd recommendation, and no
//! more OOM kills than peers.

use jiff::Timestamp;
use replay::peers::{AnnotatedPolicy, Vpa};
use replay::{EntityScore, Executor, Policy, Resource, Score, Series};
use sizing::price_of_failure::Settings;

use super::policies::run_all;
use crate::price_of_failure::PriceOfFailure;

/// Slots of five minutes.
const HOUR: usize = 12;
const DAY: usize = 24 * HOUR;

fn series(days: usize, usage: impl Fn(usize) -> f64) -> Series {
    let usage: Vec<f64> = (0..days * DAY).map(usage).collect();
    let mut series = Series {
        start: 1_577_836_800,
        step: 300,
        usage,
        provisioned: 0.0,
    };
    series.provisioned = 3.0 * series.peak();
    series
}

/// A number from -1 to 1 that looks random.
fn noise(slot: usize) -> f64 {
    let mixed = (slot as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (mixed >> 40) as f64 / f64::from(1 << 23) - 1.0
}

/// A level with 5 % of noise.
fn about(level: f64, slot: usize) -> f64 {
    level * (1.0 + 0.05 * noise(slot))
}

/// A busy time of two hours every day.
fn daily(slot: usize, hour: usize) -> f64 {
    let is_busy = (hour * HOUR..(hour + 2) * HOUR).contains(&(slot % DAY));
    about(if is_busy { 1800.0 } else { 400.0 }, slot)
}

/// Two hours on one day of the week.
fn weekly_batch(slot: usize) -> f64 {
    let is_busy = (3 * HOUR..5 * HOUR).contains(&(slot % (7 * DAY)));
    about(if is_busy { 3000.0 } else { 400.0 }, slot)
}

/// A leak of 1 GiB in three days, then a restart.
fn leak(slot: usize) -> f64 {
    about(
        500.0 + 1024.0 * (slot % (3 * DAY)) as f64 / (3 * DAY) as f64,
        slot,
    )
}

fn executor(resource: Resource, early_raises: bool) -> Executor {
    Executor {
        early_raises,
        ..Executor::new(resource)
    }
}

/// Every setting with the executor that it is meant for.
fn settings() -> [(Settings, Executor); 4] {
    [
        (Settings::CPU, executor(Resource::Cpu, true)),
        (Settings::CPU_HOURLY, executor(Resource::Cpu, false)),
        (Settings::MEMORY, executor(Resource::Memory, true)),
        (Settings::MEMORY, executor(Resource::Memory, false)),
    ]
}

fn replay(settings: Settings, executor: &Executor, series: &Series) -> (EntityScore, Vec<f64>) {
    let mut requests = Vec::new();
    let mut policy = PriceOfFailure::new(settings);
    let pods = std::slice::from_ref(series);
    let score = executor.trace_pods(pods, &mut policy, |_, request| requests.push(request));
    (score, requests)
}

fn run(executor: &Executor, series: &Series, policy: &mut dyn Policy) -> EntityScore {
    executor.trace_pods(std::slice::from_ref(series), policy, |_, _| ())
}

/// Checks every recommendation of the policy inside.
struct Checked(PriceOfFailure, f64);

impl Checked {
    fn check(&self, recommended: Option<f64>) -> Option<f64> {
        let most = 10.0 * self.1.max(10.0);
        if let Some(amount) = recommended {
            assert!(amount > 0.0 && amount <= most, "{amount} after {}", self.1);
        }
        recommended
    }
}

impl Policy for Checked {
    fn observe(&mut self, pod: usize, at: Timestamp, usage: f64) {
        self.1 = self.1.max(usage);
        self.0.observe(pod, at, usage);
    }

    fn oom(&mut self, at: Timestamp, request: f64) {
        self.1 = self.1.max(request);
        self.0.oom(at, request);
    }

    fn recommend(&mut self, now: Timestamp, request: f64) -> Option<f64> {
        let recommended = self.0.recommend(now, request);
        // A kept request may stem from before the first sample.
        self.check(recommended.filter(|amount| amount.to_bits() != request.to_bits()))
    }

    fn raise(&mut self, now: Timestamp, usage: f64, request: f64) -> Option<f64> {
        let recommended = self.0.raise(now, usage, request);
        self.check(recommended)
    }
}

#[test]
fn no_recommendation_is_absurd() {
    let generated = [
        series(14, |_| 0.0),
        series(14, |slot| about(0.5, slot)),
        series(14, |slot| about(1e6, slot)),
        series(14, |slot| daily(slot, 3)),
        series(14, leak),
        series(21, weekly_batch),
        series(14, |slot| if slot % 997 == 0 { 1e5 } else { 20.0 }),
        series(14, |slot| (1.0 + noise(slot)).powi(20)),
    ];
    for (settings, executor) in settings() {
        for factor in [0.01, 1.0, 100.0] {
            for series in &generated {
                let policy = PriceOfFailure::new(settings.times(factor));
                run(&executor, series, &mut Checked(policy, 0.0));
            }
        }
    }
}

#[test]
fn a_rise_is_followed_within_one_decision() {
    let rise = 10 * DAY + 5;
    for level in [50.0, 1000.0, 30_000.0] {
        let series = series(12, |slot| {
            about(if slot < rise { level } else { 3.0 * level }, slot)
        });
        for (settings, executor) in settings() {
            let (_, requests) = replay(settings, &executor, &series);
            let slots = if executor.early_raises { 2 } else { HOUR };
            let late = &requests[rise + slots];
            assert!(*late >= series.usage[rise + slots], "{level}: {late}");
        }
    }
}

#[test]
fn a_lasting_fall_of_cpu_is_followed_within_a_day() {
    let fall = 20 * DAY;
    for level in [200.0, 1000.0, 30_000.0] {
        for (settings, executor) in &settings()[..2] {
            let falling = series(22, |slot| {
                about(if slot < fall { level } else { level / 3.0 }, slot)
            });
            let low = series(22, |slot| about(level / 3.0, slot));
            let (_, requests) = replay(*settings, executor, &falling);
            let (_, steady) = replay(*settings, executor, &low);
            let (after_a_day, steady) = (requests[fall + DAY], steady[fall + DAY]);
            assert!(
                after_a_day <= 1.2 * steady,
                "{level}: {after_a_day}, {steady}"
            );
        }
    }
}

#[test]
fn steady_usage_changes_once_at_most() {
    let series = series(30, |slot| about(700.0, slot));
    for (settings, executor) in settings() {
        let (score, requests) = replay(settings, &executor, &series);
        let last = requests[requests.len() - 1];
        assert!((700.0..1000.0).contains(&last), "{last}");
        assert!(score.ooms + score.short_slots < 0.5, "{score:?}");
        assert!(score.changes <= 1.0, "{score:?}");
    }
}

#[test]
fn a_daily_peak_is_covered_also_after_the_clock_changes() {
    let shift = 20 * DAY;
    let series = series(30, |slot| daily(slot, if slot < shift { 9 } else { 10 }));
    for (settings, executor) in settings() {
        let (score, _) = replay(settings, &executor, &series);
        match executor.resource {
            Resource::Memory => assert!(score.ooms <= 1.0, "{score:?}"),
            Resource::Cpu => assert!(score.short_slots <= 30.0, "{score:?}"),
        }
    }
}

/// OOM kills under each of two peers and under our policy.
fn check_ooms(series: &Series) {
    for (settings, executor) in &settings()[2..] {
        let ours = replay(*settings, executor, series).0.ooms;
        let annotations = [
            ("policy", "autopilot-window"),
            ("memory-tolerance", "minimal"),
        ];
        let mut peak = AnnotatedPolicy::new(Resource::Memory, &annotations).expect("a policy");
        let peak = run(executor, series, &mut peak).ooms;
        let vpa = run(executor, series, &mut Vpa::new(Resource::Memory)).ooms;
        assert!(ours <= peak.max(vpa), "{ours}, peak {peak}, VPA {vpa}");
    }
}

#[test]
fn a_leak_and_a_weekly_batch_kill_no_more_often_than_under_peers() {
    check_ooms(&series(45, leak));
    check_ooms(&series(56, weekly_batch));
}

#[test]
fn a_replay_gives_the_same_scores_each_time_with_any_number_of_threads() {
    let series: Vec<Series> = (0..8)
        .map(|shift| series(12, |slot| daily(slot + 31 * shift, 6)))
        .collect();
    for (settings, executor) in settings() {
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
            pool.build().expect("threads").install(|| {
                run_all(&executor, &series, &|_| {
                    Box::new(PriceOfFailure::new(settings))
                })
            })
        };
        let one = run(1);
        assert_eq!(run(1), one);
        assert_eq!(run(2), one);
        assert!(Score::of(&one).aggregate_slack > 0.0);
    }
}

/// The recommender chooses with every sample, and the executor of a replay at full hours and when a
/// request is short.
#[test]
fn the_recommender_scores_as_our_policy_does_in_the_replay() {
    for (settings, executor) in settings()
        .into_iter()
        .filter(|(_, rules)| rules.early_raises)
    {
        let usages: [fn(usize) -> f64; 3] = [|slot| daily(slot, 6), weekly_batch, leak];
        for usage in usages {
            let series = series(45, usage);
            let replayed = replay(settings, &executor, &series).0;
            let annotations = [("policy", "plimsoll")];
            let policy = AnnotatedPolicy::new(executor.resource, &annotations);
            let run = run(&executor, &series, &mut policy.expect("a policy"));
            let slack =
                |score: &EntityScore| Score::of(std::slice::from_ref(score)).aggregate_slack;
            assert!(
                (slack(&run) - slack(&replayed)).abs() < 0.03,
                "{run:?}, {replayed:?}"
            );
            assert!(run.ooms <= replayed.ooms, "{run:?}, {replayed:?}");
        }
    }
}
