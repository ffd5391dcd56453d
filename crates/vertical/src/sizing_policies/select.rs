//! Workloads that policies select, and the precedence of policies: a policy of the workload's namespace
//! comes before a cluster policy, then the older one, then the first by name.
//!
//! Workloads of other kinds than Kubernetes' own, such as an Argo Rollout, are not listed: unfinished
//! pods lead to them by their owners, whose scale subresources the view has. A workload counts if it is
//! the topmost scalable owner and its scale selects the pod. Its labels are unknown, so policies select
//! by those of its pods. While a workload has no pods, the object that a policy made for it stays, until
//! the API server answers that the workload does not exist.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use model::{Labels, Workload, WorkloadRef};
use view::target::{TargetError, owners, selects, topmost};
use view::{
    Controller, Namespace, ObjectKey, Pod, Policy, Scale, ScaleKey, Table, View, WellKnown,
};

use super::desired::{self, custom_group};
use super::parsed::ParsedPolicy;

/// A workload and the policies that select it.
pub(super) struct Selection<'a> {
    pub(super) workload: Workload<'a>,
    pub(super) policy: &'a Policy,
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

pub(super) fn select<'a>(
    parsed: &'a [ParsedPolicy<'a>],
    namespaces: &Table<Namespace>,
    view: &'a View,
) -> Selections<'a> {
    let ranked = in_order(parsed);
    let mut by_namespace: HashMap<&str, Arc<[&'a ParsedPolicy<'a>]>> = HashMap::new();
    let mut reaching = |namespace: &'a str| {
        let reaching = by_namespace.entry(namespace).or_insert_with(|| {
            let known = namespaces.get(&namespace.to_owned()).map(AsRef::as_ref);
            let reaching = ranked.iter().copied();
            reaching
                .filter(|parsed| parsed.reaches(namespace, known))
                .collect()
        });
        Arc::clone(reaching)
    };
    let mut selections = Selections::default();
    for kind in WellKnown::ALL {
        if !ranked.iter().any(|parsed| parsed.means(kind)) {
            continue;
        }
        for controller in view.controllers(kind) {
            let namespace = controller.key.namespace.as_str();
            let reaching = reaching(namespace);
            let mut selecting = reaching
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
    select_custom(&ranked, reaching, view, &mut selections);
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

/// Name of the object whose scale is read to find out whether a kind can be read. It need not
/// exist.
const PROBE: &str = "plimsoll-probe";
/// Namespace of the probes for cluster policies.
const PROBE_NAMESPACE: &str = "default";

/// Kind and API group.
type Kind<'a> = (&'a str, &'a str);

/// A workload with unfinished pods.
struct Found<'a> {
    workload: Workload<'a>,
    /// Labels of its pods, without repetition.
    labels: Vec<&'a Labels>,
}

/// Selects workloads of other kinds, each with the policies of its namespace, the one with precedence
/// first in `ranked`.
fn select_custom<'a>(
    ranked: &[&'a ParsedPolicy<'a>],
    mut reaching: impl FnMut(&'a str) -> Arc<[&'a ParsedPolicy<'a>]>,
    view: &'a View,
    selections: &mut Selections<'a>,
) {
    let named: BTreeSet<Kind<'a>> = ranked.iter().flat_map(|it| it.custom_kinds()).collect();
    if named.is_empty() {
        return;
    }
    let has_policy = |pod: &&'a Arc<Pod>| {
        let reaching = reaching(&pod.key.namespace);
        reaching.iter().any(|it| it.custom_kinds().next().is_some())
    };
    let pods = view.pods.iter().filter(has_policy);
    let found = find(view, pods, &named, &mut selections.questions);
    let mut kinds = BTreeSet::new();
    for (key, Found { workload, labels }) in &found {
        let kind = (key.kind.as_str(), key.group.as_str());
        let (reaching, namespace) = (reaching(workload.namespace), workload.namespace);
        let mut selecting = reaching.iter().copied().filter(|policy| {
            let mut labels = labels.iter();
            labels.any(|labels| policy.selects_custom(kind, namespace, labels))
        });
        if let Some(first) = selecting.next() {
            kinds.insert(kind);
            selections.selected.push(Selection {
                workload: *workload,
                policy: first.policy,
                overridden: selecting.map(|parsed| parsed.policy).collect(),
            });
        }
    }
    for vpa in view.vpas.iter() {
        let workload = vpa.points_at();
        let Some(kind) = custom_group(workload).map(|group| (workload.kind, group)) else {
            continue;
        };
        let owner = desired::owner(vpa);
        let reaching = reaching(workload.namespace);
        let mut owning = reaching.iter().copied();
        let owning = owning.find(|parsed| owner == Some(parsed.policy.uid.as_str()));
        let names_kind = |parsed: &&ParsedPolicy| parsed.custom_kinds().any(|named| named == kind);
        let owning = owning.filter(names_kind);
        if let Some(parsed) = owning.filter(|_| rests(view, workload, &found)) {
            selections.selected.push(Selection {
                workload,
                policy: parsed.policy,
                overridden: Vec::new(),
            });
        }
    }
    probe_kinds(ranked, view, &kinds, selections);
}

/// Finds out which kinds cannot be read. A kind with selected workloads can.
fn probe_kinds<'a>(
    ranked: &[&'a ParsedPolicy<'a>],
    view: &View,
    selected: &BTreeSet<Kind<'_>>,
    selections: &mut Selections<'a>,
) {
    for parsed in ranked {
        for (kind, group) in parsed.custom_kinds() {
            let probe = probe(kind, group, &parsed.policy.key.namespace);
            let scale = ScaleKey::of(&probe).ok().and_then(|key| view.scale(&key));
            let reason = scale.and_then(Scale::unavailable_kind);
            if let Some(reason) = reason.filter(|_| !selected.contains(&(kind, group))) {
                let unavailable = &mut selections.unavailable;
                unavailable.insert((kind, group), reason.to_owned());
            }
            selections.questions.insert(probe);
        }
    }
}

/// The topmost owners of the unfinished pods that are of a named kind.
fn find<'a>(
    view: &'a View,
    pods: impl Iterator<Item = &'a Arc<Pod>>,
    named: &BTreeSet<Kind<'a>>,
    questions: &mut BTreeSet<WorkloadRef>,
) -> BTreeMap<ScaleKey, Found<'a>> {
    let mut tops: HashMap<Workload<'a>, Option<Workload<'a>>> = HashMap::new();
    let mut found: BTreeMap<ScaleKey, Found<'a>> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = pod.owner.as_ref().filter(|_| !pod.is_finished()) else {
            continue;
        };
        let start = owner.workload(&pod.key.namespace);
        let top = tops
            .entry(start)
            .or_insert_with(|| top(view, start, named, questions));
        let Some(top) = top.filter(|top| selects(view, *top, |key| pod.labels.get(key))) else {
            continue;
        };
        let Ok(key) = ScaleKey::of(top) else { continue };
        let entry = found.entry(key).or_insert(Found {
            workload: top,
            labels: Vec::new(),
        });
        // Pods that are older than a change of the API's version name the one before.
        if top.api_version > entry.workload.api_version {
            entry.workload = top;
        }
        if !entry.labels.contains(&&pod.labels) {
            entry.labels.push(&pod.labels);
        }
    }
    found
}

/// The topmost scalable owner, if it is of a named kind. Asks for it if an owner of a named kind is
/// on the way.
fn top<'a>(
    view: &'a View,
    start: Workload<'a>,
    named: &BTreeSet<Kind<'a>>,
    questions: &mut BTreeSet<WorkloadRef>,
) -> Option<Workload<'a>> {
    let is_named = |workload: Workload<'_>| {
        custom_group(workload).is_some_and(|group| named.contains(&(workload.kind, group)))
    };
    let chain = owners(view, start);
    if !chain.iter().any(|owner| is_named(owner.into())) {
        return None;
    }
    questions.insert(start.to_ref());
    let top = topmost(view, start).ok().flatten()?;
    is_named(top).then_some(top)
}

/// Whether the workload of an object has no unfinished pods and may exist.
fn rests(view: &View, target: Workload<'_>, found: &BTreeMap<ScaleKey, Found<'_>>) -> bool {
    let Ok(key) = ScaleKey::of(target) else {
        return false;
    };
    if found.contains_key(&key) || view.scale(&key).is_some_and(Scale::is_object_missing) {
        return false;
    }
    match topmost(view, target) {
        Ok(Some(top)) => top == target,
        // The kind itself may be away for a while.
        Ok(None) | Err(TargetError::Waiting(_) | TargetError::Unhandled { .. }) => true,
        Err(_) => false,
    }
}

fn probe(kind: &str, group: &str, namespace: &str) -> WorkloadRef {
    let namespace = if namespace.is_empty() {
        PROBE_NAMESPACE
    } else {
        namespace
    };
    WorkloadRef {
        // The version does not count.
        api_version: format!("{group}/v1"),
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: PROBE.to_owned(),
    }
}
