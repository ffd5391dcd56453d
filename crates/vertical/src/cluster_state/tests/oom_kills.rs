//! OOM kills and per-VPA rules for them.

use crate::{ClusterState, VpaSpec};
use jiff::Timestamp;
use model::{ContainerRecommendation, Memory};
use proptest::prelude::*;
use sizing::{Config, ContainerPolicy};

use super::fixture::{
    MIB, WEB, add_hour, container, days, id, list, minutes, pod, selecting, start, web,
    without_pods,
};

/// OOM-kills the container at 100Mi and returns the resulting memory peak as the end of its bucket.
fn peak_after_oom(cluster: &mut ClusterState, at: Timestamp) -> i64 {
    let memory = Memory::from_bytes(100 * MIB);
    cluster
        .record_oom(&container("web-1", "app"), at, memory, at)
        .unwrap();
    let history = cluster
        .histories(&id("web"))
        .unwrap()
        .remove("app")
        .unwrap();
    history.memory.percentile(&cluster.shapes().memory, 1.0) as i64
}

/// The VPA `web` with this policy for all containers.
fn under(policy: &ContainerPolicy) -> VpaSpec {
    let policy = ContainerPolicy {
        container_name: "*".to_owned(),
        ..policy.clone()
    };
    VpaSpec {
        policies: vec![policy],
        ..selecting(WEB)
    }
}

/// Expects the peak `changed` while the policy has the field.
fn check_rules_end(policy: &ContainerPolicy, changed: i64) {
    let with = || under(policy);
    let check = |cluster: &mut ClusterState, at: Timestamp, expected: i64| {
        assert_eq!(peak_after_oom(cluster, at), expected, "{policy:?}");
    };
    let plain = peak_after_oom(&mut web(), start());
    let mut cluster = web();
    cluster.apply_vpa(&id("web"), with());
    check(&mut cluster, start(), changed);
    let mut cluster = web();
    cluster.apply_vpa(&id("web"), with());
    cluster.apply_vpa(&id("web"), under(&ContainerPolicy::default()));
    check(&mut cluster, start(), plain);
    cluster.apply_vpa(&id("web"), with());
    cluster.delete_vpa(&id("web"));
    cluster.apply_vpa(&id("web"), selecting(WEB));
    check(&mut cluster, start() + days(1), plain);
    let mut ungated = ClusterState::new(Config::default()).unwrap();
    ungated.apply_vpa(&id("web"), with());
    ungated.apply_pod(pod("web-1", WEB), start());
    check(&mut ungated, start(), plain);
}

#[test]
fn rules_of_a_vpa_end_with_the_field_and_with_the_vpa() {
    let tenfold = ContainerPolicy {
        oom_bump_up_ratio: Some("10".parse().unwrap()),
        ..ContainerPolicy::default()
    };
    check_rules_end(&tenfold, 1_077_095_457);
    let by_a_gibibyte = ContainerPolicy {
        oom_min_bump_up: Some("1Gi".parse().unwrap()),
        ..ContainerPolicy::default()
    };
    check_rules_end(&by_a_gibibyte, 1_207_997_742);
}

#[test]
fn rules_of_many_vpas_are_computed_once_and_the_last_changed_one_counts() {
    const VPAS: i32 = 2000;
    let mut cluster = web();
    let check = |cluster: &ClusterState, are_outdated: bool, seconds: i32| {
        let histories = &cluster.namespaces["shop"].histories;
        assert_eq!(histories.are_rules_outdated, are_outdated, "{seconds}");
        let rules = cluster.memory_rules(&container("web-1", "app"));
        assert_eq!(rules.interval_ns, i64::from(seconds) * 1_000_000_000);
    };
    for number in 1..=VPAS {
        let policy = ContainerPolicy {
            memory_aggregation_interval_seconds: Some(number),
            ..ContainerPolicy::default()
        };
        cluster.apply_vpa(&id(&number.to_string()), under(&policy));
    }
    check(&cluster, true, VPAS);
    cluster.apply_pod(pod("web-1", WEB), start());
    check(&cluster, false, VPAS);
    cluster.delete_vpa(&id(&VPAS.to_string()));
    check(&cluster, true, VPAS - 1);
    cluster.collect_garbage(start(), true);
    check(&cluster, false, VPAS - 1);
}

#[test]
fn the_window_of_memory_goes_back_to_the_default_when_the_field_is_removed() {
    let interval = |memory_aggregation_interval_seconds| {
        under(&ContainerPolicy {
            memory_aggregation_interval_seconds,
            ..ContainerPolicy::default()
        })
    };
    let mut cluster = web();
    let check = |cluster: &ClusterState, seconds: i64| {
        let rules = cluster.memory_rules(&container("web-1", "app"));
        assert_eq!(rules.interval_ns, seconds * 1_000_000_000);
    };
    cluster.apply_vpa(&id("web"), interval(Some(60)));
    check(&cluster, 60);
    cluster.apply_vpa(&id("web"), interval(None));
    check(&cluster, 86_400);
    cluster.delete_pod("shop", "web-1");
    // What is not known has the default.
    check(&cluster, 86_400);
}

#[test]
fn an_oom_kill_without_usage_keeps_the_published_cpu() {
    let mut cluster = without_pods();
    cluster.apply_pod(pod("web-1", WEB), start());
    peak_after_oom(&mut cluster, start());
    let before = ContainerRecommendation {
        container_name: "app".to_owned(),
        target: list(700, 300),
        lower_bound: list(600, 300),
        upper_bound: list(800, 300),
        uncapped_target: list(700, 300),
    };
    let mut found = cluster.recommend(&id("web")).unwrap();
    let memory = found.containers[0].target.memory();
    assert_ne!(memory, before.target.memory());
    let published = model::Recommendation {
        containers: vec![before.clone()],
    };
    cluster.keep_published(&id("web"), &mut found, &published);
    let kept = &found.containers[0];
    assert_eq!(kept.target.cpu(), before.target.cpu());
    assert_eq!(kept.lower_bound.cpu(), before.lower_bound.cpu());
    assert_eq!(kept.target.memory(), memory);
    add_hour(&mut cluster, "web-1", start());
    let measured = cluster.recommend(&id("web")).unwrap();
    let mut found = measured.clone();
    cluster.keep_published(&id("web"), &mut found, &published);
    assert_eq!(found, measured, "usage takes its place");
}

proptest! {
    /// However many kills at one memory, and in however many windows.
    #[test]
    fn kills_at_the_same_memory_give_one_bump(
        mut times in proptest::collection::vec(0i64..4 * 24 * 60, 1..30),
    ) {
        times.sort_unstable();
        let once = peak_after_oom(&mut web(), start());
        let mut cluster = web();
        for time in times {
            let peak = peak_after_oom(&mut cluster, start() + minutes(time));
            prop_assert_eq!(peak, once);
        }
    }
}
