//! OOM kills and per-VPA rules for them.

use jiff::{SignedDuration, Timestamp};
use model::{Cpu, Memory};
use sizing::{Config, ContainerPolicy};
use vertical::{AutoscalerSpec, ClusterState};

use crate::fixture::{MIB, add_hour, cluster, container, id, pod, selecting, start, web};

/// OOM-kills the container at 100Mi and returns the resulting memory peak as the end of its bucket.
fn peak_after_oom(cluster: &mut ClusterState, at: Timestamp) -> i64 {
    cluster
        .record_oom(
            &container("web-1", "app"),
            at,
            Memory::from_bytes(100 * MIB),
            at,
        )
        .unwrap();
    let history = cluster
        .histories(&id("web"))
        .unwrap()
        .remove("app")
        .unwrap();
    history.memory.percentile(&cluster.shapes().memory, 1.0) as i64
}

/// Expects the peak `changed` while the policy has the field.
fn check_rules_end(policy: &ContainerPolicy, changed: i64) {
    let with = |policy: Option<&ContainerPolicy>| {
        let all = ContainerPolicy {
            container_name: "*".to_owned(),
            ..policy.cloned().unwrap_or_default()
        };
        AutoscalerSpec {
            policies: vec![all],
            ..selecting(&[("app", "web")])
        }
    };
    let window = SignedDuration::from_hours(24);
    let plain = peak_after_oom(&mut web(), start());
    let mut cluster = web();
    cluster.apply_autoscaler(&id("web"), with(Some(policy)));
    assert_eq!(peak_after_oom(&mut cluster, start()), changed, "{policy:?}");
    let mut cluster = web();
    cluster.apply_autoscaler(&id("web"), with(Some(policy)));
    cluster.apply_autoscaler(&id("web"), with(None));
    assert_eq!(peak_after_oom(&mut cluster, start()), plain, "{policy:?}");
    cluster.apply_autoscaler(&id("web"), with(Some(policy)));
    cluster.delete_autoscaler(&id("web"));
    cluster.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    assert_eq!(
        peak_after_oom(&mut cluster, start() + window),
        plain,
        "{policy:?}"
    );
    let mut ungated = ClusterState::new(Config::default()).unwrap();
    ungated.apply_autoscaler(&id("web"), with(Some(policy)));
    ungated.apply_pod(pod("web-1", &[("app", "web")]), start());
    assert_eq!(peak_after_oom(&mut ungated, start()), plain, "{policy:?}");
}

#[test]
fn rules_of_an_autoscaler_end_with_the_field_and_with_the_autoscaler() {
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
fn the_window_of_memory_goes_back_to_the_default_when_the_field_is_removed() {
    let interval = |seconds| {
        let policy = ContainerPolicy {
            container_name: "*".to_owned(),
            memory_aggregation_interval_seconds: seconds,
            ..ContainerPolicy::default()
        };
        AutoscalerSpec {
            policies: vec![policy],
            ..selecting(&[("app", "web")])
        }
    };
    let mut cluster = web();
    let interval_of =
        |cluster: &ClusterState| cluster.memory_rules(&container("web-1", "app")).interval_ns;
    cluster.apply_autoscaler(&id("web"), interval(Some(60)));
    assert_eq!(interval_of(&cluster), 60_000_000_000);
    cluster.apply_autoscaler(&id("web"), interval(None));
    assert_eq!(interval_of(&cluster), 86_400_000_000_000);
    cluster.delete_pod("shop", "web-1");
    assert_eq!(
        interval_of(&cluster),
        86_400_000_000_000,
        "what is not known has the default"
    );
}

#[test]
fn an_oom_kill_without_usage_keeps_the_published_cpu() {
    let mut cluster = cluster();
    cluster.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    cluster.apply_pod(pod("web-1", &[("app", "web")]), start());
    peak_after_oom(&mut cluster, start());
    let list = |millicores, mebibytes: i64| {
        model::ResourceList::of(
            Cpu::from_millicores(millicores),
            Memory::from_bytes(mebibytes * MIB),
        )
    };
    let before = model::ContainerRecommendation {
        container_name: "app".to_owned(),
        target: list(700, 300),
        lower_bound: list(600, 300),
        upper_bound: list(800, 300),
        uncapped_target: list(700, 300),
    };
    let mut found = cluster.recommend(&id("web")).unwrap();
    let memory = found.containers[0].target.memory();
    let published = model::Recommendation {
        containers: vec![before.clone()],
    };
    cluster.keep_unmeasured(&id("web"), &mut found, &published);
    let kept = &found.containers[0];
    assert_eq!(
        (kept.target.cpu(), kept.lower_bound.cpu()),
        (before.target.cpu(), before.lower_bound.cpu())
    );
    assert_eq!(
        (
            kept.target.memory(),
            kept.target.memory() == before.target.memory()
        ),
        (memory, false)
    );
    add_hour(&mut cluster, "web-1", start());
    let measured = cluster.recommend(&id("web")).unwrap();
    let mut found = measured.clone();
    cluster.keep_unmeasured(&id("web"), &mut found, &published);
    assert_eq!(found, measured, "usage takes its place");
}
