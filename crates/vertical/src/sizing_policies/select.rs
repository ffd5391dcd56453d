//! Precedence of policies: a policy of the workload's namespace comes before a cluster policy, then
//! the older one, then the first by name.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use model::{Workload, WorkloadRef};
use view::target::{TargetError, topmost};
use view::{Controller, Namespace, ObjectKey, Policy, Table, View, WellKnown};

use super::custom_kinds;
use super::parsed::ParsedPolicy;

/// A workload and the policies that select it.
pub(super) struct Selection<'a> {
    pub(super) workload: Workload<'a>,
    /// The policy with precedence.
    pub(super) policy: &'a Policy,
    /// The other policies.
    pub(super) overridden: Vec<&'a Policy>,
}

/// Workloads that all policies select.
#[derive(Default)]
pub(super) struct Selections<'a> {
    pub(super) selected: Vec<Selection<'a>>,
    /// Workloads with an owner that may be scalable, and so may be the one to size.
    pub(super) undecided: BTreeSet<WorkloadRef>,
    /// Workloads with an owner of an unknown kind, whose topmost owner must stay resolved, and
    /// objects by which it is found out whether a kind can be read.
    pub(super) questions: BTreeSet<WorkloadRef>,
    /// Kinds (with their API groups) that cannot be read, with the reason.
    pub(super) unavailable: BTreeMap<(&'a str, &'a str), String>,
}

/// Selects workloads, each with the policies of its namespace.
pub(super) fn select<'a>(
    parsed: &'a [ParsedPolicy<'a>],
    namespaces: &Table<Namespace>,
    view: &'a View,
) -> Selections<'a> {
    let ranked = in_order(parsed);
    let mut holding: BTreeMap<&str, Vec<&ParsedPolicy>> = BTreeMap::new();
    let mut selections = Selections::default();
    for kind in WellKnown::ALL {
        if !ranked.iter().any(|parsed| parsed.means(kind)) {
            continue;
        }
        for controller in view.controllers(kind) {
            let namespace = controller.key.namespace.as_str();
            let holding = holding.entry(namespace).or_insert_with(|| {
                let known = namespaces.get(&namespace.to_owned()).map(AsRef::as_ref);
                ranked
                    .iter()
                    .copied()
                    .filter(|parsed| parsed.reaches(namespace, known))
                    .collect()
            });
            let mut selecting = holding
                .iter()
                .filter(|parsed| parsed.selects(kind, namespace, &controller.labels));
            if let Some(first) = selecting.next() {
                let overridden = selecting.map(|parsed| parsed.policy).collect();
                let selected = Selection {
                    workload: workload(kind, &controller.key),
                    policy: first.policy,
                    overridden,
                };
                selections.add(view, controller, selected);
            }
        }
    }
    custom_kinds::select(&ranked, namespaces, view, &mut selections);
    selections
}

impl<'a> Selections<'a> {
    fn add(&mut self, view: &View, controller: &Controller, selected: Selection<'a>) {
        let Some(owner) = &controller.owner else {
            self.selected.push(selected);
            return;
        };
        if WellKnown::of(&owner.api_version, &owner.kind).is_some() {
            return;
        }
        let workload = selected.workload;
        match topmost(view, workload) {
            Ok(Some(top)) if top == workload => self.selected.push(selected),
            Err(
                TargetError::Waiting(_)
                | TargetError::Unhandled {
                    transient: true, ..
                },
            ) => {
                self.undecided.insert(workload.to_ref());
            }
            Ok(_) | Err(_) => {}
        }
        self.questions.insert(workload.to_ref());
    }
}

/// The workload as the target of a VPA.
pub(super) fn workload(kind: WellKnown, key: &ObjectKey) -> Workload<'_> {
    Workload {
        api_version: kind.api_version(),
        kind: kind.kind(),
        namespace: &key.namespace,
        name: &key.name,
    }
}

fn in_order<'a>(parsed: &'a [ParsedPolicy<'a>]) -> Vec<&'a ParsedPolicy<'a>> {
    let mut ranked: Vec<_> = parsed.iter().collect();
    ranked.sort_by_key(|parsed| {
        let Policy { key, created, .. } = parsed.policy;
        (
            Reverse(!key.namespace.is_empty()),
            created.unwrap_or(Timestamp::MAX),
            key,
        )
    });
    ranked
}
