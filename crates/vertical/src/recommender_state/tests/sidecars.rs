//! Native sidecars: init containers that run alongside the containers of their pod.

use model::Memory;
use view::{Container, Pod, Resources};

use super::fixture::{Cluster, MI, at, killed_status, pod};
use crate::recommender_state::OomKillCounts;

/// A pod with a sidecar that was killed at this second, and an init container that has ended.
fn meshed(killed_at: i64) -> Pod {
    let memory = Some(Memory::from_bytes(1024 * MI));
    Pod {
        init_containers: vec!["setup".to_owned(), "mesh".to_owned()],
        sidecars: vec![Container {
            name: "mesh".to_owned(),
            requests: Resources { cpu: None, memory },
            limits: Resources::default(),
            status: Some(killed_status(killed_at)),
        }],
        ..pod("web-1", "web")
    }
}

/// The memory target of each container, and how many kills count.
fn sized(native_sidecars: bool) -> (Vec<(String, i64)>, OomKillCounts) {
    let mut cluster = Cluster::web(&[]);
    cluster.state.config.native_sidecars = native_sidecars;
    cluster.add_pod(meshed(1));
    cluster.state.load_vpas(&cluster.view);
    let kills = cluster.state.load_pods(&cluster.view, at(2));
    for container in ["main", "mesh", "setup"] {
        cluster.measure("web-1", container, 3);
    }
    let recommended = cluster.decide_status(4).recommendation.expect("measured");
    let target = |container: model::ContainerRecommendation| {
        let memory = container
            .target
            .memory()
            .map_or(0, |memory| memory.bytes() / MI);
        (container.container_name, memory)
    };
    let targets = recommended.containers.into_iter().map(target);
    (targets.collect(), kills)
}

#[test]
fn native_sidecars_are_sized_where_that_is_asked_for() {
    for (native_sidecars, expected) in [(false, &["main"][..]), (true, &["main", "mesh"])] {
        let (targets, kills) = sized(native_sidecars);
        assert!(
            targets.iter().map(|(name, _)| name).eq(expected),
            "{targets:?}"
        );
        assert_eq!(kills.accepted, u64::from(native_sidecars));
        assert!(
            !native_sidecars || targets[1].1 > 1024,
            "the kill counts: {targets:?}"
        );
    }
}
