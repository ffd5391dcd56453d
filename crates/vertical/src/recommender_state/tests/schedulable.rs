//! Decisions of a state that holds recommendations to what can be scheduled.

use std::sync::Arc;

use model::{ContainerRecommendation, Cpu, Labels, Memory, ResourceList};
use view::{Node, Pod, PodPlacement, Resources};

use super::fixture::{Cluster, MI, at, pod};
use crate::recommender_state::Decision;
use crate::schedulable::{Settings, cap_change};

/// A workload that uses a quarter of a core, on a node that has 200m left.
fn cramped() -> Cluster {
    let mut cluster = Cluster::web(&[]);
    let placement = Some(Arc::new(PodPlacement::default()));
    cluster.add_pod(Pod {
        placement,
        ..pod("web-1", "web")
    });
    let allocatable = Resources {
        cpu: Some(Cpu::from_millicores(200)),
        memory: Some(Memory::from_bytes(1024 * MI)),
    };
    let node = Node {
        name: "node".to_owned(),
        labels: Labels::default(),
        taints: Vec::new(),
        is_cordoned: false,
        capacity: view::Resources::default(),
        allocatable,
        extended: ResourceList::new(),
        addresses: Vec::new(),
    };
    cluster.view.nodes.apply(Arc::new(node));
    cluster
}

/// Measures twice, so that there is some confidence.
fn measured(mut cluster: Cluster) -> Decision {
    cluster.load(0);
    cluster.measure("web-1", "main", 0);
    cluster.measure("web-1", "main", 60);
    cluster.state.decide(at(61)).remove(0)
}

fn published(decision: &Decision) -> ContainerRecommendation {
    let mut recommendation = decision.status.recommendation.clone().expect("published");
    recommendation.containers.remove(0)
}

#[test]
fn what_is_published_fits() {
    let mut cluster = cramped();
    let cap_to = "nodes".parse().expect("a known word");
    cluster.state.cap_to_schedulable(Settings {
        cap_to,
        ..Settings::default()
    });
    let decision = measured(cluster);
    let container = published(&decision);
    let targets = [&container.target, &container.uncapped_target].map(ResourceList::cpu);
    assert_eq!(
        targets,
        [200, 296].map(|cpu| Some(Cpu::from_millicores(cpu)))
    );
    let written = decision.vpa.object.status.as_ref();
    assert!(cap_change(written, &decision.status).is_some());
}

#[test]
fn nothing_is_held_to_anything_unless_asked_for() {
    let cramped = measured(cramped());
    let plain = measured(Cluster::web(&["web-1"]));
    assert_eq!(cramped.status, plain.status);
    assert_eq!(
        published(&cramped).target.cpu(),
        Some(Cpu::from_millicores(296))
    );
}
