//! Whether a pod is resized where it runs, left alone, or evicted.
//!
//! Source: upstream `pkg/updater/restriction/pods_inplace_restriction.go` (`CanInPlaceUpdate`). One
//! thing differs: where the answer is to wait, upstream resizes in the mode `InPlace` all the same.

use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use view::Running;

use super::group::{Disruption, Group, PodAvailability};
use super::resizing::Resizing;
use super::settings::Settings;
use super::size::sized;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InPlace {
    /// Resize it.
    Approved,
    /// Wait.
    Deferred,
    /// The kubelet says that its node can never hold it.
    Infeasible,
    /// That is known from before, and nothing smaller is asked for.
    InfeasibleCached,
    /// Evict it.
    Evict,
}

/// What the answer depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) mode: EffectiveUpdateMode,
    pub(super) running: &'a Running,
    pub(super) availability: PodAvailability,
    /// None where the group is left alone.
    pub(super) group: Option<&'a Group>,
    pub(super) has_recommendation: bool,
    /// Whether such a size is known to be infeasible.
    pub(super) is_cached: bool,
    /// For how long it has been resizing.
    pub(super) waited: Duration,
    /// What a resize would do.
    pub(super) disruption: Disruption,
}

impl Question<'_> {
    /// The answer.
    pub(super) fn answer(&self, settings: &Settings) -> InPlace {
        let in_place_only = self.mode == EffectiveUpdateMode::InPlace;
        if in_place_only && !settings.in_place {
            return InPlace::Deferred;
        }
        let (Some(group), PodAvailability::Running { .. }, true) =
            (self.group, self.availability, self.has_recommendation)
        else {
            return InPlace::Deferred;
        };
        if in_place_only && self.is_cached {
            return InPlace::InfeasibleCached;
        }
        match Resizing::of(self.running) {
            Resizing::No => {}
            Resizing::Infeasible if in_place_only => return InPlace::Infeasible,
            _ if in_place_only => return InPlace::Deferred,
            resizing => {
                let may_go = group.allows(Disruption::Eviction, self.availability);
                return if may_go && resizing.is_given_up(self.waited) {
                    InPlace::Evict
                } else {
                    InPlace::Deferred
                };
            }
        }
        if settings.in_place_skips_budget && !may_restart(self.running, settings.native_sidecars) {
            return InPlace::Approved;
        }
        if group.allows(self.disruption, self.availability) {
            InPlace::Approved
        } else {
            InPlace::Deferred
        }
    }
}

/// Whether a pod may be evicted, as far as its group and a resize that is under way are concerned.
pub(super) fn may_evict(
    group: Option<&Group>,
    availability: PodAvailability,
    running: &Running,
    waited: Duration,
) -> bool {
    let resizing = Resizing::of(running);
    let waits = availability != PodAvailability::Pending
        && resizing != Resizing::No
        && !resizing.is_given_up(waited);
    !waits && group.is_some_and(|group| group.allows(Disruption::Eviction, availability))
}

/// Whether any resize might restart a container.
fn may_restart(running: &Running, native_sidecars: bool) -> bool {
    sized(running, native_sidecars).any(|container| !container.restarts_for.is_empty())
}
