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

/// The cost of a request with this risk.
pub(super) fn cost(settings: &Settings, price: f64, request: f64, risk: &Risk) -> f64 {
    // A peak that does not fit is one failure in all the blocks that it is the peak of.
    let hours = match settings.need {
        Need::Peak => settings.ahead as f64,
        Need::Sample => 1.0,
    };
    request + (price * risk.chance + settings.shortage_price * risk.shortage) / hours
}
