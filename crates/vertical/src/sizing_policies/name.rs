//! Name of the object for a workload: `plimsoll-KIND-NAME`, so that workloads of two kinds with the
//! same name have different objects.
//!
//! Checkpoints are named `NAME-CONTAINER`, with at most 253 characters, 63 of them for the
//! container. Longer names are cut and end with a hash.

use model::Workload;
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
        Some(group) => format!("{PREFIX}-{kind}.{:0DIGITS$x}-{workload}", fnv1a(group)),
    };
    // A name that is as long as a cut one is cut too, so that the two cannot be equal.
    if whole.len() < MAX {
        return whole;
    }
    let kept = whole
        .get(..MAX - DIGITS - 1)
        .unwrap_or_default()
        .trim_end_matches(['-', '.']);
    format!("{kept}-{:0DIGITS$x}", fnv1a(&whole))
}

/// The API group of a workload of another kind than Kubernetes' own.
pub(super) fn custom_group(workload: Workload<'_>) -> Option<&str> {
    if WellKnown::of_kind(workload.kind).is_some() {
        return None;
    }
    let group = workload.api_version.rsplit_once('/');
    Some(group.map_or("", |(group, _)| group))
}

/// 64-bit FNV-1a, equal on every machine and in every version.
pub(crate) fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
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

    #[test]
    fn hashes_are_those_of_the_published_function() {
        assert_eq!(fnv1a(""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a("a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }
}
