//! Whether a pod is resized where it runs, left alone, or evicted.
//!
//! Source: upstream `pkg/updater/restriction/pods_inplace_restriction.go` (`CanInPlaceUpdate`). One
//! thing differs: where the answer is to wait, upstream resizes in the mode `InPlace` all the same.

use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use view::Running;

use super::group::{Disruption, Group, PodAvailability};
use super::resize_status::ResizeStatus;
use super::settings::Settings;
use super::size::sized_containers;

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InPlaceDecision {
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
pub(super) struct InPlaceRequest<'a> {
    pub(super) mode: EffectiveUpdateMode,
    pub(super) running: &'a Running,
    pub(super) availability: PodAvailability,
    /// None where the group is left alone.
    pub(super) group: Option<&'a Group>,
    pub(super) has_recommendation: bool,
    /// Whether such a size is known to be infeasible.
    pub(super) is_known_infeasible: bool,
    /// For how long it has been resizing.
    pub(super) resizing_for: Duration,
    /// What a resize would do.
    pub(super) disruption: Disruption,
}

impl InPlaceRequest<'_> {
    /// The answer.
    pub(super) fn decide(&self, settings: &Settings) -> InPlaceDecision {
        let in_place_only = self.mode == EffectiveUpdateMode::InPlace;
        if in_place_only && !settings.in_place {
            return InPlaceDecision::Deferred;
        }
        let (Some(group), PodAvailability::Running { .. }, true) =
            (self.group, self.availability, self.has_recommendation)
        else {
            return InPlaceDecision::Deferred;
        };
        if in_place_only && self.is_known_infeasible {
            return InPlaceDecision::InfeasibleCached;
        }
        match ResizeStatus::of(self.running) {
            ResizeStatus::NotResizing => {}
            ResizeStatus::Infeasible if in_place_only => return InPlaceDecision::Infeasible,
            _ if in_place_only => return InPlaceDecision::Deferred,
            resizing => {
                let may_go = group.allows(Disruption::Eviction, self.availability);
                return if may_go && resizing.has_timed_out(self.resizing_for) {
                    InPlaceDecision::Evict
                } else {
                    InPlaceDecision::Deferred
                };
            }
        }
        if settings.in_place_skip_disruption_budget
            && !may_restart(self.running, settings.native_sidecars)
        {
            return InPlaceDecision::Approved;
        }
        if group.allows(self.disruption, self.availability) {
            InPlaceDecision::Approved
        } else {
            InPlaceDecision::Deferred
        }
    }
}

/// Whether a pod may be evicted, as far as its group and a resize that is under way are concerned.
pub(super) fn may_evict(
    group: Option<&Group>,
    availability: PodAvailability,
    running: &Running,
    resizing_for: Duration,
) -> bool {
    let resizing = ResizeStatus::of(running);
    let waits = availability != PodAvailability::Pending
        && resizing != ResizeStatus::NotResizing
        && !resizing.has_timed_out(resizing_for);
    !waits && group.is_some_and(|group| group.allows(Disruption::Eviction, availability))
}

/// Whether any resize might restart a container.
fn may_restart(running: &Running, native_sidecars: bool) -> bool {
    sized_containers(running, native_sidecars).any(|container| !container.restarts_for.is_empty())
}
