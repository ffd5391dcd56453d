//! The topmost controller above a workload that is either well known or can be scaled.
//!
//! The search climbs from controller to controller. It stops at an object without an owner, and at one that cannot be
//! scaled and so does not say who owns it; the last one on the way that counted is the answer.

use std::collections::BTreeSet;

use model::WorkloadRef;

use super::TargetError;
use crate::controller::WellKnown;
use crate::owner::Owner;
use crate::scale::{Scale, ScaleKey};
use crate::table::ObjectKey;
use crate::view::View;

/// One rung of the ladder.
struct Rung {
    counts: bool,
    owner: Option<WorkloadRef>,
}

/// The topmost well-known or scalable controller at or above `start`; none if nothing on the way is either.
pub fn topmost(view: &View, start: &WorkloadRef) -> Result<Option<WorkloadRef>, TargetError> {
    let mut seen = BTreeSet::new();
    let mut top = None;
    let mut next = Some(start.clone());
    while let Some(current) = next {
        if !seen.insert(current.clone()) {
            return Err(TargetError::Cycle);
        }
        let rung = rung(view, &current)?;
        next = rung.owner;
        if rung.counts {
            top = Some(current);
        }
    }
    Ok(top)
}

/// `start` and everything above it, up to where the view ends.
pub(super) fn chain(view: &View, start: &WorkloadRef) -> BTreeSet<WorkloadRef> {
    let mut seen = BTreeSet::new();
    let mut next = Some(start.clone());
    while let Some(current) = next {
        next = rung(view, &current).ok().and_then(|rung| rung.owner);
        if !seen.insert(current) {
            break;
        }
    }
    seen
}

pub(super) fn is_node(workload: &WorkloadRef) -> bool {
    workload.kind == "Node"
}

fn rung(view: &View, workload: &WorkloadRef) -> Result<Rung, TargetError> {
    if let Some(kind) = WellKnown::of_kind(&workload.kind) {
        let key = ObjectKey::new(&workload.namespace, &workload.name);
        let controller = view.controller(kind, &key).ok_or_else(|| TargetError::Missing(workload.clone()))?;
        return Ok(Rung { counts: true, owner: above(workload, controller.owner.as_ref()) });
    }
    if is_node(workload) {
        return Err(TargetError::Node);
    }
    let key = ScaleKey::of(workload).map_err(TargetError::Malformed)?;
    match view.scale(&key) {
        None => Err(TargetError::Waiting(key)),
        Some(Scale::Found { owner, .. }) => Ok(Rung { counts: true, owner: above(workload, owner.as_ref()) }),
        Some(Scale::NotFound { .. }) => Ok(Rung { counts: false, owner: None }),
        Some(Scale::Failed { reason, transient }) => {
            Err(TargetError::Unhandled { workload: workload.clone(), reason: reason.clone(), transient: *transient })
        }
    }
}

fn above(workload: &WorkloadRef, owner: Option<&Owner>) -> Option<WorkloadRef> {
    owner.map(|owner| WorkloadRef {
        api_version: owner.api_version.clone(),
        kind: owner.kind.clone(),
        namespace: workload.namespace.clone(),
        name: owner.name.clone(),
    })
}
