//! What `PodDisruptionBudget`s allow: read before anything is asked for, so that no request is made only to be refused, and
//! nothing is done that they would not allow.
//!
//! What the API server enforces is in `cluster::DisruptionBudget`; here evictions count that it has let through, but that the
//! budget's status does not show yet, and restarts of containers, which it does not count. What the pods themselves show counts
//! as well, since the status of a budget may be seen later than they are. Source:
//! `pkg/registry/core/pod/storage/eviction.go` of Kubernetes.

use std::collections::HashMap;

use cluster::{DisruptionBudget, Phase, Pod, Running, View};
use model::Requirement;

use super::act::SkipReason;
use super::group::{Disruption, Standing};
use super::members::standing;
use super::memory::Memory;
use super::moment::Moment;

/// All budgets, to be found by the labels of a pod, and what was spent of them.
pub(super) struct Budgets<'a> {
    all: Vec<&'a DisruptionBudget>,
    /// What their status does not show yet.
    spent: Vec<i64>,
    /// How many pods serve of those that each covers, less those taken; counted when it is first asked for.
    serving: Option<Vec<i64>>,
    view: &'a View,
    memory: &'a Memory,
    /// By namespace and one label that the selector demands.
    by_label: HashMap<(&'a str, &'a str, &'a str), Vec<usize>>,
    /// By namespace: those that demand no certain label.
    others: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Budgets<'a> {
    /// The budgets of a view, with nothing spent.
    pub(super) fn of(view: &'a View, memory: &'a Memory) -> Self {
        let budgets: Vec<&DisruptionBudget> = view.disruption_budgets.iter().map(AsRef::as_ref).collect();
        let spent = vec![0; budgets.len()];
        let mut found =
            Self { all: budgets, spent, serving: None, view, memory, by_label: HashMap::new(), others: HashMap::new() };
        for (index, budget) in found.all.iter().enumerate() {
            let namespace = budget.key.namespace.as_str();
            match one_label(budget) {
                Some((key, value)) => found.by_label.entry((namespace, key, value)).or_default().push(index),
                None => found.others.entry(namespace).or_default().push(index),
            }
        }
        found
    }

    /// Those that cover a pod. One whose selector cannot be read may cover any pod.
    pub(super) fn covering(&self, pod: &Pod) -> Vec<usize> {
        let namespace = pod.key.namespace.as_str();
        let labelled = pod.labels.iter().filter_map(|(key, value)| self.by_label.get(&(namespace, key, value)));
        let all = labelled.chain(self.others.get(namespace)).flatten().copied();
        all.filter(|index| {
            let selector = self.all.get(*index).map(|budget| &budget.selector);
            selector.is_some_and(|selector| selector.as_ref().map_or(true, |selector| selector.matches(&pod.labels)))
        })
        .collect()
    }

    /// Why this may not be done to a pod now, if it may not.
    pub(super) fn refusal(&mut self, disruption: Disruption, pod: &Pod, running: &Running) -> Option<SkipReason> {
        if disruption == Disruption::Resize || pod.phase == Phase::Pending {
            return None;
        }
        let covering = self.covering(pod);
        if disruption == Disruption::Eviction && covering.len() > 1 {
            return Some(SkipReason::SeveralBudgets);
        }
        if covering.is_empty() {
            return None;
        }
        self.count();
        (!covering.iter().all(|index| self.allows(*index, running))).then_some(SkipReason::DisruptionBudget)
    }

    /// The reason not to repeat an eviction that counts already, but may not have happened; none if it may be repeated.
    pub(super) fn refusal_again(&mut self, pod: &Pod, running: &Running) -> Option<SkipReason> {
        if pod.phase == Phase::Pending || !is_ready(running) {
            return None;
        }
        let covering = self.covering(pod);
        self.count();
        let allows = |index: &usize| {
            let counted = self.all.get(*index).zip(self.serving.as_ref().and_then(|all| all.get(*index)));
            counted.is_some_and(|(budget, serving)| *serving >= i64::from(budget.desired_healthy))
        };
        (!covering.iter().all(allows)).then_some(SkipReason::DisruptionBudget)
    }

    /// Whether one budget lets a pod go.
    fn allows(&self, index: usize, running: &Running) -> bool {
        let counted =
            (self.all.get(index), self.spent.get(index), self.serving.as_ref().and_then(|all| all.get(index)));
        let (Some(budget), Some(spent), Some(serving)) = counted else { return false };
        if !is_ready(running) {
            return budget.allows(false);
        }
        let is_enough = *serving > i64::from(budget.desired_healthy);
        budget.is_current() && i64::from(budget.disruptions_allowed) > *spent && is_enough
    }

    /// Counts, once, which pods serve. What is on its way counts as done.
    fn count(&mut self) {
        if self.serving.is_some() {
            return;
        }
        let mut serving = vec![0; self.all.len()];
        for pod in self.view.pods.iter() {
            let Some(running) = pod.running.as_deref().filter(|running| !running.is_terminating) else { continue };
            let pending = self.memory.pending(&pod.uid);
            let is_evicted = pending.is_some_and(|pending| pending.disruption == Disruption::Eviction);
            if !is_evicted && standing(pod, running, pending) == (Standing::Running { serves: true }) {
                for index in self.covering(pod) {
                    serving[index] += 1;
                }
            }
        }
        self.serving = Some(serving);
    }

    /// Counts what is done to a pod, or was done and does not show in the budget yet.
    pub(super) fn spend(&mut self, disruption: Disruption, pod: &Pod, running: &Running, now: Moment) {
        if disruption == Disruption::Resize || pod.phase == Phase::Pending || !is_ready(running) {
            return;
        }
        for index in self.covering(pod) {
            if let Some(serving) = self.serving.as_mut().and_then(|all| all.get_mut(index)) {
                *serving -= 1;
            }
            let shows = self.all.get(index).is_some_and(|budget| budget.is_disrupting(&pod.key.name, now.wall));
            if let Some(spent) = self.spent.get_mut(index)
                && !shows
            {
                *spent += 1;
            }
        }
    }
}

fn is_ready(running: &Running) -> bool {
    running.ready_since.is_some()
}

/// A label without which the selector holds for no pod.
fn one_label(budget: &DisruptionBudget) -> Option<(&str, &str)> {
    budget.selector.as_ref().ok()?.requirements().iter().find_map(|requirement| match requirement {
        Requirement::In(key, values) if values.len() == 1 => values.first().map(|value| (key.as_str(), value.as_str())),
        _ => None,
    })
}
