//! The topmost controller above a workload that is well known or scalable.
//!
//! The search follows owner references. It stops at an object without an owner, and at one that is
//! not scalable, whose owner is unknown. The result is the last eligible controller on the way.

use std::collections::BTreeSet;

use model::{Workload, WorkloadRef};

use super::TargetError;
use crate::owner::Owner;
use crate::pod::Pod;
use crate::scale::{Scale, ScaleKey};
use crate::view::View;
use crate::workload_controller::WellKnown;

/// Maximum number of owners above an object, which end the search for a cycle as well. Operators that
/// own each other's objects make about four.
pub(super) const MAX_OWNERS: usize = 10;

/// One controller in the chain of owners.
struct Link<'a> {
    is_eligible: bool,
    owner: Option<Workload<'a>>,
}

/// Returns the topmost well-known or scalable controller at or above `start`, if any.
pub fn topmost<'a>(
    view: &'a View,
    start: Workload<'a>,
) -> Result<Option<Workload<'a>>, TargetError> {
    let (mut current, mut top) = (start, None);
    for _ in 0..=MAX_OWNERS {
        let link = link(view, current)?;
        if link.is_eligible {
            top = Some(current);
        }
        let Some(owner) = link.owner else {
            return Ok(top);
        };
        current = owner;
    }
    Err(TargetError::EndlessOwners)
}

/// Returns the topmost well-known or scalable controller above a pod, as far as the view has it.
pub fn topmost_of<'a>(view: &'a View, pod: &'a Pod) -> Option<Workload<'a>> {
    let owner = pod.owner.as_ref()?.workload(&pod.key.namespace);
    topmost(view, owner).ok().flatten()
}

/// `start` and its owners, as far as the view has them, ten at most.
pub(super) fn chain(view: &View, start: &WorkloadRef) -> BTreeSet<WorkloadRef> {
    let mut seen = BTreeSet::new();
    let mut next: Option<Workload<'_>> = Some(start.into());
    for _ in 0..=MAX_OWNERS {
        let Some(current) = next else { break };
        seen.insert(current.to_ref());
        next = link(view, current).ok().and_then(|link| link.owner);
    }
    seen
}

pub(super) fn is_node(workload: Workload<'_>) -> bool {
    workload.kind == "Node"
}

fn link<'a>(view: &'a View, workload: Workload<'a>) -> Result<Link<'a>, TargetError> {
    let above = |owner: Option<&'a Owner>| Some(owner?.workload(workload.namespace));
    if WellKnown::of(workload.api_version, workload.kind).is_some() {
        let controller = super::controller(view, workload)?;
        return Ok(Link {
            is_eligible: true,
            owner: above(controller.owner.as_ref()),
        });
    }
    if is_node(workload) {
        return Err(TargetError::Node);
    }
    let key = ScaleKey::of(workload).map_err(TargetError::Malformed)?;
    match view.scale(&key) {
        None => Err(TargetError::Waiting(key)),
        Some(Scale::Found { owner, .. }) => Ok(Link {
            is_eligible: true,
            owner: above(owner.as_ref()),
        }),
        Some(Scale::NotFound { .. }) => Ok(Link {
            is_eligible: false,
            owner: None,
        }),
        Some(Scale::Failed { reason, transient }) => Err(TargetError::Unhandled {
            workload: workload.to_ref(),
            reason: reason.clone(),
            transient: *transient,
        }),
    }
}
