//! Explanation of a recommendation from the objects, without I/O.

use api::pod_annotations::UPDATES;
use api::vpa::{EffectiveUpdateMode, VerticalPodAutoscaler, VerticalPodAutoscalerStatus};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::core::SelectorExt as _;
use model::{ContainerRecommendation, Quantity, ResourceList, ResourceName};
use serde::Serialize;

use super::Facts;
use super::lines::{Condition, EventLine, Wait, conditions, events, notes, plain};
use super::policy::{self, PolicyLine};
use super::refuted::refuted;
use super::steps::{IN_STATUS, StepLine, steps};

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) namespace: String,
    pub(super) vpa: String,
    pub(super) target: String,
    pub(super) update_mode: String,
    pub(super) policy: Option<PolicyLine>,
    pub(super) recommendations: Vec<Recommended>,
    pub(super) steps: Vec<StepLine>,
    pub(super) samples: Vec<Samples>,
    pub(super) pods: Pods,
    /// Reasons why pods do not have the recommended requests.
    pub(super) waits: Vec<Wait>,
    pub(super) conditions: Vec<Condition>,
    /// The latest event first.
    pub(super) events: Vec<EventLine>,
    /// Parts that are left out, with the reason, and further VPAs of the target.
    pub(super) notes: Vec<String>,
}

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

/// History of a container.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Samples {
    pub(super) container: String,
    pub(super) count: i64,
    pub(super) cpu_weight: f64,
    pub(super) memory_weight: f64,
    pub(super) first_sample: Option<Timestamp>,
    pub(super) last_sample: Option<Timestamp>,
    /// Whole hours between the first and the last sample.
    pub(super) hours: i64,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pods {
    /// Pods that are neither finished nor being deleted.
    pub(super) total: usize,
    /// Pods whose requests are the target.
    pub(super) with_target: usize,
    /// Pods whose requests are within the bounds.
    pub(super) within_bounds: usize,
    pub(super) list: Vec<PodLine>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodLine {
    pub(super) pod: String,
    pub(super) has_target: bool,
    pub(super) is_within_bounds: bool,
    /// Requests that differ from the target, as `app cpu 100m (target 250m)`.
    pub(super) differences: Vec<String>,
    /// Changes that the webhook made when the pod was created.
    pub(super) updates: Option<String>,
}

pub(super) fn explain(facts: &Facts) -> Explanation {
    let vpa = &facts.vpa;
    let default = VerticalPodAutoscalerStatus::default();
    let status = vpa.status.as_ref().unwrap_or(&default);
    let recommended = status.recommendation.as_ref();
    let recommended = recommended.map(|it| it.containers.as_slice());
    let recommended = recommended.unwrap_or_default();
    let recommendations = recommended.iter();
    let recommendations = recommendations
        .flat_map(|it| requests_of(vpa, status, it))
        .collect();
    let pods = pods(&facts.pods, recommended);
    let target = &vpa.spec.target_ref;
    let missing = facts.missing.iter().chain(&facts.sizing_note);
    let mut notes = notes(missing, "VPAs", &facts.others);
    if let Some(ehpa) = &facts.ehpa {
        notes.push(plain(&format!(
            "The EHPA {ehpa} scales the replicas of the target; explain ehpa/{ehpa} shows them."
        )));
    }
    let steps = steps(facts, facts.now);
    if steps.iter().any(|it| it.step == IN_STATUS) {
        let note = "Checkpoints have the samples until their last write, and no memory peak of the current interval.";
        notes.push(note.to_owned());
    }
    Explanation {
        namespace: plain(&vpa.namespace().unwrap_or_default()),
        vpa: plain(&vpa.name_any()),
        target: plain(&format!("{}/{}", target.kind, target.name)),
        update_mode: format!("{:?}", vpa.spec.effective_update_mode()),
        policy: facts.policy.as_ref().map(|it| policy::describe(it, vpa)),
        recommendations,
        steps,
        samples: samples(facts),
        waits: waits(facts, status, &pods),
        pods,
        conditions: conditions(&status.conditions),
        events: events(&facts.events),
        notes,
    }
}

fn requests_of(
    vpa: &VerticalPodAutoscaler,
    status: &VerticalPodAutoscalerStatus,
    container: &ContainerRecommendation,
) -> Vec<Recommended> {
    let text = |list: &ResourceList, name: &ResourceName| list.get(name).map(Quantity::to_string);
    let targets = container.target.iter();
    targets
        .map(|(name, target)| Recommended {
            container: plain(&container.container_name),
            resource: plain(name.as_str()),
            target: target.to_string(),
            lower_bound: text(&container.lower_bound, name),
            upper_bound: text(&container.upper_bound, name),
            uncapped_target: text(&container.uncapped_target, name),
            changed_by: changed_by(vpa, status, container, name),
        })
        .collect()
}

/// The bound that makes the target differ from the uncapped target.
fn changed_by(
    vpa: &VerticalPodAutoscaler,
    status: &VerticalPodAutoscalerStatus,
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
    let mut conditions = status.conditions.iter();
    let capped = conditions.find(|it| it.kind == "RecommendationCapped" && it.status == "True");
    Some(match capped {
        Some(condition) if !is_raised => plain(&condition.reason),
        _ if is_raised => "minimum of the recommender".to_owned(),
        _ => "maximum of the recommender".to_owned(),
    })
}

fn samples(facts: &Facts) -> Vec<Samples> {
    let checkpoints = facts.checkpoints.iter();
    checkpoints
        .filter_map(|checkpoint| {
            let status = checkpoint.status.as_ref()?;
            let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
            let first = time(&status.first_sample_start);
            let last = time(&status.last_sample_start);
            let ends = first.zip(last);
            let age = ends.map(|(first, last)| last.duration_since(first));
            Some(Samples {
                container: plain(&checkpoint.spec.container_name),
                count: status.total_samples_count,
                cpu_weight: status.cpu_histogram.total_weight,
                memory_weight: status.memory_histogram.total_weight,
                first_sample: first,
                last_sample: last,
                hours: age.unwrap_or(SignedDuration::ZERO).as_hours().max(0),
            })
        })
        .collect()
}

fn is_live(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Succeeded" | "Failed"))
}

/// Requests of a container: those in effect, else those of the specification. `None` if the pod
/// does not have the container.
fn requests(pod: &Pod, container: &str) -> Option<ResourceList> {
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let mut containers = spec.containers.iter().chain(sidecars);
    let written = containers.find(|it| it.name == container)?;
    let statuses = pod.status.as_ref().map(|status| {
        let sidecars = status.init_container_statuses.iter().flatten();
        status.container_statuses.iter().flatten().chain(sidecars)
    });
    let mut statuses = statuses.into_iter().flatten();
    let reported = statuses.find(|it| it.name == container);
    let reported = reported.and_then(|it| it.resources.as_ref());
    let resources = reported.or(written.resources.as_ref());
    let requests = resources.and_then(|it| it.requests.as_ref());
    let requests = requests.into_iter().flatten().filter_map(|(name, text)| {
        let quantity = text.0.parse().ok()?;
        Some((ResourceName::from(name.as_str()), quantity))
    });
    Some(requests.collect())
}

fn pods(pods: &[Pod], recommended: &[ContainerRecommendation]) -> Pods {
    let live = pods.iter().filter(|pod| is_live(pod));
    let list: Vec<PodLine> = live.map(|pod| pod_line(pod, recommended)).collect();
    Pods {
        total: list.len(),
        with_target: list.iter().filter(|line| line.has_target).count(),
        within_bounds: list.iter().filter(|line| line.is_within_bounds).count(),
        list,
    }
}

fn pod_line(pod: &Pod, recommended: &[ContainerRecommendation]) -> PodLine {
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
                let container = &container.container_name;
                let text = format!("{container} {name} {request} (target {target})");
                differences.push(plain(&text));
            }
        }
    }
    PodLine {
        pod: plain(&pod.name_any()),
        has_target: !recommended.is_empty() && differences.is_empty(),
        is_within_bounds,
        differences,
        updates: pod.annotations().get(UPDATES).map(|text| plain(text)),
    }
}

/// The reasons that the objects show. The updater can have further ones, such as its rate limit.
fn waits(facts: &Facts, status: &VerticalPodAutoscalerStatus, pods: &Pods) -> Vec<Wait> {
    let mut waits = Vec::new();
    let mut wait = |reason, message: &str| waits.push(Wait::new(reason, message));
    let total = pods.total;
    if status.recommendation.is_none() {
        wait("NoRecommendation", "the VPA has no recommendation yet");
        return waits;
    }
    for sentence in facts.pods.iter().flat_map(refuted) {
        wait("ActRefuted", &sentence);
    }
    if pods.with_target == total {
        return waits;
    }
    let mode = facts.vpa.spec.effective_update_mode();
    if matches!(
        mode,
        EffectiveUpdateMode::Off | EffectiveUpdateMode::Initial
    ) {
        let message = format!("the update mode {mode:?} never changes running pods");
        wait("UpdateMode", &message);
    } else if pods.within_bounds == total {
        let message =
            format!("the requests of all {total} pods are within the bounds of the recommendation");
        wait("WithinBounds", &message);
    }
    let stale = status.conditions.iter();
    for condition in stale.filter(|it| it.kind == api::vpa::SOURCE_STALE && it.status == "True") {
        wait("RecommendationFrozen", &condition.message);
    }
    let policy = facts.vpa.spec.update_policy.as_ref();
    if let Some(min) = policy.and_then(|policy| policy.min_replicas)
        && usize::try_from(min).is_ok_and(|min| min > total)
    {
        let message = format!("there are {total} pods, and minReplicas is {min}");
        wait("MinReplicas", &message);
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
            wait("DisruptionBudget", &message);
        }
    }
    for pod in &facts.pods {
        for condition in pending_resizes(pod) {
            let reason = match condition.reason.as_deref() {
                Some("Infeasible") => "ResizeInfeasible",
                _ => "ResizeDeferred",
            };
            let message = condition.message.as_deref().unwrap_or_default();
            wait(reason, &format!("pod {}: {message}", pod.name_any()));
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
