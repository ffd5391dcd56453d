//! Upstream's eviction tolerance, and the choice between resize, eviction and waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use jiff::Timestamp;
use model::Recommendation;
use serde::Deserialize;
use serde_json::Value;
use testing::vectors::each_case;
use view::{Phase, Pod};

use super::{Attempts, pod, recommendation, running, vpa};
use crate::limits::disruption_limit::{Disruption, Group, PodAvailability};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::update_method::{InPlaceDecision, InPlaceRequest, may_evict};
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

impl From<(&OwnerName, &Group)> for GroupCase {
    fn from(((kind, name), group): (&OwnerName, &Group)) -> Self {
        Self {
            kind: kind.clone(),
            name: name.clone(),
            configured: group.configured,
            tolerance: group.tolerance,
            pending: group.pending,
            running: group.running,
            below_min_replicas: group.below_min_replicas,
        }
    }
}

/// Replays the steps of one recorded case.
struct Replay<'a> {
    case: &'a Case,
    mode: EffectiveUpdateMode,
    recommendation: Option<Recommendation>,
    settings: Settings,
    attempts: BTreeMap<String, Recommendation>,
    /// The first loop in which upstream asked whether each resizing pod may be evicted.
    first_resizing: BTreeMap<String, Timestamp>,
}

impl Replay<'_> {
    fn step(&mut self, pod: &Pod, groups: &mut BTreeMap<OwnerName, Group>, now: Timestamp) -> Step {
        let (availability, running) = (availability(pod), running(pod));
        let resizing_for = self.resizing_for(pod, groups, now);
        let mut found = Step {
            pod: pod.key.name.clone(),
            ..Step::default()
        };
        if self.case.flow == "in-place" {
            let decided = self.decide(pod, groups.get(&owner_name(pod)), resizing_for);
            found.decision = Some(decision(decided));
            if decided == InPlaceDecision::Approved {
                found.resized = true;
                groups
                    .get_mut(&owner_name(pod))
                    .expect("a group")
                    .reserve(Disruption::Resize, availability);
            }
        }
        if self.case.flow == "evict" || found.decision.as_deref() == Some("InPlaceEvict") {
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
        found
    }

    fn decide(&self, pod: &Pod, group: Option<&Group>, resizing_for: Duration) -> InPlaceDecision {
        let known = self.attempts.get(&pod.uid);
        let is_known_infeasible = known.is_some_and(|known| {
            self.recommendation
                .as_ref()
                .is_some_and(|now| !is_any_lower(now, known))
        });
        let request = InPlaceRequest {
            mode: self.mode,
            running: running(pod),
            availability: availability(pod),
            group,
            has_recommendation: self.recommendation.is_some(),
            is_known_infeasible,
            resizing_for,
            disruption: Disruption::Resize,
        };
        request.decide(&self.settings)
    }

    /// Upstream measures from when it first asked whether a resizing pod may be evicted.
    fn resizing_for(
        &mut self,
        pod: &Pod,
        groups: &BTreeMap<OwnerName, Group>,
        now: Timestamp,
    ) -> Duration {
        let evicts = self.case.flow == "evict";
        let asks = evicts || self.mode == EffectiveUpdateMode::InPlaceOrRecreate;
        let is_resizing = ResizeStatus::of(running(pod)) != ResizeStatus::NotResizing;
        let group = groups.get(&owner_name(pod));
        let is_asked = asks
            && is_resizing
            && availability(pod) != PodAvailability::Pending
            && group.is_some_and(|group| !group.below_min_replicas || !evicts);
        if !is_asked {
            return Duration::ZERO;
        }
        let since = self
            .first_resizing
            .entry(pod.key.name.clone())
            .or_insert(now);
        now.duration_since(*since).try_into().expect("later")
    }
}

#[test]
fn vectors_disruption() {
    let mut surplus_kept = 0;
    let cases = each_case("vpa/disruption", |index, mut case: Case| {
        let vpa = vpa(std::mem::take(&mut case.vpa));
        let mode = vpa.spec.effective_update_mode();
        let pods: Vec<Pod> = case.pods.take().into_iter().flatten().map(pod).collect();
        let settings = Settings {
            min_replicas: case.min_replicas,
            in_place_skip_disruption_budget: case.in_place_skip_disruption_budget,
            in_place: case.gate_in_place,
            ..Settings::default()
        };
        let policy = vpa.spec.update_policy.as_ref();
        let own = policy.and_then(|policy| policy.min_replicas);
        let required = own.map_or(settings.min_replicas, i64::from);
        let in_place = matches!(
            mode,
            EffectiveUpdateMode::InPlace | EffectiveUpdateMode::InPlaceOrRecreate
        );
        let includes_small = in_place && case.in_place_skip_disruption_budget;
        let mut replay = Replay {
            mode,
            recommendation: recommendation(&vpa),
            settings,
            attempts: case.infeasible_attempts.take().unwrap_or_default(),
            first_resizing: BTreeMap::new(),
            case: &case,
        };
        for (round, expected) in case.expect_loops.iter().enumerate() {
            let mut groups = case.groups(&pods, required, includes_small);
            let numbers: Vec<GroupCase> = groups.iter().map(GroupCase::from).collect();
            let mut expected_groups: Vec<&GroupCase> = expected.groups.iter().flatten().collect();
            expected_groups.sort_by_key(|group| (&group.kind, &group.name));
            assert_eq!(
                numbers.iter().collect::<Vec<_>>(),
                expected_groups,
                "case {index}, round {round}"
            );
            for step in &expected.steps {
                let pod = pods.iter().find(|pod| pod.key.name == step.pod);
                let pod = pod.expect("a pod");
                let found = replay.step(pod, &mut groups, expected.now);
                if is_surplus_kept(&found, step, groups.get(&owner_name(pod))) {
                    surplus_kept += 1;
                } else {
                    assert_eq!(&found, step, "case {index}, round {round}");
                }
            }
        }
    });
    let expected = if cases == 0 { 0 } else { 7 };
    assert_eq!(surplus_kept, expected, "steps in which a surplus is kept");
}
