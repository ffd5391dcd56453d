//! After the shutdown a replica responds for some seconds, with a current view.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use anyhow::{Result, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures::stream::StreamExt as _;
use kube::Client;
use prometheus::Registry;
use runtime::client::RestMetrics;
use runtime::shutdown::Tasks;
use runtime::{Activity, Manager, Readiness};
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
        let (path, query) = (request.uri().path().to_owned(), request.uri().query());
        let is_watch = query.is_some_and(|query| query.contains("watch=true"));
        let is_watched = is_watch && path.ends_with("verticalpodautoscalers");
        let events = is_watched.then(|| events.lock().unwrap().take()).flatten();
        async move {
            let body = if let Some(mut events) = events {
                let events = futures::stream::poll_fn(move |context| events.poll_recv(context));
                let lines = events.map(|event| Bytes::from(format!("{event}\n")));
                Body::from_stream(lines.map(Ok::<_, Infallible>))
            } else if is_watch {
                Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
            } else if path.contains("/leases/") {
                return Ok(StatusCode::NOT_FOUND.into_response());
            } else {
                let items = match path.rsplit('/').next() {
                    Some("statefulsets") => json!([stateful_set()]),
                    Some("verticalpodautoscalers") => json!([vpa()]),
                    _ => json!([]),
                };
                let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
                Body::from(list.to_string())
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

fn vpa() -> Value {
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
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("cert"), certificate)?;
    std::fs::write(path("key"), key)?;
    let [cert, key] = ["cert", "key"].map(|name| path(name).display().to_string());
    let words = format!("--register-webhook=false --tls-cert-file={cert} --tls-private-key={key}");
    let args: Args = PROGRAM.parse_line(&words).map_err(anyhow::Error::msg)?;

    let (events, receiver) = mpsc::unbounded_channel();
    let cluster = cluster(receiver);
    let (registry, shutdown) = (Registry::new(), CancellationToken::new());
    let (tasks, _failures) = Tasks::new(shutdown.clone());
    let manager = Manager {
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
    let running = tokio::spawn(webhook::run_on(port, args, manager));

    let connector = trusting(&authority.pem)?;
    let review = review().to_string();
    let is_sized = async || -> Result<bool> {
        let mut connection = Connection::open(address, NAME, &connector).await?;
        let (code, text) = connection.post(review.as_bytes()).await?;
        ensure!(code == 200, "{code} {text}");
        Ok(serde_json::from_str::<Value>(&text)?["response"]["patch"].is_string())
    };
    ensure!(is_sized().await?, "the pod has a recommendation");

    shutdown.cancel();
    ensure!(is_sized().await?, "it still has");
    events.send(json!({"type": "DELETED", "object": vpa()}))?;
    let deleted = eventually("the pod is not sized any more", Pace::WITHIN, async || {
        ensure!(!is_sized().await?, "sized by a deleted VPA");
        Ok(())
    });
    deleted.await?;
    running.await??;
    let left = tasks.drain(Pace::WITHIN.limit).await;
    ensure!(left == 0, "the watches have ended");
    Ok(())
}
