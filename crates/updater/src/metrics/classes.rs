//! The size class and update mode of VPA objects, which are labels of metrics.
//!
//! A series stays until its VPA object is deleted, whatever becomes of the number of its pods.

use std::collections::{BTreeSet, HashMap};

use api::vpa::UpdateMode;
use view::{ObjectKey, Vpa};

/// The largest power of two in the label `vpa_size_log2`.
const LARGEST: u32 = 20;
/// Values of the label whose series upstream creates at the start.
pub(super) const SIZES: [&str; LARGEST as usize] = [
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16",
    "17", "18", "19",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    pub(super) size: u32,
    pub(super) mode: &'static str,
}

/// The labels of VPA objects: the last ones, all that they have had, and the objects whose pods
/// were evicted or resized in this round.
#[derive(Debug, Default)]
pub(crate) struct SizeClasses {
    pub(super) of: HashMap<ObjectKey, Class>,
    pub(super) known: HashMap<ObjectKey, BTreeSet<Class>>,
    pub(super) evicted: BTreeSet<ObjectKey>,
    pub(super) resized: BTreeSet<ObjectKey>,
}

/// The logarithm to base two of the number of pods, rounded down.
pub(super) fn size_class(pods: usize) -> u32 {
    pods.checked_ilog2().unwrap_or(0).min(LARGEST)
}

pub(super) fn mode(vpa: &Vpa) -> &'static str {
    let policy = vpa.object.spec.update_policy.as_ref();
    match policy.and_then(|policy| policy.update_mode) {
        Some(UpdateMode::Off) => "Off",
        Some(UpdateMode::Initial) => "Initial",
        Some(UpdateMode::InPlaceOrRecreate) => "InPlaceOrRecreate",
        Some(UpdateMode::InPlace) => "InPlace",
        Some(UpdateMode::Auto) => "Auto",
        None | Some(UpdateMode::Recreate) => "Recreate",
    }
}
