//! After the shutdown a replica responds for some seconds, with a current view.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode};
use futures::stream::StreamExt as _;
use kube::Client;
use prometheus::Registry;
use runtime::client::RestMetrics;
use runtime::shutdown::Tasks;
use runtime::{Activity, Chassis, Readiness};
use serde_json::{Value, json};
use serving::port::Port;
use testing::{Pace, eventually};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use webhook::args::{Args, PROGRAM};
use webhook::serve::LIMITS;

use crate::ca::Ca;
use crate::client::{Connection, trusting};
use crate::fixture::NAME;

/// An API server with one `StatefulSet` and its VPA. `events` are those of the watch of VPAs.
fn cluster(events: mpsc::UnboundedReceiver<Value>) -> Client {
    let events = Arc::new(Mutex::new(Some(events)));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let path = request.uri().path().to_owned();
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let events = if is_watch && path.ends_with("verticalpodautoscalers") {
            events.lock().unwrap().take()
        } else {
            None
        };
        async move {
            let body = if let Some(mut events) = events {
                let lines = futures::stream::poll_fn(move |context| events.poll_recv(context));
                Body::from_stream(
                    lines.map(|event| Ok::<_, Infallible>(Bytes::from(format!("{event}\n")))),
                )
            } else if is_watch {
                Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
            } else if path.contains("/leases/") {
                return Ok(Response::builder()
                    .status(StatusCode::NOT_FOUND)
                    .body(Body::empty())
                    .unwrap());
            } else {
                let items = match path.rsplit('/').next() {
                    Some("statefulsets") => json!([stateful_set()]),
                    Some("verticalpodautoscalers") => json!([autoscaler()]),
                    _ => json!([]),
                };
                Body::from(
                    json!({"metadata": {"resourceVersion": "1"}, "items": items}).to_string(),
                )
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(service, "suite")
}

fn stateful_set() -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": "db", "uid": "db", "resourceVersion": "1"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}, "serviceName": "db", "template": {}},
    })
}

fn autoscaler() -> Value {
    json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "db", "uid": "of-db", "resourceVersion": "1"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}},
        "status": {"recommendation": {"containerRecommendations": [{"containerName": "app", "target": {"cpu": "100m"}}]}},
    })
}

fn review() -> Value {
    let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db", "controller": true});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "1", "namespace": "shop", "operation": "CREATE",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "object": {
                "metadata": {"name": "db-0", "labels": {"app": "db"}, "ownerReferences": [owner]},
                "spec": {"containers": [{"name": "app", "image": "db"}]},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_is_current_as_long_as_reviews_are_served() -> Result<()> {
    let (folder, authority) = (tempfile::tempdir()?, Ca::new("own")?);
    let (certificate, key) = authority.issue(None)?;
    let path = |name: &str, text: &str| -> Result<String> {
        std::fs::write(folder.path().join(name), text)?;
        Ok(folder
            .path()
            .join(name)
            .to_str()
            .context("a path")?
            .to_owned())
    };
    let (certificate, key) = (path("cert", &certificate)?, path("key", &key)?);
    let words = [
        "webhook",
        "--register-webhook=false",
        "--tls-cert-file",
        &certificate,
        "--tls-private-key",
        &key,
    ];
    let args: Args = PROGRAM.try_parse_from(words)?;

    let (events, cluster) = {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, cluster(receiver))
    };
    let (registry, shutdown) = (Registry::new(), CancellationToken::new());
    let (tasks, _failures) = Tasks::new(shutdown.clone());
    let chassis = Chassis {
        program: PROGRAM,
        client: cluster,
        rest_metrics: RestMetrics::register(&registry)?,
        registry,
        readiness: Readiness::default(),
        activity: Activity::default(),
        shutdown: shutdown.clone(),
        tasks: tasks.clone(),
        config: kube::Config::new("http://localhost".parse()?),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    let port = async { Ok(Port::on(listener, LIMITS)) };
    let running = tokio::spawn(webhook::run_on(port, args, chassis));

    let connector = trusting(&authority.pem)?;
    let review = review().to_string();
    let is_sized = async || -> Result<bool> {
        let (code, text) = Connection::open(address, NAME, &connector)
            .await?
            .post(review.as_bytes())
            .await?;
        ensure!(code == 200, "{code} {text}");
        Ok(serde_json::from_str::<Value>(&text)?["response"]["patch"].is_string())
    };
    ensure!(is_sized().await?, "the pod has a recommendation");

    let shutdown_at = Instant::now();
    shutdown.cancel();
    ensure!(is_sized().await?, "it still has");
    events.send(json!({"type": "DELETED", "object": autoscaler()}))?;
    eventually(
        "the pod has no recommendation any more",
        Pace::WITHIN,
        async || {
            ensure!(
                !is_sized().await?,
                "sized by a deleted VPA, {:?} after the shutdown",
                shutdown_at.elapsed()
            );
            Ok(())
        },
    )
    .await?;
    running.await??;
    ensure!(
        tasks.drain(Pace::WITHIN.limit).await == 0,
        "the watches have ended"
    );
    Ok(())
}
