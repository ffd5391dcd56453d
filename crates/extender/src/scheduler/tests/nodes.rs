//! Sums over the pods of nodes.

use std::collections::HashMap;

use placement::{Commitment, LowRiskOverCommitment, PodKey};
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::fixture::{Fixture, START, config};

/// Pod, node, request in millicores and memory; without a node, the pod is deleted.
type Event = (u8, Option<u8>, i64, i64);

fn bound_pod((pod, node, cpu, memory): Event) -> Option<Arc<BoundPod>> {
    let requests = json!({"cpu": format!("{cpu}m"), "memory": memory.to_string()});
    let object = json!({
        "metadata": {"namespace": "shop", "name": format!("p{pod}"), "uid": format!("u{pod}"), "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"nodeName": format!("node-{}", node?), "containers": [{"name": "app", "resources": {"requests": requests}}]},
    });
    let object = serde_json::from_value(object).expect("a pod");
    Some(Arc::new(BoundPod::from_k8s(object)))
}

fn commitment(fixture: &Fixture, node: &str) -> (Commitment, usize) {
    let now = Timestamp::from_second(START).expect("a time");
    let table = fixture.scheduler.nodes.read();
    let state = table
        .state(node, PodKey::default(), None, now)
        .expect("a known node");
    (state.commitment, state.pods)
}

#[test]
fn load_risks_are_computed_before_a_pod_asks() {
    let fixture = Fixture::new(config(), &[25.0, 75.0]);
    let plugin = LowRiskOverCommitment::default();
    let now = Timestamp::from_second(START).expect("a time");
    let last = || {
        let table = fixture.scheduler.nodes.read();
        ["node-1", "node-2"].map(|name| {
            let state = table
                .state(name, PodKey::default(), None, now)
                .expect("a known node");
            let cache = state.load_risk.expect("a cache");
            cache.last().map(|risk| risk.cpu.to_bits())
        })
    };
    assert_eq!(last(), [None, None]);
    for node in [1, 2] {
        let new = bound_pod((node, Some(node), 2000, 0));
        fixture.scheduler.apply_pod(&Change { old: None, new });
    }
    fixture.scheduler.cache_load_risks(&plugin);
    // Without deviation, the load is above the requests of the pods, which are 50 %, or not.
    assert_eq!(last(), [0.0, 1.0].map(|risk: f64| Some(risk.to_bits())));
}

proptest! {
    #[test]
    fn a_node_has_the_sum_over_its_pods(
        events in prop::collection::vec(
            (0..5_u8, prop::option::of(1..4_u8), 0..=i64::MAX / 1000, 0..=i64::MAX),
            0..40,
        ),
    ) {
        // node-3 is not known, so its pods count nowhere.
        let fixture = Fixture::new(config(), &[25.0, 25.0]);
        let mut pods: HashMap<u8, Arc<BoundPod>> = HashMap::new();
        for event in events {
            let (old, new) = (pods.remove(&event.0), bound_pod(event));
            pods.extend(new.iter().map(|pod| (event.0, Arc::clone(pod))));
            if old.is_some() || new.is_some() {
                fixture.scheduler.apply_pod(&Change { old, new });
            }
        }
        for node in ["node-1", "node-2"] {
            let own = pods.values().filter(|pod| pod.node == node);
            let own = own.map(|pod| node_table::pod_spec(pod));
            let sum = own.fold((Commitment::default(), 0), |(sum, count), spec| {
                let commitment = Commitment {
                    requests: spec.requests(),
                    limits: spec.limits(),
                };
                (sum.plus(commitment), count + 1)
            });
            prop_assert_eq!(commitment(&fixture, node), sum);
        }
        // All pods of a node that does not exist are gone: so is its record.
        for (_, old) in pods {
            fixture.scheduler.apply_pod(&Change { old: Some(old), new: None });
        }
        prop_assert_eq!(fixture.scheduler.nodes.read().names().len(), 2);
    }
}
