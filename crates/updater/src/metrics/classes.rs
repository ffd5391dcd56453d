//! What the labels of an object are, and which labels objects have had: series stay until their
//! object goes.

use std::collections::{BTreeSet, HashMap};

use api::vpa::UpdateMode;
use view::ObjectKey;

/// Objects are counted by the number of their pods, as a power of two, up to this.
pub(super) const LARGEST: u32 = 20;

/// What the labels of an object are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) size: u32,
    pub(super) mode: &'static str,
}

/// The labels of objects when they last had pods, those that they ever had, and what was done to
/// their pods since the round began.
#[derive(Debug, Default)]
pub(crate) struct SizeClasses {
    pub(super) of: HashMap<ObjectKey, Class>,
    pub(super) known: HashMap<ObjectKey, BTreeSet<Class>>,
    pub(super) evicted: BTreeSet<ObjectKey>,
    pub(super) resized: BTreeSet<ObjectKey>,
}

/// The logarithm to base two, rounded down.
pub(super) fn size_class(pods: usize) -> u32 {
    pods.checked_ilog2().unwrap_or(0).min(LARGEST)
}

pub(super) fn mode(mode: Option<UpdateMode>) -> &'static str {
    match mode {
        Some(UpdateMode::Off) => "Off",
        Some(UpdateMode::Initial) => "Initial",
        Some(UpdateMode::InPlaceOrRecreate) => "InPlaceOrRecreate",
        Some(UpdateMode::InPlace) => "InPlace",
        Some(UpdateMode::Auto) => "Auto",
        None | Some(UpdateMode::Recreate) => "Recreate",
    }
}
