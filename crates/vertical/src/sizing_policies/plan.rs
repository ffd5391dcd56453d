//! Plan for all sizing policies: from policies, workloads and existing VPAs to the writes
//! and a summary of each policy. Linear in the number of objects: workloads are looked up by name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::sizing_policy::{MAX_LISTED, PolicyCounts, WorkloadConflict};
use api::vpa::VerticalPodAutoscaler;
use jiff::Timestamp;
use json_patch::Patch;
use model::{Workload, WorkloadRef};
use view::{Namespace, ObjectKey, Policy, Table, View, Vpa, WellKnown};

use super::desired::{self, custom_group};
use super::parsed::{InvalidPolicy, ParsedPolicy};
use super::select::{Selection, Selections, select};
use super::wave::Waves;

pub struct PlanInput<'a> {
    /// All policies, of any recommender.
    pub policies: &'a [Arc<Policy>],
    /// Namespaces, for the selectors of cluster policies.
    pub namespaces: &'a Table<Namespace>,
    /// Workloads and VPAs.
    pub view: &'a View,
    /// Name of the recommender that writes.
    pub recommender: &'a str,
    pub now: Timestamp,
    /// Whether the last write of an object failed.
    pub is_failing: &'a dyn Fn(&ObjectKey) -> bool,
}

#[derive(Debug, Default)]
pub struct Plan {
    /// Writes, removals first, so that two VPAs of one workload coexist as briefly as
    /// possible.
    pub writes: Vec<Write>,
    pub summaries: Vec<PolicySummary>,
    /// Workloads whose topmost owner must be resolved.
    pub questions: BTreeSet<WorkloadRef>,
}

#[derive(Debug)]
pub struct Write {
    pub action: Action,
    pub key: ObjectKey,
    /// Index of the summary of its policy.
    pub summary: usize,
}

#[derive(Debug)]
pub enum Action {
    /// Remove the object, if the policy still owns it.
    Remove,
    /// Patch the existing object.
    Change(Patch),
    Create(Box<VerticalPodAutoscaler>),
}

#[derive(Debug)]
pub struct PolicySummary {
    pub policy: Arc<Policy>,
    pub(super) invalid: Option<InvalidPolicy>,
    pub counts: PolicyCounts,
    pub pending: usize,
    /// Kinds of the policy that cannot be read, each with the reason.
    pub(super) unavailable: Vec<String>,
    pub(super) waves: Waves,
}

pub fn plan(input: &PlanInput) -> Result<Plan, serde_json::Error> {
    let live = || {
        input
            .policies
            .iter()
            .filter(|policy| !policy.is_terminating)
    };
    let (mut parsed, mut invalid) = (Vec::new(), HashMap::new());
    for policy in live() {
        match ParsedPolicy::new(policy) {
            Ok(policy) => parsed.push(policy),
            Err(why) => drop(invalid.insert(policy.uid.as_str(), why)),
        }
    }
    let mut selections = select(&parsed, input.namespaces, input.view);
    let mut builder = PlanBuilder {
        input,
        by_uid: HashMap::new(),
        frozen: invalid.keys().copied().collect(),
        kept: HashSet::new(),
        plan: Plan {
            questions: std::mem::take(&mut selections.questions),
            ..Plan::default()
        },
    };
    for policy in live().filter(|policy| policy.spec.is_handled_by(input.recommender)) {
        builder
            .by_uid
            .insert(policy.uid.as_str(), builder.plan.summaries.len());
        builder.plan.summaries.push(PolicySummary {
            policy: Arc::clone(policy),
            invalid: invalid.remove(policy.uid.as_str()),
            counts: PolicyCounts {
                observed_generation: policy.generation,
                ..PolicyCounts::default()
            },
            pending: 0,
            unavailable: unavailable(policy, &selections),
            waves: Waves::default(),
        });
    }
    for Selection {
        workload, policy, ..
    } in &selections.selected
    {
        builder.count_in_wave(policy, *workload);
    }
    for selected in &selections.selected {
        builder.plan_workload(selected)?;
    }
    for workload in &selections.undecided {
        builder.keep(workload.into());
    }
    builder.remove_unwanted();
    Ok(builder.finish())
}

/// The kinds of a policy that cannot be read, each with the reason.
fn unavailable(policy: &Policy, selections: &Selections<'_>) -> Vec<String> {
    let kinds = policy.spec.custom_kinds().filter_map(|(kind, group)| {
        let reason = selections.unavailable.get(&(kind, group))?;
        Some(format!("{kind}.{group}: {reason}"))
    });
    kinds.collect()
}

/// A workload without the version, and without the group of Kubernetes' own kinds, which does not
/// count.
fn identity(workload: Workload<'_>) -> Workload<'_> {
    Workload {
        api_version: custom_group(workload).unwrap_or_default(),
        ..workload
    }
}

struct PlanBuilder<'a> {
    input: &'a PlanInput<'a>,
    /// Index of the summary by the policy's UID.
    by_uid: HashMap<&'a str, usize>,
    /// UIDs of invalid policies, whose objects stay as they are.
    frozen: HashSet<&'a str>,
    kept: HashSet<&'a ObjectKey>,
    plan: Plan,
}

impl<'a> PlanBuilder<'a> {
    fn plan_workload(&mut self, selected: &Selection<'a>) -> Result<(), serde_json::Error> {
        let Selection {
            workload,
            policy,
            overridden,
        } = selected;
        let workload = *workload;
        let by = format!("{}/{}", policy.kind(), policy.key.name);
        for other in overridden {
            self.count(other, |counts| counts.selected += 1);
            self.overridden(other, workload, &by);
        }
        self.count(policy, |counts| counts.selected += 1);
        let key = desired::key(workload);
        let there = self.input.view.vpas.get(&key);
        let is_foreign = |vpa: &&Arc<Vpa>| desired::owner(vpa).is_none();
        let pointing = self.pointing_at(workload);
        let conflict = pointing
            .iter()
            .copied()
            .find(is_foreign)
            .or_else(|| there.filter(is_foreign));
        if let Some(vpa) = conflict {
            self.count(policy, |counts| {
                counts.conflicts += 1;
                list(&mut counts.conflicting, workload, &vpa_name(vpa));
            });
            return Ok(());
        }
        let is_frozen =
            |vpa: &&Arc<Vpa>| desired::owner(vpa).is_some_and(|uid| self.frozen.contains(uid));
        if let Some(frozen) = pointing.iter().copied().chain(there).find(is_frozen) {
            self.kept.insert(&frozen.key);
            self.overridden(policy, workload, &vpa_name(frozen));
            return Ok(());
        }
        // Another recommender's policy takes over what this one's had, if there is anything.
        self.kept.extend(there.map(|vpa| &vpa.key));
        let Some(summary) = self.by_uid.get(policy.uid.as_str()).copied() else {
            return Ok(());
        };
        let mut object = desired::object(policy, workload);
        if !self.has_no_turn(workload) {
            let (is_failing, now) = ((self.input.is_failing)(&key), self.input.now);
            let waves = &mut self.plan.summaries[summary].waves;
            waves.apply(&mut object, there.map(AsRef::as_ref), is_failing, now);
        }
        let action = match there {
            None => Some(Action::Create(Box::new(object))),
            Some(seen) => {
                let is_its_own = desired::owner(seen) == Some(policy.uid.as_str());
                self.plan.summaries[summary].counts.managed += i64::from(is_its_own);
                desired::changes(seen, &object)?.map(Action::Change)
            }
        };
        if let Some(action) = action {
            self.write(action, key, summary);
        }
        Ok(())
    }

    fn count_in_wave(&mut self, policy: &Policy, workload: Workload<'_>) {
        let Some(summary) = self.by_uid.get(policy.uid.as_str()) else {
            return;
        };
        if self.has_no_turn(workload) {
            return;
        }
        let there = self.input.view.vpas.get(&desired::key(workload));
        let made = there.filter(|vpa| desired::owner(vpa) == Some(policy.uid.as_str()));
        let waves = &mut self.plan.summaries[*summary].waves;
        waves.add(workload.namespace, made.map(AsRef::as_ref), self.input.now);
    }

    /// Whether a workload has no pods that run for long: they get their size when they are created.
    fn has_no_turn(&self, workload: Workload<'_>) -> bool {
        let kind = WellKnown::of_kind(workload.kind);
        let controller = self.input.view.controller_of(workload);
        matches!(kind, Some(WellKnown::Job | WellKnown::CronJob))
            || controller.is_some_and(|it| it.replicas == Some(0))
    }

    /// Counts a workload of a policy, if this recommender summarises the policy.
    fn count(&mut self, policy: &Policy, count: impl FnOnce(&mut PolicyCounts)) {
        if let Some(summary) = self.by_uid.get(policy.uid.as_str()) {
            count(&mut self.plan.summaries[*summary].counts);
        }
    }

    fn overridden(&mut self, policy: &Policy, workload: Workload<'_>, by: &str) {
        self.count(policy, |counts| {
            counts.overridden += 1;
            list(&mut counts.overridden_by, workload, by);
        });
    }

    /// Keeps the objects of a workload whose topmost owner is unknown.
    fn keep(&mut self, workload: Workload<'_>) {
        let there = self.input.view.vpas.get(&desired::key(workload));
        let pointing = self.pointing_at(workload);
        self.kept
            .extend(pointing.into_iter().chain(there).map(|vpa| &vpa.key));
    }

    fn pointing_at(&self, workload: Workload<'_>) -> Vec<&'a Arc<Vpa>> {
        let same = |vpa: &&Arc<Vpa>| identity(vpa.points_at()) == identity(workload);
        self.input.view.vpas_of(workload).filter(same).collect()
    }

    /// Removes objects that a policy of this recommender owns and does not select. The API server
    /// removes the objects of deleted policies.
    fn remove_unwanted(&mut self) {
        for vpa in self.input.view.vpas.iter() {
            let owner = desired::owner(vpa).filter(|owner| !self.frozen.contains(owner));
            let summary = owner.and_then(|owner| self.by_uid.get(owner).copied());
            if let Some(summary) = summary.filter(|_| !self.kept.contains(&vpa.key)) {
                self.write(Action::Remove, vpa.key.clone(), summary);
            }
        }
    }

    fn write(&mut self, action: Action, key: ObjectKey, summary: usize) {
        self.plan.summaries[summary].pending += 1;
        self.plan.writes.push(Write {
            action,
            key,
            summary,
        });
    }

    fn finish(self) -> Plan {
        let mut plan = self.plan;
        plan.writes.sort_by_key(|write| match write.action {
            Action::Remove => 0,
            Action::Change(_) => 1,
            Action::Create(_) => 2,
        });
        plan
    }
}

fn vpa_name(vpa: &Vpa) -> String {
    format!("VerticalPodAutoscaler/{}", vpa.key.name)
}

/// Lists a workload with a conflict if it is among the first ones.
fn list(listed: &mut Vec<WorkloadConflict>, workload: Workload<'_>, by: &str) {
    if listed.len() < MAX_LISTED {
        listed.push(WorkloadConflict {
            kind: workload.kind.to_owned(),
            namespace: workload.namespace.to_owned(),
            name: workload.name.to_owned(),
            by: by.to_owned(),
        });
    }
}

impl Action {
    /// The label of the metric.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Remove => "delete",
            Self::Change(_) => "patch",
            Self::Create(_) => "create",
        }
    }

    pub const NAMES: [&'static str; 3] = ["create", "patch", "delete"];
}

impl PolicySummary {
    /// Records a successful write.
    pub fn written(&mut self, action: &Action) {
        self.pending -= 1;
        self.counts.managed += i64::from(matches!(action, Action::Create(_)));
    }
}
