//! Published recommendation of one container, with each step: rounding, whole cores if requested,
//! and policy limits.

use std::collections::BTreeSet;

use model::{Cap, ContainerRecommendation, Cpu, Memory, Quantity, ResourceList, ResourceName};

use super::container_policy::{ContainerPolicy, cap_quantity};
use crate::amount::Amounts;
use crate::config::Config;
use crate::estimate::Estimate;
use crate::quantity_format;

#[derive(Clone, Copy, Debug)]
pub struct Publishing<'a> {
    pub config: &'a Config,
    pub policy: Option<&'a ContainerPolicy>,
    pub whole_cores: bool,
}

/// The steps of one number, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) rounded: Quantity,
    pub(crate) in_whole_units: Quantity,
    pub(crate) capped: Quantity,
    pub(crate) capped_by: Option<Cap>,
}

impl Publishing<'_> {
    pub fn container(self, name: &str, estimate: &Estimate) -> ContainerRecommendation {
        let target = self.numbers(&estimate.target);
        ContainerRecommendation {
            container_name: name.to_owned(),
            uncapped_target: target
                .iter()
                .map(|(name, number)| (name.clone(), number.in_whole_units.clone()))
                .collect(),
            target: capped(target),
            lower_bound: capped(self.numbers(&estimate.lower_bound)),
            upper_bound: capped(self.numbers(&estimate.upper_bound)),
        }
    }

    /// Whether a resource gets recommendations.
    pub(crate) fn controls(self, resource: &ResourceName) -> bool {
        self.policy.is_none_or(|policy| policy.controls(resource))
    }

    pub(crate) fn cpu(self, amount: Cpu) -> Published {
        let rounded = quantity_format::cpu(self.config, amount);
        let whole = if self.whole_cores {
            rounded.round_up(0)
        } else {
            rounded.clone()
        };
        self.cap(&ResourceName::Cpu, rounded, whole)
    }

    pub(crate) fn memory(self, amount: Memory) -> Published {
        let rounded = quantity_format::memory(self.config, amount);
        self.cap(&ResourceName::Memory, rounded.clone(), rounded)
    }

    fn numbers(self, amounts: &Amounts) -> Vec<(ResourceName, Published)> {
        let both = [
            (ResourceName::Cpu, self.cpu(amounts.cpu)),
            (ResourceName::Memory, self.memory(amounts.memory)),
        ];
        both.into_iter()
            .filter(|(name, _)| self.controls(name))
            .collect()
    }

    fn cap(self, name: &ResourceName, rounded: Quantity, in_whole_units: Quantity) -> Published {
        let mut capped = in_whole_units.clone();
        let capped_by = cap_quantity(&mut capped, name, self.policy, &self.config.max_allowed);
        // A maximum may restore a number that a greater minimum changed.
        let capped_by = capped_by.filter(|_| capped != in_whole_units);
        Published {
            rounded,
            in_whole_units,
            capped,
            capped_by,
        }
    }
}

fn capped(numbers: Vec<(ResourceName, Published)>) -> ResourceList {
    numbers
        .into_iter()
        .map(|(name, number)| (name, number.capped))
        .collect()
}

/// Annotation that users set on a VPA: upstream's `CONTAINER_integerCPU`, whole cores for this
/// container.
const PREFIX: &str = "vpa-post-processor.kubernetes.io/";
const SUFFIX: &str = "_integerCPU";

/// The containers whose annotation `vpa-post-processor.kubernetes.io/<container>_integerCPU` is
/// `"true"`.
/// Source: upstream `pkg/recommender/routines/cpu_integer_post_processor.go`.
pub fn integer_cpu_containers<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> BTreeSet<String> {
    let asks = |(key, value): (&'a str, &'a str)| {
        let container = key.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?;
        (value == "true").then(|| container.to_owned())
    };
    annotations.into_iter().filter_map(asks).collect()
}
