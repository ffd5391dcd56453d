//! Queries to a fake Prometheus, and the effects of its answers.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use extender::load_watcher::{LoadQueries, PrometheusConfig};
use serde_json::json;
use sources::prometheus::Connection;
use tokio::net::TcpListener;

use crate::fixture::{Cluster, START};

/// Part of a query, and the value for each series; `None` means that the store fails.
type Answers = Vec<(&'static str, Option<Vec<(&'static str, &'static str)>>)>;

/// A store, with the queries that it received. Clones share it.
#[derive(Clone, Default)]
struct Store {
    answers: Arc<Mutex<Answers>>,
    queries: Arc<Mutex<BTreeSet<String>>>,
}

impl Store {
    fn set(&self, answers: Answers) {
        *self.answers.lock().expect("whole") = answers;
    }

    async fn serve(&self) -> PrometheusConfig {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let router = Router::new().route("/api/v1/query", get(answer));
        let router = router.with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        PrometheusConfig {
            connection: Connection {
                address: format!("http://{address}"),
                query_timeout: Duration::from_secs(10),
                ..Connection::default()
            },
            queries: LoadQueries {
                network: "rate(rx[5m]) / speed".to_owned(),
                disk: String::new(),
                ..LoadQueries::default()
            },
            node_labels: ["node", "instance"].map(str::to_owned).into(),
        }
    }
}

async fn answer(
    State(store): State<Store>,
    Query(parameters): Query<HashMap<String, String>>,
) -> Response {
    let query = &parameters["query"];
    store.queries.lock().expect("whole").insert(query.clone());
    let answers = store.answers.lock().expect("whole");
    let found = answers.iter().find(|(part, _)| query.starts_with(part));
    let Some(values) = found.map_or(Some(Vec::new()), |(_, values)| values.clone()) else {
        let body = json!({"status": "error", "errorType": "execution", "error": "broken"});
        return (StatusCode::UNPROCESSABLE_ENTITY, Json(body)).into_response();
    };
    let series = |(node, value): (&str, &str)| {
        let label = if node.contains(':') {
            "instance"
        } else {
            "node"
        };
        json!({"metric": {label: node, "job": "node-exporter"}, "value": [START, value]})
    };
    let result: Vec<_> = values.into_iter().map(series).collect();
    Json(json!({"status": "success", "data": {"resultType": "vector", "result": result}}))
        .into_response()
}

/// The answers of a store with good load of both nodes. `newest` is the time of the newest sample.
fn good(newest: &'static str) -> Answers {
    let both = |first, second| {
        Some(vec![
            ("10.0.0.1:9100", first),
            ("n2", second),
            ("n9", "0.9"),
        ])
    };
    vec![
        ("timestamp(", both(newest, newest)),
        (
            "avg_over_time(instance:node_cpu:ratio[15m])",
            both("0.25", "0.5"),
        ),
        ("avg_over_time(instance:node_cpu", both("0.3", "0.6")),
        (
            "stddev_over_time(instance:node_cpu",
            both("0.0625", "0.125"),
        ),
        ("avg_over_time(instance:node_memory", both("0.75", "NaN")),
        (
            "max by (node, instance) (avg_over_time((rate(rx",
            both("0.125", "1.5"),
        ),
    ]
}

const CPU_ERRORS: &str = "plimsoll_load_watcher_query_errors_total{resource=\"cpu\"}";

#[tokio::test]
async fn windows_are_read_by_the_queries_of_load_watcher() {
    let store = Store::default();
    store.set(good("1767270000"));
    let cluster = Cluster::new();
    let mut watcher = cluster.start(None, Some(store.serve().await), u32::MAX);
    watcher.snapshots.changed().await.expect("load");
    let (status, text) = watcher.get("/watcher").await;
    // The time of the collection follows the clock of the machine.
    let rest = text.split_once(",\"window\"").expect("a window").1;
    let golden = include_str!("golden/watcher-prometheus.json").trim_end();
    let golden = golden.split_once(",\"window\"").expect("a window").1;
    assert_eq!((status, rest), (200, golden));
    let (_, text) = watcher.get("/watcher/n2?window=5m").await;
    assert!(text.contains(r#""rollup":"5m","value":60}"#), "{text}");
    let queries = store.queries.lock().expect("whole").clone();
    let queries: Vec<_> = queries.into_iter().collect();
    let golden = include_str!("golden/queries.txt");
    assert_eq!(queries.join("\n"), golden.trim_end());
    for defect in ["not_finite", "out_of_range"] {
        let labels = format!("{{defect=\"{defect}\",window=\"15m\"}}");
        let bad = watcher.metric(&format!("plimsoll_load_watcher_bad_values{labels}"));
        assert_eq!(bad.as_deref(), Some("1"), "{defect}");
    }
}

#[tokio::test]
async fn a_failed_query_costs_one_resource_and_a_failed_store_keeps_the_load() {
    let store = Store::default();
    let mut answers = good("1767270000");
    answers[5].1 = None;
    store.set(answers);
    let cluster = Cluster::new();
    let mut watcher = cluster.start(None, Some(store.serve().await), u32::MAX);
    watcher.snapshots.changed().await.expect("load");
    let (status, text) = watcher.get("/watcher").await;
    assert_eq!(status, 200);
    assert!(
        text.contains("CPU") && !text.contains("Bandwidth"),
        "{text}"
    );
    let network = "plimsoll_load_watcher_query_errors_total{resource=\"network\"}";
    assert!(watcher.metric(network).is_some() && watcher.metric(CPU_ERRORS).is_none());

    store.set(vec![("", None)]);
    watcher.wait_for_metric(CPU_ERRORS, "1").await;
    assert_eq!(watcher.get("/watcher").await.0, 200);
    assert!(watcher.readiness.missing().is_empty());
}

#[tokio::test]
async fn a_store_without_new_samples_is_stale() {
    let store = Store::default();
    // 301 s before the clock starts.
    store.set(good("1767269699"));
    let cluster = Cluster::new();
    let watcher = cluster.start(None, Some(store.serve().await), u32::MAX);
    watcher
        .wait_for_metric("plimsoll_load_watcher_nodes_without_load", "2")
        .await;
    assert_eq!(watcher.get("/watcher").await.0, 404);
    // A node without a recent sample is left out, even if the windows still have older ones.
    let mut answers = good("1767270000");
    answers[0].1 = Some(vec![("n2", "1767270000")]);
    store.set(answers);
    watcher
        .wait_for_metric("plimsoll_load_watcher_nodes_without_load", "1")
        .await;
    assert_eq!(watcher.get("/watcher/n1").await.0, 404);
    assert_eq!(watcher.get("/watcher/n2").await.0, 200);
}

#[tokio::test]
async fn windows_of_prometheus_survive_a_restart() {
    let store = Store::default();
    store.set(good("1767270000"));
    let cluster = Cluster::new();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = || Some(folder.path().to_owned());
    let config = store.serve().await;
    let watcher = cluster.start(cache(), Some(config.clone()), u32::MAX);
    let writes = "plimsoll_load_watcher_cache_writes_total{result=\"success\"}";
    watcher.wait_for_metric(writes, "1").await;
    let after_time = |(status, text): (u16, String)| {
        let rest = text
            .split_once(",\"window\"")
            .map(|parts| parts.1.to_owned());
        (status, rest)
    };
    let before = after_time(watcher.get("/watcher").await);
    assert_eq!(before.0, 200);
    drop(watcher);
    store.set(vec![("", None)]);
    let watcher = cluster.start(cache(), Some(config), u32::MAX);
    watcher.wait_for_metric(CPU_ERRORS, "1").await;
    assert_eq!(after_time(watcher.get("/watcher").await), before);
}
