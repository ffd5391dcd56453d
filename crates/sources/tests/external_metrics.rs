//! Requests to an external metrics adapter, and the effects of its responses, failures and hangs.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use kube::{Client, Config};
use model::{Cpu, Memory};
use sources::external_metrics::{ExternalMetricNames, ExternalMetrics, PodQuery, UsageRead};
use tokio::net::TcpListener;

/// Response of prometheus-adapter for a pod with two containers, and for a series without a
/// container.
const CPU: &str = r#"{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[
{"metricName":"container_cpu","metricLabels":{"container":"app","pod":"web-1"},"timestamp":"2026-01-01T12:34:56Z","value":"249999999n"},
{"metricName":"container_cpu","metricLabels":{"container":"proxy","pod":"web-1"},"timestamp":"2026-01-01T12:34:56Z","value":"0"},
{"metricName":"container_cpu","metricLabels":{"pod":"web-1"},"timestamp":"2026-01-01T12:34:56Z","value":"1"}]}"#;
const MEMORY: &str = r#"{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{"selfLink":""},"items":[
{"metricName":"container_memory","metricLabels":{"container":"app","pod":"web-1"},"timestamp":"2026-01-01T12:34:56Z","window":60,"value":"300Mi"},
{"metricName":"container_memory","metricLabels":{"container":"proxy","pod":"web-1"},"timestamp":"2026-01-01T12:35:00Z","value":"x"}]}"#;
const UNKNOWN: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"unable to fetch metrics","reason":"InternalError","code":500}"#;
const EMPTY: &str = r#"{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[]}"#;

/// Time of a pass that nothing exceeds.
const PASS: Duration = Duration::from_secs(30);

/// Received requests, as metric and selector.
type LastQuery = Arc<Mutex<Vec<(String, String)>>>;

/// `delay` is the response time for the pod `web-1` of `app=web`.
async fn answer(
    State((asked, delay)): State<(LastQuery, Duration)>,
    Path((namespace, metric)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    assert!(
        ["bank", "shop"].contains(&namespace.as_str()) && query.len() == 1,
        "{metric} {query:?}"
    );
    let selector = query["labelSelector"].clone();
    let question = (metric.clone(), selector.clone());
    asked.lock().expect("whole").push(question);
    if namespace == "shop" && selector == "app=web,pod=web-1" {
        tokio::time::sleep(delay).await;
    }
    match (metric.as_str(), selector.as_str()) {
        (_, "app=zombie,pod=web-1") => std::future::pending().await,
        (_, selector) if namespace == "bank" || selector == "app=broken,pod=web-1" => {
            (StatusCode::INTERNAL_SERVER_ERROR, UNKNOWN).into_response()
        }
        ("container_cpu", "app=web,pod=web-1") => CPU.into_response(),
        ("container_memory", "app=web,pod=web-1") => MEMORY.into_response(),
        _ => EMPTY.into_response(),
    }
}

/// A source that reads both metrics from a server that runs as long as the test.
async fn source() -> (ExternalMetrics, LastQuery) {
    let asked = LastQuery::default();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let router = router(&asked, Duration::ZERO);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut config = Config::new(format!("http://{address}").parse().expect("an address"));
    config.default_retry = false;
    let client = Client::try_from(config).expect("a client");
    (external_metrics(client), asked)
}

/// The same without a connection, for a paused clock. `delay` is the response time of a good
/// response.
fn source_in_process(delay: Duration) -> (ExternalMetrics, LastQuery) {
    let asked = LastQuery::default();
    let client = Client::new(router(&asked, delay), "default");
    (external_metrics(client), asked)
}

fn router(asked: &LastQuery, delay: Duration) -> Router {
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/{metric}";
    Router::new()
        .route(path, get(answer))
        .with_state((Arc::clone(asked), delay))
}

fn external_metrics(client: Client) -> ExternalMetrics {
    let [cpu, memory] = ["container_cpu", "container_memory"].map(|name| Some(name.to_owned()));
    let names = ExternalMetricNames::new(cpu, memory, "container".to_owned()).expect("names");
    ExternalMetrics::new(client, names)
}

fn question(app: &str, pod: &str) -> PodQuery {
    let selector = format!("app={app}").parse().expect("a selector");
    PodQuery::new("shop", pod, &selector)
}

fn samples(pass: &UsageRead) -> Vec<(String, String, Option<i64>, Option<i64>)> {
    let usage = pass.usage.iter().map(|usage| {
        let (container, at) = (usage.container.to_string(), usage.sample.at.to_string());
        let cpu = usage.sample.cpu.map(Cpu::millicores);
        (container, at, cpu, usage.sample.memory.map(Memory::bytes))
    });
    usage.collect()
}

#[tokio::test]
async fn both_metrics_of_a_container_become_one_sample_and_no_value_becomes_none() {
    let (source, asked) = source().await;
    let pods = vec![question("web", "web-1"), question("web", "web-2")];
    let pass = source.read(pods, PASS).await;
    let sample = |container: &str, cpu, memory| {
        let at = "2026-01-01T12:34:56Z".to_owned();
        (format!("shop/web-1/{container}"), at, Some(cpu), memory)
    };
    let expected = [
        sample("app", 250, Some(300 << 20)),
        sample("proxy", 0, None),
    ];
    assert_eq!(samples(&pass), expected);
    assert_eq!((pass.failed, pass.skipped), (0, 0), "{:?}", pass.problem);
    let mut asked = asked.lock().expect("whole").clone();
    asked.sort();
    let expected = [
        ("container_cpu", "web-1"),
        ("container_cpu", "web-2"),
        ("container_memory", "web-1"),
        ("container_memory", "web-2"),
    ];
    let question = |(metric, pod): (&str, &str)| (metric.to_owned(), format!("app=web,pod={pod}"));
    assert_eq!(asked, expected.map(question));
}

#[tokio::test]
async fn a_failure_costs_its_own_pod_only() {
    let (source, _) = source().await;
    let pods = vec![question("broken", "web-1"), question("web", "web-1")];
    let pass = source.read(pods, PASS).await;
    assert_eq!((pass.usage.len(), pass.failed, pass.skipped), (2, 2, 0));
    let problem = pass.problem.expect("a reason").to_string();
    assert!(problem.starts_with("reading metrics failed: "), "{problem}");
}

#[tokio::test]
async fn an_adapter_that_keeps_failing_is_left_alone_and_the_next_pass_begins_with_what_was_not_reached()
 {
    let (source, asked) = source().await;
    let broken = (0..100).map(|_| question("broken", "web-1"));
    let pods: Vec<_> = broken.chain([question("web", "web-1")]).collect();
    let pass = source.read(pods.clone(), PASS).await;
    assert_eq!((pass.usage.len(), pass.failed, pass.skipped), (0, 20, 182));
    assert!(asked.lock().expect("whole").len() < 40, "it was left alone");
    let pods: Vec<_> = (0..100)
        .map(|number| question("broken", &format!("web-{number}")))
        .collect();
    let pass = source.read(pods, PASS).await;
    assert_eq!((pass.failed, pass.skipped), (2, 0), "{:?}", pass.problem);
}

#[tokio::test]
async fn a_pass_ends_when_its_time_is_up_and_keeps_what_it_has() {
    let (source, _) = source().await;
    let silent = || (0..12).map(|_| question("zombie", "web-1"));
    let pods: Vec<_> = silent().chain([question("web", "web-1")]).collect();
    // Time enough for the others on a busy machine: a request without a response within half of it
    // has failed.
    for pass in 0..2 {
        let read = source.read(pods.clone(), Duration::from_secs(4)).await;
        let (failed, skipped) = (read.failed, read.skipped);
        assert_eq!((read.usage.len(), failed + skipped), (2, 24), "pass {pass}");
        assert!(
            failed >= 10 && skipped >= 4,
            "pass {pass}: {failed} {skipped}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_one_namespace_that_fail_do_not_keep_those_of_another_waiting() {
    // Failures come at once.
    let (source, asked) = source_in_process(Duration::from_millis(100));
    let selector = "app=web".parse().expect("a selector");
    let bank = (0..1000).map(|number| PodQuery::new("bank", &format!("web-{number}"), &selector));
    // The same ten queries, each with two containers in its response.
    let pods: Vec<_> = bank
        .chain((0..10).map(|_| question("web", "web-1")))
        .collect();
    for pass in 0..4 {
        let read = source.read(pods.clone(), PASS).await;
        let counts = (read.usage.len(), read.failed, read.skipped);
        assert_eq!(counts, (2, 20, 1980), "pass {pass}");
        let asked = std::mem::take(&mut *asked.lock().expect("whole"));
        let good = asked
            .iter()
            .filter(|(_, selector)| selector == "app=web,pod=web-1")
            .count();
        assert!(good >= 20, "pass {pass}: {good}");
    }
}
