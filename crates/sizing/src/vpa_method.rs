//! Settings of the VPA's method for one VPA object: percentiles and margin.
//!
//! They only change how a history is read, so they take effect at once, also for the past. A
//! half-life is not among them: it changes how samples are weighted when they arrive, and a history
//! belongs to all VPA objects that select the same pods.

use std::borrow::Cow;

use crate::config::{Config, Percentiles};
use crate::sizing_method::{MethodSettingsError, POLICY, Settings, number, take, without_prefix};

/// Settings that take precedence over the flags; absent ones do not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VpaMethodSettings {
    cpu: PercentileSettings,
    memory: PercentileSettings,
    margin_fraction: Option<f64>,
}

/// Percentiles of one resource, greater than 0 and at most 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct PercentileSettings {
    target: Option<f64>,
    lower_bound: Option<f64>,
    upper_bound: Option<f64>,
}

pub(crate) const VPA_POLICY: &str = "vpa";

impl VpaMethodSettings {
    /// Keys of the settings, without prefix.
    pub const KEYS: [&'static str; 7] = [
        "cpu-percentile",
        "cpu-lower-bound-percentile",
        "cpu-upper-bound-percentile",
        "memory-percentile",
        "memory-lower-bound-percentile",
        "memory-upper-bound-percentile",
        "margin-fraction",
    ];

    /// The settings in the annotations of a VPA object; without effect if they select another
    /// method. The error names the annotation.
    pub fn from_annotations<'a>(
        annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, MethodSettingsError> {
        let mut settings = without_prefix(annotations);
        match settings.get(POLICY) {
            None | Some(&VPA_POLICY) => Self::take(&mut settings),
            Some(_) => Ok(Self::default()),
        }
    }

    pub(crate) fn take(settings: &mut Settings) -> Result<Self, MethodSettingsError> {
        let [cpu @ .., _, _, _, margin_fraction] = Self::KEYS;
        let [_, _, _, memory @ .., _] = Self::KEYS;
        Ok(Self {
            cpu: PercentileSettings::take(settings, cpu)?,
            memory: PercentileSettings::take(settings, memory)?,
            margin_fraction: take(settings, margin_fraction, number)?,
        })
    }

    /// The flags, with these settings in place of theirs.
    pub fn apply(self, config: &Config) -> Cow<'_, Config> {
        if self == Self::default() {
            return Cow::Borrowed(config);
        }
        Cow::Owned(Config {
            cpu_percentiles: self.cpu.apply(config.cpu_percentiles),
            memory_percentiles: self.memory.apply(config.memory_percentiles),
            margin_fraction: self.margin_fraction.unwrap_or(config.margin_fraction),
            ..config.clone()
        })
    }
}

impl PercentileSettings {
    /// The keys are those of target, lower bound and upper bound.
    fn take(settings: &mut Settings, keys: [&'static str; 3]) -> Result<Self, MethodSettingsError> {
        let texts = keys.map(|key| settings.get(key).copied().unwrap_or_default());
        let error = |index: usize| MethodSettingsError::Value(keys[index], texts[index].to_owned());
        let found = Self {
            target: take(settings, keys[0], percentile)?,
            lower_bound: take(settings, keys[1], percentile)?,
            upper_bound: take(settings, keys[2], percentile)?,
        };
        let is_above = |a: Option<f64>, b: Option<f64>| a.zip(b).is_some_and(|(a, b)| a > b);
        if is_above(found.lower_bound, found.target) {
            return Err(error(1));
        }
        if is_above(found.target.or(found.lower_bound), found.upper_bound) {
            return Err(error(2));
        }
        Ok(found)
    }

    /// A target beyond a bound would be replaced in every pass of the updater, so a bound that is
    /// not set follows the target, and a target that is not set follows the bounds.
    fn apply(self, flags: Percentiles) -> Percentiles {
        if self == Self::default() {
            return flags;
        }
        let (lowest, highest) = (self.lower_bound, self.upper_bound);
        let within = flags.target.min(highest.unwrap_or(1.0));
        let target = self.target.unwrap_or(within.max(lowest.unwrap_or(0.0)));
        Percentiles {
            target,
            lower_bound: lowest.unwrap_or(flags.lower_bound.min(target)),
            upper_bound: highest.unwrap_or(flags.upper_bound.max(target)),
        }
    }
}

/// A percentile as a fraction, such as `0.95`, or in percent after a `p`, such as `p95`.
fn percentile(text: &str) -> Option<f64> {
    let fraction: f64 = match text.strip_prefix('p') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (fraction > 0.0 && fraction <= 1.0).then_some(fraction)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::sizing_method::SIZING_PREFIX;

    fn parse(settings: &[(&str, &str)]) -> Result<VpaMethodSettings, MethodSettingsError> {
        let prefixed = settings
            .iter()
            .map(|(key, value)| (format!("{SIZING_PREFIX}{key}"), *value));
        let prefixed: Vec<_> = prefixed.collect();
        VpaMethodSettings::from_annotations(prefixed.iter().map(|(key, value)| (&**key, *value)))
    }

    /// Percentiles of lower bound, target and upper bound of CPU, and the margin.
    fn check(settings: &[(&str, &str)], expected: [f64; 4]) {
        let config = Config::default();
        let found = parse(settings).expect("valid settings");
        let found = found.apply(&config);
        let cpu = found.cpu_percentiles;
        let numbers = [
            cpu.lower_bound,
            cpu.target,
            cpu.upper_bound,
            found.margin_fraction,
        ];
        let mut pairs = numbers.into_iter().zip(expected);
        let are_equal = pairs.all(|(found, expected)| (found - expected).abs() < 1e-12);
        assert!(are_equal, "{settings:?}: {numbers:?}");
    }

    #[test]
    fn settings_take_precedence_over_the_flags() {
        check(&[], [0.5, 0.9, 0.95, 0.15]);
        check(&[("cpu-percentile", "0.8")], [0.5, 0.8, 0.95, 0.15]);
        check(&[("cpu-percentile", "p80")], [0.5, 0.8, 0.95, 0.15]);
        check(&[("margin-fraction", "0")], [0.5, 0.9, 0.95, 0.0]);
        check(&[("memory-percentile", "p80")], [0.5, 0.9, 0.95, 0.15]);
        check(
            &[("policy", "crane"), ("cpu-percentile", "0.8")],
            [0.5, 0.9, 0.95, 0.15],
        );
        // Numbers that are not set follow those that are.
        check(&[("cpu-percentile", "p99")], [0.5, 0.99, 0.99, 0.15]);
        check(&[("cpu-percentile", "1")], [0.5, 1.0, 1.0, 0.15]);
        check(&[("cpu-percentile", "p40")], [0.4, 0.4, 0.95, 0.15]);
        check(
            &[("cpu-upper-bound-percentile", "0.4")],
            [0.4, 0.4, 0.4, 0.15],
        );
        check(
            &[("cpu-lower-bound-percentile", "0.97")],
            [0.97, 0.97, 0.97, 0.15],
        );
    }

    #[test]
    fn a_wrong_value_is_refused_by_the_name_of_its_annotation() {
        let contradiction = [
            ("memory-percentile", "p90"),
            ("memory-upper-bound-percentile", "p50"),
        ];
        for (settings, annotation) in [
            (&[("cpu-percentile", "0")][..], "cpu-percentile"),
            (&[("cpu-percentile", "1.01")], "cpu-percentile"),
            (&[("cpu-percentile", "p101")], "cpu-percentile"),
            (&[("cpu-percentile", "95")], "cpu-percentile"),
            (&[("memory-percentile", "NaN")], "memory-percentile"),
            (&[("memory-percentile", "pinf")], "memory-percentile"),
            (&[("margin-fraction", "-0.1")], "margin-fraction"),
            (&[("margin-fraction", "a lot")], "margin-fraction"),
            (&contradiction, "memory-upper-bound-percentile"),
            (
                &[
                    ("cpu-lower-bound-percentile", "p60"),
                    ("cpu-upper-bound-percentile", "p50"),
                ],
                "cpu-upper-bound-percentile",
            ),
            (
                &[
                    ("cpu-percentile", "p50"),
                    ("cpu-lower-bound-percentile", "p60"),
                ],
                "cpu-lower-bound-percentile",
            ),
        ] {
            let error = parse(settings).expect_err("no settings").to_string();
            let expected = format!("{SIZING_PREFIX}{annotation} has a value that cannot be used");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    proptest! {
        #[test]
        fn the_target_lies_between_the_bounds(
            target in proptest::option::of(1_u8..=100),
            lower in proptest::option::of(1_u8..=100),
            upper in proptest::option::of(1_u8..=100),
        ) {
            let texts: Vec<_> = [
                ("cpu-percentile", target),
                ("cpu-lower-bound-percentile", lower),
                ("cpu-upper-bound-percentile", upper),
            ]
            .into_iter()
            .filter_map(|(key, percent)| Some((key, format!("p{}", percent?))))
            .collect();
            let settings: Vec<_> = texts.iter().map(|(key, text)| (*key, text.as_str())).collect();
            if let Ok(settings) = parse(&settings) {
                let found = settings.apply(&Config::default()).cpu_percentiles;
                prop_assert!(found.lower_bound <= found.target, "{found:?}");
                prop_assert!(found.target <= found.upper_bound, "{found:?}");
            }
        }
    }
}
