//! What will demand be? From a history to an expected value and quantiles at each of several
//! horizons, or to why that cannot be said.
//!
//! ```
//! use forecast::{Forecaster, NotForecast, Plan};
//! use jiff::{SignedDuration, Timestamp};
//! use model::Series;
//!
//! let start: Timestamp = "2026-01-01T00:00:00Z".parse()?;
//! let at = |minutes| start + SignedDuration::from_mins(minutes);
//! let load = |minutes: i64| if minutes % 1440 < 480 { 10.0 } else { 30.0 };
//! let plan = Plan { step_seconds: 300, horizons_seconds: vec![3600] };
//!
//! let days = |days: i64| Series::new((0..days * 288).map(|slot| (at(slot * 5), load(slot * 5))).collect());
//! let short = Forecaster::fit(&days(1), &plan)?;
//! assert!(matches!(short.forecast(3600), Err(NotForecast::TooLittle { .. })));
//!
//! let mut long = Forecaster::fit(&days(4), &plan)?;
//! long.observe(at(4 * 1440), 10.0)?;
//! let next = long.forecast(3600)?;
//! assert!((next.expected - 10.0).abs() < 0.1 && next.p95 >= next.expected);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Pure: no input or output, no clock. Where each formula lives:
//!
//! | formula | file |
//! |---|---|
//! | slots, hours and days | `grid.rs` |
//! | yesterday, last week, mean and median of seven days | `seasons.rs` |
//! | level of the last hour, deviation from the profile | `recent.rs` |
//! | seven ways to forecast | `experts.rs`, `regression.rs` |
//! | which of them counts how much | `trust.rs`, `horizon.rs` |
//! | when a plain forecast replaces the mix | `do_no_harm.rs` |
//! | how large an error is to be expected | `error_size.rs`, `score_histogram.rs` |
//! | quantiles | `quantiles.rs` |
//! | a plain forecast and a quantile of its own errors | `trailing_quantile.rs` |
//! | at which share of past errors a quantile is read | `adaptive_level.rs` |
//! | Crane: period, estimators and their choice (DSP predictor) | `crane/period.rs`, `crane/estimator.rs`, `crane/dsp.rs` |

pub mod crane;

mod adaptive_level;
mod discounted;
mod do_no_harm;
mod error_size;
mod experts;
mod forecaster;
mod grid;
mod horizon;
mod outcome;
mod quantiles;
mod recent;
mod regression;
mod score_histogram;
mod seasons;
mod trailing_quantile;
mod trust;

pub use forecaster::{Forecaster, Plan};
pub use outcome::{Forecast, NotForecast, NotObserved, Part};
