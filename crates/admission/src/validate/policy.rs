//! Validation of the policy of one container, and of startup boosts.

use model::{Quantity, ResourceList, ResourceName};

use super::object::{CpuBoost, Policy, StartupBoost};
use super::{Accepted, Invalid, at_least_one, per_vpa_field};
use crate::field_error::FieldError;
use crate::review::Verdict;

/// The values of `startupBoost.cpu.type`.
const BOOST_KINDS: [&str; 2] = ["Factor", "Quantity"];

pub(super) fn validate(policy: &Policy, path: &str, accepted: &Accepted, verdict: &mut Verdict) {
    let field = |name: &str| format!("{path}.{name}");
    let errors = &mut verdict.errors;
    let (mode, modes) = (policy.mode.as_deref(), ["Auto", "Off"]);
    if let Some(mode) = mode.filter(|mode| !modes.contains(mode)) {
        errors.push(FieldError::unsupported(field("mode"), mode, &modes));
    }
    errors.extend(bounds(policy, path));
    if mode == Some("Off") && policy.controlled_values.as_deref() == Some("RequestsAndLimits") {
        let detail = "controlledValues shouldn't be specified if container scaling mode is off";
        errors.push(FieldError::forbidden(field("controlledValues"), detail));
    }
    controlled_resources(policy, path, accepted, verdict);
    let interval = policy.memory_aggregation_interval_seconds.map(i64::from);
    let count = policy.memory_aggregation_interval_count;
    for (name, checked) in [
        (
            "oomBumpUpRatio",
            policy.oom_bump_up_ratio.as_ref().map(ratio_below_one),
        ),
        (
            "oomMinBumpUp",
            policy.oom_min_bump_up.as_ref().map(negative),
        ),
        (
            "memoryAggregationIntervalSeconds",
            interval.map(at_least_one),
        ),
        ("memoryAggregationIntervalCount", count.map(at_least_one)),
    ] {
        let error = per_vpa_field(field(name), checked, accepted);
        verdict.errors.extend(error);
    }
    if let Some(boost) = &policy.startup_boost {
        let found = validate_boost(boost, &field("startupBoost"), accepted);
        verdict.errors.extend(found);
    }
}

pub(super) fn validate_boost(
    boost: &StartupBoost,
    path: &str,
    accepted: &Accepted,
) -> Option<FieldError> {
    if !accepted.gates.cpu_startup_boost {
        let detail = "in order to use startupBoost, you must enable feature gate CPUStartupBoost in the admission-controller args";
        return Some(FieldError::forbidden(path.to_owned(), detail));
    }
    let CpuBoost {
        kind,
        factor,
        quantity,
    } = boost.cpu.as_ref()?;
    let field = |name: &str| format!("{path}.cpu.{name}");
    let required = |name: &str, detail: &str| Some(FieldError::required(field(name), detail));
    match (kind.as_deref().unwrap_or_default(), factor, quantity) {
        ("", _, _) => required("type", "must be either Factor or Quantity"),
        ("Factor", None, _) => required("factor", "required when type is Factor"),
        ("Factor", Some(factor), _) => {
            let error =
                || FieldError::invalid(field("factor"), factor, "must be >= 1 for type Factor");
            (*factor < 1).then(error)
        }
        ("Quantity", _, None) => required("quantity", "required when type is Quantity"),
        ("Quantity", _, Some(quantity)) => cpu_resolution(field("quantity"), quantity),
        (other, _, _) => Some(FieldError::unsupported(field("type"), other, &BOOST_KINDS)),
    }
}

fn bounds(policy: &Policy, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let min_field = |resource| format!("{path}.minAllowed[{resource}]");
    let max_field = |resource| format!("{path}.maxAllowed[{resource}]");
    let maxima = policy.max_allowed.as_ref();
    for (resource, min) in policy.min_allowed.iter().flat_map(ResourceList::iter) {
        errors.extend(resolution(min_field(resource), resource, min));
        let max = maxima.and_then(|maxima| maxima.get(resource));
        if let Some(max) = max.filter(|max| *max < min) {
            let detail = format!("max resource for {resource} is lower than min of \"{min}\"");
            let (field, max) = (max_field(resource), quoted(max));
            errors.push(FieldError::invalid(field, max, &detail));
        }
    }
    for (resource, max) in maxima.into_iter().flat_map(ResourceList::iter) {
        errors.extend(resolution(max_field(resource), resource, max));
    }
    errors
}

fn controlled_resources(policy: &Policy, path: &str, accepted: &Accepted, verdict: &mut Verdict) {
    let controlled = policy.controlled_resources.iter().flatten().enumerate();
    for (index, name) in controlled.filter(|(_, name)| !matches!(name.as_str(), "cpu" | "memory")) {
        let field = format!("{path}.controlledResources[{index}]");
        if accepted.controlled_resources.contains(name) {
            verdict.warnings.push(format!(
                "{field}: unsupported value {name:?} is allowed only because it is present in the existing VPA object; \
                 supported values: \"cpu\", \"memory\""
            ));
        } else {
            let error = FieldError::unsupported(field, name, &["cpu", "memory"]);
            verdict.errors.push(error);
        }
    }
}

/// The error of a negative quantity, of CPU with fractions of millicores, or of memory with fractions
/// of bytes.
fn resolution(field: String, resource: &ResourceName, quantity: &Quantity) -> Option<FieldError> {
    match resource {
        _ if quantity.is_negative() => Some(below_zero(field, quantity)),
        ResourceName::Cpu => cpu_resolution(field, quantity),
        ResourceName::Memory => {
            let is_whole = quantity.round_up(0) == *quantity;
            let detail = "must be a whole number of bytes";
            (!is_whole).then(|| FieldError::invalid(field, quoted(quantity), detail))
        }
        ResourceName::Other(_) => None,
    }
}

fn below_zero(field: String, quantity: &Quantity) -> FieldError {
    let detail = "must be greater than or equal to 0";
    FieldError::invalid(field, quoted(quantity), detail)
}

/// The error of a CPU quantity that is negative or has fractions of millicores.
pub(super) fn cpu_resolution(field: String, quantity: &Quantity) -> Option<FieldError> {
    if quantity.is_negative() {
        return Some(below_zero(field, quantity));
    }
    let is_whole = quantity.round_up(-3) == *quantity;
    let detail = "must be a whole number of milli CPUs";
    (!is_whole).then(|| FieldError::invalid(field, quoted(quantity), detail))
}

fn quoted(quantity: &Quantity) -> String {
    format!("\"{quantity}\"")
}

fn ratio_below_one(ratio: &Quantity) -> Invalid {
    let ratio = ratio.milli_value() as f64 / 1000.0;
    (ratio < 1.0).then(|| (ratio.to_string(), "must be greater than or equal to 1.0"))
}

fn negative(bytes: &Quantity) -> Invalid {
    let bytes = bytes.value();
    (bytes < 0).then(|| (bytes.to_string(), "must be greater than or equal to 0"))
}
