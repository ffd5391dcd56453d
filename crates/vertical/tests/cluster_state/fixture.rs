//! Fixture: the state of a namespace `shop`.

use jiff::{SignedDuration, Timestamp};
use model::{ContainerRef, Cpu, Memory, Sample, Selector};
use sizing::Config;
use vertical::{AutoscalerSpec, ClusterState, Phase, PodSpec};
use view::ObjectKey;

pub(crate) const MIB: i64 = 1 << 20;

pub(crate) fn start() -> Timestamp {
    "2026-01-01T12:34:56Z".parse().unwrap()
}

pub(crate) fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

pub(crate) fn cluster() -> ClusterState {
    ClusterState::new(Config {
        per_autoscaler_rules: true,
        ..Config::default()
    })
    .unwrap()
}

pub(crate) fn id(name: &str) -> ObjectKey {
    ObjectKey {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

pub(crate) fn pod(name: &str, labels: &[(&str, &str)]) -> PodSpec {
    PodSpec {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        labels: labels.iter().copied().collect(),
        phase: Phase::Running,
        containers: vec!["app".to_owned()],
        init_containers: vec!["setup".to_owned()],
    }
}

pub(crate) fn selecting(labels: &[(&str, &str)]) -> AutoscalerSpec {
    AutoscalerSpec {
        selector: Selector::match_labels(labels.iter().copied()),
        ..AutoscalerSpec::default()
    }
}

pub(crate) fn container(pod: &str, container: &str) -> ContainerRef {
    ContainerRef {
        namespace: "shop".to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
    }
}

pub(crate) fn sample(at: Timestamp, millicores: i64, bytes: i64) -> Sample {
    Sample {
        at,
        cpu: Some(Cpu::from_millicores(millicores)),
        memory: Some(Memory::from_bytes(bytes)),
    }
}

/// A cluster state with pod `web-1` (label app=web), autoscaler `web` for it, and an hour of 100m and 100Mi
/// usage.
pub(crate) fn web() -> ClusterState {
    let mut cluster = cluster();
    cluster.apply_autoscaler(&id("web"), selecting(&[("app", "web")]));
    cluster.apply_pod(pod("web-1", &[("app", "web")]), start());
    add_hour(&mut cluster, "web-1", start());
    cluster
}

pub(crate) fn add_hour(cluster: &mut ClusterState, pod: &str, from: Timestamp) {
    for minute in 0..60 {
        let at = from + minutes(minute);
        cluster
            .add_sample(&container(pod, "app"), &sample(at, 100, 100 * MIB), at)
            .unwrap();
    }
}

pub(crate) fn target(cluster: &ClusterState, name: &str) -> Option<String> {
    let recommendation = cluster.recommend(&id(name))?;
    let container = recommendation.containers.first()?;
    Some(format!(
        "{} {}",
        container.target.cpu()?.millicores(),
        container.target.memory()?.bytes()
    ))
}
