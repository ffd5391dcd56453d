//! Restart delays of a container, as in a kubelet: none the first time, then the base (10 s),
//! doubled each time up to five minutes. A run longer than twice that limit resets them.

use std::time::Duration;

/// The longest delay.
const CAP: Duration = Duration::from_mins(5);

/// The delays of one container.
#[derive(Clone, Debug)]
pub(super) struct BackOff {
    base: Duration,
    next: Duration,
}

impl BackOff {
    /// A container that has not ended yet.
    pub(super) fn new(base: Duration) -> Self {
        Self {
            base,
            next: Duration::ZERO,
        }
    }

    /// The delay after a run of this length.
    pub(super) fn after(&mut self, run: Duration) -> Duration {
        if run > 2 * CAP {
            self.next = Duration::ZERO;
        }
        let wait = self.next;
        self.next = if wait.is_zero() { self.base } else { wait * 2 }.min(CAP);
        wait
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        let waits: Vec<u64> = (0..8)
            .map(|_| back_off.after(Duration::from_secs(1)).as_secs())
            .collect();
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn a_long_run_resets_the_delay() {
        let mut back_off = BackOff::new(Duration::from_secs(10));
        for _ in 0..5 {
            back_off.after(Duration::from_secs(1));
        }
        assert_eq!(back_off.after(Duration::from_mins(10)).as_secs(), 160);
        assert_eq!(back_off.after(Duration::from_secs(601)).as_secs(), 0);
        assert_eq!(back_off.after(Duration::from_secs(1)).as_secs(), 10);
    }
}
