//! Resolution of a VPA's `targetRef` to a pod selector, as a pure function of the view.
//!
//! A target must be the topmost controller of its kind: a Deployment, not a `ReplicaSet` of it. The
//! messages are those of the condition `ConfigUnsupported`. Source: upstream `target/fetcher.go`,
//! `target/controller_fetcher` and `recommender/input/cluster_feeder.go` (`getSelector`,
//! `validateTargetRef`).
//!
//! The search for the topmost controller follows owner references. It stops at an object without an
//! owner, and at one that is not scalable, whose owner is unknown. The result is the last eligible
//! controller on the way.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeSet;

use api::vpa::NodeGroup;
use model::{ParseSelectorError, Selector, Workload, WorkloadRef};

use crate::pod::Pod;
use crate::scale::{Scale, ScaleKey};
use crate::view::View;
use crate::vpa::Vpa;
use crate::workload_controller::{Controller, Owner, WellKnown};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    Pods(Selector),
    Unsupported {
        /// Message of the condition.
        message: String,
        /// Whether the failure may pass by itself; the last known selector stays in use until then.
        transient: bool,
    },
    /// This scale subresource has not been read yet.
    Waiting(ScaleKey),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{kind} {namespace}/{name} does not exist", kind = .0.kind, namespace = .0.namespace, name = .0.name)]
    Missing(WorkloadRef),
    /// The scale subresource of a custom kind cannot be used.
    #[error("unhandled targetRef {} / {} / {}, last error {reason}", .workload.api_version, .workload.kind, .workload.name)]
    Unhandled {
        workload: WorkloadRef,
        reason: String,
        /// Whether it may pass by itself.
        transient: bool,
    },
    /// The `apiVersion` or the selector is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A Node owns static pods and is not a controller.
    #[error("node is not a valid owner")]
    Node,
    #[error("cycle detected in ownership chain, or more than {MAX_OWNERS} owners")]
    EndlessOwners,
    #[error("the scale subresource of {kind} {namespace}/{name} has not been read yet", kind = .0.kind, namespace = .0.namespace, name = .0.name)]
    Waiting(ScaleKey),
}

impl TargetError {
    fn is_transient(&self) -> bool {
        matches!(self, Self::Unhandled { transient, .. } if *transient)
    }
}

/// Resolves `target` to the pods that a VPA may size.
pub fn resolve(view: &View, target: Workload<'_>) -> Resolution {
    selector(view, target)
        .map_err(|error| {
            unsupported(error, |error| {
                format!("Cannot read targetRef. Reason: {error}")
            })
        })
        .and_then(|selector| validate(view, target).map(|()| selector))
        .map_or_else(
            |unsupported| unsupported,
            |selector| Resolution::Pods(selector.into_owned()),
        )
}

/// Resolves the target of a VPA object to the pods that it may size, within its group of nodes.
pub fn resolve_vpa(view: &View, vpa: &Vpa) -> Resolution {
    match resolve(view, vpa.points_at()) {
        Resolution::Pods(selector) => Resolution::Pods(NodeGroup::restrict(selector, &vpa.object)),
        other => other,
    }
}

/// Whether `target` resolves to a selector that matches a pod. `label` returns the pod's labels.
pub fn selects<'a>(
    view: &View,
    target: Workload<'_>,
    label: impl Fn(&str) -> Option<&'a str>,
) -> bool {
    selector(view, target).is_ok_and(|selector| selector.matches_where(label))
        && topmost(view, target).is_ok_and(|top| top == Some(target))
}

/// `start` and the workloads above it, as far as the view has them, ten at most.
pub fn owners(view: &View, start: Workload<'_>) -> BTreeSet<WorkloadRef> {
    let mut seen = BTreeSet::new();
    let mut next = Some(start);
    for _ in 0..=MAX_OWNERS {
        let Some(current) = next else { break };
        seen.insert(current.to_ref());
        next = link(view, current).ok().and_then(|link| link.owner);
    }
    seen
}

/// The scale subresources that the resolution of `target` depends on, as far as they are known yet.
pub fn scales(view: &View, target: Workload<'_>) -> Vec<ScaleKey> {
    owners(view, target)
        .iter()
        .map(Workload::from)
        .filter(|workload| {
            WellKnown::of(workload.api_version, workload.kind).is_none() && !is_node(*workload)
        })
        .filter_map(|workload| ScaleKey::of(workload).ok())
        .collect()
}

fn controller<'a>(view: &'a View, workload: Workload<'_>) -> Result<&'a Controller, TargetError> {
    view.controller_of(workload)
        .map(|controller| &**controller)
        .ok_or_else(|| TargetError::Missing(workload.to_ref()))
}

fn selector<'a>(view: &'a View, workload: Workload<'_>) -> Result<Cow<'a, Selector>, TargetError> {
    if WellKnown::of(workload.api_version, workload.kind).is_some() {
        let selector = controller(view, workload)?.selector.as_ref();
        return selector
            .map(Cow::Borrowed)
            .map_err(|error| TargetError::Malformed(error.to_string()));
    }
    let unhandled = |reason: String, transient| TargetError::Unhandled {
        workload: workload.to_ref(),
        reason,
        transient,
    };
    if is_node(workload) {
        return Err(unhandled(TargetError::Node.to_string(), false));
    }
    let key = ScaleKey::of(workload).map_err(TargetError::Malformed)?;
    match view.scale(&key) {
        None => Err(TargetError::Waiting(key)),
        Some(Scale::Found { selector, .. }) if selector.is_empty() => {
            let Workload {
                namespace, name, ..
            } = workload;
            Err(unhandled(
                format!("resource {namespace}/{name} has an empty selector for scale sub-resource"),
                false,
            ))
        }
        Some(Scale::Found { selector, .. }) => match selector.parse() {
            Ok(selector) => Ok(Cow::Owned(selector)),
            Err(error) => Err(unhandled(ParseSelectorError::to_string(&error), false)),
        },
        Some(Scale::NotFound { reason, .. }) => Err(unhandled(reason.clone(), false)),
        Some(Scale::Failed { reason, transient }) => Err(unhandled(reason.clone(), *transient)),
    }
}

/// Checks that the target is its own topmost controller, including the text of its `apiVersion`.
fn validate(view: &View, target: Workload<'_>) -> Result<(), Resolution> {
    let name = || format!("{}.{}/{}", target.api_version, target.kind, target.name);
    let permanent = |message: String| {
        Err(Resolution::Unsupported {
            message,
            transient: false,
        })
    };
    match topmost(view, target) {
        Ok(Some(top)) if top == target => Ok(()),
        Ok(Some(_)) => permanent(format!(
            "The target {} has a parent controller but it should point to a topmost well-known or scalable controller",
            name()
        )),
        Ok(None) => permanent(format!(
            "Unknown error during checking if target {} is a topmost well-known or scalable controller",
            name()
        )),
        Err(error) => Err(unsupported(error, |error| {
            format!(
                "Error checking if target {} is a topmost well-known or scalable controller: {error}",
                name()
            )
        })),
    }
}

fn unsupported(error: TargetError, message: impl FnOnce(&TargetError) -> String) -> Resolution {
    match error {
        TargetError::Waiting(key) => Resolution::Waiting(key),
        error => Resolution::Unsupported {
            message: message(&error),
            transient: error.is_transient(),
        },
    }
}

/// Maximum number of owners above an object, which end the search for a cycle as well. Operators that
/// own each other's objects make about four.
const MAX_OWNERS: usize = 10;

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

fn is_node(workload: Workload<'_>) -> bool {
    workload.kind == "Node"
}

fn link<'a>(view: &'a View, workload: Workload<'a>) -> Result<Link<'a>, TargetError> {
    let above = |owner: Option<&'a Owner>| Some(owner?.workload(workload.namespace));
    if WellKnown::of(workload.api_version, workload.kind).is_some() {
        let controller = controller(view, workload)?;
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
