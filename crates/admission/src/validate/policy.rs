//! Validation of the policy of one container.

use model::{Quantity, ResourceList, ResourceName};

use super::object::Policy;
use super::{Accepted, at_least_one, per_vpa_field, startup_boost};
use crate::field_error::FieldError;
use crate::review::Verdict;

pub(super) fn validate(policy: &Policy, path: &str, accepted: &Accepted, verdict: &mut Verdict) {
    let field = |name: &str| format!("{path}.{name}");
    if policy
        .container_name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        verdict
            .errors
            .push(FieldError::required(field("containerName"), ""));
    }
    if let Some(mode) = policy
        .mode
        .as_deref()
        .filter(|mode| !matches!(*mode, "Auto" | "Off"))
    {
        verdict.errors.push(FieldError::unsupported(
            field("mode"),
            mode,
            &["Auto", "Off"],
        ));
    }
    verdict.errors.extend(bounds(policy, path));
    if policy.mode.as_deref() == Some("Off")
        && policy.controlled_values.as_deref() == Some("RequestsAndLimits")
    {
        let detail = "controlledValues shouldn't be specified if container scaling mode is off";
        verdict
            .errors
            .push(FieldError::forbidden(field("controlledValues"), detail));
    }
    controlled_resources(policy, path, accepted, verdict);
    let per_vpa_fields = [
        per_vpa_field(
            field("oomBumpUpRatio"),
            policy.oom_bump_up_ratio.as_ref(),
            accepted,
            |ratio| ratio_below_one(ratio),
        ),
        per_vpa_field(
            field("oomMinBumpUp"),
            policy.oom_min_bump_up.as_ref(),
            accepted,
            |bytes| negative(bytes),
        ),
        per_vpa_field(
            field("memoryAggregationIntervalSeconds"),
            policy.memory_aggregation_interval_seconds,
            accepted,
            |seconds| at_least_one(i64::from(*seconds)),
        ),
        per_vpa_field(
            field("memoryAggregationIntervalCount"),
            policy.memory_aggregation_interval_count,
            accepted,
            |count| at_least_one(*count),
        ),
    ];
    verdict.errors.extend(per_vpa_fields.into_iter().flatten());
    if let Some(boost) = &policy.startup_boost {
        verdict.errors.extend(startup_boost::validate(
            boost,
            &field("startupBoost"),
            accepted,
        ));
    }
}

fn bounds(policy: &Policy, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (resource, min) in policy.min_allowed.iter().flat_map(ResourceList::iter) {
        errors.extend(resolution(
            format!("{path}.minAllowed[{resource}]"),
            resource,
            min,
        ));
        let max = policy
            .max_allowed
            .as_ref()
            .and_then(|list| list.get(resource))
            .filter(|max| *max < min);
        if let Some(max) = max {
            let detail = format!("max resource for {resource} is lower than min of \"{min}\"");
            errors.push(FieldError::invalid(
                format!("{path}.maxAllowed[{resource}]"),
                quoted(max),
                &detail,
            ));
        }
    }
    for (resource, max) in policy.max_allowed.iter().flat_map(ResourceList::iter) {
        errors.extend(resolution(
            format!("{path}.maxAllowed[{resource}]"),
            resource,
            max,
        ));
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
            verdict
                .errors
                .push(FieldError::unsupported(field, name, &["cpu", "memory"]));
        }
    }
}

/// The error of a CPU quantity with fractions of millicores, or of memory with fractions of bytes.
fn resolution(field: String, resource: &ResourceName, quantity: &Quantity) -> Option<FieldError> {
    match resource {
        ResourceName::Cpu => cpu_resolution(field, quantity),
        ResourceName::Memory => {
            let is_whole = quantity.round_up(0) == *quantity;
            (!is_whole).then(|| {
                FieldError::invalid(field, quoted(quantity), "must be a whole number of bytes")
            })
        }
        ResourceName::Other(_) => None,
    }
}

/// The error of a CPU quantity with fractions of millicores.
pub(super) fn cpu_resolution(field: String, quantity: &Quantity) -> Option<FieldError> {
    let is_whole = quantity.round_up(-3) == *quantity;
    (!is_whole).then(|| {
        FieldError::invalid(
            field,
            quoted(quantity),
            "must be a whole number of milli CPUs",
        )
    })
}

fn quoted(quantity: &Quantity) -> String {
    format!("\"{quantity}\"")
}

fn ratio_below_one(ratio: &Quantity) -> Option<(String, &'static str)> {
    let ratio = ratio.milli_value() as f64 / 1000.0;
    (ratio < 1.0).then(|| (ratio.to_string(), "must be greater than or equal to 1.0"))
}

fn negative(bytes: &Quantity) -> Option<(String, &'static str)> {
    let bytes = bytes.value();
    (bytes < 0).then(|| (bytes.to_string(), "must be greater than or equal to 0"))
}
