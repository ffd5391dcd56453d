//! Which of an autoscaler's pods wait for room on their nodes, and which could make room by moving.

use api::vpa::EffectiveUpdateMode;

use super::{Member, Turn};
use crate::decide::ledger::Ledger;
use crate::decide::make_room::{Cramped, Neighbour};
use crate::decide::priority::Priority;
use crate::decide::resizing::Resizing;
use crate::decide::size;

impl<'a> Turn<'a> {
    /// Puts down the pods that wait for room, and those that could make it.
    pub(super) fn enter_neighbours(self, members: &[Member<'a>], ledger: &mut Ledger<'a>) {
        let first = ledger.groups.len();
        let evicts = matches!(self.mode, EffectiveUpdateMode::Recreate | EffectiveUpdateMode::InPlaceOrRecreate);
        for member in members {
            let Member { pod, running, standing, group, pending } = member;
            let (autoscaler, group) = (self.autoscaler.key.clone(), group.map(|index| first + index));
            let resizing = Resizing::of(running);
            if matches!(resizing, Resizing::Deferred | Resizing::Infeasible) {
                ledger.cramped.push(Cramped {
                    autoscaler,
                    pod,
                    running,
                    standing: *standing,
                    group,
                    fits_empty_node: resizing == Resizing::Deferred,
                    may_move: evicts && pending.is_none(),
                });
            } else if let (true, Some(group), None) = (evicts && self.has_recommendation, group, pending) {
                let own = size::own_recommendation(&self.recommendation, running, self.spec, &self.limits);
                let shrinks = !Priority::of(running, &own).scale_up;
                ledger.neighbours.push(Neighbour { autoscaler, pod, running, standing: *standing, group, shrinks });
            }
        }
        ledger.groups.extend(self.groups);
    }
}
