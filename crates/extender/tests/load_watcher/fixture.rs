//! Nodes, an API server with their metrics, and a running collector.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use extender::load_watcher::{Clock, Collector, LoadWatcherConfig, PrometheusConfig, Snapshots};
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use prometheus::{Registry, TextEncoder};
use runtime::{Activity, Readiness};
use serde_json::{Value, json};
use testing::{Pace, eventually};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;
use view::{Node, Resource, View};

/// 2026-01-01T12:20:00Z, the time at which the clock starts.
pub(crate) const START: i64 = 1_767_270_000;

/// Millicores and bytes of a node.
type Usage = (i64, i64);

/// A node, and its usage by number of the sample.
type NodeUsage = (&'static str, fn(i64) -> Usage);

/// An API server. Clones share it.
#[derive(Clone)]
pub(crate) struct Cluster {
    /// Usage of nodes; `None` means that the metrics API fails.
    usage: Arc<Mutex<Option<Vec<NodeUsage>>>>,
    begun: Instant,
}

/// A collector that runs until it is dropped.
pub(crate) struct Watcher {
    pub(crate) router: Router,
    pub(crate) snapshots: Snapshots,
    pub(crate) readiness: Readiness,
    registry: Registry,
    running: JoinHandle<()>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl Cluster {
    /// Nodes `n1` and `n2`, of 4 cores and 8 GiB each, without metrics.
    pub(crate) fn new() -> Self {
        Self {
            usage: Arc::default(),
            begun: Instant::now(),
        }
    }

    pub(crate) fn set_usage(&self, usage: Option<&[NodeUsage]>) {
        *self.usage.lock().expect("whole") = usage.map(Into::into);
    }

    pub(crate) fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(START).expect("a time");
        start + SignedDuration::try_from(self.begun.elapsed()).expect("short")
    }

    /// Starts a collector, of Prometheus if configured so.
    pub(crate) fn start(
        &self,
        cache_folder: Option<PathBuf>,
        prometheus: Option<PrometheusConfig>,
        frozen_after: u32,
    ) -> Watcher {
        let api = Router::new()
            .route("/apis/metrics.k8s.io/v1beta1/nodes", get(node_metrics))
            .with_state(self.clone());
        let cluster = self.clone();
        let clock: Clock = Arc::new(move || cluster.now());
        let interval = match prometheus {
            None => Duration::from_secs(15),
            Some(_) => Duration::from_millis(20),
        };
        let config = LoadWatcherConfig {
            prometheus,
            interval,
            frozen_after,
            cache_folder,
        };
        let registry = Registry::new();
        let client = Client::new(api, "default");
        let (_, nodes) = watch::channel(view());
        let collector = Collector::new(config, client, nodes, clock, &registry, "replica-0");
        let collector = collector.expect("a collector");
        let (readiness, activity) = (Readiness::default(), Activity::default());
        let condition = readiness.condition("load_watcher");
        Watcher {
            router: collector.rest_api().router(),
            snapshots: collector.snapshots(),
            readiness,
            registry,
            running: tokio::spawn(collector.run(condition, activity)),
        }
    }
}

impl Watcher {
    /// Status and body of a GET request.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let response = self.router.clone().oneshot(request).await;
        let (head, body) = response.expect("an answer").into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        let text = String::from_utf8(body.into()).expect("text");
        if head.status == StatusCode::OK && !text.is_empty() {
            assert_eq!(head.headers["content-type"], "application/json", "{path}");
        }
        (head.status.as_u16(), text)
    }

    /// The value of a metric with its labels, as text.
    pub(crate) fn metric(&self, name: &str) -> Option<String> {
        let text = TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .expect("metrics");
        let value = |line: &str| {
            line.strip_prefix(name)?
                .strip_prefix(' ')
                .map(str::to_owned)
        };
        text.lines().find_map(value)
    }

    /// Waits until the metric has this value.
    pub(crate) async fn wait_for_metric(&self, name: &str, expected: &str) {
        let what = format!("{name} is {expected}");
        let wait = eventually(what, Pace::WITHIN, async || {
            let value = self.metric(name);
            anyhow::ensure!(value.as_deref() == Some(expected), "it is {value:?}");
            Ok(())
        });
        wait.await.expect("the value");
    }
}

/// Moves the paused clock on, with everything that is due meanwhile. Takes no real time.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// A view of both nodes.
fn view() -> View {
    let mut view = View::default();
    for (name, address) in [("n1", "10.0.0.1"), ("n2", "10.0.0.2")] {
        let node = json!({
            "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
                "addresses": [{"type": "InternalIP", "address": address}],
            },
        });
        let node = Node::from_k8s(serde_json::from_value(node).expect("a node"));
        view.nodes.apply(Arc::new(node));
    }
    view.freshness.entry(Resource::Nodes).or_default().synced = true;
    view
}

async fn node_metrics(State(cluster): State<Cluster>) -> Response {
    let Some(usage) = cluster.usage.lock().expect("whole").clone() else {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": "no endpoints", "reason": "ServiceUnavailable", "code": 503,
        });
        return (StatusCode::SERVICE_UNAVAILABLE, Json(status)).into_response();
    };
    let now = cluster.now();
    let number = (now.as_second() - START) / 15;
    let item = |(name, usage): NodeUsage| {
        let (millicores, bytes) = usage(number);
        json!({
            "metadata": {"name": name}, "timestamp": now, "window": "15s",
            "usage": {"cpu": format!("{millicores}m"), "memory": bytes.to_string()},
        })
    };
    let items: Vec<Value> = usage.into_iter().map(item).collect();
    Json(json!({
        "kind": "NodeMetricsList", "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {}, "items": items,
    }))
    .into_response()
}
