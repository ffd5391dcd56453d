//! Random arrivals: a Poisson process, like the creation of pods by many controllers.

use std::time::Duration;

/// An endless ascending sequence of arrival times. Each `series` is deterministic.
pub(crate) struct Arrivals {
    mean: Duration,
    last: Duration,
    state: u64,
}

impl Arrivals {
    pub(crate) fn new(per_second: f64, series: u32) -> Self {
        Self {
            mean: Duration::from_secs_f64(1.0 / per_second),
            last: Duration::ZERO,
            state: series.into(),
        }
    }

    /// Uniformly distributed in (0, 1]. Steele, Lea, Flood: Fast splittable pseudorandom number
    /// generators (2014), `SplitMix64`.
    fn uniform(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (((mixed ^ (mixed >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let pause = -self.uniform().ln();
        self.last += self.mean.mul_f64(pause);
        Some(self.last)
    }
}
