//! Settings of each sizing method, read from the annotations that have them.

use std::collections::BTreeMap;

use super::{MethodSettingsError, SIZING_PREFIX};
use crate::autopilot::{AutopilotMethod, EnsembleConfig, MovingWindowConfig, Statistic};
use crate::crane::parse_duration;
use crate::instant::DAY_NS;
use crate::price_of_failure::{Caution, HistoryUnit, PriceOfFailureConfig};

pub(super) const MINIMUM_HISTORY: &str = "minimum-history";
pub(super) const MINIMUM_RUNS: &str = "minimum-runs";
/// Maximum of `oom-history-length`, and of `minimum-history`: the retention of samples, beyond which
/// it would never be reached.
const MAX_LENGTH_NS: i64 = 7 * DAY_NS;
const MAX_MINIMUM_RUNS: u32 = 100;

/// Annotations by their name after the prefix. The functions below remove those that they read.
pub(crate) type Settings<'a> = BTreeMap<&'a str, &'a str>;

pub(crate) fn without_prefix<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Settings<'a> {
    let ours = annotations.into_iter();
    ours.filter_map(|(key, value)| Some((key.strip_prefix(SIZING_PREFIX)?, value)))
        .collect()
}

pub(super) fn price_of_failure(
    settings: &mut Settings,
    default_unit: HistoryUnit,
) -> Result<PriceOfFailureConfig, MethodSettingsError> {
    let default = PriceOfFailureConfig::default();
    let unit = |text: &str| match text {
        "hours" => Some(HistoryUnit::Hours),
        "runs" => Some(HistoryUnit::Runs),
        _ => None,
    };
    let unit = take(settings, "history-unit", unit)?.unwrap_or(default_unit);
    let runs = |text: &str| text.parse().ok().filter(|runs| *runs <= MAX_MINIMUM_RUNS);
    // An invalid value is an error also without effect.
    let minimum_runs = take(&mut settings.clone(), MINIMUM_RUNS, runs)?;
    if unit == HistoryUnit::Runs {
        settings.remove(MINIMUM_RUNS);
    }
    Ok(PriceOfFailureConfig {
        caution: take(settings, "caution", Caution::parse)?.unwrap_or(default.caution),
        oom_history_ns: take(settings, "oom-history-length", length)?
            .unwrap_or(default.oom_history_ns),
        unit,
        minimum_runs: minimum_runs.unwrap_or(default.minimum_runs),
    })
}

pub(super) fn moving_window(
    settings: &mut Settings,
) -> Result<AutopilotMethod, MethodSettingsError> {
    let default = MovingWindowConfig::default();
    let cpu = |text: &str| {
        if text == "average" {
            return Some(Statistic::Average);
        }
        let percent: f64 = text.strip_prefix('p')?.parse().ok()?;
        (percent > 0.0 && percent <= 100.0).then_some(Statistic::LoadPercentile(percent / 100.0))
    };
    let memory = |text: &str| match text {
        "low" => Some(Statistic::LoadPercentile(0.98)),
        "minimal" => Some(Statistic::Peak),
        "intermediate" => Some(Statistic::LoadPercentileOrHalfPeak(0.6)),
        _ => None,
    };
    Ok(AutopilotMethod::MovingWindow(MovingWindowConfig {
        cpu: take(settings, "cpu-statistic", cpu)?.unwrap_or(default.cpu),
        memory: take(settings, "memory-tolerance", memory)?.unwrap_or(default.memory),
        margin: take(settings, "margin-fraction", number)?,
    }))
}

pub(super) fn ensemble(settings: &mut Settings) -> Result<AutopilotMethod, MethodSettingsError> {
    let default = EnsembleConfig::default();
    let mut weight =
        |key, default| take(settings, key, number).map(|found| found.unwrap_or(default));
    Ok(AutopilotMethod::Ensemble(EnsembleConfig {
        overrun: weight("overrun-weight", default.overrun)?,
        underrun: weight("underrun-weight", default.underrun)?,
        limit_change: weight("limit-change-weight", default.limit_change)?,
        model_change: weight("model-change-weight", default.model_change)?,
        ..default
    }))
}

pub(super) fn length(text: &str) -> Option<i64> {
    parse_duration(text).filter(|length| (0..=MAX_LENGTH_NS).contains(length))
}

/// A share or a weight within a sensible range.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse()
        .ok()
        .filter(|number: &f64| (0.0..=1000.0).contains(number))
}

pub(crate) fn take<T>(
    settings: &mut Settings,
    key: &'static str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, MethodSettingsError> {
    let Some(text) = settings.remove(key) else {
        return Ok(None);
    };
    read(text)
        .map(Some)
        .ok_or_else(|| MethodSettingsError::Value(key, text.to_owned()))
}
