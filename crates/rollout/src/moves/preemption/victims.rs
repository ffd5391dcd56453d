//! The choice of victims on a node.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use view::Pod;

use super::node_shortage::NodeShortage;
use crate::plan_builder::{EvictablePod, PlanBuilder, Victim};

/// The most victims for one pending resize.
const MAX_VICTIMS: usize = 8;

/// The order in which a victim goes, and the amount that its eviction frees.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    priority: i32,
    shrinks: bool,
    frees: NodeShortage,
}

/// Indices of the victims to evict for `pending`, at most one of a group and of a budget: whether
/// the next one may go is known once the first is replaced. `None` if all together free too little.
pub(super) fn select_victims(
    pending: &EvictablePod,
    missing: NodeShortage,
    builder: &mut PlanBuilder,
    taken: &BTreeSet<String>,
    is_backing_off: &dyn Fn(&Pod) -> bool,
) -> Option<Vec<usize>> {
    let (mut groups, mut budgets) = (BTreeSet::new(), BTreeSet::new());
    let (mut indices, mut candidates) = (Vec::new(), Vec::new());
    for index in 0..builder.victims.len() {
        let Victim {
            pod: victim,
            shrinks,
        } = &builder.victims[index];
        let (victim, shrinks) = (victim.clone(), *shrinks);
        let may_go = is_less_important(&victim, pending)
            && !taken.contains(&victim.pod.uid)
            && !is_backing_off(victim.pod)
            && !victim.running.keeps_pod()
            && victim.is_evictable(builder)
            && victim.group != pending.group
            && !groups.contains(&victim.group);
        if !may_go {
            continue;
        }
        let covering = builder.budgets.covering(victim.pod).into_iter();
        let covering: Vec<_> = covering.map(|found| &found.budget.key).collect();
        if covering.iter().any(|budget| budgets.contains(budget)) {
            continue;
        }
        groups.insert(victim.group);
        budgets.extend(covering);
        indices.push(index);
        candidates.push(Candidate {
            priority: victim.running.priority,
            shrinks,
            frees: NodeShortage::requested(victim.pod.requirements()),
        });
    }
    let chosen = cheapest(missing, &candidates)?;
    Some(chosen.into_iter().map(|index| indices[index]).collect())
}

/// Whether `victim` runs on the node of `pending` and may go for it by priority.
fn is_less_important(victim: &EvictablePod, pending: &EvictablePod) -> bool {
    let (priority, of_pending) = (victim.running.priority, pending.running.priority);
    let is_same_namespace = victim.pod.key.namespace == pending.pod.key.namespace;
    victim.running.node == pending.running.node
        && victim.pod.uid != pending.pod.uid
        && (priority < of_pending || is_same_namespace && priority == of_pending)
}

/// Indices of the candidates that free `missing` at the least cost: the costliest ones are dropped
/// first, as long as the rest frees enough.
fn cheapest(missing: NodeShortage, candidates: &[Candidate]) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = (0..candidates.len()).collect();
    // The costliest first, and of equally costly ones the smallest.
    chosen.sort_by_key(|index| {
        let Candidate {
            priority,
            shrinks,
            frees,
        } = candidates[*index];
        (Reverse(priority), shrinks, frees.cpu, frees.memory)
    });
    let mut freed = chosen.iter().fold(NodeShortage::default(), |sum, index| {
        sum.plus(candidates[*index].frees)
    });
    if !missing.fits_in(freed) {
        return None;
    }
    chosen.retain(|index| {
        let rest = freed.minus(candidates[*index].frees);
        let is_needed = !missing.fits_in(rest);
        if !is_needed {
            freed = rest;
        }
        is_needed
    });
    (chosen.len() <= MAX_VICTIMS).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Candidates by priority, whether they shrink, CPU and memory.
    fn check(
        missing: (i64, i64),
        candidates: &[(i32, bool, i64, i64)],
        expected: Option<&[usize]>,
    ) {
        let amount = |cpu, memory| NodeShortage { cpu, memory };
        let candidate = |(priority, shrinks, cpu, memory): &(i32, bool, i64, i64)| Candidate {
            priority: *priority,
            shrinks: *shrinks,
            frees: amount(*cpu, *memory),
        };
        let candidates: Vec<Candidate> = candidates.iter().map(candidate).collect();
        let chosen = cheapest(amount(missing.0, missing.1), &candidates);
        let chosen = chosen.map(|mut chosen| {
            chosen.sort_unstable();
            chosen
        });
        assert_eq!(chosen.as_deref(), expected, "{missing:?} {candidates:?}");
    }

    #[test]
    fn the_least_important_go_and_no_more_than_are_needed() {
        let check_cpu = |candidates: &[(i32, bool, i64, i64)], expected: Option<&[usize]>| {
            check((100, 0), candidates, expected);
        };
        let of = |priority, cpu| (priority, false, cpu, 0);
        check_cpu(&[], None);
        check_cpu(&[of(0, 50)], None);
        check_cpu(&[of(5, 500), of(0, 100)], Some(&[1]));
        check_cpu(&[of(0, 100), (0, true, 100, 0)], Some(&[1]));
        check_cpu(&[of(0, 60), of(0, 60), of(0, 200)], Some(&[2]));
        check_cpu(&[(0, true, 60, 0), of(1, 60)], Some(&[0, 1]));
        let both = [of(0, 100), (0, false, 0, 10), (9, false, 100, 10)];
        check((100, 10), &both, Some(&[0, 1]));
    }

    #[test]
    fn at_most_eight_pods_are_evicted_for_one() {
        let nine = [(0, false, 10, 0); 9];
        check((90, 0), &nine, None);
        check((80, 0), &nine, Some(&[1, 2, 3, 4, 5, 6, 7, 8]));
    }
}
