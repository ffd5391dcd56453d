//! Maximum of a `LimitRange`, which applies to limits. Requests cannot exceed limits.
//!
//! Source: `plugin/pkg/admission/limitranger` (`maxConstraint`) of Kubernetes.

use model::{Cap, Cpu, Memory, ResourceList, ResourceName};

use super::ceiling::{Ceiling, LimitScope, LimitedValues};

/// The ceilings of one item of a `LimitRange`.
pub fn limit_range_ceilings(name: &str, per: LimitScope, max: &ResourceList) -> Vec<Ceiling> {
    let cpu = max
        .cpu()
        .map(|most| (ResourceName::Cpu, Cpu::millicores(most)));
    let memory = max
        .memory()
        .map(|most| (ResourceName::Memory, Memory::bytes(most)));
    let limited = cpu.into_iter().chain(memory).filter(|(_, most)| *most > 0);
    limited
        .flat_map(|(resource, most)| both(name, per, &resource, most))
        .collect()
}

fn both(name: &str, per: LimitScope, resource: &ResourceName, most: i64) -> [Ceiling; 2] {
    [LimitedValues::Requests, LimitedValues::Limits].map(|values| Ceiling {
        resource: resource.clone(),
        values,
        per,
        most,
        by: Cap::LimitRange,
        object: name.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use model::Quantity;

    use super::*;

    #[test]
    fn only_what_is_limited_has_a_ceiling() {
        let max = [
            (ResourceName::Cpu, Quantity::from_milli(0)),
            (ResourceName::Memory, Quantity::from_bytes(1 << 30)),
        ];
        let ceilings = limit_range_ceilings("small", LimitScope::Pod, &max.into_iter().collect());
        let found: Vec<_> = ceilings
            .iter()
            .map(|ceiling| (&ceiling.resource, ceiling.values, ceiling.most))
            .collect();
        let memory = &ResourceName::Memory;
        assert_eq!(
            found,
            [
                (memory, LimitedValues::Requests, 1 << 30),
                (memory, LimitedValues::Limits, 1 << 30)
            ]
        );
    }
}
