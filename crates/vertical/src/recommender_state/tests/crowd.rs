//! Thousands of objects of one workload, which any tenant can make: an effort that grew with their
//! number times that of the pods would delay the other tenants.

use std::collections::BTreeSet;

use api::vpa::UpdateMode;
use serde_json::json;
use view::{ObjectKey, Vpa};

use super::fixture::{Cluster, kill, pod, vpa};

const OBJECTS: usize = 2000;
const PODS: usize = 50;

fn crowd_vpa(number: usize, mode: &str) -> Vpa {
    let mut vpa = vpa(&format!("crowd-{number:04}"), "web", &format!("u{number}"));
    let policy = json!({"updateMode": mode});
    vpa.object.spec.update_policy = serde_json::from_value(policy).expect("a policy");
    vpa
}

fn crowd(objects: usize) -> Cluster {
    let mut cluster = Cluster::new("default", false);
    cluster.deploy("web");
    for number in 0..objects {
        cluster.apply(crowd_vpa(number, "Initial"));
    }
    for number in 0..PODS {
        cluster.add_pod(pod(&format!("web-{number}"), "web"));
    }
    cluster.load(0);
    cluster
}

#[test]
fn each_pod_is_asked_for_once() {
    let cluster = crowd(OBJECTS);
    assert_eq!(cluster.state.measurable_pods().count(), PODS);
    let pods: BTreeSet<_> = cluster
        .state
        .measurable_pods()
        .map(|(pod, _)| pod)
        .collect();
    assert_eq!(pods.len(), PODS);
}

#[test]
fn kills_of_all_pods_concern_each_object_once() {
    let cluster = crowd(OBJECTS);
    let mut concerned = BTreeSet::new();
    for number in 0..PODS {
        let pod = kill(&format!("web-{number}"), 1).pod;
        cluster.state.add_vpas_of(&pod, &mut concerned);
        let expected: BTreeSet<ObjectKey> = cluster.state.vpas_of(&pod).collect();
        assert_eq!(concerned, expected, "{pod}");
        assert_eq!(expected.len(), OBJECTS);
    }
}

/// Usage is compared with the object that was linked last, also after others are deleted.
#[test]
fn the_last_linked_object_counts_while_others_come_and_go() {
    let mut cluster = crowd(3);
    let container = crate::fixture::container("web-0", "main");
    let mode = |cluster: &Cluster| {
        let recommended = cluster.state.recommended(&container);
        recommended.and_then(|recommended| recommended.update_mode)
    };
    for (number, mode_of_number) in [(0, "Off"), (1, "Recreate")] {
        let mut vpa = crowd_vpa(number, mode_of_number);
        // A change of anything but the selector is no other link.
        let policies =
            json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "1"}}]});
        vpa.object.spec.resource_policy = serde_json::from_value(policies).expect("policies");
        cluster.apply(vpa);
        cluster.load(1);
    }
    let expected = [UpdateMode::Initial, UpdateMode::Recreate, UpdateMode::Off];
    for (number, expected) in (0..3).rev().zip(expected) {
        assert_eq!(mode(&cluster), Some(expected), "{number}");
        let key = ObjectKey::new("shop", format!("crowd-{number:04}"));
        cluster.view.vpas.delete(&key);
        cluster.load(2);
    }
    assert_eq!(mode(&cluster), None);
}
