//! One decision about 10,000 pods in one namespace, under 1,000 VPA objects and as many budgets. It
//! should take less than 200 ms. Passes after a change of one pod, with two pods for each
//! VPA object, should take less than 1 ms with 1,000 VPA objects, and less than 20 ms with 10,000.
//!
//! `cargo bench -p rollout`.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use rollout::{ClockReading, RolloutState, Settings, Snapshot, decide};
use serde_json::{Value, json};
use view::{Controller, DisruptionBudget, ObjectKey, Pod, View, Vpa, WellKnown};

const WORKLOADS: usize = 1000;
const PODS_EACH: usize = 10;
/// The time between two passes.
const PAUSE: Duration = Duration::from_millis(100);
/// VPA objects with two pods each, for passes after a change of one pod.
const SIZES: [usize; 2] = [1_000, 10_000];

fn owner(kind: &str, name: &str) -> Value {
    json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true}])
}

fn workload(view: &mut View, name: &str, cpu: &str, pods: usize) {
    let labels = json!({"app": name, "tier": "backend"});
    let spec = json!({"replicas": pods, "selector": {"matchLabels": labels}, "template": {}});
    let object = json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
    let deployment: Deployment = serde_json::from_value(object).expect("a Deployment");
    view.controllers_mut(WellKnown::Deployment)
        .apply(Arc::new(Controller::from(deployment)));
    let set = format!("{name}-5d4f");
    let object = json!({"metadata": {"namespace": "shop", "name": set, "ownerReferences": owner("Deployment", name)}, "spec": spec});
    let replicas: ReplicaSet = serde_json::from_value(object).expect("a ReplicaSet");
    view.controllers_mut(WellKnown::ReplicaSet)
        .apply(Arc::new(Controller::from(replicas)));
    let list = json!({"cpu": "1", "memory": "1Gi"});
    let recommended = |name: &str| json!({"containerName": name, "target": list, "lowerBound": list, "upperBound": list});
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name, "uid": name},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
        "status": {"recommendation": {"containerRecommendations": [recommended("app"), recommended("side")]}},
    });
    let object = api::vpa::parse(object).expect("a VPA object");
    view.vpas.apply(Arc::new(Vpa {
        key: ObjectKey::new("shop", name),
        object,
    }));
    view.disruption_budgets.apply(Arc::new(DisruptionBudget {
        key: ObjectKey::new("shop", name),
        selector: format!("app={name}").parse(),
        generation: 1,
        observed_generation: 1,
        disruptions_allowed: 2,
        current_healthy: 10,
        desired_healthy: 8,
        disrupted: BTreeSet::new(),
        always_allows_unhealthy: false,
    }));
    for index in 0..pods {
        let container = |name: &str| json!({"name": name, "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}});
        let pod = format!("{set}-{index}");
        let object = json!({
            "metadata": {
                "namespace": "shop", "name": pod, "uid": pod, "labels": labels, "ownerReferences": owner("ReplicaSet", &set),
            },
            "spec": {"nodeName": "n1", "containers": [container("app"), container("side")]},
            "status": {"phase": "Running", "qosClass": "Burstable", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let pod = Pod::from_k8s_running(serde_json::from_value(object).expect("a pod"), false);
        view.pods.apply(Arc::new(pod));
    }
}

fn decisions(criterion: &mut Criterion) {
    let mut group =
        criterion.benchmark_group("10,000 pods under 1,000 VPA objects in one namespace");
    group.sample_size(20);
    for (name, cpu) in [
        ("every pod wants another size", "100m"),
        ("no pod wants another size", "1"),
    ] {
        let mut view = View::default();
        for index in 0..WORKLOADS {
            workload(&mut view, &format!("web{index}"), cpu, PODS_EACH);
        }
        let (recommendations, settings) = (BTreeMap::new(), Settings::default());
        let snapshot = Snapshot {
            view: &view,
            recommendations: &recommendations,
            pause: None,
            health: &BTreeMap::new(),
            node_load: None,
        };
        let wall = "2026-01-01T12:00:00Z".parse().expect("a time");
        let now = ClockReading {
            wall,
            monotonic: Duration::from_mins(1),
        };
        // Printed by a single run too: `cargo test -p rollout --bench decide`.
        let began = Instant::now();
        let mut state = RolloutState::default();
        let actions = decide(&snapshot, &mut state, &settings, now).actions.len();
        let (first, began) = (began.elapsed(), Instant::now());
        let again = decide(&snapshot, &mut state, &settings, now).actions.len();
        println!("{name}: {first:?} at first, {:?} again", began.elapsed());
        assert_eq!(
            [actions, again],
            if cpu == "1" {
                [0, 0]
            } else {
                [2 * WORKLOADS, 2 * WORKLOADS]
            }
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                decide(
                    black_box(&snapshot),
                    &mut RolloutState::default(),
                    &settings,
                    now,
                )
            });
        });
        group.bench_function(format!("{name}, and nothing changed"), |bencher| {
            bencher.iter(|| decide(black_box(&snapshot), &mut state, &settings, now));
        });
    }
    group.finish();
}

/// One pod turns ready or unready before each pass.
fn passes_after_one_change(criterion: &mut Criterion) {
    let mut group =
        criterion.benchmark_group("passes after a change of one pod, all in one namespace");
    group.sample_size(10);
    for workloads in SIZES {
        for (name, cpu) in [
            ("every pod wants another size", "100m"),
            ("no pod wants another size", "1"),
        ] {
            let mut view = View::default();
            for index in 0..workloads {
                workload(&mut view, &format!("web{index}"), cpu, 2);
            }
            let key = ObjectKey::new("shop", "web7-5d4f-0");
            let ready = Arc::clone(view.pods.get(&key).expect("it is there"));
            let mut unready = ready.as_ref().clone();
            let mut running = unready.running.as_deref().expect("kept").clone();
            running.ready_since = None;
            unready.running = Some(Arc::new(running));
            let mut states = [Arc::new(unready), ready].into_iter().cycle();
            let (recommendations, settings) = (BTreeMap::new(), Settings::default());
            let wall = "2026-01-01T12:00:00Z".parse().expect("a time");
            let mut now = ClockReading {
                wall,
                monotonic: Duration::from_mins(1),
            };
            let mut state = RolloutState::default();
            let mut pass = || {
                view.pods.apply(states.next().expect("it cycles"));
                (now.wall, now.monotonic) = (now.wall + PAUSE, now.monotonic + PAUSE);
                let snapshot = Snapshot {
                    view: &view,
                    recommendations: &recommendations,
                    pause: None,
                    health: &BTreeMap::new(),
                    node_load: None,
                };
                decide(black_box(&snapshot), &mut state, &settings, now)
            };
            pass();
            group.bench_function(format!("{workloads} VPA objects, {name}"), |bencher| {
                bencher.iter(&mut pass);
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decisions, passes_after_one_change);
criterion_main!(benches);
