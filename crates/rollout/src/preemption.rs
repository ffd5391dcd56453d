//! Room on a node for a pod that cannot be resized there for want of it: which of its neighbours
//! go, or whether it goes itself.
//!
//! Only pods whose own VPA object would let them be evicted now are neighbours here, and their
//! budgets hold as always. Pods of other namespaces go only for a pod of higher priority: a tenant
//! cannot make room for itself among those of others. The least important go first (priority
//! class), then those that come back smaller; never more than are needed. The pod goes itself where
//! no neighbours can help, or where it takes more than one of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::Recommendation;
use view::{Asked, ObjectKey, Pod, Running, View};

use super::action::{Action, ActionKind, ActionReason};
use super::group::{Disruption, Group, Standing};
use super::ledger::Ledger;
use super::memory::Memory;
use super::moment::Moment;
use super::settings::PreemptionMode;
use super::size::sized;

/// The most neighbours that one pod is worth.
const MAX_VICTIMS: usize = 8;

/// An amount of both resources, in millicores and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) cpu: i64,
    pub(super) memory: i64,
}

/// A pod that waits for room.
pub(super) struct PendingResize<'a> {
    pub(super) autoscaler: ObjectKey,
    pub(super) recommendation: Arc<Recommendation>,
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) standing: Standing,
    pub(super) group: Option<usize>,
    /// Whether its node could hold it at all.
    pub(super) fits_empty_node: bool,
    /// Whether its autoscaler would let it be evicted now.
    pub(super) may_move: bool,
}

/// A pod that may be evicted.
pub(super) struct Victim<'a> {
    pub(super) autoscaler: ObjectKey,
    pub(super) recommendation: Arc<Recommendation>,
    pub(super) pod: &'a Pod,
    pub(super) running: &'a Running,
    pub(super) standing: Standing,
    pub(super) group: usize,
    /// Whether it would come back smaller.
    pub(super) shrinks: bool,
}

/// How room could be made for a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptionPlan {
    /// On whose behalf.
    pub autoscaler: ObjectKey,
    /// The pod that waits.
    pub pod: ObjectKey,
    /// Its unique identifier.
    pub pod_uid: String,
    /// How.
    pub method: PreemptionMethod,
}

/// How room is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreemptionMethod {
    /// These go.
    Victims(Vec<ObjectKey>),
    /// The pod itself goes, to wherever there is room.
    Itself,
}

/// What a neighbour would free, and what it costs.
#[derive(Debug, Clone, Copy)]
struct VictimCost {
    priority: i32,
    shrinks: bool,
    frees: Amount,
}

impl Amount {
    fn of(asked: Asked) -> Self {
        let requests = asked.requests;
        Self {
            cpu: requests.cpu.map_or(0, model::Cpu::millicores),
            memory: requests.memory.map_or(0, model::Memory::bytes),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(other.cpu),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    fn fits_in(self, other: Self) -> bool {
        self.cpu <= other.cpu.max(0) && self.memory <= other.memory.max(0)
    }
}

/// The cheapest offers that free as much as is needed: of the costliest that are needed at all as
/// few as will do.
fn cheapest_victims(missing: Amount, costs: &[VictimCost]) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = (0..costs.len()).collect();
    // The costliest first, of those the smallest: these are the first that are done without.
    chosen.sort_by_key(|index| {
        let VictimCost {
            priority,
            shrinks,
            frees,
        } = costs[*index];
        (
            std::cmp::Reverse(priority),
            shrinks,
            frees.cpu,
            frees.memory,
        )
    });
    let mut freed = chosen.iter().fold(Amount::default(), |sum, index| {
        sum.plus(costs[*index].frees)
    });
    if !missing.fits_in(freed) {
        return None;
    }
    chosen.retain(|index| {
        let rest = freed.minus(costs[*index].frees);
        let is_needed = !missing.fits_in(rest);
        if !is_needed {
            freed = rest;
        }
        is_needed
    });
    (chosen.len() <= MAX_VICTIMS).then_some(chosen)
}

/// Makes room for every pod that waits for it, or says how it could be made.
/// `taken` are the unique identifiers of the pods to which something is done anyhow.
pub(super) fn plan_preemptions(
    ledger: &mut Ledger,
    mut taken: BTreeSet<String>,
    view: &View,
    memory: &Memory,
    mode: PreemptionMode,
    now: Moment,
) {
    let is_backing_off = |pod: &Pod| memory.pause_left(&pod.uid, now).is_some();
    for pending_resize in std::mem::take(&mut ledger.pending_resizes) {
        if taken.contains(&pending_resize.pod.uid) {
            continue;
        }
        let missing = missing(&pending_resize, view, memory, &taken)
            .filter(|missing| *missing != Amount::default());
        let Some((method, evictions)) = missing
            .and_then(|missing| method(&pending_resize, missing, ledger, &taken, &is_backing_off))
        else {
            continue;
        };
        if mode == PreemptionMode::On {
            for eviction in evictions {
                if !eviction.reserve(ledger) {
                    break;
                }
                taken.insert(eviction.pod.uid.clone());
                ledger.plan.actions.push(Arc::new(eviction.into_action()));
            }
        }
        ledger.plan.preemptions.push(PreemptionPlan {
            autoscaler: pending_resize.autoscaler,
            pod: pending_resize.pod.key.clone(),
            pod_uid: pending_resize.pod.uid.clone(),
            method,
        });
    }
}

/// Whether neighbours go or the pod itself, and so who is evicted.
fn method<'a>(
    pending_resize: &PendingResize<'a>,
    missing: Amount,
    ledger: &mut Ledger<'a>,
    taken: &BTreeSet<String>,
    is_backing_off: &dyn Fn(&Pod) -> bool,
) -> Option<(PreemptionMethod, Vec<PodEviction<'a>>)> {
    let victims = if pending_resize.fits_empty_node {
        victims(pending_resize, missing, ledger, taken, is_backing_off)
    } else {
        None
    };
    let group = pending_resize
        .group
        .and_then(|index| ledger.groups.get(index));
    let allows = |group: &Group| group.allows(Disruption::Eviction, pending_resize.standing);
    let moves = pending_resize.may_move
        && !is_backing_off(pending_resize.pod)
        && group.is_some_and(allows)
        && ledger
            .budgets
            .refusal(
                Disruption::Eviction,
                pending_resize.pod,
                pending_resize.running,
            )
            .is_none();
    match victims {
        Some(chosen) if chosen.len() <= 1 || !moves => {
            let evictions: Vec<PodEviction> = chosen
                .into_iter()
                .map(|index| PodEviction::from(&ledger.victims[index]))
                .collect();
            Some((
                PreemptionMethod::Victims(
                    evictions
                        .iter()
                        .map(|eviction| eviction.pod.key.clone())
                        .collect(),
                ),
                evictions,
            ))
        }
        _ if moves => Some((
            PreemptionMethod::Itself,
            vec![PodEviction::from(pending_resize)],
        )),
        _ => None,
    }
}

/// A pod that is evicted.
struct PodEviction<'a> {
    autoscaler: ObjectKey,
    recommendation: Arc<Recommendation>,
    pod: &'a Pod,
    running: &'a Running,
    standing: Standing,
    group: Option<usize>,
}

impl<'a> From<&PendingResize<'a>> for PodEviction<'a> {
    fn from(pending_resize: &PendingResize<'a>) -> Self {
        let PendingResize {
            autoscaler,
            recommendation,
            pod,
            running,
            standing,
            group,
            ..
        } = pending_resize;
        let (autoscaler, recommendation) = (autoscaler.clone(), Arc::clone(recommendation));
        Self {
            autoscaler,
            recommendation,
            pod,
            running,
            standing: *standing,
            group: *group,
        }
    }
}

impl<'a> From<&Victim<'a>> for PodEviction<'a> {
    fn from(victim: &Victim<'a>) -> Self {
        let Victim {
            autoscaler,
            recommendation,
            pod,
            running,
            standing,
            group,
            ..
        } = victim;
        let (autoscaler, recommendation) = (autoscaler.clone(), Arc::clone(recommendation));
        Self {
            autoscaler,
            recommendation,
            pod,
            running,
            standing: *standing,
            group: Some(*group),
        }
    }
}

impl PodEviction<'_> {
    /// Spends what its eviction takes of its budgets and of its group, where there is enough.
    fn reserve(&self, ledger: &mut Ledger) -> bool {
        let Self {
            pod,
            running,
            standing,
            group,
            ..
        } = self;
        if ledger
            .budgets
            .refusal(Disruption::Eviction, pod, running)
            .is_some()
        {
            return false;
        }
        ledger.budgets.spend(Disruption::Eviction, pod, running);
        if let Some(group) = group.and_then(|index| ledger.groups.get_mut(index)) {
            group.take(Disruption::Eviction, *standing);
        }
        true
    }

    fn into_action(self) -> Action {
        Action {
            autoscaler: self.autoscaler,
            pod: self.pod.key.clone(),
            pod_uid: self.pod.uid.clone(),
            kind: ActionKind::Evict,
            reason: ActionReason::Preemption,
            recommendation: self.recommendation,
            disruption: Disruption::Eviction,
            oom_kill: None,
        }
    }
}

/// How much is missing on the pod's node: nothing once those that are on their way out are gone;
/// none if the node is not known.
fn missing(
    pending_resize: &PendingResize,
    view: &View,
    memory: &Memory,
    taken: &BTreeSet<String>,
) -> Option<Amount> {
    let name = pending_resize.running.node.as_ref()?;
    let node = view.nodes.get(name)?;
    let has = Amount::of(Asked {
        requests: node.allocatable,
        limits: node.allocatable,
    });
    let stays = |pod: &Pod| {
        let running = pod.running.as_ref();
        let is_evicted = memory
            .pending(&pod.uid)
            .is_some_and(|pending| pending.disruption == Disruption::Eviction);
        let is_here = running
            .is_some_and(|running| running.node.as_ref() == Some(name) && !running.is_terminating);
        is_here && !is_evicted && !taken.contains(&pod.uid) && pod.uid != pending_resize.pod.uid
    };
    let others = view.pods.iter().filter(|pod| stays(pod));
    let used = others.fold(Amount::default(), |sum, pod| {
        sum.plus(Amount::of(pod.asked()))
    });
    let wants =
        sized(pending_resize.running, true).filter_map(|container| container.requests.as_ref());
    let wants = wants.fold(Amount::default(), |sum, requests| {
        let cpu = requests.cpu().map_or(0, model::Cpu::millicores);
        sum.plus(Amount {
            cpu,
            memory: requests.memory().map_or(0, model::Memory::bytes),
        })
    });
    let missing = used.plus(wants).minus(has);
    Some(Amount {
        cpu: missing.cpu.max(0),
        memory: missing.memory.max(0),
    })
}

/// The neighbours that go, at most one of a group and of a budget: what the next may do is known
/// when that is over. `rests` says whose eviction was refused a short time ago.
fn victims(
    pending_resize: &PendingResize,
    missing: Amount,
    ledger: &mut Ledger,
    taken: &BTreeSet<String>,
    is_backing_off: &dyn Fn(&Pod) -> bool,
) -> Option<Vec<usize>> {
    let (mut groups, mut budgets) = (BTreeSet::new(), BTreeSet::new());
    let mut costs: Vec<(usize, VictimCost)> = Vec::new();
    for (index, victim) in ledger.victims.iter().enumerate() {
        let Victim {
            pod,
            running,
            standing,
            group,
            shrinks,
            ..
        } = victim;
        let is_here =
            running.node == pending_resize.running.node && pod.uid != pending_resize.pod.uid;
        let is_same_namespace = pod.key.namespace == pending_resize.pod.key.namespace;
        let is_less_important = running.priority < pending_resize.running.priority
            || is_same_namespace && running.priority == pending_resize.running.priority;
        let allows = |group: &Group| group.allows(Disruption::Eviction, *standing);
        let may_go = is_here
            && is_less_important
            && !taken.contains(&pod.uid)
            && ledger.groups.get(*group).is_some_and(allows);
        let may_go = may_go
            && !is_backing_off(pod)
            && ledger
                .budgets
                .refusal(Disruption::Eviction, pod, running)
                .is_none();
        let may_go = may_go && Some(*group) != pending_resize.group && !groups.contains(group);
        let covering = if may_go {
            ledger.budgets.covering(pod)
        } else {
            Vec::new()
        };
        if may_go && !covering.iter().any(|budget| budgets.contains(budget)) {
            groups.insert(*group);
            budgets.extend(covering);
            let frees = Amount::of(pod.asked());
            costs.push((
                index,
                VictimCost {
                    priority: running.priority,
                    shrinks: *shrinks,
                    frees,
                },
            ));
        }
    }
    let only: Vec<VictimCost> = costs.iter().map(|(_, offer)| *offer).collect();
    Some(
        cheapest_victims(missing, &only)?
            .into_iter()
            .map(|index| costs[index].0)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Priority, whether it shrinks, CPU and memory.
    fn check(missing: (i64, i64), costs: &[(i32, bool, i64, i64)], expected: Option<&[usize]>) {
        let costs: Vec<VictimCost> = costs
            .iter()
            .map(|(priority, shrinks, cpu, memory)| VictimCost {
                priority: *priority,
                shrinks: *shrinks,
                frees: Amount {
                    cpu: *cpu,
                    memory: *memory,
                },
            })
            .collect();
        let chosen = cheapest_victims(
            Amount {
                cpu: missing.0,
                memory: missing.1,
            },
            &costs,
        )
        .map(|mut chosen| {
            chosen.sort_unstable();
            chosen
        });
        assert_eq!(chosen.as_deref(), expected, "{missing:?} {costs:?}");
    }

    #[test]
    fn the_least_important_go_and_no_more_than_are_needed() {
        check((100, 0), &[], None);
        check((100, 0), &[(0, false, 50, 0)], None);
        check(
            (100, 0),
            &[(5, false, 500, 0), (0, false, 100, 0)],
            Some(&[1]),
        );
        check(
            (100, 0),
            &[(0, false, 100, 0), (0, true, 100, 0)],
            Some(&[1]),
        );
        check(
            (100, 0),
            &[(0, false, 60, 0), (0, false, 60, 0), (0, false, 200, 0)],
            Some(&[2]),
        );
        check(
            (100, 10),
            &[(0, false, 100, 0), (0, false, 0, 10), (9, false, 100, 10)],
            Some(&[0, 1]),
        );
        check(
            (100, 0),
            &[(0, true, 60, 0), (1, false, 60, 0)],
            Some(&[0, 1]),
        );
    }

    #[test]
    fn no_pod_is_worth_many() {
        check((90, 0), &[(0, false, 10, 0); 9], None);
        check(
            (80, 0),
            &[(0, false, 10, 0); 9],
            Some(&[1, 2, 3, 4, 5, 6, 7, 8]),
        );
    }
}
