//! The choice between an in-place resize, waiting, and an eviction.
//!
//! Source: upstream `pkg/updater/restriction/pods_inplace_restriction.go` (`CanInPlaceUpdate`). Two
//! differences: where the decision is `Deferred`, upstream resizes in the mode `InPlace` all the
//! same; and upstream evicts a pod whose memory limit the kubelet does not lower below its usage.

use std::time::Duration;

use api::vpa::EffectiveUpdateMode;
use view::Running;

use crate::limits::disruption_limit::{Disruption, Group, PodAvailability};
use crate::resize::pod_size::sized_containers;
use crate::resize::resize_status::ResizeStatus;
use crate::settings::Settings;

/// The decision, with upstream's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InPlaceDecision {
    Approved,
    Deferred,
    /// The kubelet reports that the node can never hold the resize.
    Infeasible,
    /// The same resize, or a smaller one, was infeasible before.
    InfeasibleCached,
    Evict,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct InPlaceRequest<'a> {
    pub(crate) mode: EffectiveUpdateMode,
    pub(crate) running: &'a Running,
    pub(crate) availability: PodAvailability,
    /// `None` if the group is not updated.
    pub(crate) group: Option<&'a Group>,
    pub(crate) has_recommendation: bool,
    /// Whether the recommendation is known to be infeasible for the pod.
    pub(crate) is_known_infeasible: bool,
    pub(crate) resizing_for: Duration,
    pub(crate) disruption: Disruption,
}

impl InPlaceRequest<'_> {
    pub(crate) fn decide(&self, settings: &Settings) -> InPlaceDecision {
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
            // The replacement of a pod that needs its memory would be OOM killed.
            ResizeStatus::MemoryInUse => return InPlaceDecision::Deferred,
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
        let mut sized = sized_containers(self.running, settings.native_sidecars);
        let may_restart = sized.any(|container| !container.restarts_for.is_empty());
        if settings.in_place_skip_disruption_budget && !may_restart
            || group.allows(self.disruption, self.availability)
        {
            InPlaceDecision::Approved
        } else {
            InPlaceDecision::Deferred
        }
    }
}

/// Whether a pod's group, and its resize in progress, allow its eviction.
pub(crate) fn may_evict(
    group: Option<&Group>,
    availability: PodAvailability,
    running: &Running,
    resizing_for: Duration,
) -> bool {
    let resizing = ResizeStatus::of(running);
    let waits = availability != PodAvailability::Pending
        && !matches!(
            resizing,
            ResizeStatus::NotResizing | ResizeStatus::MemoryInUse
        )
        && !resizing.has_timed_out(resizing_for);
    !waits && group.is_some_and(|group| group.allows(Disruption::Eviction, availability))
}
