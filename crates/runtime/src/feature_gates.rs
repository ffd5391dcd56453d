//! Feature gates: `--feature-gates=InPlace=true,AllAlpha=false`.
//!
//! Source of the rules: Kubernetes component-base `featuregate`. A named gate overrides `AllAlpha`
//! and `AllBeta` in any order. A stable gate can only be set to its locked value.

use std::collections::BTreeMap;

use anyhow::{Context as _, anyhow, bail, ensure};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Off by default, and not in `AllAlpha`: upstream plans the gate, and does not have it yet.
    Planned,
    /// Off by default.
    Alpha,
    /// On by default.
    Beta,
    /// Always on.
    Stable,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// The name on the command line.
    pub name: &'static str,
    /// The maturity; `AllAlpha` and `AllBeta` set the gates of theirs.
    pub stage: Stage,
}

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
/// `--feature-gates` value fits all of them.
pub const SUITE: [Gate; 4] = [
    Gate::new(CPU_STARTUP_BOOST, Stage::Alpha),
    Gate::new(IN_PLACE, Stage::Alpha),
    Gate::new(PER_VPA_CONFIG, Stage::Alpha),
    Gate::new(NATIVE_SIDECAR, Stage::Planned),
];

impl Gate {
    /// A gate that is on by default unless it is alpha or planned.
    pub const fn new(name: &'static str, stage: Stage) -> Self {
        Self { name, stage }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGates(BTreeMap<&'static str, bool>);

impl FeatureGates {
    /// Parses a comma-separated list of `Name=bool`. The last entry of a name wins. Gates that are
    /// not listed have their defaults.
    pub fn parse(known: &[Gate], text: &str) -> anyhow::Result<Self> {
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
                ["AllAlpha", "AllBeta"].contains(&gate)
                    || known.iter().any(|candidate| candidate.name == gate),
                "unrecognized feature gate {gate}, known are {}",
                names(known)
            );
            named.insert(gate, on);
        }
        known
            .iter()
            .map(|gate| Ok((gate.name, value(gate, &named)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub fn enabled(&self, name: &str) -> bool {
        self.0.get(name).copied().unwrap_or(false)
    }
}

fn names(known: &[Gate]) -> String {
    let names = known.iter().map(|gate| format!(", {}", gate.name));
    "AllAlpha, AllBeta".to_owned() + &names.collect::<String>()
}

fn value(gate: &Gate, named: &BTreeMap<&str, bool>) -> anyhow::Result<bool> {
    let group = match gate.stage {
        Stage::Alpha => named.get("AllAlpha"),
        Stage::Beta => named.get("AllBeta"),
        Stage::Stable if named.get(gate.name) == Some(&false) => {
            bail!(
                "feature gate {} is stable and cannot be switched off",
                gate.name
            );
        }
        Stage::Stable | Stage::Planned => None,
    };
    Ok(named
        .get(gate.name)
        .or(group)
        .copied()
        .unwrap_or(matches!(gate.stage, Stage::Beta | Stage::Stable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Gate; 5] = [
        Gate::new("Boost", Stage::Alpha),
        Gate::new("InPlace", Stage::Alpha),
        Gate::new("Feed", Stage::Beta),
        Gate::new("Old", Stage::Stable),
        Gate::new("Sidecar", Stage::Planned),
    ];

    fn check(text: &str, expected: Result<&[&str], &str>) {
        let on = FeatureGates::parse(&KNOWN, text).map(|gates| {
            KNOWN
                .iter()
                .map(|gate| gate.name)
                .filter(|name| gates.enabled(name))
                .collect::<Vec<_>>()
        });
        assert_eq!(
            on.map_err(|error| error.to_string()),
            expected.map(<[_]>::to_vec).map_err(str::to_owned),
            "{text}"
        );
    }

    #[test]
    fn a_named_gate_wins_over_its_group() {
        check("", Ok(&["Feed", "Old"]));
        check("InPlace=true", Ok(&["InPlace", "Feed", "Old"]));
        check("AllAlpha=true", Ok(&["Boost", "InPlace", "Feed", "Old"]));
        check("Boost=false,AllAlpha=true", Ok(&["InPlace", "Feed", "Old"]));
        check("AllBeta=false, InPlace=1,InPlace=0", Ok(&["Old"]));
        check("Old=true,Feed=f,", Ok(&["Old"]));
    }

    #[test]
    fn gates_that_upstream_plans_are_set_by_name_only() {
        check("Sidecar=true", Ok(&["Feed", "Old", "Sidecar"]));
        check("Sidecar=false,AllAlpha=false", Ok(&["Feed", "Old"]));
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
                "unrecognized feature gate InPlaceOrRecreate, known are AllAlpha, AllBeta, Boost, InPlace, Feed, Old, Sidecar",
            ),
        );
        check(
            "Old=false",
            Err("feature gate Old is stable and cannot be switched off"),
        );
    }
}
