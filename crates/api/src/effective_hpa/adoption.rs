//! Annotations by which an `EffectiveHorizontalPodAutoscaler` adopts a `HorizontalPodAutoscaler` and gives it back.

use std::collections::BTreeMap;

use kube::ResourceExt as _;

use super::EffectiveHorizontalPodAutoscaler;

/// On a `HorizontalPodAutoscaler`: name and uid of the `EffectiveHorizontalPodAutoscaler` that adopted it, separated by a slash.
pub const ADOPTED_BY: &str = "plimsoll.dev/adopted-by";
/// On an adopted `HorizontalPodAutoscaler`: the `spec` that it had before, as JSON.
pub const ORIGINAL_SPEC: &str = "plimsoll.dev/original-spec";
/// On an `EffectiveHorizontalPodAutoscaler`: name of the one `HorizontalPodAutoscaler` that is adopted even if Helm, Argo CD or
/// Flux installed it.
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
    /// Reads the annotation; none where it is absent or no name and uid.
    pub fn of(annotations: &'a BTreeMap<String, String>) -> Option<Self> {
        Self::parse(annotations.get(ADOPTED_BY)?)
    }

    /// Reads the value of the annotation; none where it is no name and uid.
    pub fn parse(adopted_by: &'a str) -> Option<Self> {
        let (name, uid) = adopted_by.split_once('/')?;
        (!name.is_empty() && !uid.is_empty()).then_some(Self { name, uid })
    }
}

/// Returns the value of [`ADOPTED_BY`] that means this object.
pub fn adopted_by(object: &EffectiveHorizontalPodAutoscaler) -> String {
    format!("{}/{}", object.name_any(), object.uid().unwrap_or_default())
}
