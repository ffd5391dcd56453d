//! Steps from a container's history to its recommended requests: those of `estimate.rs`, the
//! override by a per-VPA sizing policy, then those of `publish.rs`. No formulas here.

use model::{Explanation, MethodStep, ResourceName};

use crate::amount::Amounts;
use crate::container_history::{ContainerHistory, HistogramConfigs};
use crate::estimate::derive;
use crate::published::Publishing;

/// Target of a sizing method other than the VPA's, with its steps for CPU and memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodTarget {
    pub target: Amounts,
    /// Steps for CPU and memory.
    pub steps: [Vec<MethodStep>; 2],
}

/// The steps of the target of each controlled resource of one container; `own` is the result of the
/// VPA's per-VPA sizing policy, if any.
pub fn explain(
    publishing: Publishing<'_>,
    shapes: &HistogramConfigs,
    minimum: Amounts,
    history: &ContainerHistory,
    own: Option<MethodTarget>,
) -> Vec<Explanation> {
    let config = publishing.config;
    let [cpu, memory] = derive(config, shapes, minimum, history);
    let MethodTarget { target, steps } = own.unwrap_or_else(|| MethodTarget {
        target: Amounts::new(cpu.target, memory.target),
        steps: Default::default(),
    });
    let resources = [
        (
            ResourceName::Cpu,
            config.cpu_percentiles.target,
            minimum.cpu.millicores(),
            publishing.cpu(target.cpu),
        ),
        (
            ResourceName::Memory,
            config.memory_percentiles.target,
            minimum.memory.bytes(),
            publishing.memory(target.memory),
        ),
    ];
    let steps = [cpu, memory].into_iter().zip(steps);
    let explanations = resources.into_iter().zip(steps);
    let controlled = explanations.filter(|((resource, ..), _)| publishing.controls(resource));
    controlled
        .map(
            |((resource, percentile, minimum, published), (derivation, method_steps))| {
                Explanation {
                    resource,
                    percentile,
                    usage: derivation.usage,
                    with_margin: derivation.with_margin,
                    minimum,
                    at_least_minimum: derivation.target,
                    method_steps,
                    rounded: published.rounded,
                    in_whole_units: published.in_whole_units,
                    capped: published.capped,
                    capped_by: published.capped_by,
                }
            },
        )
        .collect()
}
