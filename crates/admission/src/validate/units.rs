//! Warnings about units: a valid quantity that is probably a slip.

use model::{Quantity, ResourceList, ResourceName, unit_slip};

use super::object::{Spec, StartupBoost};

/// The warnings about the quantities of an object.
pub(super) fn warnings(spec: &Spec) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut add = |field: String, resource: &ResourceName, quantity: &Quantity| {
        let slip = unit_slip(resource, quantity);
        warnings.extend(slip.map(|slip| format!("{field}: {slip}")));
    };
    for (index, policy) in spec.policies().enumerate() {
        let path = format!("spec.resourcePolicy.containerPolicies[{index}]");
        for (name, amounts) in [
            ("minAllowed", &policy.min_allowed),
            ("maxAllowed", &policy.max_allowed),
        ] {
            for (resource, quantity) in amounts.iter().flat_map(ResourceList::iter) {
                add(format!("{path}.{name}[{resource}]"), resource, quantity);
            }
        }
        if let Some(bytes) = &policy.oom_min_bump_up {
            add(format!("{path}.oomMinBumpUp"), &ResourceName::Memory, bytes);
        }
        if let Some(quantity) = boost(policy.startup_boost.as_ref()) {
            let field = format!("{path}.startupBoost.cpu.quantity");
            add(field, &ResourceName::Cpu, quantity);
        }
    }
    if let Some(quantity) = boost(spec.startup_boost.as_ref()) {
        let field = "spec.startupBoost.cpu.quantity".to_owned();
        add(field, &ResourceName::Cpu, quantity);
    }
    warnings
}

fn boost(boost: Option<&StartupBoost>) -> Option<&Quantity> {
    boost?.cpu.as_ref()?.quantity.as_ref()
}
