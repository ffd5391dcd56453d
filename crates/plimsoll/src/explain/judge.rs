//! Explanation of a recommendation from the objects, without I/O.

use api::pod_annotations::{OOM_RESIZE, OOM_RESIZE_EFFECT_WITHIN, UPDATES};
use api::vpa::applied::RECOMMENDATION_FROZEN;
use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt as _;
use kube::core::SelectorExt as _;
use model::{ContainerRecommendation, Quantity, ResourceList, ResourceName, WHOLE_POD, shown_name};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::lines::{MAX_EVENTS, conditions, events, notes, wait};
use super::steps::{IN_STATUS, steps};
use super::{Facts, policy};
use crate::heap;

/// Maximum number of containers whose heap is explained.
const MAX_HEAPS: usize = 10;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Recommended {
    pub(crate) container: String,
    /// `cpu`, `memory` or another resource.
    pub(crate) resource: String,
    pub(crate) target: String,
    pub(crate) lower_bound: Option<String>,
    pub(crate) upper_bound: Option<String>,
    /// The target before bounds.
    pub(crate) uncapped_target: Option<String>,
    /// The bound that changed the target.
    pub(crate) changed_by: Option<String>,
}

pub(super) fn explain(facts: &Facts) -> Value {
    let vpa = &facts.vpa;
    let default = VerticalPodAutoscalerStatus::default();
    let status = vpa.status.as_ref().unwrap_or(&default);
    let pods = pods(&facts.pods, recommended(vpa));
    let target = &vpa.spec.target_ref;
    let missing = facts.missing.iter().chain(&facts.sizing_note);
    let mut notes = notes(missing, "VPAs", &facts.others);
    if let Some(ehpa) = &facts.ehpa {
        notes.push(format!(
            "The EHPA {ehpa} scales the replicas of the target; explain ehpa/{ehpa} shows them."
        ));
    }
    let newest = facts.pods.iter().filter(|pod| is_live(pod));
    let newest = newest.max_by_key(|pod| pod.metadata.creation_timestamp.clone());
    let containers = newest.and_then(|pod| Some(pod.spec.as_ref()?.containers.iter()));
    notes.extend(
        containers
            .into_iter()
            .flatten()
            .filter_map(heap::note)
            .take(MAX_HEAPS),
    );
    let steps = steps(facts, facts.now);
    if steps.iter().any(|it| it["step"] == IN_STATUS) {
        let note = "Checkpoints have the samples until their last write, and no memory peak of the current interval.";
        notes.push(note.to_owned());
    }
    json!({
        "namespace": vpa.namespace(),
        "vpa": vpa.name_any(),
        "target": format!("{}/{}", target.kind, target.name),
        "updateMode": format!("{:?}", vpa.spec.effective_update_mode()),
        "policy": facts.policy.as_ref().map(|it| policy::describe(it, vpa)),
        "recommendations": recommendations(vpa),
        "steps": steps,
        "samples": samples(facts),
        "waits": waits(facts, status, &pods),
        "pods": pods,
        "conditions": conditions(&status.conditions),
        "events": events(&facts.events, MAX_EVENTS),
        "notes": notes,
    })
}

fn recommended(vpa: &VerticalPodAutoscaler) -> &[ContainerRecommendation] {
    let status = vpa.status.as_ref();
    let recommendation = status.and_then(|status| status.recommendation.as_ref());
    recommendation.map_or(&[], |it| it.containers.as_slice())
}

/// The recommended requests of all containers.
pub(crate) fn recommendations(vpa: &VerticalPodAutoscaler) -> Vec<Recommended> {
    let text = |list: &ResourceList, name: &ResourceName| list.get(name).map(Quantity::to_string);
    let requests = recommended(vpa).iter().flat_map(|container| {
        let targets = container.target.iter();
        targets.map(move |(name, target)| Recommended {
            container: shown_name(&container.container_name).to_owned(),
            resource: name.as_str().to_owned(),
            target: target.to_string(),
            lower_bound: text(&container.lower_bound, name),
            upper_bound: text(&container.upper_bound, name),
            uncapped_target: text(&container.uncapped_target, name),
            changed_by: changed_by(vpa, container, name),
        })
    });
    requests.collect()
}

/// The bound that makes the target differ from the uncapped target.
fn changed_by(
    vpa: &VerticalPodAutoscaler,
    container: &ContainerRecommendation,
    name: &ResourceName,
) -> Option<String> {
    let target = container.target.get(name)?;
    let uncapped = container.uncapped_target.get(name)?;
    if target == uncapped {
        return None;
    }
    let is_raised = target > uncapped;
    let policy = vpa.spec.container_policy(&container.container_name);
    let bound = policy.and_then(|policy| {
        let (name_of, bounds) = if is_raised {
            ("minAllowed", &policy.min_allowed)
        } else {
            ("maxAllowed", &policy.max_allowed)
        };
        (bounds.get(name) == Some(target)).then_some(name_of)
    });
    if let Some(bound) = bound {
        return Some(format!("{bound} {target}"));
    }
    let mut conditions = vpa.status.iter().flat_map(|it| &it.conditions);
    let capped = conditions.find(|it| it.kind == "RecommendationCapped" && it.status == "True");
    Some(match capped {
        Some(condition) if !is_raised => condition.reason.clone(),
        _ if is_raised => "minimum of the recommender".to_owned(),
        _ => "maximum of the recommender".to_owned(),
    })
}

/// The history of each container. `hours`: whole ones between the first and the last sample.
fn samples(facts: &Facts) -> Vec<Value> {
    let samples = facts.checkpoints.iter().filter_map(|checkpoint| {
        let status = checkpoint.status.as_ref()?;
        let ends = [&status.first_sample_start, &status.last_sample_start];
        let [first, last] = ends.map(|time| time.as_ref().map(|time| time.0));
        let age = first
            .zip(last)
            .map(|(first, last)| last.duration_since(first));
        Some(json!({
            "container": shown_name(&checkpoint.spec.container_name),
            "count": status.total_samples_count,
            "cpuWeight": status.cpu_histogram.total_weight,
            "memoryWeight": status.memory_histogram.total_weight,
            "firstSample": first,
            "lastSample": last,
            "hours": age.unwrap_or_default().as_hours().max(0),
        }))
    });
    samples.collect()
}

fn is_live(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Requests of a container: those in effect, else those of the specification. `None` if the pod
/// does not have the container.
fn requests(pod: &Pod, container: &str) -> Option<ResourceList> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref());
    let resources = if container == WHOLE_POD {
        // The kubelet reports what it reads from the pod's cgroup.
        spec.resources.as_ref()
    } else {
        let sidecars = spec.init_containers.iter().flatten();
        let mut containers = spec.containers.iter().chain(sidecars);
        let written = containers.find(|it| it.name == container)?;
        let statuses = status.map(|status| {
            let sidecars = status.init_container_statuses.iter().flatten();
            status.container_statuses.iter().flatten().chain(sidecars)
        });
        let mut statuses = statuses.into_iter().flatten();
        let reported = statuses.find(|it| it.name == container);
        let reported = reported.and_then(|it| it.resources.as_ref());
        reported.or(written.resources.as_ref())
    };
    let requests = resources.and_then(|it| it.requests.as_ref());
    let requests = requests.into_iter().flatten().filter_map(|(name, text)| {
        let quantity = text.0.parse().ok()?;
        Some((ResourceName::from(name.as_str()), quantity))
    });
    Some(requests.collect())
}

/// The pods that are neither finished nor being deleted.
fn pods(pods: &[Pod], recommended: &[ContainerRecommendation]) -> Value {
    let live = pods.iter().filter(|pod| is_live(pod));
    let list: Vec<Value> = live.map(|pod| pod_line(pod, recommended)).collect();
    let count = |field: &str| list.iter().filter(|line| line[field] == true).count();
    json!({
        "total": list.len(),
        "withTarget": count("hasTarget"),
        "withinBounds": count("isWithinBounds"),
        "list": list,
    })
}

/// Requests that differ from the target are texts such as `app cpu 100m (target 250m)`; updates are
/// the changes that the webhook made when the pod was created.
fn pod_line(pod: &Pod, recommended: &[ContainerRecommendation]) -> Value {
    let mut differences = Vec::new();
    let mut is_within_bounds = !recommended.is_empty();
    for container in recommended {
        // A container that the pod does not have makes no difference.
        let Some(requests) = requests(pod, &container.container_name) else {
            continue;
        };
        for (name, target) in container.target.iter() {
            let request = requests.get(name);
            let lower = container.lower_bound.get(name);
            let upper = container.upper_bound.get(name);
            is_within_bounds &= request.is_some_and(|request| {
                lower.is_none_or(|bound| request >= bound)
                    && upper.is_none_or(|bound| request <= bound)
            });
            if request != Some(target) {
                let request = request.map_or("unset".to_owned(), Quantity::to_string);
                let container = shown_name(&container.container_name);
                differences.push(format!("{container} {name} {request} (target {target})"));
            }
        }
    }
    json!({
        "pod": pod.name_any(),
        "hasTarget": !recommended.is_empty() && differences.is_empty(),
        "isWithinBounds": is_within_bounds,
        "differences": differences,
        "updates": pod.annotations().get(UPDATES),
    })
}

/// The reasons that the objects show. The updater can have further ones, such as its rate limit.
fn waits(facts: &Facts, status: &VerticalPodAutoscalerStatus, pods: &Value) -> Vec<Value> {
    let mut waits = Vec::new();
    let total = pods["total"].as_u64().unwrap_or(0);
    if status.recommendation.is_none() {
        return vec![wait(
            "NoRecommendation",
            "the VPA has no recommendation yet",
        )];
    }
    let refuted = facts.pods.iter().flat_map(refuted);
    waits.extend(refuted.map(|sentence| wait("ActRefuted", sentence)));
    if pods["withTarget"] == total {
        return waits;
    }
    let mode = facts.vpa.spec.effective_update_mode();
    if matches!(
        mode,
        EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial
    ) {
        let message = format!("the update mode {mode:?} never changes running pods");
        waits.push(wait("UpdateMode", message));
    } else if pods["withinBounds"] == total {
        let message =
            format!("the requests of all {total} pods are within the bounds of the recommendation");
        waits.push(wait("WithinBounds", message));
    }
    let stale = status.conditions.iter();
    let stale = stale.filter(|it| it.kind == api::vpa::SOURCE_STALE && it.status == "True");
    waits.extend(stale.map(|condition| wait(RECOMMENDATION_FROZEN, &condition.message)));
    let policy = facts.vpa.spec.update_policy.as_ref();
    if let Some(min) = policy.and_then(|policy| policy.min_replicas)
        && u64::try_from(min).is_ok_and(|min| min > total)
    {
        let message = format!("there are {total} pods, and minReplicas is {min}");
        waits.push(wait("MinReplicas", message));
    }
    for budget in &facts.budgets {
        let status = budget.status.clone().unwrap_or_default();
        let covered = facts.pods.iter().filter(|pod| is_covered(pod, budget));
        let covered = covered.count();
        let is_blocked = budget.status.is_some() && status.disruptions_allowed.unwrap_or(0) == 0;
        if is_blocked && covered > 0 {
            let message = format!(
                "the budget {} of {covered} pods allows 0 evictions now: {} of {} required pods are healthy",
                budget.name_any(),
                status.current_healthy.unwrap_or(0),
                status.desired_healthy.unwrap_or(0),
            );
            waits.push(wait("DisruptionBudget", message));
        }
    }
    for pod in &facts.pods {
        for condition in pending_resizes(pod) {
            let reason = match condition.reason.as_deref() {
                Some("Infeasible") => "ResizeInfeasible",
                _ => "ResizeDeferred",
            };
            let message = condition.message.as_deref().unwrap_or_default();
            waits.push(wait(reason, format!("pod {}: {message}", pod.name_any())));
        }
    }
    waits
}

fn pending_resizes(pod: &Pod) -> impl Iterator<Item = &PodCondition> {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_deref());
    let conditions = conditions.unwrap_or_default().iter();
    conditions.filter(|it| it.type_ == "PodResizePending" && it.status == "True")
}

fn is_covered(pod: &Pod, budget: &PodDisruptionBudget) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
    let selector = selector.and_then(|it| kube::core::Selector::try_from(it).ok());
    is_live(pod) && selector.is_some_and(|selector| selector.matches(pod.labels()))
}

/// The value of the annotation, as far as it is read here.
#[derive(Deserialize)]
struct OomResize {
    at: Timestamp,
    act: String,
}

/// A sentence on each container that was OOM killed after the last resize had taken effect.
/// The rule is that of the updater, see docs/updating.md#acts-that-are-proven.
pub(super) fn refuted(pod: &Pod) -> Vec<String> {
    let last = pod.annotations().get(OOM_RESIZE);
    let last: Option<OomResize> = last.and_then(|text| serde_json::from_str(text).ok());
    let Some(last) = last else {
        return Vec::new();
    };
    let statuses = pod.status.iter();
    let statuses = statuses.flat_map(|status| status.container_statuses.iter().flatten());
    let sentences = statuses.filter_map(|status| sentence(pod, status, &last));
    sentences.collect()
}

fn sentence(pod: &Pod, status: &ContainerStatus, last: &OomResize) -> Option<String> {
    let end = status.last_state.as_ref()?.terminated.as_ref()?;
    let (began, ended) = (end.started_at.as_ref()?.0, end.finished_at.as_ref()?.0);
    let is_refuted = began.as_second() > last.at.as_second()
        || ended.duration_since(last.at) > OOM_RESIZE_EFFECT_WITHIN;
    if end.reason.as_deref() != Some("OOMKilled") || !is_refuted {
        return None;
    }
    let limits = status.resources.as_ref()?.limits.as_ref();
    let limit = limits.and_then(|limits| limits.get("memory"));
    Some(format!(
        "pod {}: container {} was OOM killed at {ended}, after the {} of {} (memory limit {})",
        pod.name_any(),
        status.name,
        last.act,
        last.at,
        limit.map_or("unset", |limit| limit.0.as_str()),
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pod that was resized at noon, killed 9 s later in a run that began at `began`.
    fn check(began: &str, expected: &[&str]) {
        let note = r#"{"at":"2026-01-01T12:00:00Z","act":"resize"}"#;
        let end = json!({
            "exitCode": 137, "reason": "OOMKilled", "startedAt": began,
            "finishedAt": "2026-01-01T12:00:09Z",
        });
        let pod = json!({
            "metadata": {"name": "web-1", "annotations": {OOM_RESIZE: note}},
            "status": {"containerStatuses": [{
                "name": "app", "ready": true, "restartCount": 3, "image": "", "imageID": "",
                "resources": {"limits": {"memory": "512Mi"}}, "lastState": {"terminated": end},
            }]},
        });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        assert_eq!(refuted(&pod), expected, "{began}");
    }

    #[test]
    fn only_a_kill_of_a_run_after_the_resize_is_named() {
        check("2026-01-01T11:59:59Z", &[]);
        let sentence = "pod web-1: container app was OOM killed at 2026-01-01T12:00:09Z, \
                        after the resize of 2026-01-01T12:00:00Z (memory limit 512Mi)";
        check("2026-01-01T12:00:01Z", &[sentence]);
    }
}
