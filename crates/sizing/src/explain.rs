//! Steps from a container's history to each of its recommended numbers: those of `estimate.rs`, the
//! override by a per-VPA sizing policy, then those of `publish.rs`. No formulas here.

use std::time::Duration;

use model::{Bound, ContainerExplanation, Cpu, Explanation, Memory, ResourceName};

use crate::container_history::{ContainerHistory, HistogramConfigs};
use crate::estimate::{Amounts, Derivation, Estimate, Steps, derive_cpu, derive_memory};
use crate::published::{Published, Publishing};

/// The steps of every number of one container; `own` is the result of the VPA's per-VPA
/// sizing policy, if any.
pub fn explain(
    publishing: Publishing<'_>,
    shapes: &HistogramConfigs,
    minimum: Amounts,
    history: &ContainerHistory,
    own: Option<&Estimate>,
) -> ContainerExplanation {
    let config = publishing.config;
    let mut numbers = Vec::new();
    if publishing.controls(&ResourceName::Cpu) {
        let derivation = derive_cpu(config, shapes, minimum.cpu, history);
        let publish = |amount| publishing.cpu(Cpu::from_millicores(amount));
        numbers.extend(explain_resource(
            &ResourceName::Cpu,
            &derivation,
            own.map(|own| each(own, |amounts| amounts.cpu.millicores())),
            publish,
        ));
    }
    if publishing.controls(&ResourceName::Memory) {
        let derivation = derive_memory(config, shapes, minimum.memory, history);
        let publish = |amount| publishing.memory(Memory::from_bytes(amount));
        numbers.extend(explain_resource(
            &ResourceName::Memory,
            &derivation,
            own.map(|own| each(own, |amounts| amounts.memory.bytes())),
            publish,
        ));
    }
    let lifespan = Duration::from_nanos(u64::try_from(history.lifespan()).unwrap_or(0));
    ContainerExplanation {
        samples: history.samples(),
        lifespan,
        numbers,
    }
}

fn explain_resource(
    resource: &ResourceName,
    derivation: &Derivation,
    own: Option<[i64; 3]>,
    publish: impl Fn(i64) -> Published,
) -> [Explanation; 3] {
    let Derivation {
        confidence,
        minimum,
        target,
        lower_bound,
        upper_bound,
    } = *derivation;
    let own = own.map_or([None; 3], |amounts| amounts.map(Some));
    let numbers = [
        (Bound::Target, target, own[0]),
        (Bound::Lower, lower_bound, own[1]),
        (Bound::Upper, upper_bound, own[2]),
    ];
    numbers.map(|(bound, steps, by_per_vpa_policy)| {
        let Steps {
            percentile,
            usage,
            with_margin,
            with_confidence,
            amount,
        } = steps;
        let Published {
            rounded,
            in_whole_units,
            capped,
            capped_by,
        } = publish(by_per_vpa_policy.unwrap_or(amount));
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
            by_per_vpa_policy,
            rounded,
            in_whole_units,
            capped,
            capped_by,
            capped_because: None,
        }
    })
}

/// Target, lower and upper bound of one resource.
fn each(estimate: &Estimate, amount: impl Fn(&Amounts) -> i64) -> [i64; 3] {
    [
        &estimate.target,
        &estimate.lower_bound,
        &estimate.upper_bound,
    ]
    .map(amount)
}
