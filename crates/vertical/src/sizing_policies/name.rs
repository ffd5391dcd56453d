//! Name of the object for a workload: `plimsoll-KIND-NAME`, so that workloads of two kinds with the
//! same name have different objects.
//!
//! Checkpoints are named `NAME-CONTAINER`, with at most 253 characters, 63 of them for the
//! container. Longer names are cut and end with a hash.

use model::{Workload, fnv1a};
use view::WellKnown;

/// Prefix of every name.
const PREFIX: &str = "plimsoll";
/// Maximum length of a name.
const MAX: usize = 253 - 63 - 1;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 16;

/// The name for a workload. `group` is that of a kind which is not Kubernetes' own: two groups may
/// have a kind of the same name.
pub(super) fn object_name(kind: &str, group: Option<&str>, workload: &str) -> String {
    let kind = kind.to_ascii_lowercase();
    let whole = match group {
        None => format!("{PREFIX}-{kind}-{workload}"),
        Some(group) => format!(
            "{PREFIX}-{kind}.{:0DIGITS$x}-{workload}",
            fnv1a(group.as_bytes())
        ),
    };
    // A name that is as long as a cut one is cut too, so that the two cannot be equal.
    if whole.len() < MAX {
        return whole;
    }
    let kept = whole
        .get(..MAX - DIGITS - 1)
        .unwrap_or_default()
        .trim_end_matches(['-', '.']);
    format!("{kept}-{:0DIGITS$x}", fnv1a(whole.as_bytes()))
}

/// The API group of a workload of another kind than Kubernetes' own.
pub(super) fn custom_group(workload: Workload<'_>) -> Option<&str> {
    if WellKnown::of_kind(workload.kind).is_some() {
        return None;
    }
    let group = workload.api_version.rsplit_once('/');
    Some(group.map_or("", |(group, _)| group))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: &str, workload: &str, expected: &str) {
        assert_eq!(object_name(kind, None, workload), expected);
    }

    #[test]
    fn kinds_keep_workloads_of_one_name_apart() {
        check("Deployment", "web", "plimsoll-deployment-web");
        check("StatefulSet", "web", "plimsoll-statefulset-web");
        let of = |group| object_name("Rollout", Some(group), "web");
        assert_eq!(of("argoproj.io"), "plimsoll-rollout.e8c5a380cfb106f7-web");
        assert_ne!(of("argoproj.io"), of("example.com"));
    }

    #[test]
    fn a_long_name_is_cut_and_stays_its_own() {
        let long = |last: char| "a".repeat(252) + &last.to_string();
        let (one, other) = (
            object_name("Deployment", None, &long('b')),
            object_name("Deployment", None, &long('c')),
        );
        assert_eq!((one.len(), other.len()), (MAX, MAX));
        assert_ne!(one, other);
        let dotted = object_name("Deployment", None, &(".a".repeat(100)));
        assert!(dotted.len() <= MAX && !dotted.contains(".-"), "{dotted}");
    }
}
