//! Crane's DSP predictor, step by step as its own program does it: the predictor that objects
//! written for Crane ask for, and the peer that ours is measured against. Its percentile predictor
//! sizes containers too, and lives in `sizing`.

mod autocorrelation;
mod dsp;
mod estimator;
mod fourier;
mod period;
mod prediction_error;
mod preprocess;
mod sine;
mod spectrum;

pub use autocorrelation::autocorrelation;
pub use dsp::{Dsp, DspError, DspForecast};
pub use estimator::{Estimator, Filter, Periods};
pub use period::find_period;
pub use prediction_error::prediction_error;
pub use preprocess::{Regular, preprocess};
