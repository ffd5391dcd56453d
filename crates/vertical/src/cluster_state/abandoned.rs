//! Containers that were removed from their workload: the test for it, and the removal of their
//! history.
//!
//! Upstream keeps the checkpoint of such a container as long as its VPA exists, so that a
//! container renamed years ago still takes its share of a pod's minimum. Here it ends like live
//! history: once it is as old as all memory windows together, and only while a running pod shows
//! that the container is really gone.

use jiff::Timestamp;
use view::ObjectKey;

use super::ClusterState;
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
        let Some(matched) = self.vpa(id) else {
            return false;
        };
        let retention_ns = matched.memory_rules(container).retention_ns();
        let is_old =
            |time: Timestamp| now.duration_since(time).as_nanos() >= i128::from(retention_ns);
        let mut live = matched
            .groups()
            .flat_map(|group| &group.histories)
            .filter(|(name, _)| **name == *container);
        let retired = matched
            .selection()
            .and_then(|selection| selection.retired.get(container));
        let kept = matched.vpa.stored.get(container).into_iter().chain(retired);
        let mut last_kept = kept.filter_map(|history| history.last_sample().into());
        last_heard.is_none_or(is_old)
            && last_kept.all(is_old)
            && live.all(|(_, history)| history.is_expired(retention_ns, now.into()))
            && matched.pods().any(|pod| !pod.phase.is_finished())
            && !matched.pods().any(|pod| pod.has_container(container))
    }

    /// Drops the checkpoint of a VPA's container, and its expired live history.
    pub fn forget_container(&mut self, id: &ObjectKey, container: &str, now: Timestamp) {
        let Some(matched) = self.vpa(id) else {
            return;
        };
        let retention_ns = matched.memory_rules(container).retention_ns();
        self.update(&id.namespace, |namespace| {
            namespace.forget_container(&id.name, container, retention_ns, now);
        });
    }
}

impl Namespace {
    fn forget_container(&mut self, vpa: &str, container: &str, retention_ns: i64, now: Timestamp) {
        let Some(vpa) = self.histories.vpas.get_mut(vpa) else {
            return;
        };
        vpa.stored.remove(container);
        if let Some(histories) = vpa.own.as_deref_mut() {
            histories.forget(container);
        }
        let id = vpa.selection;
        let Some(selection) = id.and_then(|id| self.histories.selections.get_mut(id)) else {
            return;
        };
        selection.retired.remove(container);
        selection.changed();
        for id in selection.groups.clone() {
            let group = self.histories.groups.get(id);
            let has_container = |pod: &Pod| pod.has_container(container);
            if group.is_some_and(|group| self.pods_of(group).any(has_container)) {
                continue;
            }
            if let Some(group) = self.histories.touched(id) {
                group.histories.retain(|(name, history)| {
                    **name != *container || !history.is_expired(retention_ns, now.into())
                });
            }
            self.histories.drop_if_idle(id);
        }
    }
}
