//! Headroom above an expected peak, from the price of a failure.
//!
//! A unit of headroom costs one unit of idle capacity, and a window with more demand than capacity
//! costs `price x usual peak`. The sum is least where the density of the peak is `1 / (price x usual
//! peak)`. For a normal distribution with standard deviation `s` that is
//! `z = sqrt(2 ln(price x usual / (s sqrt(2 pi))))` standard deviations above the mean, and none
//! where the root is not real: a peak that is hard to foresee gets less headroom, since it would
//! cost more than the failure.
//!
//! `z` is then read off the quantiles of the forecast: 1.28 is p90, 1.64 p95, 2.33 and more p99.

use std::f64::consts::TAU;

use crate::output::Forecast;

/// Standard deviations above the mean at 90 %, 95 % and 99 %.
const Z: [f64; 3] = [1.2816, 1.6449, 2.3263];

/// Price of a window with more demand than capacity, relative to the usual peak held idle for one
/// window. From zero, the mean alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriceOfFailure(pub f64);

impl PriceOfFailure {
    /// Few pods.
    pub const LOW: Self = Self(0.25);
    /// The default.
    pub const NORMAL: Self = Self(0.5);
    /// Few violations.
    pub const HIGH: Self = Self(1.0);

    pub(super) fn headroom(self, forecast: &Forecast, usual: f64) -> f64 {
        let expected = forecast.expected;
        let rooms = [forecast.p90, forecast.p95, forecast.p99].map(|value| value - expected);
        let deviation = rooms[0] / Z[0];
        if deviation <= 0.0 {
            return 0.0;
        }
        let ratio = self.0 * usual / (deviation * TAU.sqrt());
        let z = (2.0 * ratio.ln()).max(0.0).sqrt();
        let (mut below, mut room_below) = (0.0, 0.0);
        for (above, room) in Z.into_iter().zip(rooms) {
            if z <= above {
                return room_below + (z - below) / (above - below) * (room - room_below);
            }
            (below, room_below) = (above, room);
        }
        room_below
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    /// A forecast of 100 with normal errors.
    fn forecast(deviation: f64) -> Forecast {
        let [p90, p95, p99] = Z.map(|z| 100.0 + z * deviation);
        Forecast {
            from: Timestamp::UNIX_EPOCH,
            length: SignedDuration::from_mins(5),
            as_of: Timestamp::UNIX_EPOCH,
            expected: 100.0,
            p90,
            p95,
            p99,
            weights: [0.0; 7],
        }
    }

    fn check(price: f64, deviation: f64, expected: f64) {
        let room = PriceOfFailure(price).headroom(&forecast(deviation), 100.0);
        assert!(
            (room - expected).abs() < 0.01,
            "price {price}, deviation {deviation}: {room} for {expected}"
        );
    }

    #[test]
    fn headroom_grows_with_the_error_until_it_costs_more_than_a_failure() {
        for (deviation, expected) in [
            (0.0, 0.0),
            (1.0, 2.33),
            (5.0, 8.32),
            (10.0, 11.75),
            (15.0, 11.33),
            (19.9, 1.37),
            (20.0, 0.0),
            (100.0, 0.0),
        ] {
            check(0.5, deviation, expected);
        }
    }

    #[test]
    fn headroom_grows_with_the_price_up_to_the_highest_quantile() {
        for (price, expected) in [
            (0.0, 0.0),
            (0.25, 0.0),
            (0.26, 2.70),
            (1.0, 16.63),
            (1e9, 23.26),
        ] {
            check(price, 10.0, expected);
        }
    }
}
