//! What the updater's flags say about which pods are changed, and how.

use std::time::Duration;

/// Settings of decisions. The defaults are upstream's.
// Each is one flag.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Workloads with fewer live pods are left alone, unless their VPA object says otherwise
    /// (`--min-replicas`).
    pub min_replicas: i64,
    /// The share of a workload's pods that may be away at a time (`--eviction-tolerance`).
    pub eviction_tolerance: f64,
    /// Within the recommended bounds, pods are changed only for at least this sum of relative
    /// differences (`--pod-update-threshold`).
    pub update_threshold: f64,
    /// Within the recommended bounds, pods are changed only when they are at least this old
    /// (`--in-recommendation-bounds-eviction-lifetime-threshold`).
    pub lifetime_threshold: Duration,
    /// A container that was killed for want of memory within this time of its start makes its pod a
    /// candidate (`--evict-after-oom-threshold`).
    pub quick_oom_threshold: Duration,
    /// For how long such a kill counts; upstream: for ever.
    pub quick_oom_retention: Option<Duration>,
    /// Pods wait for this long after a change of their VPA object, or of the limit ranges, quotas
    /// and disruption budgets of its namespace; upstream: no time (`--settling-time`).
    pub settling_time: Duration,
    /// Resizes that restart nothing need no budget (`--in-place-skip-disruption-budget`).
    pub in_place_skip_disruption_budget: bool,
    /// Native sidecars are sized too, as the webhook does with the same flag (`--native-sidecars`).
    pub native_sidecars: bool,
    /// What is done for pods that their nodes have no room for.
    pub preemption: PreemptionMode,
    /// The feature gate `InPlace`.
    pub in_place: bool,
    /// The feature gate `CPUStartupBoost`.
    pub startup_boost: bool,
    /// The feature gate `PerVPAConfig`.
    pub per_vpa_config: bool,
}

/// What is done for pods that their nodes have no room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PreemptionMode {
    /// Nothing.
    #[default]
    Off,
    /// It is said what would be done.
    DryRun,
    /// Neighbours are evicted, or the pod itself.
    On,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            min_replicas: 2,
            eviction_tolerance: 0.5,
            update_threshold: 0.1,
            lifetime_threshold: Duration::from_hours(12),
            quick_oom_threshold: Duration::from_mins(10),
            quick_oom_retention: Some(Duration::from_hours(12)),
            settling_time: Duration::from_secs(10),
            in_place_skip_disruption_budget: false,
            native_sidecars: false,
            preemption: PreemptionMode::Off,
            in_place: false,
            startup_boost: false,
            per_vpa_config: false,
        }
    }
}
