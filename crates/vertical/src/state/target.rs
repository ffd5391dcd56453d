//! What an object's target came down to: the pods that it selects.

use std::collections::BTreeMap;

use model::Selector;
use view::ObjectKey;
use view::target::Resolution;

use super::Tracked;

/// What its target came down to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Target {
    /// These pods; and what stands in the way of more, if anything does.
    Known {
        selector: Selector,
        unsupported: Option<String>,
    },
    /// Not known yet; nothing is decided.
    Unknown,
}

/// What a target comes down to, given what it came down to before. A failure that may pass leaves
/// the pods as they were.
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

/// The selectors that are known, with their namespaces.
pub(super) fn selectors(
    autoscalers: &BTreeMap<ObjectKey, Tracked>,
) -> impl Iterator<Item = (&str, &Selector)> {
    autoscalers
        .iter()
        .filter_map(|(key, tracked)| match &tracked.target {
            Target::Known { selector, .. } => Some((key.namespace.as_str(), selector)),
            Target::Unknown => None,
        })
}
