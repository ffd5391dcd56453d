//! The watches, on an API server without the CRDs of VPAs and predictions.

use std::convert::Infallible;

use axum::http::{Request, Response, Uri};
use kube::Client;
use kube::client::Body;
use runtime::client::RestMetrics;
use runtime::shutdown::Tasks;
use runtime::{Activity, Program, Readiness};
use serde_json::json;
use testing::{Pace, eventually};
use tokio_util::sync::CancellationToken;

use super::super::*;
use super::fixture::{args, config, found, pod};

/// A node with a pod of three of its four CPUs and an empty one. Watches stay open.
fn api_server() -> Client {
    let list =
        |items: serde_json::Value| json!({"metadata": {"resourceVersion": "7"}, "items": items});
    let node = |name: &str| {
        let size = json!({"cpu": "4", "memory": "8Gi"});
        json!({"metadata": {"name": name}, "status": {"capacity": size, "allocatable": size}})
    };
    let nodes = list(json!([node("node-1"), node("node-2")]));
    let mut bound = pod("u1", 3000);
    bound["spec"]["nodeName"] = json!("node-2");
    let pods = list(json!([bound]));
    let answer = move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let (code, body) = match request.uri().path() {
            "/api/v1/nodes" => (200, nodes.to_string()),
            "/api/v1/pods" => {
                let fields =
                    "spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed";
                assert!(query.contains(fields), "{query}");
                (200, pods.to_string())
            }
            _ => (404, json!({"kind": "Status", "code": 404}).to_string()),
        };
        async move {
            if query.contains("watch=") {
                std::future::pending::<()>().await;
            }
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.into_bytes()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    };
    Client::new(tower::service_fn(answer), "default")
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_with_nodes_and_pods_even_without_crds() {
    let shutdown = CancellationToken::new();
    let (tasks, _failures) = Tasks::new(shutdown.clone());
    let registry = Registry::new();
    let manager = Manager {
        program: Program {
            name: "extender",
            version: "",
            defaults: &[],
        },
        client: api_server(),
        registry: registry.clone(),
        readiness: Readiness::default(),
        activity: Activity::default(),
        shutdown,
        tasks,
        config: kube::Config::new(Uri::from_static("https://localhost")),
        rest_metrics: RestMetrics::register(&registry).expect("names are valid"),
    };
    let (_sender, snapshots) = watch::channel(Arc::default());
    let cluster = Watches::new(manager.client.clone(), Scope::default());
    let scheduler = Scheduler::start(config(), snapshots, cluster, &manager);
    let scheduler = scheduler.expect("valid metrics");
    assert_eq!(manager.readiness.missing().len(), 1);
    let ready = eventually("it is ready", Pace::WITHIN, async || {
        let missing = manager.readiness.missing();
        anyhow::ensure!(missing.is_empty(), "{missing:?}");
        Ok(())
    });
    ready.await.expect("it becomes ready");
    let body = args(&pod("u2", 0), &["node-1", "node-2", "node-3"]);
    let request = Request::post("/prioritize").body(body.into());
    let found = found(router(scheduler), request.expect("a request")).await;
    // Without metrics, by requests: three of four CPUs and no memory are 37 %.
    assert_eq!(found.basis.as_deref(), Some("allocation"));
    assert_eq!(found.scores(), [0, 4, 5]);
}
