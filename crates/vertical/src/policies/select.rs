//! Which policy has which workload: one of the workload's namespace goes before one of the cluster,
//! then the older one, then the one whose name comes first.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::WorkloadRef;
use view::target::{TargetError, topmost};
use view::{Controller, Namespace, ObjectKey, Policy, Table, View, WellKnown};

use super::usable::Usable;

/// A workload and the policies that mean it.
pub(super) struct Claim<'a> {
    pub(super) kind: WellKnown,
    pub(super) key: &'a ObjectKey,
    /// The one that has it.
    pub(super) policy: &'a Policy,
    /// The others.
    pub(super) overridden: Vec<&'a Policy>,
}

/// What all policies mean together.
#[derive(Default)]
pub(super) struct Selection<'a> {
    pub(super) claims: Vec<Claim<'a>>,
    /// Workloads with an owner of which it is not known yet whether it can be scaled, and so would
    /// be the one to size.
    pub(super) undecided: BTreeSet<WorkloadRef>,
    /// Workloads with an owner of a kind that is not well known, decided or not: what is above them
    /// must stay known.
    pub(super) questions: BTreeSet<WorkloadRef>,
}

/// Looks at each workload once, and for it at the policies that hold in its namespace.
pub(super) fn select<'a>(
    usable: &'a [Usable<'a>],
    namespaces: &Table<Namespace>,
    view: &'a View,
) -> Selection<'a> {
    let ranked = in_order(usable);
    let mut holding: BTreeMap<&str, Vec<&Usable>> = BTreeMap::new();
    let mut selection = Selection::default();
    for kind in WellKnown::ALL {
        if !ranked.iter().any(|usable| usable.means(kind)) {
            continue;
        }
        for controller in view.controllers(kind) {
            let namespace = controller.key.namespace.as_str();
            let holding = holding.entry(namespace).or_insert_with(|| {
                let known = namespaces.get(&namespace.to_owned()).map(AsRef::as_ref);
                ranked
                    .iter()
                    .copied()
                    .filter(|usable| usable.reaches(namespace, known))
                    .collect()
            });
            let mut selecting = holding
                .iter()
                .filter(|usable| usable.selects(kind, namespace, &controller.labels));
            if let Some(first) = selecting.next() {
                let overridden = selecting.map(|usable| usable.policy).collect();
                let claim = Claim {
                    kind,
                    key: &controller.key,
                    policy: first.policy,
                    overridden,
                };
                selection.add(view, controller, claim);
            }
        }
    }
    selection
}

impl<'a> Selection<'a> {
    fn add(&mut self, view: &View, controller: &Controller, claim: Claim<'a>) {
        let Some(owner) = &controller.owner else {
            self.claims.push(claim);
            return;
        };
        if WellKnown::of_kind(&owner.kind).is_some() {
            return;
        }
        let workload = workload(claim.kind, claim.key);
        match topmost(view, (&workload).into()) {
            Ok(Some(top)) if top == (&workload).into() => self.claims.push(claim),
            Err(
                TargetError::Waiting(_)
                | TargetError::Unhandled {
                    transient: true, ..
                },
            ) => {
                self.undecided.insert(workload.clone());
            }
            Ok(_) | Err(_) => {}
        }
        self.questions.insert(workload);
    }
}

/// The workload as an autoscaler would point at it.
pub(super) fn workload(kind: WellKnown, key: &ObjectKey) -> WorkloadRef {
    WorkloadRef {
        api_version: kind.api_version().to_owned(),
        kind: kind.kind().to_owned(),
        namespace: key.namespace.clone(),
        name: key.name.clone(),
    }
}

fn in_order<'a>(usable: &'a [Usable<'a>]) -> Vec<&'a Usable<'a>> {
    let mut ranked: Vec<_> = usable.iter().collect();
    ranked.sort_by_key(|usable| {
        let Policy { key, created, .. } = usable.policy;
        (
            Reverse(!key.namespace.is_empty()),
            created.unwrap_or(Timestamp::MAX),
            key,
        )
    });
    ranked
}
