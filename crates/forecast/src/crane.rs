//! Crane's DSP predictor, step by step as Crane's own program computes it. Objects written for
//! Crane ask for it, and our method is measured against it. Crane's percentile predictor, which
//! also sizes containers, is in `sizing`.

mod dsp;
mod estimator;
mod period;
mod spectrum;

pub use dsp::{Dsp, DspError, DspForecast, RegularSeries, prediction_error, preprocess};
pub use estimator::{Estimator, Filter, Periods};
pub use period::{autocorrelation, find_period};
