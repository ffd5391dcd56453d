//! Peak of the last seven days, kept as the highest bucket of each of 168 hours.
//!
//! The paper takes the maximum over an unspecified number of windows; seven days cover a weekly
//! pattern. One byte per hour.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Buckets;
use crate::packed::{deserialize_bytes, serialize_bytes};

const HOURS: usize = 168;

/// The highest bucket of each of the last hours, plus one; zero if empty.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HourlyPeaks {
    newest: i64,
    #[serde(
        serialize_with = "serialize_peaks",
        deserialize_with = "deserialize_peaks"
    )]
    peaks: [u8; HOURS],
}

impl Default for HourlyPeaks {
    fn default() -> Self {
        Self {
            newest: i64::MIN,
            peaks: [0; HOURS],
        }
    }
}

impl HourlyPeaks {
    /// Records a bucket of an hour since 1970. Hours must not decrease.
    pub(super) fn add(&mut self, hour: i64, bucket: u8) {
        let skipped = hour.saturating_sub(self.newest).clamp(0, HOURS as i64);
        for hour in hour - skipped + 1..=hour {
            self.peaks[slot(hour)] = 0;
        }
        self.newest = self.newest.max(hour);
        let peak = &mut self.peaks[slot(self.newest)];
        *peak = (*peak).max(bucket.saturating_add(1));
    }

    /// Whether samples until this hour can lead to these peaks.
    pub(super) fn is_valid(&self, hour: i64) -> bool {
        let is_known = |peak: &u8| usize::from(*peak) <= Buckets::COUNT;
        (self.newest == i64::MIN || (0..=hour).contains(&self.newest))
            && self.peaks.iter().all(is_known)
    }

    pub(super) fn highest(&self) -> Option<u8> {
        self.peaks.iter().max()?.checked_sub(1)
    }
}

fn serialize_peaks<S: Serializer>(peaks: &[u8; HOURS], to: S) -> Result<S::Ok, S::Error> {
    serialize_bytes(*peaks, to)
}

fn deserialize_peaks<'de, D: Deserializer<'de>>(from: D) -> Result<[u8; HOURS], D::Error> {
    let peaks = deserialize_bytes(from, HOURS)?.try_into();
    peaks.map_err(|_| D::Error::custom("not one week of peaks"))
}

fn slot(hour: i64) -> usize {
    hour.rem_euclid(HOURS as i64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(added: &[(i64, u8)], expected: Option<u8>) {
        let mut peaks = HourlyPeaks::default();
        for (hour, bucket) in added {
            peaks.add(*hour, *bucket);
        }
        assert_eq!(peaks.highest(), expected, "{added:?}");
    }

    #[test]
    fn a_peak_counts_for_seven_days() {
        check(&[], None);
        check(&[(500, 0)], Some(0));
        check(&[(500, 9), (501, 3)], Some(9));
        check(&[(500, 9), (667, 3)], Some(9));
        check(&[(500, 9), (668, 3)], Some(3));
        check(&[(500, 9), (500_000, 3)], Some(3));
        check(&[(500, 175), (500, 3), (499, 9)], Some(175));
    }
}
