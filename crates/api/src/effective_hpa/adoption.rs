//! Annotations by which an `EffectiveHorizontalPodAutoscaler` adopts a `HorizontalPodAutoscaler`
//! and gives it back.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::EffectiveHorizontalPodAutoscaler;

/// On a `HorizontalPodAutoscaler`: name and uid of the `EffectiveHorizontalPodAutoscaler` that
/// adopted it, separated by a slash.
pub const ADOPTED_BY: &str = "plimsoll.dev/adopted-by";
/// On an adopted `HorizontalPodAutoscaler`: the `spec` that it had before, as JSON.
pub const ORIGINAL_SPEC: &str = "plimsoll.dev/original-spec";
/// On an `EffectiveHorizontalPodAutoscaler`: name of the one `HorizontalPodAutoscaler` that is
/// adopted even if Helm, Argo CD or Flux installed it.
pub const ADOPT: &str = "plimsoll.dev/adopt-hpa";

/// The `EffectiveHorizontalPodAutoscaler` that adopted an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its uid: an object of the same name made later is not the adopter.
    pub uid: &'a str,
}

impl<'a> Adopter<'a> {
    /// Reads the annotation; none where it is absent or does not [parse](Self::parse).
    pub fn of(annotations: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::parse(annotations.get(ADOPTED_BY)?)
    }

    /// Reads the value of the annotation; none where it is no valid name and uid of at most 253
    /// characters each.
    pub fn parse(adopted_by: &'a str) -> Option<Self> {
        let (name, uid) = adopted_by.split_once('/')?;
        (is_name(name) && is_uid(uid)).then_some(Self { name, uid })
    }
}

/// The most characters of the name of an object.
const MOST_CHARACTERS: usize = 253;

/// Whether the API server takes this for the name of an object: labels of lower case letters,
/// digits and hyphens, with dots between them.
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

/// Returns the value of [`ADOPTED_BY`] that means this object.
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
