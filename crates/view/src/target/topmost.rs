//! The topmost controller above a workload that is either well known or can be scaled.
//!
//! The search climbs from controller to controller. It stops at an object without an owner, and at
//! one that cannot be scaled and so does not say who owns it; the last one on the way that counted
//! is the answer.

use std::collections::BTreeSet;

use model::{Workload, WorkloadRef};

use super::TargetError;
use crate::controller::WellKnown;
use crate::owner::Owner;
use crate::scale::{Scale, ScaleKey};
use crate::view::View;

/// One rung of the ladder.
struct Rung<'a> {
    counts: bool,
    owner: Option<Workload<'a>>,
}

/// The topmost well-known or scalable controller at or above `start`; none if nothing on the way is
/// either.
pub fn topmost<'a>(
    view: &'a View,
    start: Workload<'a>,
) -> Result<Option<Workload<'a>>, TargetError> {
    let (mut current, mut top) = (start, None);
    // One that was passed: whoever comes by it again goes in a circle, and will, since it is set
    // anew after 1, 2, 4, 8, ... rungs.
    let mut passed = None;
    for rungs in 1_u64.. {
        if passed == Some(current) {
            return Err(TargetError::Cycle);
        }
        if rungs.is_power_of_two() {
            passed = Some(current);
        }
        let rung = rung(view, current)?;
        if rung.counts {
            top = Some(current);
        }
        let Some(owner) = rung.owner else { break };
        current = owner;
    }
    Ok(top)
}

/// `start` and everything above it, up to where the view ends.
pub(super) fn chain(view: &View, start: &WorkloadRef) -> BTreeSet<WorkloadRef> {
    let mut seen = BTreeSet::new();
    let mut next: Option<Workload<'_>> = Some(start.into());
    while let Some(current) = next {
        if !seen.insert(current.to_ref()) {
            break;
        }
        next = rung(view, current).ok().and_then(|rung| rung.owner);
    }
    seen
}

pub(super) fn is_node(workload: Workload<'_>) -> bool {
    workload.kind == "Node"
}

fn rung<'a>(view: &'a View, workload: Workload<'a>) -> Result<Rung<'a>, TargetError> {
    if let Some(kind) = WellKnown::of_kind(workload.kind) {
        let controller = super::controller(view, kind, workload)?;
        return Ok(Rung {
            counts: true,
            owner: above(workload, controller.owner.as_ref()),
        });
    }
    if is_node(workload) {
        return Err(TargetError::Node);
    }
    let key = ScaleKey::of(workload).map_err(TargetError::Malformed)?;
    match view.scale(&key) {
        None => Err(TargetError::Waiting(key)),
        Some(Scale::Found { owner, .. }) => Ok(Rung {
            counts: true,
            owner: above(workload, owner.as_ref()),
        }),
        Some(Scale::NotFound { .. }) => Ok(Rung {
            counts: false,
            owner: None,
        }),
        Some(Scale::Failed { reason, transient }) => Err(TargetError::Unhandled {
            workload: workload.to_ref(),
            reason: reason.clone(),
            transient: *transient,
        }),
    }
}

fn above<'a>(workload: Workload<'a>, owner: Option<&'a Owner>) -> Option<Workload<'a>> {
    let Owner {
        api_version,
        kind,
        name,
        uid: _,
    } = owner?;
    Some(Workload {
        api_version,
        kind,
        namespace: workload.namespace,
        name,
    })
}
