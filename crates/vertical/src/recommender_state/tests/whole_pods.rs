//! Pods that are sized as a whole (`podPolicy`), in place of their containers.

use std::sync::Arc;

use model::{ContainerUsage, Cpu, Memory, WHOLE_POD};
use serde_json::{Value, json};
use view::{OomKill, Pod};

use super::fixture::{Cluster, MI, at, container, killed_status, usage};
use crate::fixture;

/// A Deployment of one pod with two containers, whose pod has these resources as a whole.
fn cluster(policy: &Value, resources: &Value) -> Cluster {
    let mut cluster = Cluster::new("default", false);
    cluster.deploy("web");
    set_policy(&mut cluster, policy);
    cluster.add_pod(pod(resources));
    cluster.load(0);
    cluster
}

fn set_policy(cluster: &mut Cluster, policy: &Value) {
    let spec = json!({"targetRef": {"name": "web"}, "resourcePolicy": policy});
    let object = json!({"metadata": {"uid": "u1", "generation": 1}, "spec": spec});
    cluster.apply(fixture::vpa("web", &object));
}

fn pod(resources: &Value) -> Pod {
    let pod = json!({
        "metadata": {"namespace": "shop", "name": "web-1", "uid": "web-1", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main"}, {"name": "proxy"}], "resources": resources},
        "status": {"phase": "Running"},
    });
    Pod::from_k8s(serde_json::from_value(pod).expect("a pod"), false)
}

/// Usage of both containers: 100m and 100 MiB, 200m and 50 MiB.
fn both(second: i64) -> [ContainerUsage; 2] {
    let of = |name: &str, millicores, mib: i64| ContainerUsage {
        container: container("web-1", name),
        ..usage("web-1", second, millicores, mib * MI)
    };
    [of("main", 100, 100), of("proxy", 200, 50)]
}

/// Reads usage as the recommender does.
fn measure(cluster: &mut Cluster, usage: &[ContainerUsage], second: i64) {
    cluster.state.add_usage(usage, at(second));
    let whole = cluster.state.whole_pods(usage);
    cluster.state.take_usage(&whole, at(second), |_, _, _| ());
}

/// The recommendations: each container with CPU in millicores and memory in MiB.
fn recommended(cluster: &mut Cluster, second: i64) -> Vec<(String, i64, i64)> {
    let found = cluster.decide_status(second).recommendation;
    let containers = found.map(|it| it.containers).unwrap_or_default();
    let amounts = containers.into_iter().map(|it| {
        let cpu = it.target.cpu().map_or(0, Cpu::millicores);
        let memory = it.target.memory().map_or(0, Memory::bytes);
        (it.container_name, cpu, memory / MI)
    });
    amounts.collect()
}

fn auto() -> Value {
    json!({"podPolicy": {"mode": "Auto"}})
}

#[test]
fn the_sum_of_all_containers_is_recommended_for_the_pod_alone() {
    let mut cluster = cluster(&auto(), &Value::Null);
    assert_eq!(
        cluster.state.whole_pods(&both(1)[..1]),
        [],
        "one is missing"
    );
    measure(&mut cluster, &both(1), 1);
    let whole = &cluster.state.whole_pods(&both(2))[0];
    assert_eq!(whole.sample.cpu, Some(Cpu::from_millicores(300)));
    assert_eq!(whole.sample.memory, Some(Memory::from_bytes(150 * MI)));
    // 300m plus 15 %, in the buckets of the histogram; the minimum of memory.
    assert_eq!(recommended(&mut cluster, 2), [(String::new(), 350, 250)]);
}

#[test]
fn without_the_mode_auto_the_containers_are_sized() {
    for policy in [
        json!({}),
        json!({"podPolicy": {}}),
        json!({"podPolicy": {"mode": "Off"}}),
        // A policy without a name is not that of the pod.
        json!({"containerPolicies": [{"mode": "Auto"}]}),
    ] {
        let mut cluster = cluster(&policy, &Value::Null);
        measure(&mut cluster, &both(1), 1);
        let found = recommended(&mut cluster, 2);
        let names: Vec<_> = found.iter().map(|it| &*it.0).collect();
        assert_eq!(names, ["main", "proxy"], "{policy}");
    }
}

#[test]
fn the_policy_of_the_pod_bounds_its_recommendation_and_can_be_taken_away() {
    let policy = json!({"podPolicy": {"mode": "Auto", "minAllowed": {"cpu": "1"}, "controlledResources": ["cpu"]}});
    let mut cluster = cluster(&policy, &Value::Null);
    measure(&mut cluster, &both(1), 1);
    assert_eq!(recommended(&mut cluster, 2), [(String::new(), 1000, 0)]);
    set_policy(&mut cluster, &json!({}));
    cluster.load(3);
    let found = recommended(&mut cluster, 4);
    assert!(found.iter().all(|it| it.0 != WHOLE_POD), "{found:?}");
}

#[test]
fn histories_of_pods_are_stored_and_loaded() {
    let mut cluster = cluster(&auto(), &Value::Null);
    measure(&mut cluster, &both(1), 1);
    cluster.store(2);
    let before = recommended(&mut cluster, 2);
    let mut restarted = cluster.restarted(3);
    assert_eq!(recommended(&mut restarted, 4), before);
}

/// Kills `main` at 1000 MiB of the pod; with this limit of its own.
fn target_after_kill(own_limit: Option<i64>) -> i64 {
    let amounts = json!({"memory": "1000Mi"});
    let resources = json!({"requests": amounts, "limits": amounts});
    let mut cluster = cluster(&auto(), &resources);
    measure(&mut cluster, &both(1), 1);
    let mut pod = pod(&resources);
    pod.containers[0].status = Some(killed_status(2));
    pod.containers[0].limits.memory = own_limit.map(|mib| Memory::from_bytes(mib * MI));
    let pod = Arc::new(pod);
    let kill = OomKill {
        pod: pod.key.clone(),
        container: "main".to_owned(),
        at: at(2),
        memory: Memory::default(),
        seen_in: Some(Arc::clone(&pod)),
    };
    assert_eq!(cluster.tell(&kill, 3).accepted, 1);
    recommended(&mut cluster, 4)[0].2
}

#[test]
fn a_kill_counts_for_the_pod_unless_a_container_hit_its_own_limit() {
    assert!(target_after_kill(None) > 1200);
    assert!(target_after_kill(Some(1000)) > 1200);
    assert_eq!(target_after_kill(Some(500)), 250);
}
