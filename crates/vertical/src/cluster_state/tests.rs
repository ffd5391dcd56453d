//! Cluster state: links between pods, histories and VPAs, and robustness against invalid
//! data.

mod backfill;
mod churn;
mod explain;
mod fixture;
mod garbage;
mod inspection;
mod limits;
mod links;
mod method_steps;
mod oom_kills;
mod runs;
mod samples;
mod sizing_method;
mod stored;
mod vectors;

use crate::ClusterState;
use model::Memory;
use sizing::{Config, WithoutUsage};

use fixture::{
    MIB, WEB, add_hour, id, minutes, pod, pod_of, selecting, start, target, web, without_pods,
};

#[test]
fn an_hour_of_samples_gives_the_documented_target() {
    assert_eq!(target(&web(), "web").as_deref(), Some("126 262144000"));
}

#[test]
fn a_vpa_without_containers_recommends_nothing_and_an_unknown_one_is_absent() {
    let cluster = without_pods();
    assert_eq!(cluster.recommend(&id("web")).unwrap().containers, []);
    assert_eq!(cluster.recommend(&id("other")), None);
}

#[test]
fn recommending_changes_nothing_and_any_number_may_do_it_at_once() {
    let mut cluster = web();
    cluster.apply_vpa(&id("also"), selecting(WEB));
    cluster.apply_pod(pod("web-2", &[("app", "web"), ("run", "2")]), start());
    add_hour(&mut cluster, "web-2", start());
    let now = start() + minutes(60);
    let all = |cluster: &ClusterState| {
        let of = |name| {
            let id = id(name);
            (
                cluster.recommend(&id),
                cluster.checkpoints(&id, now),
                cluster.histories(&id),
            )
        };
        [of("web"), of("also")]
    };
    let first = all(&cluster);
    assert_eq!(first[0], first[1], "they share both histories");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..50).all(|_| all(&cluster) == first)))
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
}

#[test]
fn the_minimum_without_usage_can_be_switched_off() {
    for (without_usage, expected) in [
        (WithoutUsage::Minimum, &["app", "proxy"][..]),
        (WithoutUsage::Nothing, &["app"]),
    ] {
        let config = Config {
            without_usage,
            ..Config::default()
        };
        let mut cluster = ClusterState::new(config).unwrap();
        cluster.apply_vpa(&id("web"), selecting(WEB));
        cluster.apply_pod(pod_of("web-1", WEB, &["app", "proxy"]), start());
        let recommended = cluster.recommend(&id("web")).unwrap().containers;
        assert_eq!(recommended.is_empty(), expected.len() == 1);
        add_hour(&mut cluster, "web-1", start());
        let recommended = cluster.recommend(&id("web")).unwrap().containers;
        let names = recommended
            .iter()
            .map(|container| container.container_name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), expected);
        let explained = cluster.explain(&id("web"), "proxy");
        assert_eq!(explained.is_some(), expected.contains(&"proxy"));
        // The other container keeps its share of the pod's minimum.
        assert_eq!(
            recommended[0].target.memory(),
            Some(Memory::from_bytes(125 * MIB))
        );
    }
}
