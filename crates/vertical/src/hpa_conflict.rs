//! Resources that an object sizes while a `HorizontalPodAutoscaler` (HPA) scales its workload by
//! their utilization.
//!
//! Such an HPA holds the usage per pod near a share of the request. Each change of the request
//! moves that amount, and with it the usage that the next recommendation follows. The condition
//! names the HPA. Unless the mode is Ignore, the resource is left out of the recommendation, so
//! the webhook leaves it alone, and the updater gives sized pods the request of their template back.
//! An object that changes no pod has no conflict.

use std::sync::Arc;

use api::vpa::{
    CONFLICTS_WITH_HPA, Conditions, EffectiveUpdateMode, HPA_RESOURCE_LEFT_OUT, HpaMode,
    VerticalPodAutoscaler, VerticalPodAutoscalerCondition, VerticalPodAutoscalerStatus,
};
use jiff::Timestamp;
use model::ResourceName;
use sizing::capped_lists;
use view::{HpaTargets, UtilizationTarget};

use crate::sizing_policies::desired::is_of_policy;
use crate::status::{
    ConditionChange, condition, condition_change, count_by_label, first_of, set_problem,
};

/// Reason of `ConflictsWithHPA` of a VPA: the resource is sized nevertheless.
const SIZED: &str = "ResourceSized";
/// Reason of `ConflictsWithHPA` of a VPA: the resource is left out until the EHPA scales by an
/// amount per pod.
const PENDING: &str = "ScalePointPending";
/// The reasons, with the values of the metric's label.
const REASONS: [(&str, &str); 3] = [
    (SIZED, "sized"),
    (HPA_RESOURCE_LEFT_OUT, "left_out"),
    (PENDING, "scale_point_pending"),
];
/// Maximum number of metrics of HPAs in a message.
const MAX_METRICS: usize = 4;

pub fn hpa_conflict_change<'a>(
    old: Option<&VerticalPodAutoscalerStatus>,
    new: &'a VerticalPodAutoscalerStatus,
) -> Option<ConditionChange<'a>> {
    condition_change(old, new, conflict, |condition| &condition.message)
}

/// Number of statuses with a conflict, by its handling.
pub fn count_hpa_conflicts<'a>(
    statuses: impl IntoIterator<Item = &'a VerticalPodAutoscalerStatus>,
) -> [(&'static str, i64); 3] {
    let conflicts = statuses.into_iter().filter_map(conflict);
    count_by_label(REASONS, conflicts.map(|condition| &*condition.reason))
}

fn conflict(status: &VerticalPodAutoscalerStatus) -> Option<&VerticalPodAutoscalerCondition> {
    condition(status, CONFLICTS_WITH_HPA)
}

/// The mode of an object, and the error in its annotation. The default is Respect for objects of a
/// sizing policy, else Ignore, as upstream.
pub(crate) fn mode(object: &VerticalPodAutoscaler) -> (HpaMode, Option<String>) {
    let default = if is_of_policy(object) {
        HpaMode::Respect
    } else {
        HpaMode::Ignore
    };
    match HpaMode::of(object) {
        Some(Ok(mode)) => (mode, None),
        Some(Err(error)) => (default, Some(error)),
        None => (default, None),
    }
}

/// Applies the conflicts of an object to its status. `hpas` scale its workload.
pub(crate) fn apply_hpa_conflict(
    status: &mut VerticalPodAutoscalerStatus,
    object: &VerticalPodAutoscaler,
    hpas: &[Arc<HpaTargets>],
    now: Timestamp,
) {
    let found = conflicts(status, object, hpas);
    let (mode, _) = mode(object);
    let problem = (!found.is_empty()).then(|| explain(mode, &found));
    let problem = problem
        .as_ref()
        .map(|(reason, message)| (*reason, message.as_str()));
    let mut conditions: Conditions = status.conditions.drain(..).collect();
    set_problem(&mut conditions, CONFLICTS_WITH_HPA, problem, now);
    status.conditions = conditions.to_list();
    if problem.is_some() && mode != HpaMode::Ignore {
        leave_out(status, &found);
    }
}

type Conflict<'a> = (&'a HpaTargets, &'a UtilizationTarget);

fn conflicts<'a>(
    status: &VerticalPodAutoscalerStatus,
    object: &VerticalPodAutoscaler,
    hpas: &'a [Arc<HpaTargets>],
) -> Vec<Conflict<'a>> {
    if object.spec.effective_update_mode() == EffectiveUpdateMode::Off {
        return Vec::new();
    }
    let recommendation = status.recommendation.as_ref();
    let containers = recommendation.iter().flat_map(|it| &it.containers);
    let is_sized = |target: &UtilizationTarget| match &target.container {
        Some(container) => object.spec.sizes(container, &target.resource),
        None => containers
            .clone()
            .any(|it| object.spec.sizes(&it.container_name, &target.resource)),
    };
    let targets = hpas
        .iter()
        .flat_map(|hpa| hpa.utilization.iter().map(move |target| (&**hpa, target)));
    targets.filter(|(_, target)| is_sized(target)).collect()
}

/// Removes the resources from the recommendation.
fn leave_out(status: &mut VerticalPodAutoscalerStatus, conflicts: &[Conflict]) {
    let containers = status
        .recommendation
        .iter_mut()
        .flat_map(|recommendation| &mut recommendation.containers);
    for container in containers {
        let name = container.container_name.clone();
        let is_kept = |resource: &ResourceName| {
            !conflicts.iter().any(|(_, target)| {
                target.resource == *resource
                    && target.container.as_ref().is_none_or(|of| *of == name)
            })
        };
        let mut uncapped = std::mem::take(&mut container.uncapped_target);
        for list in capped_lists(container).into_iter().chain([&mut uncapped]) {
            let kept = list.iter().filter(|(resource, _)| is_kept(resource));
            *list = kept
                .map(|(resource, amount)| (resource.clone(), amount.clone()))
                .collect();
        }
        container.uncapped_target = uncapped;
    }
}

/// Reason and message, without amounts, so that they change seldom.
fn explain(mode: HpaMode, conflicts: &[Conflict]) -> (&'static str, String) {
    let metrics = conflicts.iter().map(|(hpa, target)| {
        let (name, resource) = (&hpa.key.name, &target.resource);
        let of = |container| format!(" of container {container}");
        let container = target.container.as_ref().map_or_else(String::new, of);
        format!("HorizontalPodAutoscaler {name} scales by utilization of {resource}{container}")
    });
    let metrics = first_of(metrics, MAX_METRICS);
    let foreign = conflicts.iter().find(|(hpa, _)| hpa.ehpa.is_none());
    let (reason, rest) = match mode {
        HpaMode::Ignore => (
            SIZED,
            "this object sizes the same, so each change of the requests moves the scale point: set the annotation plimsoll.dev/hpa to Respect or KeepScalePoint, or the target of the HorizontalPodAutoscaler to an averageValue",
        ),
        HpaMode::Respect => (
            HPA_RESOURCE_LEFT_OUT,
            "this is left out of the recommendation: to size it, set the target of the HorizontalPodAutoscaler to an averageValue",
        ),
        HpaMode::KeepScalePoint if foreign.is_some() => (
            HPA_RESOURCE_LEFT_OUT,
            "this is left out of the recommendation, since KeepScalePoint changes only a HorizontalPodAutoscaler of an EffectiveHorizontalPodAutoscaler: use one, or set the target to an averageValue",
        ),
        HpaMode::KeepScalePoint => (
            PENDING,
            "this is left out of the recommendation until the EffectiveHorizontalPodAutoscaler has an averageValue in its place",
        ),
    };
    (reason, format!("{metrics}; {rest}"))
}

#[cfg(test)]
mod tests {
    use model::WorkloadRef;
    use serde_json::{Value, json};
    use view::ObjectKey;

    use super::*;
    use crate::fixture::{at, vpa};

    fn hpa(name: &str, ehpa: Option<&str>, targets: &[(&str, Option<&str>)]) -> Arc<HpaTargets> {
        Arc::new(HpaTargets {
            key: ObjectKey::new("shop", name),
            workload: WorkloadRef::default(),
            ehpa: ehpa.map(str::to_owned),
            utilization: targets
                .iter()
                .map(|(resource, container)| UtilizationTarget {
                    resource: ResourceName::from(*resource),
                    container: container.map(str::to_owned),
                })
                .collect(),
        })
    }

    fn recommended() -> VerticalPodAutoscalerStatus {
        let amounts = json!({"cpu": "100m", "memory": "1Gi"});
        let container = |name: &str| {
            json!({
                "containerName": name, "target": amounts, "lowerBound": amounts, "upperBound": amounts,
                "uncappedTarget": amounts,
            })
        };
        let containers = json!([container("app"), container("proxy")]);
        serde_json::from_value(
            json!({"recommendation": {"containerRecommendations": containers}, "conditions": []}),
        )
        .expect("a status")
    }

    /// `expected`: the reason, and the resources of `app` and `proxy`.
    fn check(
        extra: &Value,
        hpas: &[Arc<HpaTargets>],
        expected: (Option<&str>, [&[&str]; 2]),
    ) -> VerticalPodAutoscalerStatus {
        let (object, mut status) = (vpa("web", extra).object, recommended());
        apply_hpa_conflict(&mut status, &object, hpas, at(1));
        let reason = conflict(&status).map(|condition| condition.reason.as_str());
        let recommendation = status.recommendation.as_ref().expect("a recommendation");
        let containers = recommendation.containers.iter();
        let resources: Vec<Vec<&str>> = containers
            .map(|container| {
                let lists = [
                    &container.target,
                    &container.lower_bound,
                    &container.upper_bound,
                    &container.uncapped_target,
                ];
                let names = lists.map(|list| {
                    list.iter()
                        .map(|(name, _)| name.as_str())
                        .collect::<Vec<_>>()
                });
                assert!(names.iter().all(|list| *list == names[0]), "{names:?}");
                names[0].clone()
            })
            .collect();
        assert_eq!(
            (reason, resources),
            (expected.0, expected.1.map(<[_]>::to_vec).to_vec()),
            "{extra} {hpas:?}"
        );
        status
    }

    fn annotated(mode: &str) -> Value {
        json!({"metadata": {"annotations": {"plimsoll.dev/hpa": mode}}})
    }

    const ALL: &[&str] = &["cpu", "memory"];

    #[test]
    fn a_resource_is_left_out_unless_the_mode_is_ignore() {
        let cpu = [hpa("native", None, &[("cpu", None)])];
        let of_app = [hpa("native", None, &[("cpu", Some("app"))])];
        let of_ehpa = [hpa("ehpa-web", Some("web"), &[("cpu", None)])];
        let both = [hpa("native", None, &[("cpu", None), ("memory", None)])];
        let fixed = [hpa("native", None, &[])];
        let memory: &[&str] = &["memory"];
        check(&json!({}), &[], (None, [ALL, ALL]));
        check(&annotated("Respect"), &fixed, (None, [ALL, ALL]));
        check(&json!({}), &cpu, (Some("ResourceSized"), [ALL, ALL]));
        check(
            &annotated("Ignore"),
            &cpu,
            (Some("ResourceSized"), [ALL, ALL]),
        );
        // An invalid value is reported elsewhere.
        check(
            &annotated("respect"),
            &cpu,
            (Some("ResourceSized"), [ALL, ALL]),
        );
        let left_out = Some("ResourceLeftOut");
        check(&annotated("Respect"), &cpu, (left_out, [memory, memory]));
        check(&annotated("Respect"), &of_app, (left_out, [memory, ALL]));
        check(&annotated("Respect"), &both, (left_out, [&[], &[]]));
        check(
            &annotated("KeepScalePoint"),
            &cpu,
            (left_out, [memory, memory]),
        );
        let pending = Some("ScalePointPending");
        check(
            &annotated("KeepScalePoint"),
            &of_ehpa,
            (pending, [memory, memory]),
        );
    }

    #[test]
    fn the_objects_of_a_policy_respect_hpas_by_default() {
        let cpu = [hpa("native", None, &[("cpu", None)])];
        let owner = json!([{
            "apiVersion": "plimsoll.dev/v1alpha1", "kind": "SizingPolicy", "name": "all", "uid": "u",
            "controller": true,
        }]);
        let mut object = json!({"metadata": {"ownerReferences": owner}});
        let memory: &[&str] = &["memory"];
        check(&object, &cpu, (Some("ResourceLeftOut"), [memory, memory]));
        object["metadata"]["annotations"] = json!({"plimsoll.dev/hpa": "Ignore"});
        check(&object, &cpu, (Some("ResourceSized"), [ALL, ALL]));
    }

    #[test]
    fn only_what_the_object_sizes_can_conflict() {
        let policies =
            |policies: &Value| json!({"spec": {"resourcePolicy": {"containerPolicies": policies}}});
        let cpu = [hpa("native", None, &[("cpu", None)])];
        let of_app = [hpa("native", None, &[("cpu", Some("app"))])];
        let sized = Some("ResourceSized");
        let memory = json!({"containerName": "*", "controlledResources": ["memory"]});
        let app = json!({"containerName": "app", "controlledResources": ["cpu"]});
        let app_off = json!({"containerName": "app", "mode": "Off"});
        for (extra, hpas, expected) in [
            (
                json!({"spec": {"updatePolicy": {"updateMode": "Off"}}}),
                &cpu,
                None,
            ),
            (
                json!({"spec": {"updatePolicy": {"updateMode": "Initial"}}}),
                &cpu,
                sized,
            ),
            (policies(&json!([memory])), &cpu, None),
            (policies(&json!([memory, app])), &cpu, sized),
            (policies(&json!([memory, app])), &of_app, sized),
            (policies(&json!([app_off])), &of_app, None),
            (policies(&json!([app_off])), &cpu, sized),
        ] {
            check(&extra, hpas, (expected, [ALL, ALL]));
        }
    }

    #[test]
    fn a_change_is_reported_once_and_the_message_is_bounded() {
        let cpu = [hpa("native", None, &[("cpu", None)])];
        let memory: &[&str] = &["memory"];
        let before = recommended();
        let conflict = check(
            &annotated("Respect"),
            &cpu,
            (Some("ResourceLeftOut"), [memory; 2]),
        );
        let Some(ConditionChange::Began(message)) = hpa_conflict_change(Some(&before), &conflict)
        else {
            panic!("{conflict:?}")
        };
        assert!(
            message.starts_with("HorizontalPodAutoscaler native scales by utilization of cpu; "),
            "{message}"
        );
        assert_eq!(hpa_conflict_change(Some(&conflict), &conflict), None);
        assert_eq!(hpa_conflict_change(None, &before), None);
        let resolved = Some(ConditionChange::Ended);
        assert_eq!(hpa_conflict_change(Some(&conflict), &before), resolved);
        let ignored = check(&json!({}), &cpu, (Some("ResourceSized"), [ALL; 2]));
        assert!(matches!(
            hpa_conflict_change(Some(&conflict), &ignored),
            Some(ConditionChange::Began(_))
        ));
        let counts = count_hpa_conflicts([&before, &conflict, &conflict, &ignored]);
        assert_eq!(
            counts,
            [("sized", 1), ("left_out", 2), ("scale_point_pending", 0)]
        );

        let long = "n".repeat(253);
        let many: Vec<_> = (0..200)
            .map(|_| hpa(&long, None, &[("cpu", Some(&long)), ("cpu", None)]))
            .collect();
        let status = check(&json!({}), &many, (Some("ResourceSized"), [ALL; 2]));
        let message = &super::conflict(&status).expect("a condition").message;
        assert!(
            message.contains(", and 396 more; ") && message.len() < 3000,
            "{message}"
        );
    }
}
