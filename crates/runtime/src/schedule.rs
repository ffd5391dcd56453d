//! The times of a loop's passes: after a change that has settled, when something is due, and once per
//! interval, with a pause after each pass.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// The pace of passes. All durations are zero and there is no resync by default.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Time from the first change to the pass, during which further changes are collected.
    pub settle: Duration,
    /// Minimum pause after a pass.
    pub min_pause: Duration,
    /// Pause after a pass, as a multiple of its duration: it leaves the CPU to others.
    pub pause_factor: u32,
    /// Interval of full passes; `Duration::MAX` for none.
    pub resync: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            settle: Duration::ZERO,
            min_pause: Duration::ZERO,
            pause_factor: 0,
            resync: Duration::MAX,
        }
    }
}

/// The time of the next pass.
#[derive(Debug)]
pub struct PassSchedule {
    pace: Pace,
    /// `None` if no pass is due.
    next: Option<Instant>,
    /// The time from which a pass is a full one; `None` if each is.
    full_at: Option<Instant>,
    /// The end of the pause after the last pass.
    not_before: Option<Instant>,
}

impl PassSchedule {
    /// A schedule without a due pass.
    pub fn new(pace: Pace) -> Self {
        Self {
            pace,
            next: None,
            full_at: None,
            not_before: None,
        }
    }

    pub fn next(&self) -> Option<Instant> {
        self.next
    }

    pub async fn due(&self) {
        at(self.next).await;
    }

    /// Makes a pass due once changes have settled.
    pub fn changed(&mut self, now: Instant) {
        self.wake_at(now + self.pace.settle);
    }

    /// Makes a pass due at `time`, but not before the pause is over.
    pub fn wake_at(&mut self, time: Instant) {
        let time = self.not_before.map_or(time, |end| end.max(time));
        self.next = Some(self.next.map_or(time, |next| next.min(time)));
    }

    /// Records the begin of a pass, which sees all changes until now. Returns whether it is full.
    pub fn begin(&mut self, now: Instant) -> bool {
        let is_full = self.full_at.is_none_or(|full_at| full_at <= now);
        if is_full {
            self.full_at = now.checked_add(self.pace.resync);
        }
        self.next = self.full_at;
        is_full
    }

    /// Records the end of a pass after `took`. Passes that are due already wait for the pause.
    pub fn end(&mut self, took: Duration, now: Instant) {
        let end = now + self.pace.min_pause.max(took * self.pace.pause_factor);
        self.not_before = Some(end);
        self.next = self.next.map(|next| next.max(end));
    }
}

/// Sleeps until a time; for ever without one.
pub async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        settle: Duration::from_secs(1),
        min_pause: Duration::from_secs(2),
        pause_factor: 5,
        resync: Duration::from_mins(1),
    };

    /// Seconds from the end of a pass of `took` seconds, which began at once, to the next one.
    fn check(took: f64, then: impl FnOnce(&mut PassSchedule, Instant), expected: f64) {
        let began = Instant::now();
        let took = Duration::from_secs_f64(took);
        let mut schedule = PassSchedule::new(PACE);
        schedule.wake_at(began);
        assert_eq!(schedule.next(), Some(began));
        assert!(schedule.begin(began), "the first pass is a full one");
        let ended = began + took;
        schedule.end(took, ended);
        then(&mut schedule, ended);
        let next = schedule.next().expect("a resync is due") - ended;
        assert_eq!(next, Duration::from_secs_f64(expected));
    }

    #[test]
    fn the_next_pass_is_at_the_earliest_time_after_the_pause() {
        let after = Duration::from_secs;
        check(0.1, |_, _| {}, 59.9);
        check(20.0, |_, _| {}, 100.0);
        check(0.1, PassSchedule::changed, 2.0);
        check(
            0.1,
            |schedule, ended| schedule.changed(ended + after(4)),
            5.0,
        );
        check(1.0, PassSchedule::changed, 5.0);
        check(
            0.1,
            |schedule, ended| schedule.wake_at(ended + after(9)),
            9.0,
        );
        check(
            0.1,
            |schedule, ended| schedule.wake_at(ended - after(9)),
            2.0,
        );
        let first_change_counts = |schedule: &mut PassSchedule, ended| {
            schedule.changed(ended + after(4));
            schedule.changed(ended + after(5));
        };
        check(0.1, first_change_counts, 5.0);
    }

    #[test]
    fn a_change_during_a_pass_waits_for_the_pause() {
        let began = Instant::now();
        let mut schedule = PassSchedule::new(PACE);
        schedule.begin(began);
        schedule.changed(began);
        schedule.end(Duration::from_secs(3), began + Duration::from_secs(3));
        assert_eq!(schedule.next(), Some(began + Duration::from_secs(18)));
    }

    #[test]
    fn passes_between_resyncs_are_not_full() {
        let began = Instant::now();
        let mut schedule = PassSchedule::new(PACE);
        for (seconds, is_full) in [(0, true), (1, false), (59, false), (60, true), (119, false)] {
            let now = began + Duration::from_secs(seconds);
            assert_eq!(schedule.begin(now), is_full, "after {seconds} s");
        }
        assert_eq!(schedule.next(), Some(began + Duration::from_mins(2)));
    }

    #[test]
    fn nothing_is_due_without_a_change_and_a_resync() {
        let now = Instant::now();
        let mut schedule = PassSchedule::new(Pace::default());
        assert_eq!(schedule.next(), None);
        for _ in 0..2 {
            schedule.changed(now);
            assert_eq!(schedule.next(), Some(now));
            assert!(schedule.begin(now));
            schedule.end(Duration::from_secs(1), now);
            assert_eq!(schedule.next(), None);
        }
    }
}
