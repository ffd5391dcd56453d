//! From policies, workloads and the autoscalers that there are to what is to be written, and to a
//! tally of each policy. A pure function, and linear: each workload is looked up by name, never
//! searched for.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use api::sizing_policy::{MAX_LISTED, WorkloadConflict};
use api::vpa::VerticalPodAutoscaler;
use json_patch::Patch;
use model::WorkloadRef;
use view::{Autoscaler, Namespace, ObjectKey, Policy, Table, View, WellKnown};

use super::select::{Claim, select};
use super::usable::{Unusable, Usable};
use super::wanted;

/// Everything that a plan depends on.
pub struct Scene<'a> {
    /// All policies, of whichever recommender.
    pub policies: &'a [Arc<Policy>],
    /// Namespaces, of which policies of the cluster select some.
    pub namespaces: &'a Table<Namespace>,
    /// Workloads and autoscalers.
    pub view: &'a View,
    /// The recommender that is to write.
    pub recommender: &'a str,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// Removals first, so that two autoscalers of one workload meet as shortly as possible.
    pub writes: Vec<Write>,
    /// One for each policy of this recommender.
    pub tallies: Vec<Tally>,
    /// Workloads of which it must be known what is above them.
    pub questions: BTreeSet<WorkloadRef>,
}

/// One object to write.
#[derive(Debug)]
pub struct Write {
    /// The write.
    pub action: Action,
    /// The VPA object.
    pub key: ObjectKey,
    /// The tally of the policy on whose behalf it is written.
    pub tally: usize,
}

/// What to write.
#[derive(Debug)]
pub enum Action {
    /// Remove the object, if the policy still owns it.
    Remove,
    /// Change the object that is there.
    Change(Patch),
    /// Make the object.
    Create(Box<VerticalPodAutoscaler>),
}

/// What a policy comes to.
#[derive(Debug)]
pub struct Tally {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Why it cannot be used, if so.
    pub(super) unusable: Option<Unusable>,
    /// Workloads that it means.
    pub selected: usize,
    /// Those of them that have an object of it.
    pub managed: usize,
    /// Those with an autoscaler of somebody else, or whose object's name is taken.
    pub conflicts: Contests,
    /// Those that another policy goes before on.
    pub overridden: Contests,
    /// Writes on its behalf.
    pub pending: usize,
}

/// Workloads that something stands in the way of.
#[derive(Debug, Default, PartialEq)]
pub struct Contests {
    /// Number of workloads.
    pub count: usize,
    /// The first ones.
    pub listed: Vec<WorkloadConflict>,
}

impl Contests {
    fn add(&mut self, kind: WellKnown, key: &ObjectKey, by: String) {
        self.count += 1;
        if self.listed.len() < MAX_LISTED {
            let ObjectKey { namespace, name } = key.clone();
            self.listed.push(WorkloadConflict {
                kind: kind.kind().to_owned(),
                namespace,
                name,
                by,
            });
        }
    }
}

/// What is to be done about all policies of one recommender.
pub fn plan(scene: &Scene) -> Result<Plan, serde_json::Error> {
    let live = || {
        scene
            .policies
            .iter()
            .filter(|policy| !policy.is_terminating)
    };
    let (mut usable, mut unusable) = (Vec::new(), HashMap::new());
    for policy in live() {
        match Usable::new(policy) {
            Ok(policy) => usable.push(policy),
            Err(why) => drop(unusable.insert(policy.uid.as_str(), why)),
        }
    }
    let selection = select(&usable, scene.namespaces, scene.view);
    let mut draft = Draft {
        scene,
        by_target: by_target(scene.view),
        by_uid: HashMap::new(),
        frozen: unusable.keys().copied().collect(),
        kept: HashSet::new(),
        plan: Plan {
            questions: selection.questions,
            ..Plan::default()
        },
    };
    for policy in live().filter(|policy| policy.spec.is_handled_by(scene.recommender)) {
        draft
            .by_uid
            .insert(policy.uid.as_str(), draft.plan.tallies.len());
        draft.plan.tallies.push(Tally {
            policy: Arc::clone(policy),
            unusable: unusable.remove(policy.uid.as_str()),
            selected: 0,
            managed: 0,
            conflicts: Contests::default(),
            overridden: Contests::default(),
            pending: 0,
        });
    }
    for claim in &selection.claims {
        draft.settle(claim)?;
    }
    for workload in &selection.undecided {
        draft.leave(workload);
    }
    draft.remove_the_rest();
    Ok(draft.finish())
}

type ByTarget<'a> = HashMap<(&'a str, &'a str, &'a str), Vec<&'a Arc<Autoscaler>>>;

/// Autoscalers by namespace, kind and name of what they point at. As everywhere, the group does not
/// count.
fn by_target(view: &View) -> ByTarget<'_> {
    let mut by_target = ByTarget::with_capacity(view.autoscalers.len());
    for autoscaler in view.autoscalers.iter() {
        let target = &autoscaler.object.spec.target_ref;
        let key = (
            autoscaler.key.namespace.as_str(),
            target.kind.as_str(),
            target.name.as_str(),
        );
        by_target.entry(key).or_default().push(autoscaler);
    }
    by_target
}

struct Draft<'a> {
    scene: &'a Scene<'a>,
    by_target: ByTarget<'a>,
    /// Tallies by the uid of the policy.
    by_uid: HashMap<&'a str, usize>,
    /// Policies that cannot be used: what they own stays as it is.
    frozen: HashSet<&'a str>,
    /// Objects that are not removed.
    kept: HashSet<&'a ObjectKey>,
    plan: Plan,
}

impl<'a> Draft<'a> {
    fn settle(&mut self, claim: &Claim<'a>) -> Result<(), serde_json::Error> {
        let Claim {
            kind,
            key: workload,
            policy,
            overridden,
        } = claim;
        let tally = self.by_uid.get(policy.uid.as_str()).copied();
        for other in overridden {
            self.override_by(other, claim, policy);
        }
        if let Some(tally) = tally {
            self.plan.tallies[tally].selected += 1;
        }
        let key = wanted::key(*kind, workload);
        let there = self.scene.view.autoscalers.get(&key);
        let somebody_elses = |autoscaler: &&Arc<Autoscaler>| wanted::owner(autoscaler).is_none();
        let pointing = self.pointing_at(*kind, workload);
        let conflict = pointing
            .iter()
            .copied()
            .find(somebody_elses)
            .or_else(|| there.filter(somebody_elses));
        if let Some(autoscaler) = conflict {
            let by = format!("VerticalPodAutoscaler/{}", autoscaler.key.name);
            if let Some(tally) = tally {
                self.plan.tallies[tally].conflicts.add(*kind, workload, by);
            }
            return Ok(());
        }
        let is_frozen = |autoscaler: &&Arc<Autoscaler>| {
            wanted::owner(autoscaler).is_some_and(|uid| self.frozen.contains(uid))
        };
        if let Some(frozen) = pointing.iter().copied().chain(there).find(is_frozen) {
            self.kept.insert(&frozen.key);
            if let Some(tally) = tally {
                let by = format!("VerticalPodAutoscaler/{}", frozen.key.name);
                self.plan.tallies[tally].overridden.add(*kind, workload, by);
            }
            return Ok(());
        }
        // Another recommender's policy takes over what this one's had, if there is anything.
        self.kept.extend(there.map(|autoscaler| &autoscaler.key));
        let Some(tally) = tally else { return Ok(()) };
        let object = wanted::object(policy, *kind, workload);
        let action = match there {
            None => Some(Action::Create(Box::new(object))),
            Some(seen) => {
                let is_its_own = wanted::owner(seen) == Some(policy.uid.as_str());
                self.plan.tallies[tally].managed += usize::from(is_its_own);
                wanted::changes(seen, &object)?.map(Action::Change)
            }
        };
        if let Some(action) = action {
            self.write(action, key, tally);
        }
        Ok(())
    }

    fn override_by(&mut self, other: &Policy, claim: &Claim, winner: &Policy) {
        if let Some(tally) = self.by_uid.get(other.uid.as_str()).copied() {
            let tally = &mut self.plan.tallies[tally];
            tally.selected += 1;
            tally.overridden.add(
                claim.kind,
                claim.key,
                format!("{}/{}", winner.kind(), winner.key.name),
            );
        }
    }

    /// Nothing is known for sure about the workload, so its objects stay as they are.
    fn leave(&mut self, workload: &WorkloadRef) {
        if let Some(kind) = WellKnown::of_kind(&workload.kind) {
            let key = ObjectKey::new(&workload.namespace, &workload.name);
            let there = self.scene.view.autoscalers.get(&wanted::key(kind, &key));
            let pointing = self.pointing_at(kind, &key);
            self.kept.extend(
                pointing
                    .into_iter()
                    .chain(there)
                    .map(|autoscaler| &autoscaler.key),
            );
        }
    }

    fn pointing_at(&self, kind: WellKnown, workload: &ObjectKey) -> Vec<&'a Arc<Autoscaler>> {
        let key = (
            workload.namespace.as_str(),
            kind.kind(),
            workload.name.as_str(),
        );
        self.by_target.get(&key).cloned().unwrap_or_default()
    }

    /// What a policy of this recommender owns and does not want. What a policy owned that is gone,
    /// the API server removes.
    fn remove_the_rest(&mut self) {
        for autoscaler in self
            .scene
            .view
            .autoscalers
            .iter()
            .filter(|object| !self.kept.contains(&object.key))
        {
            let Some(owner) =
                wanted::owner(autoscaler).filter(|owner| !self.frozen.contains(owner))
            else {
                continue;
            };
            if let Some(tally) = self.by_uid.get(owner).copied() {
                self.plan.tallies[tally].pending += 1;
                self.plan.writes.push(Write {
                    action: Action::Remove,
                    key: autoscaler.key.clone(),
                    tally,
                });
            }
        }
    }

    fn write(&mut self, action: Action, key: ObjectKey, tally: usize) {
        self.plan.tallies[tally].pending += 1;
        self.plan.writes.push(Write { action, key, tally });
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

impl Action {
    /// The label of the metric.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Remove => "delete",
            Self::Change(_) => "patch",
            Self::Create(_) => "create",
        }
    }

    /// The label of every action.
    pub const NAMES: [&'static str; 3] = ["create", "patch", "delete"];
}

impl Tally {
    /// A write on behalf of the policy succeeded.
    pub fn written(&mut self, action: &Action) {
        self.pending -= 1;
        self.managed += usize::from(matches!(action, Action::Create(_)));
    }
}
