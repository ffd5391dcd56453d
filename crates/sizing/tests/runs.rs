//! Histories that count in runs: parallel runs in any order, restarts, rare and frequent runs, OOM
//! kills, many pods.

use jiff::Timestamp;
use model::{Cpu, Memory};
use proptest::prelude::*;
use sizing::{
    Amounts, Instant, MemoryRules, MethodHistory, MethodSettings, Observation, StoredMethodHistory,
};

const START: i64 = 1_800_000_000;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const WEEK: i64 = 7 * DAY;
const MIB: i64 = 1 << 20;

fn policy(more: &[(&str, &str)]) -> MethodSettings {
    let own = [
        ("plimsoll.dev/sizing-policy", "plimsoll"),
        ("plimsoll.dev/sizing-history-unit", "runs"),
    ];
    let all = own.into_iter().chain(more.iter().copied());
    let settings = MethodSettings::from_annotations(all);
    settings.expect("valid").expect("a method")
}

fn at(second: i64) -> Instant {
    let time = Timestamp::from_second(START + second).expect("in range");
    time.into()
}

/// A sample: second, pod, millicores and MiB.
type Used = (i64, u64, i64, i64);

/// A history that counts in runs.
#[derive(Clone)]
struct Runs {
    policy: MethodSettings,
    history: MethodHistory,
}

impl Runs {
    fn new() -> Self {
        let policy = policy(&[]);
        let history = MethodHistory::new(&policy, at(0));
        Self { policy, history }
    }

    fn add(&mut self, (second, pod, millicores, mebibytes): Used) {
        let usage = Observation::Usage {
            cpu: Some(Cpu::from_millicores(millicores)),
            memory: Some(Memory::from_bytes(mebibytes * MIB)),
        };
        self.history.observe(&self.policy, pod, usage, at(second));
    }

    fn kill(&mut self, second: i64, pod: u64, mebibytes: i64) {
        let kill = Observation::Oom {
            request: Memory::from_bytes(mebibytes * MIB),
            rules: MemoryRules::default(),
        };
        self.history.observe(&self.policy, pod, kill, at(second));
    }

    /// A run of this many minutes with a sample each. Only this pod runs, and then it ends.
    fn run(&mut self, second: i64, pod: u64, minutes: i64, millicores: i64, mebibytes: i64) {
        for minute in 0..minutes {
            self.add((second + minute * 60, pod, millicores, mebibytes));
            self.history.end_runs(|other| other == pod);
        }
        self.end();
    }

    fn end(&mut self) {
        self.history.end_runs(|_| false);
    }

    /// CPU in millicores and memory in MiB, rounded up.
    fn requests(&self) -> (i64, i64) {
        let Amounts { cpu, memory } = self.history.recommend(&self.policy).expect("a run");
        (cpu.millicores(), (memory.bytes() + MIB - 1) / MIB)
    }

    fn step(&self, resource: usize, name: &str) -> f64 {
        let steps = self.history.explain(&self.policy).expect("a run");
        let step = steps[resource].iter().find(|step| step.name == name);
        step.and_then(|step| step.value).expect("a number")
    }

    fn text(&self) -> String {
        serde_json::to_string(&self.history.save(&self.policy)).expect("JSON")
    }

    fn restarted(&self) -> Self {
        let stored: StoredMethodHistory = serde_json::from_str(&self.text()).expect("JSON");
        let history = MethodHistory::load(&self.policy, stored).expect("what was saved");
        let policy = self.policy.clone();
        Self { policy, history }
    }
}

/// Samples of up to five parallel runs within an hour, each in order of time.
fn parallel_runs() -> impl Strategy<Value = Vec<Used>> {
    let usage = (1..HOUR, 1..6_u64, 0..4000_i64, 1..8000_i64);
    prop::collection::vec(usage, 1..80)
}

proptest! {
    #[test]
    fn the_order_of_samples_of_parallel_runs_does_not_matter(
        batches in prop::collection::vec((parallel_runs(), any::<bool>()), 1..5),
        keys in prop::collection::vec(any::<u32>(), 80),
        killed in prop::collection::vec((0..5_i64, 1..6_u64, 1..8000_i64), 0..3),
    ) {
        let [mut by_time, mut shuffled] = [(); 2].map(|()| Runs::new());
        for (batch, (samples, ends)) in (0_i64..).zip(batches) {
            let place = |(second, pod, cpu, memory): &Used| {
                (batch * DAY + second, pod + batch as u64 * 10, *cpu, *memory)
            };
            let mut samples: Vec<Used> = samples.iter().map(place).collect();
            samples.sort_unstable();
            for used in &samples {
                by_time.add(*used);
            }
            let mut keyed: Vec<_> = keys.iter().cycle().zip(samples).collect();
            keyed.sort_unstable();
            for (_, used) in keyed {
                shuffled.add(used);
            }
            for (hour, pod, request) in &killed {
                if *hour == batch {
                    for runs in [&mut by_time, &mut shuffled] {
                        runs.kill(batch * DAY + HOUR, *pod, *request);
                    }
                }
            }
            for runs in [&mut by_time, &mut shuffled] {
                if ends {
                    runs.end();
                }
            }
            prop_assert_eq!(by_time.requests(), shuffled.requests());
        }
        prop_assert_eq!(by_time.text(), shuffled.text());
    }

    #[test]
    fn a_restart_keeps_the_number_and_all_later_ones_to_the_last_digit(
        before in prop::collection::vec((1..2 * DAY, 1..40_u64, 0..4000_i64, 1..8000_i64), 1..100),
        after in prop::collection::vec((1..2 * DAY, 1..40_u64, 0..4000_i64, 1..8000_i64), 0..50),
        ends in 0..7_u64,
    ) {
        let mut lived = Runs::new();
        let mut second = 0;
        for (gap, pod, cpu, memory) in before {
            second += gap;
            lived.add((second, pod, cpu, memory));
            lived.history.end_runs(|pod| pod % 7 > ends);
        }
        let mut restarted = lived.restarted();
        prop_assert_eq!(restarted.history.recommend(&restarted.policy), lived.history.recommend(&lived.policy));
        for (gap, pod, cpu, memory) in after {
            second += gap;
            for runs in [&mut lived, &mut restarted] {
                runs.add((second, pod, cpu, memory));
            }
            prop_assert_eq!(restarted.history.recommend(&restarted.policy), lived.history.recommend(&lived.policy));
        }
        prop_assert_eq!(restarted.text(), lived.text());
    }

    #[test]
    fn the_request_is_at_least_the_memory_of_a_run_in_progress(
        needs in prop::collection::vec(1..20_000_i64, 1..60),
        now in 1..20_000_i64,
    ) {
        let mut runs = Runs::new();
        for (day, need) in (0..).zip(&needs) {
            runs.run(day * DAY, day as u64 + 1, 3, 100, *need);
        }
        runs.add((needs.len() as i64 * DAY, 1000, 100, now));
        runs.history.end_runs(|pod| pod == 1000);
        prop_assert!(runs.requests().1 >= now, "{} for {now}", runs.requests().1);
    }
}

#[test]
fn a_run_counts_once_however_long_it_lasts() {
    // Long runs of little, and short ones of much: time would forget the short ones.
    let [mut long, mut short] = [(); 2].map(|()| Runs::new());
    for day in 0..20 {
        let (odd, pod) = (day % 2 == 1, day as u64 + 1);
        let (cpu, memory) = if odd { (900, 3000) } else { (100, 300) };
        long.run(day * DAY, pod, if odd { 1 } else { 600 }, cpu, memory);
        short.run(day * DAY, pod, 1, cpu, memory);
    }
    for resource in [0, 1] {
        for name in ["history", "median-need-of-runs", "mean-need-of-runs"] {
            let [long, short] = [&long, &short].map(|runs| runs.step(resource, name));
            assert!(
                (long - short).abs() < 1e-3 * short,
                "{name}: {long} {short}"
            );
        }
        assert!((long.step(resource, "history") - 20.0).abs() < 1e-9);
    }
    assert_eq!(long.requests().0, short.requests().0);
    for runs in [&long, &short] {
        let (cpu, memory) = runs.requests();
        assert!(cpu >= 900 && memory >= 3000, "{cpu}m, {memory} MiB");
    }
    assert!(
        long.requests().1 <= short.requests().1,
        "long ones cost more"
    );
}

#[test]
fn a_weekly_run_is_not_forgotten_and_a_busy_one_each_day_neither() {
    let mut weekly = Runs::new();
    for week in 0..10 {
        weekly.run(week * WEEK, week as u64 + 1, 5, 500, 2000);
    }
    let (cpu, memory) = weekly.requests();
    assert!(cpu >= 500 && memory >= 2000, "{cpu}m, {memory} MiB");
    assert!((weekly.step(1, "history") - 10.0).abs() < 1e-9);

    // A run in each quarter of an hour, of which one per day needs more.
    let mut frequent = Runs::new();
    for run in 0..5 * 96 {
        let (cpu, memory) = if run % 96 == 0 {
            (800, 3000)
        } else {
            (100, 300)
        };
        frequent.run(run * 900, run as u64 + 1, 1, cpu, memory);
    }
    assert!(frequent.requests().1 >= 3000, "{:?}", frequent.requests());
}

#[test]
fn a_lasting_fall_is_followed_when_enough_runs_show_it() {
    let mut runs = Runs::new();
    for day in 0..400 {
        let memory = if day < 20 { 3000 } else { 300 };
        runs.run(day * DAY, day as u64 + 1, 2, 200, memory);
        let found = runs.requests().1;
        match day {
            20..40 => assert!(found >= 3000, "day {day}: {found}"),
            399 => assert!((300..700).contains(&found), "{found}"),
            _ => {}
        }
    }
}

#[test]
fn cpu_counts_with_the_95th_percentile_of_a_run() {
    let mut runs = Runs::new();
    for day in 0..30 {
        for minute in 0..100 {
            let millicores = if minute < 4 { 4000 } else { 400 };
            runs.add((day * DAY + minute * 60, day as u64 + 1, millicores, 300));
        }
        runs.end();
    }
    let (cpu, _) = runs.requests();
    assert!((400..800).contains(&cpu), "{cpu}");
}

#[test]
fn an_oom_kill_raises_memory_and_holds_it_for_a_day_and_for_seven_runs() {
    for (gap, held) in [(HOUR, 24), (DAY, 7)] {
        let mut runs = Runs::new();
        for run in 0..30 {
            runs.run(run * gap, run as u64 + 1, 3, 100, 300);
        }
        let killed = 30 * gap;
        runs.kill(killed, 31, 2000);
        assert_eq!(runs.requests().1, 2400, "without any sample of the run");
        runs.end();
        for run in 1..=held {
            let minimum = runs.step(1, "minimum-after-oom-kill");
            assert!((minimum - 2400.0).abs() < 1e-6, "run {run}");
            assert!(runs.requests().1 >= 2400, "run {run}");
            runs.run(killed + run * gap, 31 + run as u64, 3, 100, 300);
        }
        let steps = runs.history.explain(&runs.policy).expect("runs");
        let ended = steps[1]
            .iter()
            .all(|step| step.name != "minimum-after-oom-kill");
        assert!(ended, "after {held} runs each {gap} s");
        // A second kill in the same pod with the same request changes nothing.
        let mut again = runs.clone();
        for runs in [&mut runs, &mut again] {
            runs.kill(killed + 40 * gap, 100, 3000);
        }
        again.kill(killed + 40 * gap, 100, 3000);
        assert_eq!(runs.text(), again.text());
        assert!(runs.requests().1 >= 3600);
    }
}

#[test]
fn runs_in_progress_raise_memory_only_and_the_first_ones_count_at_once() {
    let mut runs = Runs::new();
    runs.add((0, 1, 400, 500));
    let (cpu, memory) = runs.requests();
    assert!((400..=800).contains(&cpu) && (500..=1000).contains(&memory));
    runs.end();
    for day in 1..10 {
        runs.run(day * DAY, day as u64 + 1, 5, 400, 500);
    }
    let before = runs.requests();
    runs.add((10 * DAY, 20, 3000, 100));
    runs.history.end_runs(|pod| pod == 20);
    assert_eq!(runs.requests(), before, "a peak of CPU may pass");
    runs.add((10 * DAY + 60, 20, 400, 4000));
    assert!(runs.requests().1 >= 4000);
    assert!((runs.step(1, "runs-in-progress") - 1.0).abs() < 1e-9);
}

#[test]
fn a_pod_that_pauses_is_one_run_and_one_that_is_silent_for_long_has_ended() {
    for (pause, expected) in [(2 * HOUR, 0.0), (4 * HOUR, 1.0)] {
        let mut runs = Runs::new();
        runs.add((0, 1, 100, 300));
        runs.add((pause, 1, 100, 300));
        runs.add((pause + 60, 2, 100, 300));
        runs.history.end_runs(|_| true);
        let found = f64::from(runs.history.counts_runs()) * runs.step(0, "history");
        // Without an ended run, those in progress count.
        let expected = if expected > 0.0 { expected } else { 2.0 };
        assert!((found - expected).abs() < 1e-9, "{pause}: {found}");
    }
}

#[test]
fn runs_that_ended_ten_minutes_ago_are_not_kept_one_by_one_and_late_samples_count() {
    let mut runs = Runs::new();
    for minute in 0..60 {
        runs.run(minute * 60, minute as u64 + 1, 1, 100, 300);
    }
    let count = |runs: &Runs| {
        let stored: serde_json::Value = serde_json::from_str(&runs.text()).expect("JSON");
        let recent = &stored["history"]["history"]["runs"]["recent"];
        recent.as_object().expect("runs by pod").len()
    };
    assert_eq!(count(&runs), 11);
    assert!((runs.step(0, "history") - 60.0).abs() < 1e-9);
    // A sample of the last pod that comes after its end.
    runs.add((60 * 60, 60, 100, 2000));
    runs.end();
    assert!((runs.step(0, "history") - 60.0).abs() < 1e-9);
    assert!(runs.requests().1 >= 2000);
}

#[test]
fn thousands_of_parallel_pods_take_bounded_memory_and_none_is_ignored() {
    let mut runs = Runs::new();
    for minute in 0..10 {
        for pod in 1..2000 {
            let memory = if pod == 1777 { 9000 } else { 200 };
            runs.add((minute * 60, pod, 100, memory));
        }
        runs.history.end_runs(|_| true);
    }
    assert!(runs.requests().1 >= 9000);
    runs.kill(600, 1888, 20_000);
    assert!(runs.requests().1 >= 24_000);
    assert!(runs.text().len() < 30_000, "{} bytes", runs.text().len());
    // Runs that have ended make room.
    for pod in 10_000..12_000 {
        runs.run(DAY + pod as i64, pod, 1, 100, 200);
    }
    assert!(runs.step(0, "history") > 2000.0);
    assert!(runs.text().len() < 30_000);
}

#[test]
fn a_history_is_young_until_enough_runs_have_ended() {
    for (settings, least) in [
        (&[][..], 3),
        (&[("plimsoll.dev/sizing-minimum-runs", "1")], 1),
    ] {
        let policy = policy(settings);
        let mut runs = Runs {
            policy: policy.clone(),
            ..Runs::new()
        };
        for run in 1..=5 {
            runs.run(run * 60, run as u64, 1, 100, 300);
            let expected = run < least;
            assert_eq!(
                runs.history.is_young(&policy),
                expected,
                "run {run} of {least}"
            );
        }
    }
}

#[test]
fn bounds_are_the_median_and_the_raised_largest_need() {
    let mut runs = Runs::new();
    for day in 0..9 {
        runs.run(day * DAY, day as u64 + 1, 2, 100, 300 + day * 100);
    }
    let [lower, upper] = runs.history.bounds_of_runs(&runs.policy).expect("runs");
    let lower = lower.memory.bytes() / MIB;
    assert!((700..800).contains(&lower), "{lower}");
    let largest = runs.step(1, "largest-expected-need-of-runs");
    let largest = largest.max(runs.requests().1 as f64);
    let raised = upper.memory.bytes() as f64 / MIB as f64;
    assert!(
        (raised - largest * 10.0 / 9.0).abs() < 2.0,
        "{raised} {largest}"
    );
}
