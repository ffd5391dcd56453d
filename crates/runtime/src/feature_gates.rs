//! Feature gates: `--feature-gates=InPlace=true,AllAlpha=false`.
//!
//! Source of the rules: Kubernetes component-base `featuregate`. A named gate overrides `AllAlpha` in any
//! order. All gates are off by default, and none is beta: `AllBeta` has no effect.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, ensure};

/// CPU startup boost; used by updater and webhook.
pub const CPU_STARTUP_BOOST: &str = "CPUStartupBoost";
/// In-place resize of pods; used by updater and webhook.
pub const IN_PLACE: &str = "InPlace";
/// Settings of a single VPA; used by recommender, updater and webhook.
pub const PER_VPA_CONFIG: &str = "PerVPAConfig";
/// Sizes of native sidecars: init containers with `restartPolicy: Always`; used by recommender,
/// updater and webhook. Upstream's proposals (`enhancements` of its source) name it.
pub const NATIVE_SIDECAR: &str = "NativeSidecar";

/// The gates that every program of the suite accepts, as upstream's programs do: one
/// `--feature-gates` value fits all of them. `AllAlpha` sets those that upstream has, not those that
/// it plans.
const GATES: [(&str, bool); 4] = [
    (CPU_STARTUP_BOOST, true),
    (IN_PLACE, true),
    (PER_VPA_CONFIG, true),
    (NATIVE_SIDECAR, false),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<&'static str, bool>);

impl FeatureGates {
    /// Parses a comma-separated list of `Name=bool`. The last entry of a name wins. Gates that are
    /// not listed are off.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let known = GATES.map(|(name, _)| name);
        let known = ["AllAlpha", "AllBeta"].into_iter().chain(known);
        let mut named: BTreeMap<&str, bool> = BTreeMap::new();
        for entry in text
            .split(',')
            .map(str::trim)
            .filter(|entry| !entry.is_empty())
        {
            let (gate, value) = entry.split_once('=').with_context(|| {
                format!(
                    "missing value for feature gate {entry}, expected {entry}=true or {entry}=false"
                )
            })?;
            let (gate, value) = (gate.trim(), value.trim());
            let on = crate::pflag::go_bool(value).map_err(|error| {
                anyhow!("invalid value {value:?} of feature gate {gate}, {error}")
            })?;
            ensure!(
                known.clone().any(|name| name == gate),
                "unrecognized feature gate {gate}, known are {}",
                known.collect::<Vec<_>>().join(", ")
            );
            named.insert(gate, on);
        }
        let value = |(name, is_alpha): (&'static str, bool)| {
            let group = named.get("AllAlpha").filter(|_| is_alpha);
            (name, named.get(name).or(group).copied().unwrap_or(false))
        };
        Ok(Self(GATES.map(value).into()))
    }

    pub fn enabled(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let on = FeatureGates::parse(text).map(|gates| {
            let names = GATES.map(|(name, _)| name).into_iter();
            names.filter(|name| gates.enabled(name)).collect::<Vec<_>>()
        });
        assert_eq!(
            on.map_err(|error| error.to_string()),
            expected.map(<[_]>::to_vec).map_err(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn a_named_gate_wins_over_its_group() {
        check("", Ok(&[]));
        check("InPlace=true", Ok(&[IN_PLACE]));
        let all = [CPU_STARTUP_BOOST, IN_PLACE, PER_VPA_CONFIG];
        check("AllAlpha=true", Ok(&all));
        check("CPUStartupBoost=false,AllAlpha=true", Ok(&all[1..]));
        check("AllBeta=true, InPlace=1,InPlace=0,", Ok(&[]));
    }

    #[test]
    fn gates_that_upstream_plans_are_set_by_name_only() {
        check("NativeSidecar=true", Ok(&[NATIVE_SIDECAR]));
        check("NativeSidecar=false,AllAlpha=false", Ok(&[]));
    }

    #[test]
    fn invalid_gates_are_refused_with_the_reason() {
        check(
            "InPlace",
            Err("missing value for feature gate InPlace, expected InPlace=true or InPlace=false"),
        );
        check(
            "InPlace=yes",
            Err("invalid value \"yes\" of feature gate InPlace, expected true or false"),
        );
        check(
            "InPlaceOrRecreate=true",
            Err(
                "unrecognized feature gate InPlaceOrRecreate, known are AllAlpha, AllBeta, \
                 CPUStartupBoost, InPlace, PerVPAConfig, NativeSidecar",
            ),
        );
    }
}
