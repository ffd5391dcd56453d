//! Quiet times: blocks in a row with peaks below half of the highest of seven days. One that is much
//! longer than all before it is a lasting change.

use serde::{Deserialize, Serialize};

/// Peaks below this share of the highest one are quiet.
const SHARE: f64 = 0.5;
/// Blocks after which a quiet time may count as lasting.
const MINIMUM: u32 = 12;
/// Minimum factor between a lasting quiet time and the longest one before.
const FACTOR: u32 = 3;

/// The present quiet time and the longest one before it, in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Quiet {
    present: u32,
    longest: u32,
}

impl Quiet {
    /// Adds a block. Returns the length of a quiet time that is lasting, and counts anew.
    pub(super) fn add(&mut self, peak: f64, highest: f64) -> Option<usize> {
        if peak >= SHARE * highest {
            self.longest = self.longest.max(self.present);
            self.present = 0;
            return None;
        }
        self.present = self.present.saturating_add(1);
        if self.present <= MINIMUM.max(self.longest.saturating_mul(FACTOR)) {
            return None;
        }
        self.longest = std::mem::take(&mut self.present);
        Some(self.longest as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks with a peak, in order, and the block in which a quiet time is found to last.
    fn check(blocks: &[(usize, f64)], expected: Option<usize>) {
        let mut quiet = Quiet::default();
        let peaks = blocks
            .iter()
            .flat_map(|(count, peak)| std::iter::repeat_n(*peak, *count));
        let found = peaks
            .into_iter()
            .position(|peak| quiet.add(peak, 10.0).is_some());
        assert_eq!(found, expected, "{blocks:?}");
    }

    #[test]
    fn a_quiet_time_lasts_when_it_is_longer_than_all_before() {
        check(&[(50, 10.0), (12, 4.0), (50, 10.0)], None);
        check(&[(50, 10.0), (20, 4.0)], Some(62));
        check(&[(50, 10.0), (8, 4.0), (50, 10.0), (24, 4.0)], None);
        check(&[(50, 10.0), (8, 4.0), (50, 10.0), (30, 4.0)], Some(132));
    }
}
