//! Every flag that upstream's updater 1.8.1 knows, with its default: a Deployment that was written
//! for it starts ours, and means the same.

use runtime::upstream_flags;

use super::tests::parse;
use super::{Args, PROGRAM};

/// Those that not all programs have. Source: upstream `docs/flags.md` and `pkg/updater/config`.
const OWN: [(&str, &str); 16] = [
    ("updater-interval", "1m0s"),
    ("concurrent-cpu-startup-boost-syncs", "1"),
    ("min-replicas", "2"),
    ("eviction-tolerance", "0.5"),
    ("eviction-rate-limit", "-1"),
    ("eviction-rate-burst", "1"),
    ("address", ":8943"),
    ("use-admission-controller-status", "true"),
    ("in-place-skip-disruption-budget", "false"),
    (
        "admission-controller-status-lease-name",
        "vpa-admission-controller",
    ),
    ("admission-controller-status-lease-namespace", ""),
    ("admission-controller-status-lease-timeout", "1m0s"),
    ("pod-update-threshold", "0.1"),
    (
        "in-recommendation-bounds-eviction-lifetime-threshold",
        "12h0m0s",
    ),
    ("evict-after-oom-threshold", "10m0s"),
    ("leader-elect-resource-name", "vpa-updater"),
];

#[test]
fn every_flag_of_upstream_is_known_and_has_upstreams_default() {
    upstream_flags::check_defaults::<Args>(&PROGRAM, &OWN);
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
        assert_eq!(args.common.ignored_flags.iter().count(), 0, "{line}");
        assert!(args.rollout.settings().is_ok(), "{line}");
    }
}
