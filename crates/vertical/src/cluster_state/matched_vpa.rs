//! A VPA with the pods that it selects and the histories of their containers.

use model::ResourceName;
use sizing::{ContainerHistory, MemoryRules, policy_for};

use super::namespace::{Namespace, Pod};
use super::selection::{Group, Selection};
use super::vpa::Vpa;
use crate::refresh::PodRequests;

#[derive(Clone, Copy)]
pub(super) struct MatchedVpa<'a> {
    pub(super) namespace: &'a Namespace,
    pub(super) vpa: &'a Vpa,
}

impl<'a> MatchedVpa<'a> {
    /// Its selection; `None` before its selector is known.
    pub(super) fn selection(self) -> Option<&'a Selection> {
        self.namespace.histories.selections.get(self.vpa.selection?)
    }

    pub(super) fn groups(self) -> impl Iterator<Item = &'a Group> {
        let selection = self.selection().into_iter();
        selection.flat_map(move |selection| selection.groups_in(&self.namespace.histories.groups))
    }

    pub(super) fn pods(self) -> impl Iterator<Item = &'a Pod> {
        self.groups()
            .flat_map(move |group| self.namespace.pods_of(group))
    }

    /// The requests of these pods, collected once for all VPAs with this selector.
    pub(super) fn pod_requests(self) -> Option<&'a PodRequests> {
        let requests = &self.selection()?.requests;
        Some(requests.get_or_init(|| self.pods().filter_map(|pod| pod.object.as_ref()).collect()))
    }

    /// The histories of its pods, also of deleted ones.
    pub(super) fn measured(self) -> impl Iterator<Item = (&'a str, &'a ContainerHistory)> {
        let histories = &self.namespace.histories;
        let selection = self.selection().into_iter();
        selection.flat_map(|all| all.histories(&histories.groups, &histories.shapes))
    }

    /// All histories of its containers: those of its pods, and stored ones.
    pub(super) fn known(self) -> impl Iterator<Item = (&'a str, &'a ContainerHistory)> {
        let stored = self.vpa.stored.iter();
        let stored = stored.map(|(name, history)| (&**name, history));
        self.measured().chain(stored)
    }

    /// The resources of a container without samples.
    pub(super) fn unmeasured(self, container: &str) -> Vec<ResourceName> {
        let own = self.known().filter(|(name, _)| *name == container);
        let (mut cpu, mut memory) = (true, true);
        for (_, history) in own {
            cpu &= history.cpu.is_empty();
            memory &= history.memory.is_empty();
        }
        let resources = [(cpu, ResourceName::Cpu), (memory, ResourceName::Memory)];
        let without = resources.into_iter().filter(|(is_empty, _)| *is_empty);
        without.map(|(_, resource)| resource).collect()
    }

    pub(super) fn memory_rules(self, container: &str) -> MemoryRules {
        let mut rules = self.namespace.histories.default_rules;
        if let Some(policy) = policy_for(&self.vpa.spec.policies, container) {
            policy.overlay(&mut rules);
        }
        rules
    }
}
