//! Crane's DSP predictor, step by step as Crane's own program computes it. Objects written for
//! Crane ask for it, and our method is measured against it. Crane's percentile predictor, which
//! also sizes containers, is in `sizing`.

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
pub use preprocess::{RegularSeries, preprocess};
