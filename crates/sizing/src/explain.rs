//! Steps from a container's history to its recommended requests: those of `estimate.rs`, the
//! override by a per-VPA sizing policy, then those of `publish.rs`. No formulas here.

use model::{Explanation, MethodStep, ResourceName};

use crate::amount::Amounts;
use crate::container_history::{ContainerHistory, HistogramConfigs};
use crate::estimate::{Derivation, derive};
use crate::published::{Published, Publishing};

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
    let [cpu_steps, memory_steps] = steps;
    let explanations = [
        explanation(
            ResourceName::Cpu,
            config.cpu_percentiles.target,
            minimum.cpu.millicores(),
            &cpu,
            cpu_steps,
            publishing.cpu(target.cpu),
        ),
        explanation(
            ResourceName::Memory,
            config.memory_percentiles.target,
            minimum.memory.bytes(),
            &memory,
            memory_steps,
            publishing.memory(target.memory),
        ),
    ];
    explanations
        .into_iter()
        .filter(|explanation| publishing.controls(&explanation.resource))
        .collect()
}

fn explanation(
    resource: ResourceName,
    percentile: f64,
    minimum: i64,
    derivation: &Derivation,
    method_steps: Vec<MethodStep>,
    published: Published,
) -> Explanation {
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
}
