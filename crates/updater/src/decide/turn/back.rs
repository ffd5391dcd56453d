//! What pods get back: CPU that they were given to start with is taken back, and memory that was taken too much of is given back.

use std::time::Duration;

use super::resize::{REFUSED_PAUSE, Resize};
use super::{Member, Turn};
use crate::decide::act::{Act, What, Why};
use crate::decide::ledger::Ledger;
use crate::decide::resizing::Resizing;
use crate::decide::{boost, resize_patch, revert};

impl Turn<'_> {
    /// A pod whose boost is over gets the size that it would have without.
    pub(super) fn take_boost_back(&mut self, member: &Member, ledger: &mut Ledger) -> Option<Act> {
        let now = self.context.now;
        let is_over =
            boost::boosted(member.running).any(|name| boost::is_expired(member.running, self.spec, name, now));
        if let Some(left) = boost::expires_in(member.running, self.spec, now).filter(|_| !is_over) {
            ledger.wake_in(left.max(Duration::from_secs(1)));
        }
        if !is_over || member.pending.is_some() || Resizing::of(member.running) != Resizing::No {
            return None;
        }
        let resize = self.wanted(member);
        let patch = resize_patch::resize(member.running, &resize.wanted);
        let may = self.group(member).is_some_and(|group| group.allows(resize.disruption, member.standing));
        let recently =
            self.context.memory.refused_ago(&member.pod.uid, &patch, now).is_some_and(|ago| ago < REFUSED_PAUSE);
        if !may
            || recently
            || self.rests(member, ledger).is_err()
            || self.spend(member, resize.disruption, ledger).is_err()
        {
            return None;
        }
        let annotate = resize_patch::annotate(member.running, self.spec, now);
        let what = What::Resize { resize: patch, annotate, attempt: self.attempt(member.running) };
        Some(self.act_on(member, what, Why::BoostExpired, resize.disruption))
    }

    /// Gives pods back what they had before they were resized and killed; gives the others.
    pub(super) fn revert_killed<'m>(
        &mut self,
        members: Vec<&'m Member<'m>>,
        ledger: &mut Ledger,
    ) -> Vec<&'m Member<'m>> {
        let mut others = Vec::with_capacity(members.len());
        for member in members {
            let own = self.own_recommendation(member.running);
            let back = revert::wanted_back(member.pod, member.running, &own);
            let Some(back) = back.filter(|_| member.pending.is_none() && member.group.is_some()) else {
                others.push(member);
                continue;
            };
            let resize = Resize::new(member.running, back);
            let patch = resize_patch::resize(member.running, &resize.wanted);
            let recently = self.context.memory.refused_ago(&member.pod.uid, &patch, self.context.now).is_some();
            let may = !recently && resize.is_change && self.rests(member, ledger).is_ok();
            if may && self.spend(member, resize.disruption, ledger).is_ok() {
                let annotate = revert::annotate(self.context.now);
                let what = What::Resize { resize: patch, annotate, attempt: self.attempt(member.running) };
                ledger.plan.acts.push(self.act_on(member, what, Why::Revert, resize.disruption));
            } else {
                others.push(member);
            }
        }
        others
    }
}
