//! Native sidecars: init containers that run alongside the containers of their pod.

use std::sync::Arc;

use model::Memory;
use view::{ContainerState, ContainerStatus, Pod, Resources, Sidecar, Termination};

use super::fixture::{Cluster, MI, at, pod};
use crate::state::OomKillCounts;

/// A pod with a sidecar that was killed at this second, and an init container that has ended.
fn meshed(killed_at: i64) -> Pod {
    let end = Termination {
        reason: "OOMKilled".to_owned(),
        started_at: None,
        finished_at: Some(at(killed_at)),
    };
    let status = ContainerStatus {
        restart_count: 1,
        state: ContainerState::Running,
        last_termination: Some(end),
    };
    let requests = Resources {
        cpu: None,
        memory: Some(Memory::from_bytes(1024 * MI)),
    };
    Pod {
        init_containers: vec!["setup".to_owned(), "mesh".to_owned()],
        sidecars: vec![Sidecar {
            name: "mesh".to_owned(),
            requests,
            status: Some(status),
        }],
        ..pod("web-1", "web")
    }
}

/// The memory target of each container, and how many kills count.
fn sized(native_sidecars: bool) -> (Vec<(String, i64)>, OomKillCounts) {
    let mut cluster = Cluster::web(&[]);
    cluster.state.config.native_sidecars = native_sidecars;
    cluster.view.pods.apply(Arc::new(meshed(1)));
    cluster.state.load_autoscalers(&cluster.view);
    let kills = cluster.state.load_pods(&cluster.view, at(2));
    for container in ["main", "mesh", "setup"] {
        cluster.measure("web-1", container, 3);
    }
    let recommended = cluster
        .decide(4)
        .remove(0)
        .status
        .recommendation
        .expect("measured");
    let memory = |list: &model::ResourceList| list.memory().map_or(0, |memory| memory.bytes() / MI);
    let targets = recommended.container_recommendations.iter();
    (
        targets
            .map(|container| (container.container_name.clone(), memory(&container.target)))
            .collect(),
        kills,
    )
}

#[test]
fn native_sidecars_are_sized_where_that_is_asked_for() {
    let (without, kills) = sized(false);
    assert_eq!(
        without
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["main"]
    );
    assert_eq!(kills.accepted, 0);
    let (with, kills) = sized(true);
    assert_eq!(
        with.iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>(),
        ["main", "mesh"]
    );
    assert_eq!(kills.accepted, 1);
    assert!(with[1].1 > 1024, "the kill counts: {with:?}");
}
