//! Duration of /prioritize for 5,000 nodes with nodeCacheCapable, from the request to the bytes of
//! the answer, and its 99th percentile. TLS is not included.
//!
//! `cargo bench -p extender`.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::http::Request;
use criterion::{Criterion, criterion_group, criterion_main};
use extender::scheduler::{Scheduler, SchedulerConfig, router};
use jiff::{SignedDuration, Timestamp};
use placement::peaks::PowerModel;
use placement::{
    LoadFilter, LoadSnapshot, LoadVariationRiskBalancing, LowRiskOverCommitment, NodeLoad, Policy,
    PressureTargets, Prioritizer, TargetLoadPacking, Usage, Window, WindowLoad,
};
use prometheus::Registry;
use serde_json::json;
use testing::measured::Latencies;
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tower::ServiceExt as _;
use view::{BoundPod, Change, Node, View};

const NODES: usize = 5_000;
/// Pods on each node.
const PODS: usize = 20;
/// Pods that were bound within the last two minutes.
const RECENT: usize = 5_000;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn name(number: usize) -> String {
    format!("ip-10-0-{}-{}.compute.internal", number / 250, number % 250)
}

fn snapshot(shift: usize) -> Arc<LoadSnapshot> {
    let usage = |number: usize, seed: usize| {
        Some(Usage {
            average_percent: ((number + shift) * seed % 900) as f64 / 10.0,
            deviation_percent: ((number + shift) * seed % 130) as f64 / 10.0,
        })
    };
    let load = |number| NodeLoad {
        cpu: usage(number, 7919),
        memory: usage(number, 6007),
        network: usage(number, 4099),
        disk: usage(number, 2741),
    };
    let mut snapshot = LoadSnapshot::default();
    for window in Window::ALL {
        let nodes = (0..NODES).map(|number| (name(number), load(number)));
        let load = WindowLoad {
            end: now() - SignedDuration::from_secs(20),
            nodes: nodes.collect(),
        };
        snapshot.update(window, load);
    }
    Arc::new(snapshot)
}

fn config(policy: Policy) -> SchedulerConfig {
    let power = PowerModel {
        k0: 400.0,
        k1: -300.0,
        k2: -0.05,
    };
    SchedulerConfig {
        prioritizer: Prioritizer {
            policy,
            targets: PressureTargets {
                memory_percent: Some(80),
                ..PressureTargets::default()
            },
        },
        profiles: BTreeMap::new(),
        power_models: (0..NODES).map(|number| (name(number), power)).collect(),
        filter: LoadFilter {
            cpu_percent: Some(80.0),
            ..LoadFilter::default()
        },
        max_age: SignedDuration::from_mins(5),
        min_coverage_percent: 50,
        max_score: 10,
        deadline: Duration::from_secs(10),
        max_body_bytes: 16 << 20,
        max_requests: 8,
    }
}

fn apply_pod(scheduler: &Scheduler, number: usize) {
    let node = name(number % NODES);
    let age = if number < RECENT {
        (number % 120) as i64
    } else {
        86_400
    };
    let object = json!({
        "metadata": {"namespace": format!("ns-{}", number % 100), "name": number.to_string(), "uid": format!("{number:036}")},
        "spec": {"nodeName": node, "containers": [{"name": "app", "resources": {
            "requests": {"cpu": "250m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "1Gi"},
        }}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": (now() - SignedDuration::from_secs(age)).to_string()}]},
    });
    let pod = BoundPod::from_k8s(serde_json::from_value(object).expect("a pod"));
    scheduler.apply_pod(&Change {
        old: None,
        new: Some(Arc::new(pod)),
    });
}

/// A cluster and the sender of its measured load.
fn cluster(policy: Policy) -> (Scheduler, watch::Sender<Arc<LoadSnapshot>>) {
    let (sender, snapshots) = watch::channel(snapshot(0));
    let workloads = watch::channel(View::default()).1;
    let clock = Arc::new(now);
    let registry = Registry::new();
    let scheduler = Scheduler::new(config(policy), snapshots, workloads, clock, &registry);
    let scheduler = scheduler.expect("metric names are valid");
    for number in 0..NODES {
        let size = json!({"cpu": "16", "memory": "64Gi"});
        let object = json!({"metadata": {"name": name(number)}, "status": {"capacity": size, "allocatable": size}});
        let node = Node::from_k8s(serde_json::from_value(object).expect("a node"));
        scheduler.apply_node(&Change {
            old: None,
            new: Some(Arc::new(node)),
        });
    }
    (0..NODES * PODS).for_each(|number| apply_pod(&scheduler, number));
    scheduler.set_synced();
    (scheduler, sender)
}

fn body() -> Bytes {
    let request = include_str!("../src/scheduler/tests/golden/names.json");
    let mut request: serde_json::Value = serde_json::from_str(request).expect("JSON");
    request["NodeNames"] = (0..NODES).map(name).collect();
    request["Pod"]["metadata"]["annotations"] = json!({});
    request.to_string().into()
}

async fn ask(router: &Router, path: &str, body: &Bytes) -> usize {
    let request = Request::post(path).body(Body::from(body.clone()));
    let response = router.clone().oneshot(request.expect("a request"));
    let response = response.await.expect("a response");
    assert_eq!(response.headers()["plimsoll-placement"], "load");
    let body = to_bytes(response.into_body(), usize::MAX).await;
    body.expect("a body").len()
}

fn requests(c: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let body = body();
    let low_risk = Policy::LowRiskOverCommitment(LowRiskOverCommitment::default());
    for (title, policy, path, is_new_load) in [
        (
            "target load packing",
            Policy::TargetLoadPacking(TargetLoadPacking::default()),
            "/prioritize",
            false,
        ),
        (
            "load variation risk balancing",
            Policy::LoadVariationRiskBalancing(LoadVariationRiskBalancing::default()),
            "/prioritize",
            false,
        ),
        ("low risk over-commitment", low_risk, "/prioritize", false),
        (
            "low risk over-commitment, new load",
            low_risk,
            "/prioritize",
            true,
        ),
        ("peaks", Policy::Peaks, "/prioritize", false),
        (
            "filter",
            Policy::TargetLoadPacking(TargetLoadPacking::default()),
            "/filter",
            false,
        ),
    ] {
        let (scheduler, sender) = cluster(policy);
        let router = router(scheduler);
        let loads = [snapshot(0), snapshot(1)];
        let mut latencies = Latencies::default();
        c.bench_function(&format!("{title}, {NODES} nodes"), |bencher| {
            bencher.iter_custom(|count| {
                let mut sum = Duration::ZERO;
                for number in 0..count {
                    if is_new_load {
                        sender.send_replace(Arc::clone(&loads[(number % 2) as usize]));
                    }
                    let start = Instant::now();
                    black_box(runtime.block_on(ask(&router, path, &body)));
                    let duration = start.elapsed();
                    latencies.add(duration);
                    sum += duration;
                }
                sum
            });
        });
        let (runs, summary) = (latencies.count(), latencies.summary());
        println!("{title}: {summary} of {runs} runs");
    }
}

criterion_group!(benches, requests);
criterion_main!(benches);
