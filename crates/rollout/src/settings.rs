//! Settings of decisions, of flags and of `--config` of the updater.

use std::time::Duration;

use placement::{HotNodeConfig, Policy};
use serde::Deserialize;

/// Settings of decisions. The defaults are upstream's, and our own for flags that upstream lacks.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Minimum number of live pods of a workload (`--min-replicas`). The `minReplicas` of a VPA
    /// object takes precedence.
    pub min_replicas: i64,
    /// Fraction of a workload's pods that may be unavailable (`--eviction-tolerance`).
    pub eviction_tolerance: f64,
    /// Minimum sum of relative differences for an update within the bounds
    /// (`--pod-update-threshold`).
    pub update_threshold: f64,
    /// Minimum age of a pod for an update within the bounds
    /// (`--in-recommendation-bounds-eviction-lifetime-threshold`).
    pub lifetime_threshold: Duration,
    /// Longest time from a container's start to an OOM kill that makes its pod a candidate, and the time
    /// for which the kill counts (`--evict-after-oom-threshold`).
    pub quick_oom_threshold: Duration,
    /// Delay after a change of a VPA object or of its namespace's constraints (`settlingTime`).
    /// Upstream has none.
    pub settling_time: Duration,
    /// Whether resizes that restart no container disregard the eviction tolerance
    /// (`--in-place-skip-disruption-budget`).
    pub in_place_skip_disruption_budget: bool,
    /// Whether the number of restarts in a minute is limited (`evictionPace`). Upstream has no limit.
    pub paces_restarts: bool,
    /// Waves of new requests; `None` without (`evictionPace`). Upstream has none.
    pub waves: Option<WaveSettings>,
    /// Whether native sidecars are sized (gate `NativeSidecar`).
    pub native_sidecars: bool,
    /// Preemption for deferred resizes (`makeRoom`).
    pub preemption: PreemptionMode,
    /// Rebalancing; `None` without (`rebalancing`).
    pub rebalancing: Option<RebalancingSettings>,
    /// Whether Deployments may get rolling updates in place of evictions (`rollingUpdates`).
    pub rolling_updates: bool,
    /// The feature gate `InPlace`.
    pub in_place: bool,
    /// The feature gate `CPUStartupBoost`.
    pub startup_boost: bool,
    /// The feature gate `PerVPAConfig`.
    pub per_vpa_config: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RebalancingSettings {
    /// Thresholds of hot nodes (`hotPercent`, `hotFor`).
    pub hot_nodes: HotNodeConfig,
    /// Utilization and requested share below which a node is emptied, in percent; 0 empties none
    /// (`fragmentedPercent`).
    pub fragmented_percent: f64,
    /// The policy by which nodes are better for a pod (`policy`), that of the extender. Not `Peaks`.
    pub policy: Policy,
    pub moves_per_minute: usize,
}

/// Settings of waves (`waves`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaveSettings {
    /// The time after which a pod that is well proves its requests (`provenAfter`).
    pub proven_after: Duration,
    /// Whether the health of pods is read from Prometheus (`prometheus`).
    pub reads_health: bool,
}

impl Default for WaveSettings {
    fn default() -> Self {
        Self {
            proven_after: Duration::from_mins(1),
            reads_health: false,
        }
    }
}

/// Preemption for resizes that the kubelet deferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionMode {
    #[default]
    Off,
    /// Preemptions are planned, without evictions.
    DryRun,
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
            settling_time: Duration::from_secs(10),
            in_place_skip_disruption_budget: false,
            paces_restarts: false,
            waves: None,
            native_sidecars: false,
            preemption: PreemptionMode::Off,
            rebalancing: None,
            rolling_updates: false,
            in_place: false,
            startup_boost: false,
            per_vpa_config: false,
        }
    }
}
