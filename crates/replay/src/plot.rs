//! Ticks and paths of plots as SVG.

use std::fmt::Write as _;

/// The least of 1, 2 and 5 times the powers of ten that is at least this; 1 for no distance.
pub fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    let step = steps.into_iter().find(|step| *step >= least && *step > 0.0);
    step.unwrap_or(1.0)
}

/// A number of a tick, without digits that come from rounding.
pub fn label(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6 + 0.0;
    rounded.to_string()
}

/// The path from the first place through the others.
pub fn path(places: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in places.enumerate() {
        let verb = if index == 0 { 'M' } else { 'L' };
        let _ = write!(path, "{verb}{x:.1} {y:.1}");
    }
    path
}
