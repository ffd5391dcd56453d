//! The size of a pod, and the ways to it.

pub(crate) mod left_out;
pub(crate) mod memory_restore;
pub(crate) mod oom_kill;
pub(crate) mod pod_size;
pub(crate) mod proven_acts;
pub(crate) mod qos;
pub(crate) mod resize_patch;
pub(crate) mod resize_status;
pub(crate) mod rolling_update;
pub(crate) mod size_change;
pub(crate) mod startup_boost;
pub(crate) mod update_method;

use std::collections::BTreeSet;

use api::pod_annotations::OBSERVED_CONTAINERS;
use view::Running;

const MAX_NAME: usize = 63;

/// Whether containers of a pod count: those in its annotation, or all if that is missing or invalid, or names
/// the containers of a pod that is sized as a whole.
/// Containers that were injected after the webhook sized the pod are not sized. Source: upstream
/// `pkg/utils/annotations/vpa_observed_containers.go`.
pub(crate) fn observed_containers(running: &Running) -> impl Fn(&str) -> bool {
    let annotations = Some(&running.annotations).filter(|_| running.whole_of.is_none());
    let annotation = annotations.and_then(|all| all.get(OBSERVED_CONTAINERS));
    let observed = annotation.and_then(|text| parse(text));
    move |container| (observed.as_ref()).is_none_or(|names| names.contains(container))
}

fn parse(text: &str) -> Option<BTreeSet<&str>> {
    if text.is_empty() {
        return Some(BTreeSet::new());
    }
    text.split(", ")
        .map(|name| is_label(name).then_some(name))
        .collect()
}

/// Whether this is a DNS label (RFC 1123), as names of containers are.
fn is_label(name: &str) -> bool {
    let inner = |it: char| it.is_ascii_lowercase() || it.is_ascii_digit();
    name.len() <= MAX_NAME
        && name.starts_with(inner)
        && name.ends_with(inner)
        && name.chars().all(|it| inner(it) || it == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|names| names.iter().copied().collect());
        assert_eq!(parse(text), expected, "{text:?}");
    }

    #[test]
    fn only_a_list_of_names_counts() {
        check("", Some(&[]));
        check("app", Some(&["app"]));
        check("app, side-car", Some(&["app", "side-car"]));
        check("app,side", None);
        check("app, ", None);
        check("App", None);
        check("-app", None);
        check(&"a".repeat(64), None);
    }
}
