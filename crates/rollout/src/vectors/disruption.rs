//! Upstream's eviction tolerance, and the choice between resize, eviction and waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use view::{Phase, Pod};

use super::{Attempts, pod, recommendation, running, vpa};
use crate::group::{Disruption, Group, PodAvailability, required_replicas};
use crate::in_place::{InPlaceDecision, InPlaceRequest, may_evict};
use crate::resize_status::ResizeStatus;
use crate::settings::Settings;
use crate::state::is_any_lower;

#[derive(Deserialize)]
struct Case {
    flow: String,
    min_replicas: i64,
    eviction_tolerance: f64,
    in_place_skip_disruption_budget: bool,
    gate_in_place: bool,
    vpa: Value,
    owners: Vec<OwnerCase>,
    pods: Option<Vec<Value>>,
    infeasible_attempts: Attempts,
    expect_loops: Vec<Loop>,
}

#[derive(Deserialize)]
struct OwnerCase {
    kind: String,
    name: String,
    replicas: Option<i64>,
    missing: bool,
}

#[derive(Deserialize)]
struct Loop {
    now: Timestamp,
    steps: Vec<Step>,
    groups: Option<Vec<GroupCase>>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
struct Step {
    pod: String,
    decision: Option<String>,
    #[serde(default)]
    resized: bool,
    #[serde(default)]
    can_evict: Option<bool>,
    #[serde(default)]
    evicted: bool,
}

#[derive(Debug, PartialEq, Deserialize)]
struct GroupCase {
    kind: String,
    name: String,
    configured: i64,
    tolerance: i64,
    pending: i64,
    running: i64,
    below_min_replicas: bool,
}

type OwnerName = (String, String);

fn owner_name(pod: &Pod) -> OwnerName {
    pod.owner
        .as_ref()
        .map(|owner| (owner.kind.clone(), owner.name.clone()))
        .unwrap_or_default()
}

/// The recordings do not have readiness, which upstream does not use.
fn availability(pod: &Pod) -> PodAvailability {
    if pod.phase == Phase::Pending {
        PodAvailability::Pending
    } else {
        PodAvailability::Running { available: true }
    }
}

impl Case {
    /// The configured number of pods of an owner, by upstream's rule; `None` if the group is passed
    /// over.
    fn configured(&self, owner: &OwnerName, live: i64) -> Option<i64> {
        let known = self
            .owners
            .iter()
            .find(|known| (&known.kind, &known.name) == (&owner.0, &owner.1));
        match owner.0.as_str() {
            "Job" => Some(live),
            "ReplicaSet" | "ReplicationController" | "StatefulSet" | "DaemonSet" => known
                .filter(|known| !known.missing)?
                .replicas
                .filter(|replicas| *replicas > 0),
            _ => Some(0),
        }
    }

    fn groups(
        &self,
        pods: &[Pod],
        required: i64,
        includes_small: bool,
    ) -> BTreeMap<OwnerName, Group> {
        let mut by_owner: BTreeMap<OwnerName, Vec<PodAvailability>> = BTreeMap::new();
        for pod in pods {
            by_owner
                .entry(owner_name(pod))
                .or_default()
                .push(availability(pod));
        }
        let group = |(owner, availabilities): (OwnerName, Vec<PodAvailability>)| {
            let configured = self.configured(&owner, availabilities.len() as i64)?;
            // Upstream knows no number for owners of other kinds. Here their pods are not updated
            // unless the scale subresource has one.
            let most = if configured > 0 {
                availabilities.len() as i64
            } else {
                0
            };
            let group = Group::new(
                availabilities,
                configured,
                most,
                required,
                self.eviction_tolerance,
            );
            (includes_small || !group.below_min_replicas).then_some((owner, group))
        };
        by_owner.into_iter().filter_map(group).collect()
    }
}

fn decision(answer: InPlaceDecision) -> String {
    format!("InPlace{answer:?}")
}

/// Whether a step differs from upstream's on purpose: upstream takes live pods beyond those
/// configured for spares, and evicts them in addition to the tolerance. Here they are left to their
/// controller.
fn is_surplus_kept(found: &Step, upstream: &Step, group: Option<&Group>) -> bool {
    let has_surplus = group.is_some_and(|group| group.running + group.pending > group.configured);
    let is_kept = upstream.evicted && found.can_evict == Some(false) && !found.evicted;
    has_surplus
        && is_kept
        && (&found.decision, found.resized) == (&upstream.decision, upstream.resized)
}

#[test]
fn vectors_disruption() {
    let mut surplus_kept = 0;
    for (index, mut case) in recordings::load::<Case>("vpa/disruption")
        .into_iter()
        .enumerate()
    {
        let vpa = vpa(std::mem::take(&mut case.vpa));
        let recommendation = recommendation(&vpa);
        let mode = vpa.spec.effective_update_mode();
        let pods: Vec<Pod> = case.pods.take().into_iter().flatten().map(pod).collect();
        let settings = Settings {
            min_replicas: case.min_replicas,
            in_place_skip_disruption_budget: case.in_place_skip_disruption_budget,
            in_place: case.gate_in_place,
            ..Settings::default()
        };
        let own = vpa
            .spec
            .update_policy
            .as_ref()
            .and_then(|policy| policy.min_replicas);
        let in_place = matches!(
            mode,
            EffectiveUpdateMode::InPlace | EffectiveUpdateMode::InPlaceOrRecreate
        );
        let includes_small = in_place && case.in_place_skip_disruption_budget;
        let mut attempts = case.infeasible_attempts.take().unwrap_or_default();
        let mut first_resizing: BTreeMap<String, Timestamp> = BTreeMap::new();
        for (round, expected) in case.expect_loops.iter().enumerate() {
            let mut groups = case.groups(&pods, required_replicas(own, &settings), includes_small);
            let numbers: Vec<GroupCase> = groups
                .iter()
                .map(|((kind, name), group)| GroupCase {
                    kind: kind.clone(),
                    name: name.clone(),
                    configured: group.configured,
                    tolerance: group.tolerance,
                    pending: group.pending,
                    running: group.running,
                    below_min_replicas: group.below_min_replicas,
                })
                .collect();
            let mut expected_groups: Vec<&GroupCase> = expected.groups.iter().flatten().collect();
            expected_groups.sort_by_key(|group| (&group.kind, &group.name));
            assert_eq!(
                numbers.iter().collect::<Vec<_>>(),
                expected_groups,
                "case {index}, round {round}"
            );
            for step in &expected.steps {
                let pod = pods
                    .iter()
                    .find(|pod| pod.key.name == step.pod)
                    .expect("a pod");
                let (availability, running) = (availability(pod), running(pod));
                // Upstream measures from when it first asked whether a resizing pod may be evicted.
                let asks = case.flow == "evict" || mode == EffectiveUpdateMode::InPlaceOrRecreate;
                let mut resizing_for = Duration::ZERO;
                let group = groups.get(&owner_name(pod));
                let is_asked = asks
                    && availability != PodAvailability::Pending
                    && group.is_some()
                    && ResizeStatus::of(running) != ResizeStatus::NotResizing;
                if is_asked
                    && group.is_some_and(|group| !group.below_min_replicas || case.flow != "evict")
                {
                    let since = first_resizing
                        .entry(pod.key.name.clone())
                        .or_insert(expected.now);
                    resizing_for = expected
                        .now
                        .duration_since(*since)
                        .try_into()
                        .expect("later");
                }
                let mut found = Step {
                    pod: step.pod.clone(),
                    ..Step::default()
                };
                if case.flow == "in-place" {
                    let answer = InPlaceRequest {
                        mode,
                        running,
                        availability,
                        group,
                        has_recommendation: recommendation.is_some(),
                        is_known_infeasible: attempts.get(&pod.uid).is_some_and(|known| {
                            recommendation
                                .as_ref()
                                .is_some_and(|now| !is_any_lower(now, known))
                        }),
                        resizing_for,
                        disruption: Disruption::Resize,
                    }
                    .decide(&settings);
                    found.decision = Some(decision(answer));
                    if answer == InPlaceDecision::Approved {
                        found.resized = true;
                        groups
                            .get_mut(&owner_name(pod))
                            .expect("a group")
                            .reserve(Disruption::Resize, availability);
                    }
                }
                if case.flow == "evict" || found.decision.as_deref() == Some("InPlaceEvict") {
                    let group = groups.get(&owner_name(pod));
                    let may = may_evict(group, availability, running, resizing_for);
                    found.can_evict = Some(may);
                    if may {
                        found.evicted = true;
                        groups
                            .get_mut(&owner_name(pod))
                            .expect("a group")
                            .reserve(Disruption::Eviction, availability);
                    }
                }
                if is_surplus_kept(&found, step, groups.get(&owner_name(pod))) {
                    surplus_kept += 1;
                } else {
                    assert_eq!(&found, step, "case {index}, round {round}");
                }
            }
        }
        attempts.clear();
    }
    assert_eq!(surplus_kept, 7, "steps in which a surplus is kept");
}
