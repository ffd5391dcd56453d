//! Annotations for the adoption of a `HorizontalPodAutoscaler` by an EHPA and its release.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::EffectiveHorizontalPodAutoscaler;

/// Annotation that Plimsoll writes on an HPA: name and UID of the EHPA that adopted it, separated
/// by a slash.
pub const ADOPTED_BY: &str = "plimsoll.dev/adopted-by";
/// Annotation that Plimsoll writes on an HPA: the spec before the adoption, as JSON.
pub const ORIGINAL_SPEC: &str = "plimsoll.dev/original-spec";
/// Annotation that users set on an EHPA: name of an HPA that it adopts although Helm, Argo CD or
/// Flux installed it; see docs/horizontal.md#an-existing-hpa.
pub const ADOPT: &str = "plimsoll.dev/adopt-hpa";

/// EHPA that adopted an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopter<'a> {
    /// Name of the EHPA.
    pub name: &'a str,
    /// UID of the EHPA. A recreated EHPA of the same name is not the adopter.
    pub uid: &'a str,
}

impl<'a> Adopter<'a> {
    /// Reads the annotation; `None` if it is absent or does not [parse](Self::parse).
    pub fn of(annotations: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::parse(annotations.get(ADOPTED_BY)?)
    }

    /// Parses the value of the annotation; `None` unless name and UID are valid and have at most
    /// 253 characters each.
    pub fn parse(adopted_by: &'a str) -> Option<Self> {
        let (name, uid) = adopted_by.split_once('/')?;
        (is_name(name) && is_uid(uid)).then_some(Self { name, uid })
    }
}

/// Maximum length of an object's name.
const MOST_CHARACTERS: usize = 253;

/// Whether the API server accepts this as a name: labels of lower-case letters, digits and hyphens,
/// separated by dots.
fn is_name(text: &str) -> bool {
    let is_end = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        is_end(bytes.first())
            && is_end(bytes.last())
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= MOST_CHARACTERS && text.split('.').all(is_label)
}

fn is_uid(text: &str) -> bool {
    let is_of_uid = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=MOST_CHARACTERS).contains(&text.len()) && text.bytes().all(is_of_uid)
}

/// The value of [`ADOPTED_BY`] for this object.
pub fn adopted_by(object: &EffectiveHorizontalPodAutoscaler) -> String {
    format!("{}/{}", object.name_any(), object.uid().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adopter_has_a_name_and_a_uid_that_an_object_can_have() {
        let longest = "a".repeat(253);
        for (name, uid) in [
            ("web", "u1"),
            ("a.b-c.9", "0c5a7d24-1b52-4d62-9f4d-6c4f3a6f0c55"),
            (longest.as_str(), "u"),
        ] {
            assert_eq!(
                Adopter::parse(&format!("{name}/{uid}")),
                Some(Adopter { name, uid })
            );
        }
        let too_long = format!("a{longest}/u1");
        let refused = [
            "",
            "web",
            "/u1",
            "web/",
            "Web/u1",
            "a b/u1",
            "-a/u1",
            "a./u1",
            "a..b/u1",
            "web/u1/u2",
            "web/u 1",
        ];
        for text in refused.into_iter().chain([too_long.as_str()]) {
            assert_eq!(Adopter::parse(text), None, "{text}");
        }
    }
}
