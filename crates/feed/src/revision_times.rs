//! Times of revisions, from which the delay of a reader follows. The values do not have them all: a
//! value has the time of its latest change, and a slow reader has waited since an earlier one.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Shortest time between two recorded revisions.
const INTERVAL: SignedDuration = SignedDuration::from_millis(100);
/// Recorded revisions, 13 minutes of changes without a pause.
const MAX_RECORDED: usize = 8192;

/// Times of the latest revisions, of the first one in each [`INTERVAL`].
#[derive(Debug, Default)]
pub(crate) struct RevisionTimes(VecDeque<(u64, Timestamp)>);

impl RevisionTimes {
    /// Records the time of the next revision.
    pub(crate) fn record(&mut self, revision: u64, now: Timestamp) {
        // A clock that was set back is followed.
        let is_due = |(_, last): &(u64, Timestamp)| now.duration_since(*last).abs() >= INTERVAL;
        if self.0.back().is_none_or(is_due) {
            if self.0.len() == MAX_RECORDED {
                self.0.pop_front();
            }
            self.0.push_back((revision, now));
        }
    }

    /// Time of the first recorded revision after this one.
    pub(crate) fn first_after(&self, revision: u64) -> Option<Timestamp> {
        let next = self
            .0
            .partition_point(|(recorded, _)| *recorded <= revision);
        self.0.get(next).map(|(_, time)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).expect("a small number")
    }

    #[test]
    fn the_first_revision_of_each_interval_is_recorded() {
        let mut times = RevisionTimes::default();
        assert_eq!(times.first_after(0), None);
        for revision in 1..=10 {
            times.record(revision, at(i64::try_from(revision).expect("small") * 50));
        }
        let expected = [(0, 50), (1, 150), (2, 150), (3, 250), (8, 450)];
        for (revision, time) in expected {
            assert_eq!(times.first_after(revision), Some(at(time)), "{revision}");
        }
        assert_eq!(times.first_after(9), None);
        times.record(11, at(0));
        assert_eq!(times.first_after(9), Some(at(0)), "the clock was set back");
    }

    #[test]
    fn the_number_of_recorded_revisions_is_bounded() {
        let mut times = RevisionTimes::default();
        for revision in 1..=2 * MAX_RECORDED {
            let second = i64::try_from(revision).expect("small");
            times.record(revision as u64, at(1000 * second));
        }
        assert_eq!(times.0.len(), MAX_RECORDED);
        let first = i64::try_from(MAX_RECORDED).expect("small") + 1;
        assert_eq!(times.first_after(0), Some(at(1000 * first)));
    }
}
