//! Every step from a container's history to each of its recommended numbers: the steps of `estimate.rs`, then those of
//! `publish.rs`. No formula is here.

use std::time::Duration;

use model::{Bound, ContainerExplanation, Cpu, Explanation, Memory, ResourceName};

use crate::aggregate::{Aggregate, Shapes};
use crate::estimate::{Amounts, Derivation, Steps, derive_cpu, derive_memory};
use crate::publish::{Published, Publishing};

/// The steps of every number of one container.
pub(crate) fn explain(
    publishing: Publishing<'_>,
    shapes: &Shapes,
    minimum: Amounts,
    history: &Aggregate,
) -> ContainerExplanation {
    let config = publishing.config;
    let mut numbers = Vec::new();
    if publishing.controls(&ResourceName::Cpu) {
        let derivation = derive_cpu(config, shapes, minimum.cpu, history);
        let publish = |amount| publishing.cpu(Cpu::from_millicores(amount));
        numbers.extend(explain_resource(&ResourceName::Cpu, &derivation, publish));
    }
    if publishing.controls(&ResourceName::Memory) {
        let derivation = derive_memory(config, shapes, minimum.memory, history);
        let publish = |amount| publishing.memory(Memory::from_bytes(amount));
        numbers.extend(explain_resource(&ResourceName::Memory, &derivation, publish));
    }
    let lifespan = Duration::from_nanos(u64::try_from(history.lifespan()).unwrap_or(0));
    ContainerExplanation { samples: history.samples(), lifespan, numbers }
}

fn explain_resource(
    resource: &ResourceName,
    derivation: &Derivation,
    publish: impl Fn(i64) -> Published,
) -> [Explanation; 3] {
    let Derivation { confidence, minimum, target, lower_bound, upper_bound } = *derivation;
    [(Bound::Target, target), (Bound::Lower, lower_bound), (Bound::Upper, upper_bound)].map(|(bound, steps)| {
        let Steps { percentile, usage, with_margin, with_confidence, amount } = steps;
        let Published { rounded, in_whole_units, capped, capped_by } = publish(amount);
        Explanation {
            resource: resource.clone(),
            bound,
            percentile,
            usage,
            with_margin,
            confidence,
            with_confidence,
            minimum,
            at_least_minimum: amount,
            rounded,
            in_whole_units,
            capped,
            capped_by,
        }
    })
}
