//! Behaviour of the sizing policy "price of failure" on simple usage.

use jiff::{SignedDuration, Timestamp};
use sizing::price_of_failure::{Choice, History, Reason, Settings};

/// A container whose request follows the policy, with a sample every five minutes.
struct Container {
    settings: Settings,
    history: History,
    now: Timestamp,
    request: f64,
}

impl Container {
    fn new(settings: Settings, request: f64) -> Self {
        Self {
            settings,
            history: History::default(),
            now: Timestamp::UNIX_EPOCH,
            request,
        }
    }

    /// Runs with this usage and applies every choice. Returns them.
    fn run(&mut self, hours: usize, usage: impl Fn(usize) -> f64) -> Vec<Choice> {
        let mut choices = Vec::new();
        for slot in 0..hours * 12 {
            self.history.add(&self.settings, usage(slot), self.now);
            self.now += SignedDuration::from_mins(5);
            let choice = self.history.choose(&self.settings, self.request, self.now);
            choices.extend(choice);
            self.request = choice.map_or(self.request, |choice| choice.recommended);
        }
        choices
    }
}

#[test]
fn steady_usage_gets_a_little_more_than_itself() {
    for (settings, usage, most) in [
        (Settings::MEMORY, 1024.0, 1.35),
        (Settings::MEMORY, 30.0, 1.5 * 1.08),
        (Settings::CPU, 300.0, 1.35),
        (Settings::CPU_HOURLY, 300.0, 1.17),
    ] {
        let mut container = Container::new(settings, 8.0 * usage);
        let choices = container.run(8 * 24, |_| usage);
        let ratio = container.request / usage;
        assert!((1.0..most).contains(&ratio), "{usage}: {ratio}");
        let late = choices.iter().skip(3 * 24 * 12);
        assert!(
            late.clone().all(|choice| choice.reason != Reason::Larger),
            "{usage}"
        );
    }
}

#[test]
fn a_daily_peak_is_kept() {
    let usage = |slot: usize| if slot % 288 < 12 { 2000.0 } else { 500.0 };
    let mut container = Container::new(Settings::MEMORY, 4000.0);
    container.run(4 * 24, usage);
    let choices = container.run(10 * 24, usage);
    assert!(choices.iter().all(|choice| choice.recommended >= 2000.0));
}

#[test]
fn usage_above_the_request_is_answered_with_the_needs_that_fit_it() {
    let mut container = Container::new(Settings::CPU, 100.0);
    container.run(48, |slot| if slot / 12 % 8 == 0 { 4000.0 } else { 100.0 });
    container.request = 200.0;
    let short = container.run(1, |_| 1500.0)[0];
    assert_eq!(short.reason, Reason::Short);
    assert!(short.recommended >= 4000.0, "{short:?}");
    let record = container.run(1, |_| 20_000.0)[0];
    assert_eq!(record.reason, Reason::Short);
    assert!((record.recommended - 26_000.0).abs() < 1e-6, "{record:?}");
}

#[test]
fn memory_that_rises_is_answered_before_it_reaches_the_request() {
    let mut container = Container::new(Settings::MEMORY, 1000.0);
    container.run(2, |_| 500.0);
    container.request = 1000.0;
    assert!(!container.history.is_short(&container.settings, 1000.0));
    container
        .history
        .add(&container.settings, 800.0, container.now);
    assert!(container.history.is_short(&container.settings, 900.0));
    assert!(!container.history.is_short(&container.settings, 1000.0));
}

#[test]
fn an_oom_kill_counts_as_a_need_above_the_request() {
    let mut container = Container::new(Settings::MEMORY, 4000.0);
    container.run(72, |_| 500.0);
    container
        .history
        .add_oom(&container.settings, 1000.0, container.now);
    container.run(2, |_| 500.0);
    assert!(container.request > 1200.0, "{}", container.request);
}

#[test]
fn a_stored_history_continues_as_if_nothing_had_happened() {
    let usage = |slot: usize| 300.0 + 250.0 * ((slot * 7919) % 1009) as f64 / 1009.0;
    for settings in [Settings::CPU, Settings::CPU_HOURLY, Settings::MEMORY] {
        let mut container = Container::new(settings, 1000.0);
        container.run(5 * 24 + 3, usage);
        let json = serde_json::to_string(&container.history).expect("JSON");
        let history: History = serde_json::from_str(&json).expect("a history");
        assert_eq!(history.invalid_part(), None);
        assert_eq!(history, container.history);
        let mut restored = Container {
            history,
            settings: container.settings,
            now: container.now,
            request: container.request,
        };
        assert_eq!(restored.run(72, usage), container.run(72, usage));
    }
}

#[test]
fn odd_samples_are_ignored_and_late_ones_count() {
    let mut history = History::default();
    let at = |hour: i64| Timestamp::from_second(hour * 3600).expect("a time");
    for usage in [f64::NAN, f64::INFINITY, -1.0] {
        history.add(&Settings::MEMORY, usage, at(1));
    }
    assert_eq!(history.choose(&Settings::MEMORY, 100.0, at(3)), None);
    history.add(&Settings::MEMORY, 50.0, at(3));
    history.add(&Settings::MEMORY, 500.0, at(1));
    let choice = history
        .choose(&Settings::MEMORY, 100.0, at(4))
        .expect("a choice");
    assert!((choice.highest - 500.0).abs() < 1e-9, "{choice:?}");
}
