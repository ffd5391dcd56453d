//! Autoscalers with their own sizing policy: inputs, recommendations, and independence of others.

use std::sync::Arc;

use jiff::Timestamp;
use model::{
    ContainerRecommendation, ContainerRef, Cpu, Memory, Recommendation, ResourceList, Sample,
    Selector,
};
use sizing::{Buckets, Config, ContainerPolicy, SizingPolicy};
use vertical::{AutoscalerSpec, ClusterState, PodSpec};
use view::ObjectKey;

const MIB: i64 = 1 << 20;
const DAY: i64 = 24 * 60;

const POLICIES: [&str; 3] = ["crane", "autopilot-window", "autopilot-ml"];

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minute * 60).unwrap()
}

fn id(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

fn policy(annotations: &[(&str, &str)]) -> Option<Arc<SizingPolicy>> {
    let full: Vec<_> = annotations
        .iter()
        .map(|(key, value)| (format!("plimsoll.dev/sizing-{key}"), *value))
        .collect();
    let policy =
        SizingPolicy::from_annotations(full.iter().map(|(key, value)| (key.as_str(), *value)));
    policy.unwrap().map(Arc::new)
}

/// An autoscaler of the pods with the label `app=web`.
fn spec(annotations: &[(&str, &str)]) -> AutoscalerSpec {
    let selector = Selector::match_labels([("app", "web")]);
    AutoscalerSpec {
        selector,
        sizing: policy(annotations),
        ..AutoscalerSpec::default()
    }
}

/// Pods `web-1` and `web-2`, the autoscaler `web` with these annotations, and the autoscaler
/// `plain` without.
fn cluster(annotations: &[(&str, &str)]) -> ClusterState {
    let mut cluster = ClusterState::new(Config::default()).unwrap();
    cluster.apply_autoscaler(&id("web"), spec(annotations));
    cluster.apply_autoscaler(&id("plain"), spec(&[]));
    for name in ["web-1", "web-2"] {
        let pod = PodSpec {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            labels: [("app", "web")].into_iter().collect(),
            containers: vec!["app".to_owned()],
            ..PodSpec::default()
        };
        cluster.apply_pod(pod, at(0));
    }
    cluster
}

fn container(pod: &str) -> ContainerRef {
    ContainerRef {
        namespace: "shop".to_owned(),
        pod: pod.to_owned(),
        container: "app".to_owned(),
    }
}

fn add(cluster: &mut ClusterState, pod: &str, minute: i64, millicores: i64, mebibytes: i64) {
    let sample = Sample {
        at: at(minute),
        cpu: Some(Cpu::from_millicores(millicores)),
        memory: Some(Memory::from_bytes(mebibytes * MIB)),
    };
    cluster
        .add_sample(&container(pod), &sample, at(minute))
        .unwrap();
}

/// Both pods use 500m and 800Mi each minute.
fn add_steady(cluster: &mut ClusterState, minutes: std::ops::Range<i64>) {
    for minute in minutes {
        add(cluster, "web-1", minute, 500, 800);
        add(cluster, "web-2", minute, 500, 800);
    }
}

fn recommended(cluster: &ClusterState, name: &str) -> Option<ContainerRecommendation> {
    cluster.recommend(&id(name)).unwrap().containers.pop()
}

/// Target in millicores and bytes.
fn target(cluster: &ClusterState, name: &str) -> Option<(i64, i64)> {
    let target = recommended(cluster, name)?.target;
    Some((target.cpu()?.millicores(), target.memory()?.bytes()))
}

fn check_steady(policy: &str, expected: (i64, i64)) {
    let mut cluster = cluster(&[("policy", policy)]);
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
    check_steady(
        "autopilot-window",
        (bound(cpu, 0.5, 1150.0), bound(memory, bytes, 1.15)),
    );
    check_steady(
        "autopilot-ml",
        (bound(cpu, 0.5, 1000.0), bound(memory, bytes, 1.0)),
    );
}

#[test]
fn the_bounds_are_the_vpas_and_hold_the_target() {
    for policy in POLICIES {
        let mut cluster = cluster(&[("policy", policy)]);
        add_steady(&mut cluster, 0..2 * DAY);
        let own = recommended(&cluster, "web").unwrap();
        let vpa = recommended(&cluster, "plain").unwrap();
        assert_eq!(
            own.lower_bound.cpu(),
            vpa.lower_bound.cpu().min(own.target.cpu()),
            "{policy}"
        );
        assert_eq!(
            own.lower_bound.memory(),
            vpa.lower_bound.memory().min(own.target.memory()),
            "{policy}"
        );
        assert_eq!(
            own.upper_bound.cpu(),
            vpa.upper_bound.cpu().max(own.target.cpu()),
            "{policy}"
        );
        assert_eq!(
            own.upper_bound.memory(),
            vpa.upper_bound.memory().max(own.target.memory()),
            "{policy}"
        );
    }
}

#[test]
fn autoscalers_of_the_vpa_policy_do_not_notice() {
    let mut plain = cluster(&[]);
    add_steady(&mut plain, 0..DAY);
    for policy in POLICIES {
        let mut cluster = cluster(&[("policy", policy)]);
        add_steady(&mut cluster, 0..DAY);
        assert_eq!(
            recommended(&cluster, "plain"),
            recommended(&plain, "plain"),
            "{policy}"
        );
        assert!(
            cluster.has_per_vpa_policy(&id("web")) && !cluster.has_per_vpa_policy(&id("plain"))
        );

        cluster.apply_autoscaler(&id("web"), spec(&[]));
        assert_eq!(
            recommended(&cluster, "web"),
            recommended(&plain, "plain"),
            "{policy} was taken away"
        );
        assert!(!cluster.has_per_vpa_policy(&id("web")));
    }
}

#[test]
fn rounding_and_limits_apply_to_every_policy() {
    for policy in POLICIES {
        let mut cluster = cluster(&[("policy", policy)]);
        let limit = |millicores, mebibytes| {
            ResourceList::of(
                Cpu::from_millicores(millicores),
                Memory::from_bytes(mebibytes * MIB),
            )
        };
        let policies = vec![ContainerPolicy {
            container_name: "*".to_owned(),
            max_allowed: limit(300, 400),
            ..ContainerPolicy::default()
        }];
        cluster.apply_autoscaler(
            &id("web"),
            AutoscalerSpec {
                policies,
                ..spec(&[("policy", policy)])
            },
        );
        add_steady(&mut cluster, 0..DAY);
        let own = recommended(&cluster, "web").unwrap();
        assert_eq!(own.target, limit(300, 400), "{policy}");
        assert!(own.uncapped_target.cpu() > own.target.cpu(), "{policy}");
    }
}

#[test]
fn the_least_of_a_container_is_not_undercut_by_autopilot_and_is_a_bucket_for_crane() {
    for (policy, expected) in [
        ("crane", (114, 120_586_239)),
        ("autopilot-window", (25, 250 * MIB)),
        ("autopilot-ml", (25, 250 * MIB)),
    ] {
        let mut cluster = cluster(&[("policy", policy)]);
        for minute in 0..60 {
            add(&mut cluster, "web-1", minute, 1, 10);
        }
        assert_eq!(target(&cluster, "web"), Some(expected), "{policy}");
    }
}

#[test]
fn the_same_sample_again_counts_once() {
    for policy in POLICIES {
        let (mut once, mut twice) = (
            cluster(&[("policy", policy)]),
            cluster(&[("policy", policy)]),
        );
        for minute in 0..DAY {
            let (millicores, mebibytes) = (100 + minute % 7 * 100, 200 + minute % 5 * 200);
            add(&mut once, "web-1", minute, millicores, mebibytes);
            // Repeated only if it is large.
            for _ in 0..=millicores / 600 * 50 {
                add(&mut twice, "web-1", minute, millicores, mebibytes);
            }
        }
        assert_eq!(
            recommended(&once, "web"),
            recommended(&twice, "web"),
            "{policy}"
        );
    }
}

#[test]
fn a_sample_from_the_future_does_not_stop_the_windows() {
    for policy in ["autopilot-window", "autopilot-ml"] {
        let mut cluster = cluster(&[("policy", policy)]);
        let ahead = Sample {
            at: at(600),
            cpu: Some(Cpu::from_millicores(1)),
            memory: None,
        };
        cluster
            .add_sample(&container("web-2"), &ahead, at(0))
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
        let mut cluster = cluster(&[("policy", policy)]);
        add_steady(&mut cluster, 0..60);
        cluster
            .record_oom(
                &container("web-1"),
                at(60),
                Memory::from_bytes(2048 * MIB),
                at(60),
            )
            .unwrap();
        let (_, bytes) = target(&cluster, "web").unwrap();
        assert_eq!(
            bytes,
            2048 * MIB * 12 / 10 + i64::from(policy != "crane"),
            "{policy}"
        );
    }
}

/// The recommendation of a restarted state for a published 2 cores and 2 GiB, after some minutes of
/// much lower usage.
fn check_kept(annotations: &[(&str, &str)], minutes: i64, expected: &str) {
    let published = Recommendation {
        containers: ["app", "gone"]
            .map(|name| ContainerRecommendation {
                container_name: name.to_owned(),
                target: ResourceList::of(
                    Cpu::from_millicores(2000),
                    Memory::from_bytes(2048 * MIB),
                ),
                ..ContainerRecommendation::default()
            })
            .into(),
    };
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
        check_kept(&[("policy", policy)], 0, "published");
        check_kept(&[("policy", policy)], 60, "published");
        check_kept(&[("policy", policy)], DAY, "published");
        check_kept(&[("policy", policy)], DAY + 1, "found");
        check_kept(
            &[("policy", policy), ("minimum-history", "1h")],
            60,
            "published",
        );
        check_kept(
            &[("policy", policy), ("minimum-history", "1h")],
            61,
            "found",
        );
    }
    check_kept(&[], 60, "found");
}

#[test]
fn a_policy_without_history_raises_published_values() {
    let published = Recommendation {
        containers: vec![ContainerRecommendation {
            container_name: "app".to_owned(),
            target: ResourceList::of(Cpu::from_millicores(100), Memory::from_bytes(2048 * MIB)),
            ..ContainerRecommendation::default()
        }],
    };
    for policy in POLICIES {
        let mut cluster = cluster(&[("policy", policy)]);
        add_steady(&mut cluster, 0..60);
        let mut recommendation = cluster.recommend(&id("web")).unwrap();
        let (found, _) = target(&cluster, "web").unwrap();
        cluster.keep_published(&id("web"), &mut recommendation, &published);
        let kept = &recommendation.containers[0];
        assert_eq!(
            kept.target.cpu(),
            Some(Cpu::from_millicores(found)),
            "{policy}"
        );
        assert_eq!(
            kept.target.memory(),
            Some(Memory::from_bytes(2048 * MIB)),
            "{policy}"
        );
        assert!(
            kept.upper_bound.memory() >= kept.target.memory(),
            "{policy}"
        );
    }
}

#[test]
fn another_policy_starts_anew_and_another_reading_of_the_same_history_does_not() {
    let mut cluster = cluster(&[("policy", "crane")]);
    add_steady(&mut cluster, 0..60);
    cluster.apply_autoscaler(
        &id("web"),
        spec(&[("policy", "crane"), ("cpu-request-margin-fraction", "0.5")]),
    );
    assert_eq!(target(&cluster, "web").map(|(cpu, _)| cpu), Some(900));
    cluster.apply_autoscaler(&id("web"), spec(&[("policy", "autopilot-ml")]));
    assert_eq!(target(&cluster, "web"), None);
    cluster.apply_autoscaler(&id("web"), spec(&[("policy", "crane")]));
    assert_eq!(target(&cluster, "web"), None);
}

#[test]
fn a_container_that_is_not_measured_any_more_is_forgotten() {
    for policy in POLICIES {
        let mut cluster = cluster(&[("policy", policy)]);
        add_steady(&mut cluster, 0..60);
        cluster.collect_garbage(at(60));
        assert!(target(&cluster, "web").is_some(), "{policy}");
        cluster.collect_garbage(at(60 + 8 * DAY));
        assert_eq!(target(&cluster, "web"), None, "{policy}");
    }
}
