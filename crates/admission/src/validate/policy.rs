//! What is wrong with the policy of one container.

use model::{Quantity, ResourceList, ResourceName};

use super::object::Policy;
use super::{Accepted, at_least_one, boost, rule};
use crate::fields::Problem;
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
            .problems
            .push(Problem::required(field("containerName"), ""));
    }
    if let Some(mode) = policy
        .mode
        .as_deref()
        .filter(|mode| !matches!(*mode, "Auto" | "Off"))
    {
        verdict
            .problems
            .push(Problem::unsupported(field("mode"), mode, &["Auto", "Off"]));
    }
    verdict.problems.extend(bounds(policy, path));
    if policy.mode.as_deref() == Some("Off")
        && policy.controlled_values.as_deref() == Some("RequestsAndLimits")
    {
        let detail = "controlledValues shouldn't be specified if container scaling mode is off";
        verdict
            .problems
            .push(Problem::forbidden(field("controlledValues"), detail));
    }
    controlled(policy, path, accepted, verdict);
    let rules = [
        rule(
            field("oomBumpUpRatio"),
            policy.oom_bump_up_ratio.as_ref(),
            accepted,
            |ratio| ratio_below_one(ratio),
        ),
        rule(
            field("oomMinBumpUp"),
            policy.oom_min_bump_up.as_ref(),
            accepted,
            |bytes| negative(bytes),
        ),
        rule(
            field("memoryAggregationIntervalSeconds"),
            policy.memory_aggregation_interval_seconds,
            accepted,
            |seconds| at_least_one(i64::from(*seconds)),
        ),
        rule(
            field("memoryAggregationIntervalCount"),
            policy.memory_aggregation_interval_count,
            accepted,
            |count| at_least_one(*count),
        ),
    ];
    verdict.problems.extend(rules.into_iter().flatten());
    if let Some(own) = &policy.startup_boost {
        verdict
            .problems
            .extend(boost::validate(own, &field("startupBoost"), accepted));
    }
}

fn bounds(policy: &Policy, path: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (resource, min) in policy.min_allowed.iter().flat_map(ResourceList::iter) {
        problems.extend(resolution(
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
            problems.push(Problem::invalid(
                format!("{path}.maxAllowed[{resource}]"),
                quoted(max),
                &detail,
            ));
        }
    }
    for (resource, max) in policy.max_allowed.iter().flat_map(ResourceList::iter) {
        problems.extend(resolution(
            format!("{path}.maxAllowed[{resource}]"),
            resource,
            max,
        ));
    }
    problems
}

fn controlled(policy: &Policy, path: &str, accepted: &Accepted, verdict: &mut Verdict) {
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
                .problems
                .push(Problem::unsupported(field, name, &["cpu", "memory"]));
        }
    }
}

/// CPU comes in whole millicores, memory in whole bytes.
fn resolution(field: String, resource: &ResourceName, quantity: &Quantity) -> Option<Problem> {
    match resource {
        ResourceName::Cpu => cpu_resolution(field, quantity),
        ResourceName::Memory => {
            let is_whole = quantity.round_up(0) == *quantity;
            (!is_whole).then(|| {
                Problem::invalid(field, quoted(quantity), "must be a whole number of bytes")
            })
        }
        ResourceName::Other(_) => None,
    }
}

/// CPU comes in whole millicores.
pub(super) fn cpu_resolution(field: String, quantity: &Quantity) -> Option<Problem> {
    let is_whole = quantity.round_up(-3) == *quantity;
    (!is_whole).then(|| {
        Problem::invalid(
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
