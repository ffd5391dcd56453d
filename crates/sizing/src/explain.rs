//! Steps from a container's history to each of its recommended numbers: those of `estimate.rs`, the
//! override by a per-VPA sizing policy, then those of `publish.rs`. No formulas here.

use std::time::Duration;

use model::{Bound, ContainerExplanation, Cpu, Explanation, Memory, MethodStep, ResourceName};

use crate::container_history::{ContainerHistory, HistogramConfigs};
use crate::estimate::{Amounts, Derivation, Estimate, Steps, derive_cpu, derive_memory};
use crate::published::{Published, Publishing};

/// Estimate of a sizing method other than the VPA's, with its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodEstimate {
    /// Target and bounds.
    pub estimate: Estimate,
    /// Steps of target, lower and upper bound, for CPU and memory.
    pub steps: [[Vec<MethodStep>; 3]; 2],
}

/// The steps of every number of one container; `own` is the result of the VPA's per-VPA
/// sizing policy, if any.
pub fn explain(
    publishing: Publishing<'_>,
    shapes: &HistogramConfigs,
    minimum: Amounts,
    history: &ContainerHistory,
    own: Option<MethodEstimate>,
) -> ContainerExplanation {
    let config = publishing.config;
    let mut numbers = Vec::new();
    let (estimate, [cpu_steps, memory_steps]) = match own {
        Some(own) => (Some(own.estimate), own.steps),
        None => (None, Default::default()),
    };
    let own = estimate.as_ref();
    if publishing.controls(&ResourceName::Cpu) {
        let derivation = derive_cpu(config, shapes, minimum.cpu, history);
        let publish = |amount| publishing.cpu(Cpu::from_millicores(amount));
        numbers.extend(explain_resource(
            &ResourceName::Cpu,
            &derivation,
            own.map(|own| each(own, |amounts| amounts.cpu.millicores())),
            cpu_steps,
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
            memory_steps,
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
    method_steps: [Vec<MethodStep>; 3],
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
    let [of_target, of_lower, of_upper] = method_steps;
    let numbers = [
        (Bound::Target, target, own[0], of_target),
        (Bound::Lower, lower_bound, own[1], of_lower),
        (Bound::Upper, upper_bound, own[2], of_upper),
    ];
    numbers.map(|(bound, steps, by_per_vpa_policy, method_steps)| {
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
            method_steps,
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
