//! Sizing policy of a VPA, selected by the annotation `plimsoll.dev/sizing-policy`, with
//! settings as `plimsoll.dev/sizing-<key>`.
//!
//! | policy | settings |
//! |---|---|
//! | `vpa` (the default) | those of [`VpaMethodSettings`]; others are flags and `spec.resourcePolicy` |
//! | `crane` | Crane's own keys, such as `cpu-request-percentile` ([`CraneConfig::KEYS`] and `specification-config`) |
//! | `autopilot-window` | `cpu-statistic`: `average`, or a percentile of load such as `p95`; `memory-tolerance` of OOM kills: `low`, `minimal`, `intermediate`; `margin-fraction` |
//! | `autopilot-ml` | `overrun-weight`, `underrun-weight`, `limit-change-weight`, `model-change-weight` |
//!
//! All but `vpa` have `minimum-history` (a Go duration or whole days, at most `7d`; `24h` if
//! absent): until a container has that much history, its published recommendation is only raised,
//! never lowered. One invalid setting makes the whole policy invalid.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::autopilot::{AutopilotMethod, EnsembleConfig, MovingWindowConfig, Statistic};
use crate::crane::{CraneConfig, CraneConfigError, parse_duration};
use crate::vpa_method::{VPA_POLICY, VpaMethodSettings};

pub(crate) const PREFIX: &str = "plimsoll.dev/sizing-";
pub(crate) const POLICY: &str = "policy";
const MINIMUM_HISTORY: &str = "minimum-history";
const DAY_NS: i64 = 86_400_000_000_000;
/// Maximum of `minimum-history`: the retention of samples, beyond which it would never be reached.
const MAX_MINIMUM_HISTORY_NS: i64 = 7 * DAY_NS;

/// A sizing policy other than the VPA's.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodSettings {
    /// Method and its settings.
    pub method: SizingMethod,
    /// Length of history that a container needs before its recommendation may fall below the
    /// published one.
    pub minimum_history_ns: i64,
}

/// A method with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum SizingMethod {
    /// Crane's resource recommender.
    Crane(CraneConfig),
    /// One of Google Autopilot's recommenders.
    Autopilot(AutopilotMethod),
}

/// Errors in the annotations.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MethodSettingsError {
    /// Unknown policy.
    #[error("{PREFIX}{POLICY} must be vpa, crane, autopilot-window or autopilot-ml, not {0:?}")]
    Unknown(String),
    /// Unknown setting of the policy.
    #[error("{PREFIX}{0} is not a setting of the sizing policy {1}")]
    UnknownSetting(String, String),
    /// Invalid value of a setting.
    #[error("{PREFIX}{0} has a value that cannot be used: {1:?}")]
    Value(&'static str, String),
    /// Invalid setting of Crane's method.
    #[error(transparent)]
    Crane(#[from] CraneConfigError),
}

pub(crate) type Settings<'a> = BTreeMap<&'a str, &'a str>;

impl MethodSettings {
    /// The policy selected by annotations; `None` for the VPA's.
    pub fn from_annotations<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, MethodSettingsError> {
        let ours = annotations
            .into_iter()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value)));
        let mut settings: Settings = ours.collect();
        let name = settings.remove(POLICY).unwrap_or(VPA_POLICY);
        let method = match name {
            VPA_POLICY => {
                VpaMethodSettings::take(&mut settings)?;
                None
            }
            "crane" => Some(SizingMethod::Crane(crane(&mut settings)?)),
            "autopilot-window" => Some(SizingMethod::Autopilot(moving_window(&mut settings)?)),
            "autopilot-ml" => Some(SizingMethod::Autopilot(ensemble(&mut settings)?)),
            other => return Err(MethodSettingsError::Unknown(other.to_owned())),
        };
        let policy = match method {
            Some(method) => Some(Self {
                method,
                minimum_history_ns: minimum_history(&mut settings)?,
            }),
            None => None,
        };
        match settings.first_key_value() {
            None => Ok(policy),
            Some((key, _)) => Err(MethodSettingsError::UnknownSetting(
                (*key).to_owned(),
                name.to_owned(),
            )),
        }
    }

    /// Whether a history recorded for the other policy is usable for this one.
    pub fn shares_history_with(&self, other: &Self) -> bool {
        match (&self.method, &other.method) {
            (SizingMethod::Crane(new), SizingMethod::Crane(old)) => new.shares_history_with(old),
            (SizingMethod::Autopilot(new), SizingMethod::Autopilot(old)) => {
                std::mem::discriminant(new) == std::mem::discriminant(old)
            }
            _ => false,
        }
    }
}

fn crane(settings: &mut Settings) -> Result<CraneConfig, MethodSettingsError> {
    let config = CraneConfig::new(|key| settings.get(key).copied())?;
    for key in CraneConfig::KEYS {
        settings.remove(key);
    }
    settings.remove(CraneConfig::SPECIFICATION_KEY);
    Ok(config)
}

fn moving_window(settings: &mut Settings) -> Result<AutopilotMethod, MethodSettingsError> {
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

fn ensemble(settings: &mut Settings) -> Result<AutopilotMethod, MethodSettingsError> {
    let default = EnsembleConfig::default();
    Ok(AutopilotMethod::Ensemble(EnsembleConfig {
        overrun: take(settings, "overrun-weight", number)?.unwrap_or(default.overrun),
        underrun: take(settings, "underrun-weight", number)?.unwrap_or(default.underrun),
        limit_change: take(settings, "limit-change-weight", number)?
            .unwrap_or(default.limit_change),
        model_change: take(settings, "model-change-weight", number)?
            .unwrap_or(default.model_change),
        ..default
    }))
}

fn minimum_history(settings: &mut Settings) -> Result<i64, MethodSettingsError> {
    let length = |text: &str| {
        parse_duration(text).filter(|length| (0..=MAX_MINIMUM_HISTORY_NS).contains(length))
    };
    Ok(take(settings, MINIMUM_HISTORY, length)?.unwrap_or(DAY_NS))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of this name with settings, of which the prefix is left out.
    fn parse(
        name: &str,
        settings: &[(&str, &str)],
    ) -> Result<Option<MethodSettings>, MethodSettingsError> {
        let prefixed = |(key, value): &(&str, _)| (format!("plimsoll.dev/sizing-{key}"), *value);
        let all: Vec<_> = [("policy", name)]
            .iter()
            .chain(settings)
            .map(prefixed)
            .collect();
        MethodSettings::from_annotations(all.iter().map(|(key, value)| (key.as_str(), *value)))
    }

    fn check(name: &str, settings: &[(&str, &str)], expected: &SizingMethod) {
        let found = parse(name, settings).expect("valid").expect("a policy");
        assert_eq!(&found.method, expected, "{name} {settings:?}");
    }

    fn check_error(name: &str, settings: &[(&str, &str)], expected: &str) {
        let error = parse(name, settings).expect_err("no policy");
        assert_eq!(error.to_string(), expected, "{name} {settings:?}");
    }

    fn window(config: MovingWindowConfig) -> SizingMethod {
        SizingMethod::Autopilot(AutopilotMethod::MovingWindow(config))
    }

    fn ensemble(config: EnsembleConfig) -> SizingMethod {
        SizingMethod::Autopilot(AutopilotMethod::Ensemble(config))
    }

    #[test]
    fn a_policy_is_asked_for_by_name() {
        for annotations in [
            &[][..],
            &[
                ("plimsoll.dev/sizing-policy", "vpa"),
                ("other.dev/sizing-policy", "crane"),
            ],
        ] {
            let found = MethodSettings::from_annotations(annotations.iter().copied());
            assert!(found.expect("valid").is_none(), "{annotations:?}");
        }
        let crane = CraneConfig::new(|_| None).expect("defaults");
        check("crane", &[], &SizingMethod::Crane(crane));
        check(
            "autopilot-window",
            &[],
            &window(MovingWindowConfig::default()),
        );
        check("autopilot-ml", &[], &ensemble(EnsembleConfig::default()));
    }

    #[test]
    fn settings_change_the_policy() {
        let settings = [
            ("cpu-statistic", "p90"),
            ("memory-tolerance", "minimal"),
            ("margin-fraction", "0.12"),
        ];
        let config = MovingWindowConfig {
            cpu: Statistic::LoadPercentile(0.9),
            memory: Statistic::Peak,
            margin: Some(0.12),
        };
        check("autopilot-window", &settings, &window(config));
        let config = EnsembleConfig {
            overrun: 2.0,
            ..EnsembleConfig::default()
        };
        check(
            "autopilot-ml",
            &[("overrun-weight", "2")],
            &ensemble(config),
        );
        let config = CraneConfig::new(|key| (key == "cpu-request-percentile").then_some("0.5"));
        let crane = SizingMethod::Crane(config.expect("a percentile"));
        check("crane", &[("cpu-request-percentile", "0.5")], &crane);
    }

    #[test]
    fn how_much_history_is_needed_can_be_set() {
        let default = parse("crane", &[]).ok().flatten().expect("a policy");
        assert_eq!(default.minimum_history_ns, DAY_NS);
        for (text, seconds) in [
            ("0s", Some(0)),
            ("90m", Some(5400)),
            ("2d", Some(172_800)),
            ("8d", None),
            ("-1h", None),
            ("soon", None),
        ] {
            let policy = parse("crane", &[("minimum-history", text)]).ok().flatten();
            let found = policy.map(|policy| policy.minimum_history_ns / 1_000_000_000);
            assert_eq!(found, seconds, "{text}");
        }
    }

    #[test]
    fn errors_name_the_setting() {
        check_error(
            "magic",
            &[],
            r#"plimsoll.dev/sizing-policy must be vpa, crane, autopilot-window or autopilot-ml, not "magic""#,
        );
        check_error(
            "vpa",
            &[("margin", "0.1")],
            "plimsoll.dev/sizing-margin is not a setting of the sizing policy vpa",
        );
        check_error(
            "autopilot-ml",
            &[("overrun-weight", "NaN")],
            r#"plimsoll.dev/sizing-overrun-weight has a value that cannot be used: "NaN""#,
        );
        check_error(
            "autopilot-window",
            &[("cpu-statistic", "p0")],
            r#"plimsoll.dev/sizing-cpu-statistic has a value that cannot be used: "p0""#,
        );
        check_error(
            "crane",
            &[("cpu-request-percentile", "99")],
            r#"cpu: percentile is not a number in its range: "99""#,
        );
        check_error(
            "crane",
            &[("specification-config", "big")],
            r#"specification-config: size "big" is not of the form <cores>c<GiB>g"#,
        );
        let alone = [("plimsoll.dev/sizing-margin", "0.1")];
        let error = MethodSettings::from_annotations(alone).expect_err("no policy");
        assert!(
            error
                .to_string()
                .ends_with("not a setting of the sizing policy vpa"),
            "{error}"
        );
    }

    #[test]
    fn history_is_kept_when_only_the_reading_of_it_changes() {
        let policy = |name, settings: &[_]| parse(name, settings).ok().flatten().expect("a policy");
        let crane = policy("crane", &[]);
        let other_percentile = policy("crane", &[("cpu-request-percentile", "0.5")]);
        let other_buckets = policy("crane", &[("cpu-histogram-bucket-size", "0.5")]);
        let window = policy("autopilot-window", &[]);
        let average = policy("autopilot-window", &[("cpu-statistic", "average")]);
        let ensemble = policy("autopilot-ml", &[]);
        assert!(crane.shares_history_with(&other_percentile));
        assert!(average.shares_history_with(&window));
        assert!(!crane.shares_history_with(&other_buckets));
        assert!(!ensemble.shares_history_with(&window));
        assert!(!crane.shares_history_with(&window));
    }
}
