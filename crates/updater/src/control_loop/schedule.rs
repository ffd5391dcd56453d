//! The times of passes.

use std::time::Duration;

use tokio::time::Instant;

/// The pause after a pass, in lengths of that pass. It leaves the machine to others while thousands
/// of pods come and go.
const PAUSE_FACTOR: u32 = 5;
/// The shortest pause. A rollout makes hundreds of changes a second, and one pass takes all in.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The time of the next pass.
#[derive(Debug)]
pub(super) struct PassSchedule {
    interval: Duration,
    next: Instant,
    /// The time from which a pass is a full one.
    full_pass_at: Instant,
    /// The end of the pause after the last pass.
    not_before: Instant,
}

impl PassSchedule {
    /// A full pass is due at once.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self {
            interval,
            next: now,
            full_pass_at: now,
            not_before: now,
        }
    }

    /// The time of the next pass.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// Has a pass follow as soon as the pause is over.
    pub(super) fn soon(&mut self, now: Instant) {
        self.next = self.next.min(now.max(self.not_before));
    }

    /// Records the begin of a pass. Returns whether it is a full one.
    pub(super) fn begin(&mut self, now: Instant) -> bool {
        let is_full = self.full_pass_at <= now;
        if is_full {
            self.full_pass_at = now + self.interval;
        }
        is_full
    }

    /// Records the end of a pass, and sets the time of the next one: that of the next full pass, of
    /// `wake_in` after `began`, or of `alive_until`, whichever is first.
    pub(super) fn end(
        &mut self,
        began: Instant,
        ended: Instant,
        wake_in: Option<Duration>,
        alive_until: Option<Instant>,
    ) {
        self.not_before = ended + ((ended - began) * PAUSE_FACTOR).max(MIN_PAUSE);
        // A maintenance window that never opens is due after more time than a clock can show.
        let wake_at = wake_in.and_then(|wake_in| began.checked_add(wake_in));
        let times = [wake_at, alive_until].into_iter().flatten();
        let first = times.fold(self.full_pass_at, Instant::min);
        self.next = first.max(self.not_before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time from the begin of a full pass to the next pass, with a pass of 40 ms.
    fn check(wake_in: Option<Duration>, alive_in: Option<Duration>, expected: Duration) {
        let began = Instant::now();
        let mut schedule = PassSchedule::new(Duration::from_mins(1), began);
        assert!(schedule.begin(began));
        let ended = began + Duration::from_millis(40);
        schedule.end(began, ended, wake_in, alive_in.map(|alive| began + alive));
        assert_eq!(schedule.next() - began, expected);
        assert!(!schedule.begin(ended));
    }

    #[test]
    fn the_next_pass_comes_when_something_is_due_but_not_before_the_pause_is_over() {
        let second = Duration::from_secs(1);
        check(None, None, 60 * second);
        check(Some(7 * second), None, 7 * second);
        check(Some(7 * second), Some(5 * second), 5 * second);
        check(Some(Duration::ZERO), None, Duration::from_millis(240));
    }

    #[test]
    fn a_wait_for_ever_ends_with_the_interval() {
        check(Some(Duration::MAX), None, Duration::from_mins(1));
    }
}
