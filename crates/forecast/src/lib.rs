//! Demand forecasts: from a history to an expected value and quantiles at each of several horizons,
//! or to the reason for having none.
//!
//! ```
//! use forecast::{Forecaster, ForecastError, ForecastConfig};
//! use jiff::{SignedDuration, Timestamp};
//! use model::Series;
//!
//! let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let at = |minutes| start + SignedDuration::from_mins(minutes);
//! let load = |minutes: i64| if minutes % 1440 < 480 { 10.0 } else { 30.0 };
//! let config = ForecastConfig { step_seconds: 300, horizons_seconds: vec![3600] };
//!
//! let days = |days: i64| Series::new((0..days * 288).map(|slot| (at(slot * 5), load(slot * 5))).collect());
//! let short = Forecaster::fit(&days(1), &config)?;
//! assert!(matches!(short.forecast(3600), Err(ForecastError::TooLittle { .. })));
//!
//! let mut long = Forecaster::fit(&days(4), &config)?;
//! long.observe(at(4 * 1440), 10.0)?;
//! let next = long.forecast(3600)?;
//! assert!((next.expected - 10.0).abs() < 0.1 && next.p95 >= next.expected);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Pure: no input or output, no clock. Formulas by file:
//!
//! | formula | file |
//! |---|---|
//! | slots, hours and days | `grid.rs` |
//! | yesterday, last week, mean and median of seven days | `seasons.rs` |
//! | level of the last hour, deviation from the profile | `recent_deviation.rs` |
//! | seven ensemble members | `members.rs`, `regression.rs` |
//! | weights of the members | `ensemble_weights.rs`, `horizon.rs` |
//! | replacement of the ensemble by one member | `baseline_guard.rs` |
//! | exponentially weighted moving average | `ewma.rs` |
//! | expected size of an error | `error_scale.rs`, `score_histogram.rs` |
//! | quantiles | `quantiles.rs` |
//! | naive forecast and a quantile of its own errors | `trailing_quantile.rs` |
//! | share of past errors at which a quantile is read | `adaptive_level.rs` |
//! | largest sample of the coming window, its headroom, its replacement by a simple method | `peak.rs`, `peak/headroom.rs`, `peak/simple_guard.rs` |
//! | Crane's DSP predictor: period, estimators and their choice | `crane/period.rs`, `crane/estimator.rs`, `crane/dsp.rs` |

pub mod crane;

mod adaptive_level;
mod baseline_guard;
mod ensemble_weights;
mod error_scale;
mod ewma;
mod forecaster;
mod grid;
mod horizon;
mod members;
mod output;
mod peak;
mod quantiles;
mod recent_deviation;
mod regression;
mod score_histogram;
mod seasons;
mod trailing_quantile;

pub use forecaster::{ForecastConfig, Forecaster};
pub use output::{Forecast, ForecastError, ObserveError};
pub use peak::{
    PeakAccuracy, PeakConfig, PeakForecast, PeakForecaster, PriceOfFailure, SetAside, SimpleMethod,
};
