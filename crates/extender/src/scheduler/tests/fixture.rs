//! A router on a fixed clock, without an API server.

use std::sync::atomic::AtomicI64;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use placement::{LoadSnapshot, NodeLoad, PressureTargets, TargetLoadPacking, Usage, WindowLoad};
use serde_json::{Value, json};
use tower::ServiceExt as _;
use view::Node;

use super::super::*;

/// Time of the newest metrics, in seconds since 1970.
pub(super) const START: i64 = 1_800_000_000;

/// Size of each node.
pub(super) const MILLICORES: i64 = 4000;

pub(super) struct Fixture {
    pub(super) scheduler: Scheduler,
    pub(super) registry: Registry,
    seconds: Arc<AtomicI64>,
    snapshots: watch::Sender<Arc<LoadSnapshot>>,
    workloads: watch::Sender<View>,
}

/// Answer of the router.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) status: StatusCode,
    pub(super) basis: Option<String>,
    pub(super) text: String,
}

impl Found {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).expect("JSON")
    }

    /// Scores in the order of the answer.
    pub(super) fn scores(&self) -> Vec<i64> {
        let list = self.json();
        let list = list.as_array().expect("a list");
        let score = |entry: &Value| entry["Score"].as_i64().expect("an integer");
        list.iter().map(score).collect()
    }
}

/// The defaults with a target of 50 percent.
pub(super) fn config() -> SchedulerConfig {
    SchedulerConfig {
        prioritizer: Prioritizer {
            policy: Policy::TargetLoadPacking(TargetLoadPacking::with_target(Some(50))),
            targets: PressureTargets::default(),
        },
        profiles: BTreeMap::new(),
        power_models: BTreeMap::new(),
        filter: LoadFilter::default(),
        max_age: SignedDuration::from_mins(5),
        min_coverage_percent: 50,
        max_score: 10,
        // No test depends on the speed of the machine.
        deadline: Duration::from_mins(10),
        max_body_bytes: 16 << 20,
        max_requests: 8,
    }
}

impl Fixture {
    /// Nodes `node-1`, `node-2`, ... with four CPUs and the given CPU utilization.
    pub(super) fn new(config: SchedulerConfig, percents: &[f64]) -> Self {
        let registry = Registry::new();
        let seconds = Arc::new(AtomicI64::new(START));
        let shown = Arc::clone(&seconds);
        let clock: Clock = Arc::new(move || {
            Timestamp::from_second(shown.load(Ordering::Relaxed)).expect("a time")
        });
        let (snapshots, received) = watch::channel(Arc::default());
        let workloads = watch::Sender::new(View::default());
        let view = workloads.subscribe();
        let scheduler = Scheduler::new(config, received, view, clock, &registry);
        let fixture = Self {
            scheduler: scheduler.expect("metric names are valid"),
            registry,
            seconds,
            snapshots,
            workloads,
        };
        for number in 1..=percents.len() {
            fixture.node(&format!("node-{number}"));
        }
        fixture.scheduler.is_synced.store(true, Ordering::Release);
        fixture.measure(START, percents);
        fixture
    }

    pub(super) fn node(&self, name: &str) {
        let size = json!({"cpu": format!("{MILLICORES}m"), "memory": "8Gi", "pods": "110"});
        let object =
            json!({"metadata": {"name": name}, "status": {"capacity": size, "allocatable": size}});
        let node = Node::from_k8s(serde_json::from_value(object).expect("a node"));
        self.scheduler.nodes.write().apply_node(&Change {
            old: None,
            new: Some(Arc::new(node)),
        });
    }

    /// Publishes CPU utilizations of `node-1`, `node-2`, ...
    pub(super) fn measure(&self, end: i64, percents: &[f64]) {
        let load = |(number, percent): (usize, &f64)| {
            let usage = |average_percent| Usage {
                average_percent,
                deviation_percent: 0.0,
            };
            let load = NodeLoad {
                cpu: Some(usage(*percent)),
                memory: Some(usage(10.0)),
                ..NodeLoad::default()
            };
            (format!("node-{}", number + 1), load)
        };
        let mut snapshot = LoadSnapshot::default();
        let load = WindowLoad {
            end: Timestamp::from_second(end).expect("a time"),
            nodes: percents.iter().enumerate().map(load).collect(),
        };
        snapshot.update(placement::Window::Fifteen, load);
        self.snapshots.send_replace(Arc::new(snapshot));
    }

    pub(super) fn forget_metrics(&self) {
        self.snapshots.send_replace(Arc::default());
    }

    pub(super) fn set_time(&self, second: i64) {
        self.seconds.store(second, Ordering::Relaxed);
    }

    pub(super) fn workloads(&self, change: impl FnOnce(&mut View)) {
        self.workloads.send_modify(change);
    }

    /// Applies a bound pod, in place of `old`.
    pub(super) fn bind(&self, old: Option<&Arc<BoundPod>>, pod: &Value) -> Arc<BoundPod> {
        let object = serde_json::from_value(pod.clone()).expect("a pod");
        let pod = Arc::new(BoundPod::from_k8s(object));
        self.scheduler.apply_pod(&Change {
            old: old.cloned(),
            new: Some(Arc::clone(&pod)),
        });
        pod
    }

    pub(super) fn router(&self) -> Router {
        router(self.scheduler.clone())
    }

    pub(super) async fn post(&self, path: &str, body: impl Into<Body>) -> Found {
        let request = Request::post(path).body(body.into()).expect("a request");
        found(self.router(), request).await
    }

    /// Value of a counter or gauge with these label values.
    pub(super) fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(prometheus::proto::MetricFamily::get_metric);
        let metrics = metrics.unwrap_or_default().iter();
        let of_labels = metrics.filter(|metric| {
            let values: Vec<_> = metric
                .get_label()
                .iter()
                .map(prometheus::proto::LabelPair::value)
                .collect();
            labels.iter().all(|label| values.contains(label))
        });
        of_labels
            .map(|metric| metric.get_counter().get_value() + metric.get_gauge().get_value())
            .sum()
    }
}

pub(super) async fn found(router: Router, request: Request<Body>) -> Found {
    let response = router.oneshot(request).await.expect("a response");
    let basis = response.headers().get("plimsoll-placement");
    let basis = basis.map(|value| value.to_str().expect("text").to_owned());
    let status = response.status();
    let body = to_bytes(response.into_body(), usize::MAX).await;
    let text = String::from_utf8(body.expect("a body").to_vec()).expect("UTF-8");
    Found {
        status,
        basis,
        text,
    }
}

/// Pod with one container.
pub(super) fn pod(uid: &str, millicores: i64) -> Value {
    let cpu = json!({"cpu": format!("{millicores}m")});
    json!({
        "metadata": {"namespace": "shop", "name": uid, "uid": uid},
        "spec": {"containers": [{"name": "app", "resources": {"requests": cpu, "limits": cpu}}]},
    })
}

/// `ExtenderArgs` with names, as kube-scheduler writes them.
pub(super) fn args(pod: &Value, names: &[&str]) -> String {
    json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string()
}
