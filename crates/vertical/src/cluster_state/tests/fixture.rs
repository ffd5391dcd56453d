//! Fixture: the state of a namespace `shop`.

use crate::{ClusterState, PodSpec, VpaSpec};
use api::checkpoint::VerticalPodAutoscalerCheckpointStatus;
use jiff::{SignedDuration, Timestamp};
use model::{Cpu, Memory, ResourceList, Sample, Selector};
use sizing::Config;
use view::{ObjectKey, Phase};

pub(crate) use crate::fixture::container;

pub(crate) const MIB: i64 = 1 << 20;
/// The labels of the pods of the VPA `web`.
pub(crate) const WEB: &[(&str, &str)] = &[("app", "web")];

pub(crate) fn start() -> Timestamp {
    "2026-01-01T12:34:56Z".parse().unwrap()
}

pub(crate) fn minutes(count: i64) -> SignedDuration {
    SignedDuration::from_mins(count)
}

pub(crate) fn hours(count: i64) -> SignedDuration {
    SignedDuration::from_hours(count)
}

pub(crate) fn days(count: i64) -> SignedDuration {
    hours(24 * count)
}

pub(crate) fn cluster() -> ClusterState {
    let config = Config {
        per_vpa_rules: true,
        ..Config::default()
    };
    ClusterState::new(config).unwrap()
}

pub(crate) fn id(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

pub(crate) fn pod(name: &str, labels: &[(&str, &str)]) -> PodSpec {
    pod_of(name, labels, &["app"])
}

pub(crate) fn pod_of(name: &str, labels: &[(&str, &str)], containers: &[&str]) -> PodSpec {
    PodSpec {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        labels: labels.iter().copied().collect(),
        phase: Phase::Running,
        containers: containers.iter().map(|name| (*name).to_owned()).collect(),
        init_containers: vec!["setup".to_owned()],
        ..PodSpec::default()
    }
}

pub(crate) fn selecting(labels: &[(&str, &str)]) -> VpaSpec {
    VpaSpec {
        selector: Selector::match_labels(labels.iter().copied()),
        ..VpaSpec::default()
    }
}

pub(crate) fn list(millicores: i64, mebibytes: i64) -> ResourceList {
    ResourceList::of(
        Cpu::from_millicores(millicores),
        Memory::from_bytes(mebibytes * MIB),
    )
}

pub(crate) fn sample(at: Timestamp, millicores: i64, bytes: i64) -> Sample {
    Sample {
        at,
        cpu: Some(Cpu::from_millicores(millicores)),
        memory: Some(Memory::from_bytes(bytes)),
    }
}

/// A cluster state with the VPA `web`, and without pods.
pub(crate) fn without_pods() -> ClusterState {
    let mut cluster = cluster();
    cluster.apply_vpa(&id("web"), selecting(WEB));
    cluster
}

/// A cluster state with pod `web-1`, VPA `web` for it, and an hour of 100m and 100Mi usage.
pub(crate) fn web() -> ClusterState {
    let mut cluster = without_pods();
    cluster.apply_pod(pod("web-1", WEB), start());
    add_hour(&mut cluster, "web-1", start());
    cluster
}

/// Adds a sample of 100m and 100Mi of the container `app`.
pub(crate) fn add_usual(cluster: &mut ClusterState, pod: &str, at: Timestamp) {
    cluster
        .add_sample(&container(pod, "app"), &sample(at, 100, 100 * MIB), at)
        .unwrap();
}

pub(crate) fn add_hour(cluster: &mut ClusterState, pod: &str, from: Timestamp) {
    for minute in 0..60 {
        add_usual(cluster, pod, from + minutes(minute));
    }
}

/// The checkpoint of the container `app` of the VPA `web`.
pub(crate) fn checkpoint(
    cluster: &ClusterState,
    now: Timestamp,
) -> VerticalPodAutoscalerCheckpointStatus {
    cluster
        .checkpoints(&id("web"), now)
        .unwrap()
        .remove("app")
        .unwrap()
}

/// The known samples of the container `app` of the VPA `web`.
pub(crate) fn samples(cluster: &ClusterState) -> i64 {
    cluster.histories(&id("web")).unwrap()["app"].samples()
}

pub(crate) fn target(cluster: &ClusterState, name: &str) -> Option<String> {
    let recommendation = cluster.recommend(&id(name))?;
    let target = &recommendation.containers.first()?.target;
    Some(format!(
        "{} {}",
        target.cpu()?.millicores(),
        target.memory()?.bytes()
    ))
}
