//! A terminating replica serves for some seconds, from the current state of the cluster.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use adapter::serve::LIMITS;
use adapter::{Args, PROGRAM};
use anyhow::{Context as _, Result, ensure};
use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
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

use crate::ca::CertificateSpec;
use crate::fixture::Fixture;

const CRON: &str = "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/crane_autoscaling_cron";
const KIND: &str = "effectivehorizontalpodautoscalers";

/// An API server with one EHPA with a cron schedule, and a watch of EHPAs with these events.
fn cluster(events: mpsc::UnboundedReceiver<Value>) -> Client {
    let events = Arc::new(Mutex::new(Some(events)));
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let is_autoscalers = request.uri().path().ends_with(KIND);
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let events = if is_watch && is_autoscalers {
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
            } else {
                let items = if is_autoscalers {
                    json!([autoscaler()])
                } else {
                    json!([])
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
    let identity = fixture.servers.issue(&CertificateSpec {
        common_name: "localhost",
        purposes: &[],
        ..CertificateSpec::default()
    });
    let (certificate, key) = (
        fixture.write("own.crt", &identity.pem.0),
        fixture.write("own.key", &identity.pem.1),
    );
    let [certificate, key] = [&certificate, &key].map(|path| path.to_str().context("a path"));
    let words = [
        "adapter",
        "--tls-cert-file",
        certificate?,
        "--tls-private-key-file",
        key?,
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
        config: fixture.api.config.clone(),
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    fixture.address = listener.local_addr()?;
    let port = async { Ok(Port::on(listener, LIMITS)) };
    let running = tokio::spawn(adapter::run_on(port, args, chassis));

    let becomes = async |expected: u16| {
        eventually(
            format!("the answer is a {expected}"),
            Pace::WITHIN,
            async || {
                let (code, body) = fixture
                    .proxy()
                    .await
                    .get(CRON, &["X-Remote-User: hpa"])
                    .await;
                ensure!(code == expected, "{code} {body}");
                Ok(())
            },
        )
        .await
    };
    becomes(200).await?;
    shutdown.cancel();
    becomes(200).await?;
    events
        .send(json!({"type": "DELETED", "object": autoscaler()}))
        .context("the watch has ended")?;
    becomes(404).await?;
    running.await??;
    ensure!(
        tasks.drain(Pace::WITHIN.limit).await == 0,
        "the watches have ended"
    );
    Ok(())
}
