//! Containers that were removed from their workload: the test for it, and the removal of their
//! history.
//!
//! Upstream keeps the checkpoint of such a container as long as its VPA exists, so that a
//! container renamed years ago still takes its share of a pod's minimum. Here it ends like live
//! history: once it is as old as all memory windows together, and only while a running pod shows
//! that the container is really gone.

use jiff::Timestamp;
use sizing::{ContainerPolicy, MemoryRules, policy_for};
use view::ObjectKey;

use super::ClusterState;
use super::group::{Group, History};
use super::links::touched;
use super::namespace::Namespace;
use super::pod::Pod;

impl ClusterState {
    /// Whether no pod of the VPA has the container while some run, and it has no samples
    /// within the retention: neither here nor since `last_heard`, as reported by others.
    pub fn is_abandoned(
        &self,
        id: &ObjectKey,
        container: &str,
        last_heard: Option<Timestamp>,
        now: Timestamp,
    ) -> bool {
        let Some((namespace, vpa)) = self.vpa(id) else {
            return false;
        };
        let retention_ns = retention_ns(namespace.default_rules, &vpa.spec.policies, container);
        let is_old =
            |time: Timestamp| now.duration_since(time).as_nanos() >= i128::from(retention_ns);
        let selection = namespace.selection(vpa);
        let pods = || {
            let groups = namespace.groups_of(vpa);
            groups.flat_map(|group| namespace.pods_of(group))
        };
        let mut live = namespace
            .groups_of(vpa)
            .flat_map(|group| &group.histories)
            .filter(|(name, _)| **name == *container);
        let kept = vpa
            .stored
            .get(container)
            .into_iter()
            .chain(selection.and_then(|selection| selection.retired.get(container)));
        let mut last_kept = kept.filter_map(|history| history.last_sample().into());
        last_heard.is_none_or(is_old)
            && last_kept.all(is_old)
            && live.all(|(_, history)| history.is_expired(retention_ns, now.into()))
            && pods().any(|pod| !pod.phase.is_finished())
            && !pods().any(|pod| pod.has_container(container))
    }

    /// Drops the checkpoint of a VPA's container, and its expired live history.
    pub fn forget_container(&mut self, id: &ObjectKey, container: &str, now: Timestamp) {
        self.update(&id.namespace, |namespace| {
            namespace.forget_container(&id.name, container, now);
        });
    }
}

impl Namespace {
    fn forget_container(&mut self, vpa: &str, container: &str, now: Timestamp) {
        let rules = self.default_rules;
        let Some(vpa) = self.vpas.get_mut(vpa) else {
            return;
        };
        vpa.stored.remove(container);
        if let Some(histories) = vpa.own.as_deref_mut() {
            histories.forget(container);
        }
        let retention_ns = retention_ns(rules, &vpa.spec.policies, container);
        let id = vpa.selection;
        let Some(selection) = id.and_then(|id| self.selections.get_mut(id)) else {
            return;
        };
        selection.retired.remove(container);
        selection.changed();
        for id in selection.groups.clone() {
            let in_use = self
                .groups
                .get(id)
                .is_some_and(|group| self.pods_of(group).any(|pod| pod.has_container(container)));
            let group = touched(&mut self.groups, &mut self.selections, id);
            let Some(group) = group.filter(|_| !in_use) else {
                continue;
            };
            let is_kept = |history: &History| !history.is_expired(retention_ns, now.into());
            group
                .histories
                .retain(|(name, history)| **name != *container || is_kept(history));
            self.drop_if_idle(id);
        }
    }

    pub(super) fn pods_of<'a>(&'a self, group: &'a Group) -> impl Iterator<Item = &'a Pod> {
        group.pods.iter().filter_map(|pod| self.pods.get(pod))
    }
}

/// Retention of a container's history without samples.
fn retention_ns(mut rules: MemoryRules, policies: &[ContainerPolicy], container: &str) -> i64 {
    if let Some(policy) = policy_for(policies, container) {
        policy.overlay(&mut rules);
    }
    rules.retention_ns()
}
