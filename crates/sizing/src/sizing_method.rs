//! Sizing policy of a VPA, selected by the annotation `plimsoll.dev/sizing-policy`, with
//! settings as `plimsoll.dev/sizing-<key>`.
//!
//! | policy | settings |
//! |---|---|
//! | `vpa` (the default) | those of [`VpaMethodSettings`]; others are flags and `spec.resourcePolicy` |
//! | `crane` | Crane's own keys, such as `cpu-request-percentile` ([`CraneConfig::KEYS`] and `specification-config`) |
//! | `autopilot-window` | `cpu-statistic`: `average`, or a percentile of load such as `p95`; `memory-tolerance` of OOM kills: `low`, `minimal`, `intermediate`; `margin-fraction` |
//! | `autopilot-ml` | `overrun-weight`, `underrun-weight`, `limit-change-weight`, `model-change-weight` |
//! | `plimsoll` | `caution`: `low`, `normal`, `high` or a number from 0.1 to 10, the factor of the price of a failure; `oom-history-length`, at most `7d` (`24h` if absent): the time for which an OOM kill holds memory up; `history-unit`: `hours`, or `runs` for workloads whose pods are runs, which is the default for `Job` and `CronJob`; `minimum-runs`, at most 100 (3 if absent) |
//!
//! All but `vpa` have `minimum-history` (a Go duration or whole days, at most `7d`; `24h` if
//! absent): until a container has that much history, its published recommendation is only raised,
//! never lowered. With `history-unit: runs`, `minimum-runs` counts in its place. One invalid or unknown setting makes
//! the whole policy invalid. A setting of another policy, or one without effect, is ignored and reported by name.

mod settings;

use std::collections::BTreeSet;

use thiserror::Error;

use crate::autopilot::AutopilotMethod;
use crate::crane::CraneConfig;
use crate::instant::DAY_NS;
use crate::price_of_failure::{HistoryUnit, PriceOfFailureConfig};
use crate::vpa_method::{VPA_POLICY, VpaMethodSettings};

use settings::{MINIMUM_HISTORY, MINIMUM_RUNS, ensemble, length, moving_window, price_of_failure};
pub(crate) use settings::{Settings, number, take, without_prefix};

/// Annotation that users set on a VPA: the sizing method, as `plimsoll.dev/sizing-policy`, and its
/// settings, such as `plimsoll.dev/sizing-caution`; see docs/sizing.md#sizing-methods.
pub const SIZING_PREFIX: &str = "plimsoll.dev/sizing-";
pub(crate) const POLICY: &str = "policy";

/// Settings of all policies but Crane's.
const KEYS: [&str; 11] = [
    MINIMUM_HISTORY,
    MINIMUM_RUNS,
    "history-unit",
    "caution",
    "cpu-statistic",
    "memory-tolerance",
    "margin-fraction",
    "overrun-weight",
    "underrun-weight",
    "limit-change-weight",
    "model-change-weight",
];

#[derive(Clone, Debug, PartialEq)]
pub struct MethodSettings {
    pub method: SizingMethod,
    /// Length of history that a container needs before its recommendation may fall below the
    /// published one.
    pub minimum_history_ns: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum SizingMethod {
    Crane(CraneConfig),
    /// One of Google Autopilot's recommenders.
    Autopilot(AutopilotMethod),
    /// Our own: the price of failure.
    PriceOfFailure(PriceOfFailureConfig),
}

impl SizingMethod {
    pub fn counts_runs(&self) -> bool {
        matches!(self, Self::PriceOfFailure(config) if config.unit == HistoryUnit::Runs)
    }
}

#[derive(Clone, Debug, PartialEq, Error)]
pub enum MethodSettingsError {
    #[error(
        "{SIZING_PREFIX}{POLICY} must be vpa, plimsoll, crane, autopilot-window or autopilot-ml, not {0:?}"
    )]
    Unknown(String),
    #[error("{SIZING_PREFIX}{0} is not a setting of the sizing policy {1}")]
    UnknownSetting(String, String),
    #[error("{SIZING_PREFIX}{0} has a value that cannot be used: {1:?}")]
    Value(&'static str, String),
    #[error("{0}")]
    Crane(String),
}

impl MethodSettings {
    /// The policy selected by annotations; `None` for the VPA's. History counts in hours unless an
    /// annotation names another unit.
    pub fn from_annotations<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Option<Self>, MethodSettingsError> {
        Ok(SizingAnnotations::parse(annotations, HistoryUnit::default())?.method)
    }

    /// Text that two policies share if and only if they share their history.
    pub(crate) fn history_shape(&self) -> String {
        match &self.method {
            SizingMethod::Crane(config) => config.shape(),
            SizingMethod::Autopilot(method) => method.shape().to_owned(),
            SizingMethod::PriceOfFailure(config) => match config.unit {
                HistoryUnit::Hours => "plimsoll".to_owned(),
                HistoryUnit::Runs => "plimsoll-runs".to_owned(),
            },
        }
    }

    /// Whether a history recorded for the other policy is usable for this one.
    pub fn shares_history_with(&self, other: &Self) -> bool {
        self.history_shape() == other.history_shape()
    }
}

/// The sizing policy of a VPA and the annotations that do not matter for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizingAnnotations {
    /// The policy; `None` for the VPA's.
    pub method: Option<MethodSettings>,
    /// Full names of the settings without effect, in order.
    pub unused: Vec<String>,
}

impl SizingAnnotations {
    /// Reads the annotations of a VPA. `default_unit` is that of its workload.
    pub fn parse<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
        default_unit: HistoryUnit,
    ) -> Result<Self, MethodSettingsError> {
        let mut settings = without_prefix(annotations);
        let name = settings.remove(POLICY).unwrap_or(VPA_POLICY);
        let mut unused: BTreeSet<&'a str> = BTreeSet::new();
        let method = match name {
            VPA_POLICY => {
                VpaMethodSettings::take(&mut settings)?;
                None
            }
            "plimsoll" => Some(SizingMethod::PriceOfFailure(price_of_failure(
                &mut settings,
                default_unit,
            )?)),
            "crane" => {
                let config = CraneConfig::new(|key| settings.get(key).copied())
                    .map_err(MethodSettingsError::Crane)?;
                unused.extend(config.unused(|key| settings.contains_key(key)));
                settings.retain(|key, _| !is_cranes(key));
                Some(SizingMethod::Crane(config))
            }
            "autopilot-window" => Some(SizingMethod::Autopilot(moving_window(&mut settings)?)),
            "autopilot-ml" => Some(SizingMethod::Autopilot(ensemble(&mut settings)?)),
            other => return Err(MethodSettingsError::Unknown(other.to_owned())),
        };
        let counts_runs = method.as_ref().is_some_and(SizingMethod::counts_runs);
        if counts_runs && settings.contains_key(MINIMUM_HISTORY) {
            unused.insert(MINIMUM_HISTORY);
        }
        let method = match method {
            Some(method) => Some(MethodSettings {
                method,
                minimum_history_ns: take(&mut settings, MINIMUM_HISTORY, length)?.unwrap_or(DAY_NS),
            }),
            None => None,
        };
        if let Some(key) = settings.keys().find(|key| !is_known(key)) {
            return Err(MethodSettingsError::UnknownSetting(
                (*key).to_owned(),
                name.to_owned(),
            ));
        }
        unused.extend(settings.into_keys());
        let unused = unused
            .into_iter()
            .map(|key| format!("{SIZING_PREFIX}{key}"));
        Ok(Self {
            method,
            unused: unused.collect(),
        })
    }
}

fn is_cranes(key: &str) -> bool {
    CraneConfig::KEYS.contains(&key) || key == CraneConfig::SPECIFICATION_KEY
}

/// Whether any policy has such a setting.
fn is_known(key: &str) -> bool {
    is_cranes(key) || KEYS.contains(&key) || VpaMethodSettings::KEYS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autopilot::{EnsembleConfig, MovingWindowConfig, Statistic};
    use crate::price_of_failure::Caution;

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
        let own = PriceOfFailureConfig::default();
        check("plimsoll", &[], &SizingMethod::PriceOfFailure(own));
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
        let config = PriceOfFailureConfig {
            caution: Caution::HIGH,
            oom_history_ns: 2 * DAY_NS,
            ..PriceOfFailureConfig::default()
        };
        check(
            "plimsoll",
            &[("caution", "high"), ("oom-history-length", "2d")],
            &SizingMethod::PriceOfFailure(config),
        );
    }

    #[test]
    fn the_unit_of_history_is_that_of_the_workload_unless_it_is_named() {
        let parse = |settings: &[(&'static str, &'static str)], default| {
            let own = ("plimsoll.dev/sizing-policy", "plimsoll");
            let all = std::iter::once(own).chain(settings.iter().copied());
            let found = SizingAnnotations::parse(all, default).expect("valid");
            found.method.expect("a policy").method
        };
        let key = "plimsoll.dev/sizing-history-unit";
        for (settings, default, expected) in [
            (&[][..], HistoryUnit::Hours, HistoryUnit::Hours),
            (&[], HistoryUnit::Runs, HistoryUnit::Runs),
            (&[(key, "hours")], HistoryUnit::Runs, HistoryUnit::Hours),
            (&[(key, "runs")], HistoryUnit::Hours, HistoryUnit::Runs),
        ] {
            let config = PriceOfFailureConfig {
                unit: expected,
                ..PriceOfFailureConfig::default()
            };
            let expected = SizingMethod::PriceOfFailure(config);
            assert_eq!(parse(settings, default), expected, "{settings:?}");
        }
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
            r#"plimsoll.dev/sizing-policy must be vpa, plimsoll, crane, autopilot-window or autopilot-ml, not "magic""#,
        );
        check_error(
            "vpa",
            &[("margin", "0.1")],
            "plimsoll.dev/sizing-margin is not a setting of the sizing policy vpa",
        );
        let runs = ("history-unit", "runs");
        for (method, settings) in [
            ("plimsoll", &[("caution", "11")][..]),
            ("plimsoll", &[("oom-history-length", "8d")]),
            ("plimsoll", &[("history-unit", "weeks")]),
            ("plimsoll", &[runs, ("minimum-runs", "101")]),
            ("autopilot-ml", &[("overrun-weight", "NaN")]),
            ("autopilot-window", &[("cpu-statistic", "p0")]),
        ] {
            let (key, value) = settings[settings.len() - 1];
            let expected =
                format!("{SIZING_PREFIX}{key} has a value that cannot be used: {value:?}");
            check_error(method, settings, &expected);
        }
        check_error(
            "crane",
            &[("cpu-sample-interval", "0s")],
            "cpu-sample-interval must be a duration above 0 and at most 24h",
        );
        check_error(
            "crane",
            &[("oom-history-length", "31d")],
            "oom-history-length must be a duration above 0 and at most 30d",
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
    }

    #[test]
    fn settings_without_effect_are_named() {
        let check = |settings: &[(&str, &str)], expected: &[&str]| {
            let prefixed = |(key, value): &(&str, _)| (format!("{SIZING_PREFIX}{key}"), *value);
            let all: Vec<_> = settings.iter().map(prefixed).collect();
            let all = all.iter().map(|(key, value)| (key.as_str(), *value));
            let found = SizingAnnotations::parse(all, HistoryUnit::Hours)
                .expect("valid")
                .unused;
            let expected: Vec<_> = expected
                .iter()
                .map(|key| format!("{SIZING_PREFIX}{key}"))
                .collect();
            assert_eq!(found, expected, "{settings:?}");
        };
        check(&[], &[]);
        check(&[("caution", "any")], &["caution"]);
        check(&[("minimum-history", "1h")], &["minimum-history"]);
        let crane = ("policy", "crane");
        check(&[crane, ("caution", "low")], &["caution"]);
        for key in ["cpu-sample-interval", "mem-sample-interval"] {
            check(&[crane, (key, "5m")], &[]);
            check(&[("policy", "plimsoll"), (key, "5m")], &[key]);
        }
        let own = ("policy", "plimsoll");
        let runs = ("history-unit", "runs");
        check(&[runs], &["history-unit"]);
        check(&[own, ("minimum-runs", "5")], &["minimum-runs"]);
        check(&[own, runs, ("minimum-runs", "5")], &[]);
        check(
            &[own, runs, ("minimum-history", "1h")],
            &["minimum-history"],
        );
        let kills = ("oom-history-length", "2d");
        for name in ["crane", "plimsoll"] {
            check(&[("policy", name), kills], &[]);
        }
        let off = ("oom-protection", "false");
        check(&[crane, off, kills], &["oom-history-length"]);
        let sizes = ("specification-config", "1c1g");
        check(&[crane, sizes], &["specification-config"]);
        check(&[crane, sizes, ("specification", "true")], &[]);
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
        let hours = policy("plimsoll", &[("caution", "high")]);
        let runs = policy("plimsoll", &[("history-unit", "runs")]);
        let all = [
            &hours,
            &runs,
            &crane,
            &other_percentile,
            &other_buckets,
            &window,
            &average,
            &ensemble,
        ];
        for (one, other) in all.iter().flat_map(|one| all.map(|other| (*one, other))) {
            let has_its_shape = one.history_shape() == other.history_shape();
            assert_eq!(
                one.shares_history_with(other),
                has_its_shape,
                "{one:?} {other:?}"
            );
        }
        assert!(crane.shares_history_with(&other_percentile));
        assert!(average.shares_history_with(&window));
        assert!(!crane.shares_history_with(&other_buckets));
        assert!(!ensemble.shares_history_with(&window));
        assert!(!crane.shares_history_with(&window));
    }
}
