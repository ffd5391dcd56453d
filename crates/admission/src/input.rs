//! The arguments of a decision, in addition to the review.

use model::{Quantity, Recommendation};
use view::{View, Vpa};

/// Looks up the recommendation that replaces the one in the status of a VPA object, if any.
pub type FeedLookup<'a> = dyn Fn(&Vpa) -> Option<&'a Recommendation> + 'a;

#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster as last seen: VPA objects, the controllers of pods, and `LimitRange`s.
    pub view: &'a View,
    /// The recommendations of the feed; `None` without a feed.
    pub feed: Option<&'a FeedLookup<'a>>,
    pub config: &'a AdmissionConfig,
}

/// The flags about decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionConfig {
    pub gates: Gates,
    /// Maximum CPU request of a startup boost; `None` for no maximum.
    pub max_cpu_boost: Option<Quantity>,
    /// Whether init containers with `restartPolicy: Always` are sized.
    pub native_sidecars: bool,
    /// Whether the view has nodes, whose labels are copied to pods of node groups.
    pub node_groups: bool,
}

/// Feature gates, off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gates {
    /// `CPUStartupBoost`: startup boosts are accepted and applied.
    pub cpu_startup_boost: bool,
    /// `InPlace`: the update mode `InPlace` is accepted.
    pub in_place: bool,
    /// `PerVPAConfig`: memory options of single VPA objects are accepted.
    pub per_vpa_config: bool,
}
