//! The updater's flags: upstream's, with their names and defaults, and our own.

use anyhow::Context as _;
use rollout::{PausePolicy, Settings};
use runtime::config_file::ConfigArgs;
use runtime::duration::positive_duration;
use runtime::feature_gates::{CPU_STARTUP_BOOST, IN_PLACE, NATIVE_SIDECAR, PER_VPA_CONFIG};
use runtime::ignored_flags::IgnoredFlags;
use runtime::{
    CommonArgs, FeatureGates, GoDuration, KlogArgs, LeaderElectionArgs, NamespaceArgs, Program,
};
use view::ObjectKey;

/// The program's name, version, and defaults of common flags.
pub const PROGRAM: Program = Program {
    name: "updater",
    version: env!("CARGO_PKG_VERSION"),
    defaults: &[
        ("address", ":8943"),
        ("leader-elect-resource-name", "vpa-updater"),
    ],
};
/// While a `ConfigMap` of this name exists in the updater's namespace, all evictions and resizes are
/// paused. `plimsoll stop` creates it.
const STOP_CONFIG_MAP: &str = "plimsoll-stop";
/// Default of `--concurrent-cpu-startup-boost-syncs`.
const DEFAULT_BOOST_SYNCS: i64 = 1;

/// Applies VPA recommendations to running pods, in place or by eviction, within disruption budgets.
#[derive(Debug, Clone, clap::Parser)]
pub struct Args {
    #[command(flatten)]
    pub common: CommonArgs,
    #[command(flatten)]
    pub klog: KlogArgs,
    #[command(flatten)]
    pub ignored_flags: IgnoredFlags,
    #[command(flatten)]
    pub election: LeaderElectionArgs,
    #[command(flatten)]
    pub rollout: RolloutArgs,
    #[command(flatten)]
    pub config: ConfigArgs,
    #[command(flatten)]
    pub rate_limits: RateLimitArgs,
    #[command(flatten)]
    pub pause: PauseArgs,
    /// Interval between full passes over all VPA objects. Changes are acted on at once.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub updater_interval: GoDuration,
    #[command(flatten)]
    pub namespaces: NamespaceArgs,
}

/// Flags of decisions: which pods are updated, and how.
#[derive(Debug, Clone, clap::Args)]
pub struct RolloutArgs {
    /// Minimum number of live pods of a workload for its pods to be updated. The `minReplicas` of a VPA
    /// object takes precedence.
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    pub min_replicas: i64,
    /// Fraction of a workload's pods that may be unavailable at the same time.
    #[arg(long, default_value_t = 0.5, value_parser = fraction, value_name = "FRACTION")]
    pub eviction_tolerance: f64,
    /// Minimum difference for an update within the recommended bounds: the sum over resources of the
    /// difference between target and request, relative to the request.
    #[arg(long, default_value_t = 0.1, value_name = "FRACTION")]
    pub pod_update_threshold: f64,
    /// Minimum age of a pod for an update within the recommended bounds.
    #[arg(long, default_value = "12h0m0s", value_name = "DURATION")]
    pub in_recommendation_bounds_eviction_lifetime_threshold: GoDuration,
    /// A pod is updated if a container is OOM killed within this time after its start, for as long after
    /// the kill.
    #[arg(long, default_value = "10m0s", value_name = "DURATION")]
    pub evict_after_oom_threshold: GoDuration,
    /// Resize pods in place without regard to the eviction tolerance if no resize policy restarts a
    /// container.
    #[arg(long)]
    pub in_place_skip_disruption_budget: bool,
    /// Feature gates as Name=true|false, separated by commas: `CPUStartupBoost`, `InPlace`,
    /// `PerVPAConfig`, `NativeSidecar`.
    #[arg(long, default_value = "", value_name = "GATES")]
    pub feature_gates: String,
}

/// Flags of rate limits.
#[derive(Debug, Clone, clap::Args)]
pub struct RateLimitArgs {
    /// Evictions per second. In-place resizes have a separate limit of the same rate. 0 or less means
    /// no limit.
    #[arg(long, default_value_t = -1.0, value_name = "EVICTIONS")]
    pub eviction_rate_limit: f64,
    /// Burst of --eviction-rate-limit.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), value_name = "EVICTIONS")]
    pub eviction_rate_burst: u32,
    /// One limit of concurrent actions has the ends of startup boosts too, so this has no effect.
    #[arg(long, default_value_t = DEFAULT_BOOST_SYNCS, value_name = "COUNT")]
    pub concurrent_cpu_startup_boost_syncs: i64,
}

/// Flags of pauses of all evictions and resizes.
#[derive(Debug, Clone, clap::Args)]
pub struct PauseArgs {
    /// Pause all evictions and resizes while the webhook's Lease is expired: evicted pods would come
    /// back with their old size.
    #[arg(long, default_value_t = true)]
    pub use_admission_controller_status: bool,
    /// Name of the webhook's Lease.
    #[arg(long, default_value = "vpa-admission-controller", value_name = "NAME")]
    pub admission_controller_status_lease_name: String,
    /// Namespace of the webhook's Lease. Empty means the environment variable NAMESPACE, and
    /// without that kube-system.
    #[arg(long, default_value = "", value_name = "NAMESPACE")]
    pub admission_controller_status_lease_namespace: String,
    /// Time after the last renewal at which the webhook's Lease expires.
    #[arg(long, default_value = "1m0s", value_name = "DURATION", value_parser = positive_duration)]
    pub admission_controller_status_lease_timeout: GoDuration,
}

impl RolloutArgs {
    /// The settings of decisions; an error for an unknown feature gate.
    pub fn settings(self) -> anyhow::Result<Settings> {
        let gates = FeatureGates::parse(&self.feature_gates).context("--feature-gates")?;
        Ok(Settings {
            min_replicas: self.min_replicas,
            eviction_tolerance: self.eviction_tolerance,
            update_threshold: self.pod_update_threshold,
            lifetime_threshold: self.in_recommendation_bounds_eviction_lifetime_threshold.0,
            quick_oom_threshold: self.evict_after_oom_threshold.0,
            in_place_skip_disruption_budget: self.in_place_skip_disruption_budget,
            native_sidecars: gates.enabled(NATIVE_SIDECAR),
            in_place: gates.enabled(IN_PLACE),
            startup_boost: gates.enabled(CPU_STARTUP_BOOST),
            per_vpa_config: gates.enabled(PER_VPA_CONFIG),
            ..Settings::default()
        })
    }
}

impl RateLimitArgs {
    /// The rate limit of evictions.
    pub fn limit(&self) -> Option<(f64, u32)> {
        if self.concurrent_cpu_startup_boost_syncs != DEFAULT_BOOST_SYNCS {
            tracing::warn!("--concurrent-cpu-startup-boost-syncs has no effect");
        }
        let rate = self.eviction_rate_limit;
        let is_limited = rate.is_finite() && rate > 0.0;
        is_limited.then_some((rate, self.eviction_rate_burst))
    }
}

impl PauseArgs {
    /// The pause policy with all names filled in. `own_namespace` is the updater's.
    pub fn policy(self, own_namespace: &str) -> PausePolicy {
        let namespace = match self.admission_controller_status_lease_namespace.as_str() {
            "" => own_namespace,
            namespace => namespace,
        };
        let lease = ObjectKey::new(namespace, self.admission_controller_status_lease_name);
        let timeout = self.admission_controller_status_lease_timeout.0;
        PausePolicy {
            webhook_lease: (self.use_admission_controller_status).then_some((lease, timeout)),
            stop_config_map: Some(ObjectKey::new(own_namespace, STOP_CONFIG_MAP)),
        }
    }
}

/// Parses a number from 0 to 1.
fn fraction(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "expected a number".to_owned())?;
    let value = Some(value).filter(|value| (0.0..=1.0).contains(value));
    value.ok_or_else(|| "must be from 0 to 1".to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn parse(line: &str) -> Result<Args, String> {
        PROGRAM.parse_line(line)
    }

    fn check(line: &str, change: impl FnOnce(&mut Settings)) {
        let mut expected = Settings::default();
        change(&mut expected);
        let args = parse(line).expect(line);
        assert_eq!(args.rollout.settings().expect(line), expected, "{line}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        PROGRAM.command::<Args>().debug_assert();
    }

    #[test]
    fn each_flag_reaches_its_setting() {
        check("", |_| ());
        check("--min-replicas=1", |settings| settings.min_replicas = 1);
        check("--eviction-tolerance=0.25", |settings| {
            settings.eviction_tolerance = 0.25;
        });
        check("--pod-update-threshold=0.2", |settings| {
            settings.update_threshold = 0.2;
        });
        check(
            "--in-recommendation-bounds-eviction-lifetime-threshold=1h",
            |settings| {
                settings.lifetime_threshold = Duration::from_hours(1);
            },
        );
        check("--evict-after-oom-threshold=1m", |settings| {
            settings.quick_oom_threshold = Duration::from_mins(1);
        });
        check("--in-place-skip-disruption-budget", |settings| {
            settings.in_place_skip_disruption_budget = true;
        });
        check("--feature-gates=NativeSidecar=true", |settings| {
            settings.native_sidecars = true;
        });
        check("--feature-gates=InPlace=true", |settings| {
            settings.in_place = true;
        });
        check("--feature-gates=CPUStartupBoost=true", |settings| {
            settings.startup_boost = true;
        });
        check("--feature-gates=PerVPAConfig=true", |settings| {
            settings.per_vpa_config = true;
        });
    }

    #[test]
    fn rates_of_zero_or_less_mean_no_limit() {
        let limit = |line: &str| parse(line).expect(line).rate_limits.limit();
        assert_eq!(limit(""), None);
        assert_eq!(limit("--eviction-rate-limit 0"), None);
        let some = limit("--eviction-rate-limit=2.5 --eviction-rate-burst=3");
        assert_eq!(some, Some((2.5, 3)));
    }

    #[test]
    fn lease_and_stop_switch_are_in_the_namespace_of_the_updater() {
        let policy = |line: &str, own: &str| parse(line).expect(line).pause.policy(own);
        let stop = |namespace: &str| Some(ObjectKey::new(namespace, "plimsoll-stop"));
        let lease = |namespace: &str, name: &str, seconds| {
            let timeout = Duration::from_secs(seconds);
            Some((ObjectKey::new(namespace, name), timeout))
        };
        let found = policy("", "plimsoll-system");
        let expected = lease("plimsoll-system", "vpa-admission-controller", 60);
        assert_eq!(found.webhook_lease, expected);
        assert_eq!(found.stop_config_map, stop("plimsoll-system"));
        let found = policy(
            "--admission-controller-status-lease-namespace=a --admission-controller-status-lease-name=b \
             --admission-controller-status-lease-timeout=5s",
            "x",
        );
        assert_eq!(found.webhook_lease, lease("a", "b", 5));
        assert_eq!(found.stop_config_map, stop("x"));
        let none = policy("--use-admission-controller-status=false", "x");
        assert_eq!(none.webhook_lease, None);
    }

    #[test]
    fn invalid_values_are_refused() {
        for line in [
            "--updater-interval=0s",
            "--eviction-tolerance=1.5",
            "--eviction-tolerance=NaN",
            "--eviction-rate-burst=0",
            "--admission-controller-status-lease-timeout=0s",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(
            parse("--feature-gates=Nonsense=true")
                .expect("a text")
                .rollout
                .settings()
                .is_err()
        );
        let both =
            parse("--vpa-object-namespace=a --ignored-vpa-object-namespaces=b").expect("two texts");
        assert!(both.namespaces.namespaces().is_err());
    }

    #[test]
    fn the_arguments_of_upstreams_manifests_start_the_updater() {
        for line in [
            // deploy/updater-deployment.yaml, its variant for high availability, and the Helm chart's.
            "--v=4 --stderrthreshold=info",
            "--v=4 --stderrthreshold=info --leader-elect=true --use-admission-controller-status=true",
            "--leader-elect=true --leader-elect-resource-name=vpa-updater-lease --in-place-skip-disruption-budget=true",
            "--updater-interval=10s --min-replicas=1 --eviction-rate-limit -1 --feature-gates=InPlace=true,CPUStartupBoost=true",
        ] {
            let args = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            assert_eq!(args.ignored_flags.iter().count(), 0, "{line}");
            assert!(args.rollout.settings().is_ok(), "{line}");
        }
    }
}
