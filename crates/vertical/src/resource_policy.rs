//! Conversion of the resource policy and the annotations of a `VerticalPodAutoscaler` to the
//! policies of `sizing`.

use std::collections::BTreeSet;

use api::WellKnown;
use api::vpa::{ContainerResourcePolicy, ContainerScalingMode, VerticalPodAutoscaler};
use sizing::price_of_failure::HistoryUnit;
use sizing::{
    ContainerPolicy, DEFAULT_CONTAINER, MethodSettingsError, ScalingMode, SizingAnnotations,
};

/// The policies of containers. Where the pod is sized as a whole, its own and one that excludes all others.
pub fn container_policies(object: &VerticalPodAutoscaler) -> Vec<ContainerPolicy> {
    let Some(all) = &object.spec.resource_policy else {
        return Vec::new();
    };
    match &all.pod_policy {
        Some(of_pod) if object.spec.sizes_whole_pods() => {
            let others = ContainerPolicy {
                container_name: DEFAULT_CONTAINER.to_owned(),
                mode: ScalingMode::Off,
                ..ContainerPolicy::default()
            };
            vec![policy(of_pod), others]
        }
        // The schema lets a policy without a name pass; it applies to no container.
        _ => all
            .container_policies
            .iter()
            .filter(|policy| !policy.container_name.is_empty())
            .map(policy)
            .collect(),
    }
}

fn policy(policy: &ContainerResourcePolicy) -> ContainerPolicy {
    ContainerPolicy {
        container_name: policy.container_name.clone(),
        mode: match policy.effective_mode() {
            ContainerScalingMode::Auto => ScalingMode::Auto,
            ContainerScalingMode::Off => ScalingMode::Off,
        },
        min_allowed: policy.min_allowed.clone(),
        max_allowed: policy.max_allowed.clone(),
        controlled_resources: policy.controlled_resources.clone(),
        oom_bump_up_ratio: policy.oom_bump_up_ratio.clone(),
        oom_min_bump_up: policy.oom_min_bump_up.clone(),
        memory_aggregation_interval_seconds: policy.memory_aggregation_interval_seconds,
        memory_aggregation_interval_count: policy.memory_aggregation_interval_count,
    }
}

/// The containers with whole cores, by annotation.
pub fn integer_cpu(object: &VerticalPodAutoscaler) -> BTreeSet<String> {
    sizing::integer_cpu_containers(annotations(object))
}

/// The sizing policy that the annotations select, and those without effect.
pub fn sizing_policy(
    object: &VerticalPodAutoscaler,
) -> Result<SizingAnnotations, MethodSettingsError> {
    SizingAnnotations::parse(annotations(object), history_unit(object))
}

/// The unit in which the history of an object's workload counts: the pods of Jobs are runs.
fn history_unit(object: &VerticalPodAutoscaler) -> HistoryUnit {
    match WellKnown::of_kind(&object.spec.target_ref.kind) {
        Some(WellKnown::Job | WellKnown::CronJob) => HistoryUnit::Runs,
        _ => HistoryUnit::Hours,
    }
}

/// The settings of the VPA's method; the flags apply if one is invalid.
pub fn vpa_method(object: &VerticalPodAutoscaler) -> sizing::VpaMethodSettings {
    sizing::VpaMethodSettings::from_annotations(annotations(object)).unwrap_or_default()
}

fn annotations(object: &VerticalPodAutoscaler) -> impl Iterator<Item = (&str, &str)> {
    object
        .metadata
        .annotations
        .iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fixture::vpa;

    #[test]
    fn history_of_jobs_and_cron_jobs_counts_in_runs_with_our_method() {
        for (kind, method, expected) in [
            ("CronJob", "plimsoll", true),
            ("Job", "plimsoll", true),
            ("Deployment", "plimsoll", false),
            ("Workflow", "plimsoll", false),
            ("CronJob", "crane", false),
        ] {
            let object = json!({
                "metadata": {"annotations": {"plimsoll.dev/sizing-policy": method}},
                "spec": {"targetRef": {"kind": kind}},
            });
            let found = sizing_policy(&vpa("web", &object).object).expect("valid");
            let method = found.method.expect("a method").method;
            assert_eq!(method.counts_runs(), expected, "{kind} {method:?}");
        }
    }
}
