//! A terminating replica serves for some seconds, from the current state of the cluster.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use adapter::serve::LIMITS;
use adapter::{Args, PROGRAM};
use anyhow::{Result, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
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

use crate::fixture::Fixture;

const CRON: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/crane_autoscaling_cron";
const KIND: &str = "effectivehorizontalpodautoscalers";

/// An API server with one EHPA with a cron schedule, and a watch of EHPAs with these events.
fn cluster(events: mpsc::UnboundedReceiver<Value>) -> Client {
    let events = Arc::new(Mutex::new(Some(events)));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (path, query) = (request.uri().path(), request.uri().query());
        let is_autoscalers = path.ends_with(KIND);
        let is_watch = query.is_some_and(|query| query.contains("watch=true"));
        let is_watched = is_watch && is_autoscalers;
        let events = is_watched.then(|| events.lock().unwrap().take()).flatten();
        async move {
            let body = if let Some(mut events) = events {
                let events = futures::stream::poll_fn(move |context| events.poll_recv(context));
                let lines = events.map(|event| Bytes::from(format!("{event}\n")));
                Body::from_stream(lines.map(Ok::<_, Infallible>))
            } else if is_watch {
                Body::from_stream(futures::stream::pending::<Result<Bytes, Infallible>>())
            } else {
                let items = Vec::from_iter(is_autoscalers.then(autoscaler));
                let list = json!({"metadata": {"resourceVersion": "1"}, "items": items});
                Body::from(list.to_string())
            };
            Ok::<_, Infallible>(Response::new(body))
        }
    });
    Client::new(service, "suite")
}

fn autoscaler() -> Value {
    let metric = json!({
        "type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
    });
    json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web", "uid": "of-web", "resourceVersion": "1"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 9, "scaleStrategy": "Auto", "metrics": [metric],
            "crons": [{"name": "day", "start": "0 9 * * *", "end": "0 18 * * *", "targetReplicas": 5}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_goes_on_as_long_as_questions_are_answered() -> Result<()> {
    let mut fixture = Fixture::new(&[]).await;
    let (certificate, key) = fixture.servers.server("localhost").pem;
    let [certificate, key] = [("own.crt", certificate), ("own.key", key)]
        .map(|(name, text)| fixture.write(name, &text).display().to_string());
    let words = format!("--tls-cert-file={certificate} --tls-private-key-file={key}");
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
        config: fixture.api.config.clone(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    fixture.address = listener.local_addr()?;
    let port = async { Ok(Port::on(listener, LIMITS)) };
    let running = tokio::spawn(adapter::run_on(port, args, manager));

    let becomes = async |expected: u16| {
        let what = format!("the answer is a {expected}");
        let asking = eventually(what, Pace::WITHIN, async || {
            let mut proxy = fixture.proxy().await;
            let (code, body) = proxy.get(CRON, &["X-Remote-User: hpa"]).await;
            ensure!(code == expected, "{code} {body}");
            Ok(())
        });
        asking.await
    };
    becomes(200).await?;
    shutdown.cancel();
    becomes(200).await?;
    events.send(json!({"type": "DELETED", "object": autoscaler()}))?;
    becomes(404).await?;
    running.await??;
    let left = tasks.drain(Pace::WITHIN.limit).await;
    ensure!(left == 0, "the watches have ended");
    Ok(())
}
