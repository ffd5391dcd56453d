//! Policies as text: the name of Trimaran's plugin, with parameters in parentheses, such as
//! `TargetLoadPacking(targetUtilization=60)`; or as an item of `pluginConfig` of kube-scheduler, with
//! `name` and `args`. A parameter of a map has a name such as `defaultRequests.cpu` in text.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use model::Quantity;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::{LoadVariationRiskBalancing, LowRiskOverCommitment, Policy, TargetLoadPacking};

const MAX_BYTES: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParsePolicyError {
    #[error("a policy has at most {MAX_BYTES} bytes, not {0}")]
    TooLong(usize),
    #[error(
        "{0:?} is not TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment or Peaks"
    )]
    UnknownName(String),
    #[error("{0:?} is not (name=value,name=value)")]
    Malformed(String),
    #[error("the policy has no parameter {0:?}")]
    UnknownParameter(String),
    #[error("{name}={value} is not a number in the range {range}")]
    OutOfRange {
        name: String,
        value: String,
        /// Smallest and largest value.
        range: &'static str,
    },
}

struct Parameter<'a> {
    name: &'a str,
    value: &'a str,
}

impl Parameter<'_> {
    /// An amount of a resource, such as `500m`, in thousandths.
    fn milli_quantity(&self) -> Result<i64, ParsePolicyError> {
        let amount = self.value.parse::<Quantity>().ok();
        let amount = amount.map(|amount| amount.milli_value());
        let amount = amount.filter(|milli| *milli >= 0);
        amount.ok_or_else(|| self.out_of_range("of quantities"))
    }

    fn number(&self, least: f64, most: f64, range: &'static str) -> Result<f64, ParsePolicyError> {
        let number = self.value.parse().ok();
        number
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| self.out_of_range(range))
    }

    fn out_of_range(&self, range: &'static str) -> ParsePolicyError {
        ParsePolicyError::OutOfRange {
            name: self.name.to_owned(),
            value: self.value.to_owned(),
            range,
        }
    }
}

impl FromStr for Policy {
    type Err = ParsePolicyError;

    fn from_str(text: &str) -> Result<Self, ParsePolicyError> {
        if text.len() > MAX_BYTES {
            return Err(ParsePolicyError::TooLong(text.len()));
        }
        let (name, written) = text.split_at(text.find('(').unwrap_or(text.len()));
        let mut policy = Self::named(name)?;
        for parameter in parameters(written)? {
            policy.set(&parameter)?;
        }
        Ok(policy)
    }
}

impl<'de> Deserialize<'de> for Policy {
    fn deserialize<D: Deserializer<'de>>(policy: D) -> Result<Self, D::Error> {
        policy.deserialize_any(PolicyVisitor)
    }
}

struct PolicyVisitor;

impl<'de> Visitor<'de> for PolicyVisitor {
    type Value = Policy;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a policy, or the name and args of a plugin")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Policy, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Policy, A::Error> {
        let plugin = PluginConfig::deserialize(MapAccessDeserializer::new(map))?;
        let mut policy = Policy::named(&plugin.name).map_err(A::Error::custom)?;
        set_all(&mut policy, "", &plugin.args).map_err(A::Error::custom)?;
        Ok(policy)
    }
}

/// An item of `pluginConfig` of a `KubeSchedulerConfiguration`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PluginConfig {
    name: String,
    #[serde(default)]
    args: BTreeMap<String, Argument>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Argument {
    Number(f64),
    Text(String),
    Map(BTreeMap<String, Argument>),
}

/// Sets arguments, and those of maps by names with a dot.
fn set_all(
    policy: &mut Policy,
    prefix: &str,
    arguments: &BTreeMap<String, Argument>,
) -> Result<(), ParsePolicyError> {
    for (name, argument) in arguments {
        let name = &format!("{prefix}{name}");
        let value = match argument {
            Argument::Number(number) => number.to_string(),
            Argument::Text(text) => text.clone(),
            Argument::Map(fields) => {
                set_all(policy, &format!("{name}."), fields)?;
                continue;
            }
        };
        let value = value.as_str();
        policy.set(&Parameter { name, value })?;
    }
    Ok(())
}

fn parameters(written: &str) -> Result<Vec<Parameter<'_>>, ParsePolicyError> {
    if written.is_empty() {
        return Ok(Vec::new());
    }
    let malformed = || ParsePolicyError::Malformed(written.to_owned());
    let inside = written
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'))
        .ok_or_else(malformed)?;
    inside
        .split(',')
        .map(|pair| {
            let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
            Ok(Parameter {
                name: name.trim(),
                value: value.trim(),
            })
        })
        .collect()
}

impl Policy {
    /// The policy of a plugin, with default arguments.
    fn named(name: &str) -> Result<Self, ParsePolicyError> {
        Ok(match name {
            "TargetLoadPacking" => Self::TargetLoadPacking(TargetLoadPacking::default()),
            "LoadVariationRiskBalancing" => {
                Self::LoadVariationRiskBalancing(LoadVariationRiskBalancing::default())
            }
            "LowRiskOverCommitment" => {
                Self::LowRiskOverCommitment(LowRiskOverCommitment::default())
            }
            "Peaks" => Self::Peaks,
            other => return Err(ParsePolicyError::UnknownName(other.to_owned())),
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Self::TargetLoadPacking(_) => "TargetLoadPacking",
            Self::LoadVariationRiskBalancing(_) => "LoadVariationRiskBalancing",
            Self::LowRiskOverCommitment(_) => "LowRiskOverCommitment",
            Self::Peaks => "Peaks",
        }
    }

    /// Sets a parameter, named as in Trimaran's plugin arguments.
    fn set(&mut self, parameter: &Parameter<'_>) -> Result<(), ParsePolicyError> {
        match (self, parameter.name) {
            (Self::TargetLoadPacking(plugin), "targetUtilization") => {
                plugin.target_percent = parameter.number(1.0, 100.0, "1 to 100")? as i64;
            }
            (Self::TargetLoadPacking(plugin), "defaultRequestsMultiplier") => {
                plugin.requests_multiplier = parameter.number(0.0, 100.0, "0 to 100")?;
            }
            (Self::TargetLoadPacking(plugin), "defaultRequests.cpu") => {
                plugin.default_requests.cpu_millicores = parameter.milli_quantity()?;
            }
            (Self::TargetLoadPacking(plugin), "defaultRequests.memory") => {
                plugin.default_requests.memory_bytes = parameter.milli_quantity()? / 1000;
            }
            (Self::LoadVariationRiskBalancing(plugin), "safeVarianceMargin") => {
                plugin.safe_variance_margin = parameter.number(0.0, 100.0, "0 to 100")?;
            }
            (Self::LoadVariationRiskBalancing(plugin), "safeVarianceSensitivity") => {
                plugin.safe_variance_sensitivity = parameter.number(0.0, 100.0, "0 to 100")?;
            }
            (Self::LowRiskOverCommitment(plugin), "smoothingWindowSize") => {
                plugin.smoothing_window_size = parameter.number(1.0, 1000.0, "1 to 1000")? as i64;
            }
            (Self::LowRiskOverCommitment(plugin), "riskLimitWeights.cpu") => {
                plugin.cpu_limit_weight = parameter.number(0.0, 1.0, "0 to 1")?;
            }
            (Self::LowRiskOverCommitment(plugin), "riskLimitWeights.memory") => {
                plugin.memory_limit_weight = parameter.number(0.0, 1.0, "0 to 1")?;
            }
            (_, name) => return Err(ParsePolicyError::UnknownParameter(name.to_owned())),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_and_parameters_are_those_of_the_plugins() {
        let packing = |target| Policy::TargetLoadPacking(TargetLoadPacking::with_target(target));
        let balancing = LoadVariationRiskBalancing {
            safe_variance_margin: 2.0,
            safe_variance_sensitivity: 0.5,
        };
        let low_risk = LowRiskOverCommitment {
            smoothing_window_size: 10,
            cpu_limit_weight: 0.0,
            memory_limit_weight: 1.0,
        };
        for (text, expected) in [
            ("TargetLoadPacking", packing(None)),
            ("TargetLoadPacking(targetUtilization=60)", packing(Some(60))),
            (
                "TargetLoadPacking(defaultRequests.cpu=250m,defaultRequestsMultiplier=2,defaultRequests.memory=1Ki)",
                Policy::TargetLoadPacking(TargetLoadPacking {
                    default_requests: crate::Amounts {
                        cpu_millicores: 250,
                        memory_bytes: 1024,
                    },
                    requests_multiplier: 2.0,
                    ..TargetLoadPacking::default()
                }),
            ),
            (
                "LoadVariationRiskBalancing(safeVarianceMargin=2, safeVarianceSensitivity=0.5)",
                Policy::LoadVariationRiskBalancing(balancing),
            ),
            (
                "LowRiskOverCommitment(smoothingWindowSize=10,riskLimitWeights.cpu=0,riskLimitWeights.memory=1)",
                Policy::LowRiskOverCommitment(low_risk),
            ),
            ("Peaks", Policy::Peaks),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert!(text.starts_with(expected.name()));
        }
    }

    #[test]
    fn invalid_texts_name_the_part() {
        let long = "T".repeat(257);
        for (text, expected) in [
            ("", "\"\" is not TargetLoadPacking, "),
            ("targetloadpacking", "\"targetloadpacking\" is not "),
            ("Peaks(k0=1)", "the policy has no parameter \"k0\""),
            (
                "TargetLoadPacking(targetUtilization=0)",
                "targetUtilization=0 is not a number in the range 1 to 100",
            ),
            (
                "TargetLoadPacking(targetUtilization=NaN)",
                "targetUtilization=NaN is not a number",
            ),
            (
                "TargetLoadPacking(defaultRequests.cpu=much)",
                "defaultRequests.cpu=much is not a number in the range of quantities",
            ),
            ("TargetLoadPacking()", "\"()\" is not (name=value"),
            ("TargetLoadPacking(a=1", "\"(a=1\" is not (name=value"),
            (&long, "a policy has at most 256 bytes, not 257"),
        ] {
            let error = text.parse::<Policy>().expect_err(text).to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(
            name in "(TargetLoadPacking|LowRiskOverCommitment|Peaks|.{0,20})",
            rest in "(\\(.{0,40}\\)?)?",
        ) {
            let _ = format!("{name}{rest}").parse::<Policy>();
        }
    }
}
