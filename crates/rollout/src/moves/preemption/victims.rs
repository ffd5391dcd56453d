//! The choice of victims on a node.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use placement::Amounts;

use super::requested;
use crate::plan_builder::{EvictablePod, PassContext, PlanBuilder, Victim};
use crate::vpa_pods::Member;

const MAX_VICTIMS: usize = 8;

/// The order in which a victim goes, and the amount that its eviction frees.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    priority: i32,
    shrinks: bool,
    frees: Amounts,
}

/// The victims to evict for `pending`, at most one of a group and of a budget: whether the next one
/// may go is known once the first is replaced. `None` if all together free too little.
pub(super) fn select_victims<'a>(
    pending: &EvictablePod,
    missing: Amounts,
    builder: &mut PlanBuilder<'a>,
    taken: &BTreeSet<String>,
    context: PassContext,
) -> Option<Vec<EvictablePod<'a>>> {
    let (mut groups, mut budgets) = (BTreeSet::new(), BTreeSet::new());
    let (mut victims, mut candidates) = (Vec::new(), Vec::new());
    for index in 0..builder.victims.len() {
        let Victim {
            pod: victim,
            shrinks,
        } = builder.victims[index].clone();
        let Member { pod, running, .. } = victim.member;
        let group = victim.member.group;
        let may_go = is_less_important(&victim.member, &pending.member)
            && !taken.contains(&pod.uid)
            && !context.is_backing_off(pod)
            && !running.keeps_pod()
            && victim.is_evictable(builder)
            && group != pending.member.group
            && !groups.contains(&group);
        if !may_go {
            continue;
        }
        let covering = builder.budgets.covering(pod).into_iter();
        let covering: Vec<_> = covering.map(|found| &found.budget.key).collect();
        if covering.iter().any(|budget| budgets.contains(budget)) {
            continue;
        }
        groups.insert(group);
        budgets.extend(covering);
        victims.push(victim);
        candidates.push(Candidate {
            priority: running.priority,
            shrinks,
            frees: requested(pod),
        });
    }
    let chosen = cheapest(missing, &candidates)?.into_iter();
    Some(chosen.map(|index| victims[index].clone()).collect())
}

/// Whether `victim` runs on the node of `pending` and may go for it by priority.
fn is_less_important(victim: &Member, pending: &Member) -> bool {
    let (priority, of_pending) = (victim.running.priority, pending.running.priority);
    let is_same_namespace = victim.pod.key.namespace == pending.pod.key.namespace;
    victim.running.node == pending.running.node
        && victim.pod.uid != pending.pod.uid
        && (priority < of_pending || is_same_namespace && priority == of_pending)
}

/// Indices of the candidates that free `missing` at the least cost: the costliest ones are dropped
/// first, as long as the rest frees enough.
fn cheapest(missing: Amounts, candidates: &[Candidate]) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = (0..candidates.len()).collect();
    // The costliest first, and of equally costly ones the smallest.
    chosen.sort_by_key(|index| {
        let it = &candidates[*index];
        let (cpu, memory) = (it.frees.cpu_millicores, it.frees.memory_bytes);
        (Reverse(it.priority), it.shrinks, cpu, memory)
    });
    let amounts = candidates.iter().map(|candidate| candidate.frees);
    let mut freed = amounts.fold(Amounts::default(), Amounts::plus);
    if !missing.fits(freed) {
        return None;
    }
    chosen.retain(|index| {
        let rest = freed.minus(candidates[*index].frees);
        let is_needed = !missing.fits(rest);
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
        let amount = |cpu_millicores, memory_bytes| Amounts {
            cpu_millicores,
            memory_bytes,
        };
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
