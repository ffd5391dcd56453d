//! The cost of a request per hour: itself, the price of a failure times the failures to expect, and
//! the price of the shortage.

use super::needs::Risk;
use super::settings::{Need, Settings};

/// The price of one failure for a container of this scale.
pub(super) fn price(settings: &Settings, scale: f64) -> f64 {
    settings.price * (scale / settings.usual_scale).sqrt()
}

/// The price of a change of this request to a smaller one.
pub(super) fn change_price(settings: &Settings, request: f64) -> f64 {
    settings.change_price * (request * settings.usual_scale).sqrt()
}

/// The hours in which a need that does not fit is one failure. A peak is the peak of all the blocks
/// ahead.
pub(super) fn hours(settings: &Settings) -> f64 {
    match settings.need {
        Need::Peak => settings.ahead as f64,
        Need::Sample => 1.0,
    }
}

/// The cost of a request with this risk of failure in these hours.
pub(super) fn cost(settings: &Settings, price: f64, hours: f64, request: f64, risk: &Risk) -> f64 {
    request + (price * risk.chance + settings.shortage_price * risk.shortage) / hours
}
