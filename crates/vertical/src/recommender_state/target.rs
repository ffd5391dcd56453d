//! Resolved target of an object: the pods that it selects.

use std::collections::BTreeMap;

use model::Selector;
use view::ObjectKey;
use view::target::Resolution;

use super::Tracked;

/// Resolved target.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    /// The selector of the pods, and the problem of the target, if any.
    Known {
        selector: Selector,
        unsupported: Option<String>,
    },
    /// Not resolved yet; nothing is decided.
    Unknown,
}

/// Resolves a target. After a transient failure the pods stay as before.
pub(super) fn target(resolution: Resolution, before: Option<Target>) -> Target {
    match resolution {
        Resolution::Pods(selector) => Target::Known {
            selector,
            unsupported: None,
        },
        Resolution::Waiting(_) => before.unwrap_or(Target::Unknown),
        Resolution::Unsupported { message, transient } => {
            let kept = match before {
                Some(Target::Known { selector, .. }) if transient => selector,
                _ => Selector::nothing(),
            };
            Target::Known {
                selector: kept,
                unsupported: Some(message),
            }
        }
    }
}

/// The selectors of resolved targets, with their namespaces.
pub(super) fn selectors(
    vpas: &BTreeMap<ObjectKey, Tracked>,
) -> impl Iterator<Item = (&str, &Selector)> {
    vpas.iter()
        .filter_map(|(key, tracked)| match &tracked.target {
            Target::Known { selector, .. } => Some((key.namespace.as_str(), selector)),
            Target::Unknown => None,
        })
}
