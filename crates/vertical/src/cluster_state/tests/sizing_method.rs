//! Autoscalers with their own sizing policy: inputs, recommendations, and independence of others.

use std::sync::Arc;

use crate::{ClusterState, VpaSpec};
use jiff::Timestamp;
use model::{ContainerRecommendation, Memory, Recommendation, Sample};
use sizing::{Buckets, Config, ContainerPolicy, MethodSettings};

use super::fixture::{MIB, WEB, container, id, list, pod, sample, selecting};

pub(crate) const DAY: i64 = 24 * 60;

const POLICIES: [&str; 4] = ["crane", "autopilot-window", "autopilot-ml", "plimsoll"];

pub(crate) fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
}

fn policy(annotations: &[(&str, &str)]) -> Option<Arc<MethodSettings>> {
    let full: Vec<_> = annotations
        .iter()
        .map(|(key, value)| (format!("plimsoll.dev/sizing-{key}"), *value))
        .collect();
    let policy =
        MethodSettings::from_annotations(full.iter().map(|(key, value)| (key.as_str(), *value)));
    policy.unwrap().map(Arc::new)
}

/// A VPA of the pods with the label `app=web`.
pub(crate) fn spec(annotations: &[(&str, &str)]) -> VpaSpec {
    VpaSpec {
        sizing: policy(annotations),
        ..selecting(WEB)
    }
}

/// Pods `web-1` and `web-2`, the VPA `web` with these annotations, and the VPA
/// `plain` without.
pub(crate) fn cluster(annotations: &[(&str, &str)]) -> ClusterState {
    let mut cluster = ClusterState::new(Config::default()).unwrap();
    cluster.apply_vpa(&id("web"), spec(annotations));
    cluster.apply_vpa(&id("plain"), spec(&[]));
    for name in ["web-1", "web-2"] {
        cluster.apply_pod(pod(name, WEB), at(0));
    }
    cluster
}

/// The cluster whose VPA `web` has this policy.
pub(crate) fn with_policy(policy: &str) -> ClusterState {
    cluster(&[("policy", policy)])
}

pub(crate) fn add(
    cluster: &mut ClusterState,
    pod: &str,
    minute: i64,
    millicores: i64,
    mebibytes: i64,
) {
    let sample = sample(at(minute), millicores, mebibytes * MIB);
    cluster
        .add_sample(&container(pod, "app"), &sample, sample.at)
        .unwrap();
}

/// Both pods use 500m and 800Mi each minute.
pub(crate) fn add_steady(cluster: &mut ClusterState, minutes: std::ops::Range<i64>) {
    for minute in minutes {
        add(cluster, "web-1", minute, 500, 800);
        add(cluster, "web-2", minute, 500, 800);
    }
}

pub(crate) fn recommended(cluster: &ClusterState, name: &str) -> Option<ContainerRecommendation> {
    cluster.recommend(&id(name)).unwrap().containers.pop()
}

/// Target in millicores and bytes.
pub(crate) fn target(cluster: &ClusterState, name: &str) -> Option<(i64, i64)> {
    let target = recommended(cluster, name)?.target;
    Some((target.cpu()?.millicores(), target.memory()?.bytes()))
}

fn check_steady(policy: &str, expected: (i64, i64)) {
    let mut cluster = with_policy(policy);
    add_steady(&mut cluster, 0..2 * DAY);
    assert_eq!(target(&cluster, "web"), Some(expected), "{policy}");
}

/// The bound of a value's bucket times a factor, rounded up.
fn bound(buckets: &Buckets, value: f64, factor: f64) -> i64 {
    (buckets.end(buckets.find(value)) * factor).ceil() as i64
}

#[test]
fn each_policy_gives_its_own_target_for_steady_usage() {
    let (cpu, memory) = (Buckets::cpu(), Buckets::memory());
    let bytes = (800 * MIB) as f64;
    // The sixth tenth of a core and the ninth 100 MiB, and 15 %.
    check_steady("crane", (690, 1_085_276_160));
    let expected = |margin| {
        (
            bound(cpu, 0.5, margin * 1000.0),
            bound(memory, bytes, margin),
        )
    };
    check_steady("autopilot-window", expected(1.15));
    check_steady("autopilot-ml", expected(1.0));
}

#[test]
fn the_bounds_are_the_vpas_and_hold_the_target() {
    for policy in ["crane", "autopilot-window", "autopilot-ml"] {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..2 * DAY);
        let own = recommended(&cluster, "web").unwrap();
        let vpa = recommended(&cluster, "plain").unwrap();
        let (lower, upper) = (&vpa.lower_bound, &vpa.upper_bound);
        let least = lower.cpu().min(own.target.cpu());
        let most = upper.cpu().max(own.target.cpu());
        let found = [own.lower_bound.cpu(), own.upper_bound.cpu()];
        assert_eq!(found, [least, most], "{policy}");
        let least = lower.memory().min(own.target.memory());
        let most = upper.memory().max(own.target.memory());
        let found = [own.lower_bound.memory(), own.upper_bound.memory()];
        assert_eq!(found, [least, most], "{policy}");
    }
}

#[test]
fn a_memory_sample_of_zero_forgets_no_peak() {
    for policy in POLICIES.into_iter().chain(["vpa"]) {
        let [mut with_zeros, mut without] = [policy; 2].map(with_policy);
        for minute in 0..2 * DAY {
            // At the beginning of memory windows of a day, and an hour later.
            let is_zero = [0, 60].contains(&(minute % DAY));
            let peak = if minute % DAY == 30 { 3000 } else { 800 };
            add(&mut without, "web-1", minute, 500, peak);
            let memory = if is_zero { 0 } else { peak };
            add(&mut with_zeros, "web-1", minute, 500, memory);
        }
        let [found, expected] =
            [&with_zeros, &without].map(|cluster| target(cluster, "web").unwrap());
        assert_eq!(found, expected, "{policy}");
    }
}

#[test]
fn vpas_of_the_vpa_policy_do_not_notice() {
    let mut plain = cluster(&[]);
    add_steady(&mut plain, 0..DAY);
    for policy in POLICIES {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..DAY);
        let expected = recommended(&plain, "plain");
        assert_eq!(recommended(&cluster, "plain"), expected, "{policy}");
        assert!(cluster.has_per_vpa_policy(&id("web")));
        assert!(!cluster.has_per_vpa_policy(&id("plain")));

        cluster.apply_vpa(&id("web"), spec(&[]));
        let without = recommended(&cluster, "web");
        assert_eq!(without, expected, "{policy} was taken away");
        assert!(!cluster.has_per_vpa_policy(&id("web")));
    }
}

#[test]
fn rounding_and_limits_apply_to_every_policy() {
    for policy in POLICIES {
        let mut cluster = with_policy(policy);
        let policies = vec![ContainerPolicy {
            container_name: "*".to_owned(),
            max_allowed: list(300, 400),
            ..ContainerPolicy::default()
        }];
        let spec = spec(&[("policy", policy)]);
        cluster.apply_vpa(&id("web"), VpaSpec { policies, ..spec });
        add_steady(&mut cluster, 0..DAY);
        let own = recommended(&cluster, "web").unwrap();
        assert_eq!(own.target, list(300, 400), "{policy}");
        assert!(own.uncapped_target.cpu() > own.target.cpu(), "{policy}");
    }
}

#[test]
fn the_least_of_a_container_is_not_undercut_by_autopilot_or_us_and_is_a_bucket_for_crane() {
    for (policy, expected) in [
        ("crane", (114, 120_586_239)),
        ("autopilot-window", (25, 250 * MIB)),
        ("autopilot-ml", (25, 250 * MIB)),
        ("plimsoll", (25, 250 * MIB)),
    ] {
        let mut cluster = with_policy(policy);
        for minute in 0..60 {
            add(&mut cluster, "web-1", minute, 1, 10);
        }
        assert_eq!(target(&cluster, "web"), Some(expected), "{policy}");
    }
}

#[test]
fn the_same_sample_again_counts_once() {
    for policy in POLICIES {
        let [mut once, mut twice] = [policy; 2].map(with_policy);
        for minute in 0..DAY {
            let (millicores, mebibytes) = (100 + minute % 7 * 100, 200 + minute % 5 * 200);
            add(&mut once, "web-1", minute, millicores, mebibytes);
            // Repeated only if it is large.
            for _ in 0..=millicores / 600 * 50 {
                add(&mut twice, "web-1", minute, millicores, mebibytes);
            }
        }
        let [once, twice] = [&once, &twice].map(|cluster| recommended(cluster, "web"));
        assert_eq!(once, twice, "{policy}");
    }
}

#[test]
fn a_sample_from_the_future_does_not_stop_the_windows() {
    for policy in ["autopilot-window", "autopilot-ml"] {
        let mut cluster = with_policy(policy);
        let ahead = Sample {
            memory: None,
            ..sample(at(600), 1, 0)
        };
        cluster
            .add_sample(&container("web-2", "app"), &ahead, at(0))
            .unwrap();
        for minute in 0..30 {
            add(&mut cluster, "web-1", minute, 500, 800);
        }
        assert!(target(&cluster, "web").is_some(), "{policy}");
    }
}

#[test]
fn a_kill_counts_at_once() {
    for policy in POLICIES {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..60);
        let memory = Memory::from_bytes(2048 * MIB);
        cluster
            .record_oom(&container("web-1", "app"), at(60), memory, at(60))
            .unwrap();
        let (_, bytes) = target(&cluster, "web").unwrap();
        let expected = 2048 * MIB * 12 / 10 + i64::from(policy != "crane");
        assert_eq!(bytes, expected, "{policy}");
    }
}

/// A recommendation of this CPU and 2 GiB for each container.
fn publish(containers: &[&str], millicores: i64) -> Recommendation {
    let container = |name: &&str| ContainerRecommendation {
        container_name: (*name).to_owned(),
        target: list(millicores, 2048),
        ..ContainerRecommendation::default()
    };
    let containers = containers.iter().map(container).collect();
    Recommendation { containers }
}

/// The recommendation of a restarted state for a published 2 cores and 2 GiB, after some minutes of
/// much lower usage.
fn check_kept(annotations: &[(&str, &str)], minutes: i64, expected: &str) {
    let published = publish(&["app", "gone"], 2000);
    let mut cluster = cluster(annotations);
    add_steady(&mut cluster, 0..minutes);
    let mut recommendation = cluster.recommend(&id("web")).unwrap();
    let found = recommendation.clone();
    cluster.keep_published(&id("web"), &mut recommendation, &published);
    let kept = match recommendation.containers.as_slice() {
        [] => "nothing",
        [only] if only.target == published.containers[0].target => "published",
        _ if recommendation == found => "found",
        _ => "else",
    };
    assert_eq!(
        kept, expected,
        "{annotations:?} after {minutes} minutes: {recommendation:?}"
    );
}

#[test]
fn published_values_stay_until_the_minimum_history_is_reached() {
    for policy in POLICIES {
        let plain = [("policy", policy)];
        check_kept(&plain, 0, "published");
        check_kept(&plain, 60, "published");
        check_kept(&plain, DAY, "published");
        check_kept(&plain, DAY + 1, "found");
        let an_hour = [("policy", policy), ("minimum-history", "1h")];
        check_kept(&an_hour, 60, "published");
        check_kept(&an_hour, 61, "found");
    }
    check_kept(&[], 60, "found");
}

#[test]
fn a_policy_without_history_raises_published_values() {
    let published = publish(&["app"], 100);
    for policy in POLICIES {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..60);
        let mut recommendation = cluster.recommend(&id("web")).unwrap();
        let (found, _) = target(&cluster, "web").unwrap();
        cluster.keep_published(&id("web"), &mut recommendation, &published);
        let kept = &recommendation.containers[0];
        assert_eq!(kept.target, list(found, 2048), "{policy}");
        let upper_bound = kept.upper_bound.memory();
        assert!(upper_bound >= kept.target.memory(), "{policy}");
    }
}

#[test]
fn another_policy_starts_anew_and_another_reading_of_the_same_history_does_not() {
    let mut cluster = with_policy("crane");
    add_steady(&mut cluster, 0..60);
    let margin = ("cpu-request-margin-fraction", "0.5");
    cluster.apply_vpa(&id("web"), spec(&[("policy", "crane"), margin]));
    assert_eq!(target(&cluster, "web").map(|(cpu, _)| cpu), Some(900));
    cluster.apply_vpa(&id("web"), spec(&[("policy", "autopilot-ml")]));
    assert_eq!(target(&cluster, "web"), None);
    cluster.apply_vpa(&id("web"), spec(&[("policy", "crane")]));
    assert_eq!(target(&cluster, "web"), None);
}

#[test]
fn a_container_that_is_not_measured_any_more_is_forgotten() {
    for policy in POLICIES {
        let mut cluster = with_policy(policy);
        add_steady(&mut cluster, 0..60);
        cluster.collect_garbage(at(60), true);
        assert!(target(&cluster, "web").is_some(), "{policy}");
        cluster.collect_garbage(at(60 + 8 * DAY), true);
        assert_eq!(target(&cluster, "web"), None, "{policy}");
    }
}
