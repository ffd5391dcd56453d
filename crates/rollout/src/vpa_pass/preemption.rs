//! Candidates of preemption and rebalancing: pending resizes, and pods that may be evicted.

use std::sync::Arc;

use model::Recommendation;

use super::{Member, VpaPass};
use crate::plan_builder::{EvictablePod, PendingResize, PlanBuilder, Victim};
use crate::resize::resize_status::ResizeStatus;
use crate::resize::rolling_update::Replacement;
use crate::selection::eviction_requirements;
use crate::selection::priority::Priority;

impl<'a> VpaPass<'a> {
    /// Records the candidates of preemption and rebalancing; none during the settling time.
    pub(super) fn record_preemption_candidates(
        self,
        members: &[Member<'a>],
        builder: &mut PlanBuilder<'a>,
    ) {
        if self.settles_in.is_some() {
            return;
        }
        let first = builder.groups.len();
        // A VPA object that asks for rolling updates allows no evictions.
        let evicts = self.replacement == Replacement::Eviction && self.mode.evicts();
        for member in members {
            let group = member.group.map(|index| first + index);
            let evictable = EvictablePod {
                vpa: self.vpa.key.clone(),
                recommendation: Arc::clone(&self.recommendation),
                member: Member { group, ..*member },
            };
            if self.is_unmanaged {
                if group.is_some() && member.pending.is_none() && self.may_evict(member) {
                    builder.unmanaged.push(evictable);
                }
                continue;
            }
            let own = self.pod_recommendation(member);
            let may_move = evicts && self.allows_preemption(member, &own);
            let resizing = ResizeStatus::of(member.running);
            if matches!(resizing, ResizeStatus::Deferred | ResizeStatus::Infeasible) {
                builder.pending_resizes.push(PendingResize {
                    pod: evictable,
                    fits_empty_node: resizing == ResizeStatus::Deferred,
                    may_move,
                });
            } else if group.is_some() && may_move && self.may_evict(member) {
                let native_sidecars = self.context.settings.native_sidecars;
                builder.victims.push(Victim {
                    pod: evictable,
                    shrinks: !Priority::of(member.running, &own, native_sidecars).scale_up,
                });
            }
        }
        builder.groups.extend(self.groups);
    }

    /// Whether the pod's own VPA object allows its eviction for another pod.
    fn allows_preemption(&self, member: &Member, own: &Recommendation) -> bool {
        let native_sidecars = self.context.settings.native_sidecars;
        member.pending.is_none()
            && !self.is_boosted(member)
            && eviction_requirements::admit(member.running, own, self.spec, native_sidecars)
            && self
                .ineffective_pause(member, &self.target_changes(member, own))
                .is_none()
    }
}
