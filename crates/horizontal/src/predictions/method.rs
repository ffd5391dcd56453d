//! Settings of a forecast: Plimsoll's method or one of Crane's predictors, with the step and the
//! length of the history.

use forecast::crane::Dsp;
use forecast::{Forecast, PeakConfig};
use sizing::PercentilePredictor;

const DAY: u32 = 86_400;
const HOUR: u32 = 3600;
const PLIMSOLL_HISTORY: u32 = 14 * DAY;

#[derive(Clone, Debug, PartialEq)]
pub enum Method {
    Plimsoll {
        step_seconds: u32,
        quantile: Quantile,
    },
    /// The largest sample of the coming window: `forecast::PeakForecaster`.
    Peak(PeakConfig),
    Dsp {
        dsp: Dsp,
        history_seconds: u32,
    },
    Percentile {
        predictor: PercentilePredictor,
        step_seconds: u32,
        history_seconds: u32,
    },
}

/// Published quantile of a forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quantile {
    /// The mean.
    Expected,
    /// The default: the HPA also scales by measured values, and by the largest value of the window.
    /// A higher quantile would mostly leave capacity idle.
    #[default]
    P90,
    P95,
    P99,
}

impl Quantile {
    pub(super) fn of(self, forecast: &Forecast) -> f64 {
        match self {
            Self::Expected => forecast.expected,
            Self::P90 => forecast.p90,
            Self::P95 => forecast.p95,
            Self::P99 => forecast.p99,
        }
    }
}

impl Method {
    pub fn step_seconds(&self) -> u32 {
        match self {
            Self::Plimsoll { step_seconds, .. } | Self::Percentile { step_seconds, .. } => {
                *step_seconds
            }
            Self::Peak(config) => config.step_seconds,
            Self::Dsp { dsp, .. } => dsp.step_seconds,
        }
    }

    /// Seconds of history. DSP gets an hour more, as in Crane, which then uses a whole number of
    /// hours.
    pub fn history_seconds(&self) -> u32 {
        match self {
            Self::Plimsoll { .. } | Self::Peak(_) => PLIMSOLL_HISTORY,
            Self::Dsp {
                history_seconds, ..
            } => history_seconds.saturating_add(HOUR),
            Self::Percentile {
                history_seconds, ..
            } => *history_seconds,
        }
    }

    /// Usual memory with a complete history.
    pub(super) fn usual_bytes(&self) -> usize {
        match self {
            Self::Plimsoll { .. } | Self::Peak(_) => 100 << 10,
            Self::Dsp { .. } => {
                let samples = self.history_seconds() / self.step_seconds().max(1);
                samples as usize * size_of::<(i64, f64)>() * 3 / 2
            }
            Self::Percentile { .. } => 16 << 10,
        }
    }

    /// Whether a forecast by `self` continues from the state of one by `other`: both are equal except
    /// for window and price of the peak method.
    pub(super) fn continues(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Peak(one), Self::Peak(other)) => one.step_seconds == other.step_seconds,
            _ => self == other,
        }
    }

    /// Value of the label `method` of metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Plimsoll { .. } => "own",
            Self::Peak(_) => "peak",
            Self::Dsp { .. } => "dsp",
            Self::Percentile { .. } => "percentile",
        }
    }
}
