//! What is known when a review is answered.

use model::{Quantity, Recommendation};
use view::{Autoscaler, View};

/// Looks up the recommendation that replaces the one in the status of a VPA object, if any.
pub type FeedLookup<'a> = dyn Fn(&Autoscaler) -> Option<&'a Recommendation> + 'a;

/// All that an answer depends on, besides the review itself.
#[derive(Clone, Copy)]
pub struct Input<'a> {
    /// The cluster as last seen: VPA objects, the controllers above pods, and limit ranges.
    pub view: &'a View,
    /// The recommendations of the feed; `None` without a feed.
    pub heard: Option<&'a FeedLookup<'a>>,
    /// What the command line says.
    pub config: &'a AdmissionConfig,
}

/// What the command line says about reviews.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionConfig {
    /// What is accepted of VPA objects, and heeded.
    pub gates: Gates,
    /// The most CPU that a startup boost gives; none sets no limit.
    pub max_cpu_boost: Option<Quantity>,
    /// Size init containers that restart always, as well.
    pub native_sidecars: bool,
}

/// Features that are off unless somebody asks for them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gates {
    /// `CPUStartupBoost`: boosts are accepted and given.
    pub cpu_startup_boost: bool,
    /// `InPlace`: the update mode of this name is accepted.
    pub in_place: bool,
    /// `PerVPAConfig`: objects may have memory rules of their own.
    pub per_vpa_config: bool,
}
