//! Malformed answers of Prometheus, of metrics servers and of load-watchers: examples with changed
//! values and bytes, through the clients of each.
//!
//! `PLIMSOLL_HOSTILE_ANSWERS` sets the number of answers (`make fuzz`: a million),
//! `PROPTEST_RNG_SEED` the seed.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use serde_json::Value;
use testing::malformed::{mutated, spoil};
use testing::measured::peak_bytes;

use crate::error_chain::with_causes;
use crate::external_metrics::{ExternalMetricNames, ExternalMetrics, PodQuery};
use crate::load_watcher;
use crate::metrics_api::MetricsApi;
use crate::node_metrics::NodeMetricsApi;
use crate::prometheus::{
    Connection, Labelled, PodLabelSettings, Prometheus, PrometheusError, UsageSettings, Window,
};

const COUNT: &str = "PLIMSOLL_HOSTILE_ANSWERS";
const FEW: usize = 4000;
/// Limit of the resident memory, which includes that of the test itself.
const MOST_MEMORY: usize = 300 << 20;
/// Characters of the text of an error with its causes, which goes into the log.
const LONGEST_ERROR: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(30);

/// An example for each kind of answer.
const EXAMPLES: [&str; 9] = [
    r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"__name__":"a","container":"app","namespace":"shop","pod":"web-1"},"values":[[1767225600,"0.25"],[1767229200,"NaN"],[1767232800.781,"0.5"]]},
        {"metric":{"container":"app","namespace":"shop","pod":"web-2"},"values":[[1767225600,"+Inf"],[1767229200,"-1"]]}],
        "isPartial":false,"warnings":["PromQL info: metric might not be a counter"]}}"#,
    r#"{"status":"success","data":{"resultType":"matrix","result":[
        {"metric":{"exported_namespace":"shop","exported_pod":"web-1","label_app":"web"},"values":[[1767225600,"1"]]}]}}"#,
    r#"{"status":"success","data":["container_cpu_usage_seconds_total"]}"#,
    r#"{"status":"success","data":{"resultType":"vector","result":[
        {"metric":{"queue":"orders","namespace":"shop"},"value":[1767225600.123,"7"]},{"metric":{},"value":[1767225600,"NaN"]}]}}"#,
    r#"{"status":"success","data":[{"__name__":"queue_depth","namespace":"shop","queue":"orders"},{"__name__":"b","pod":"c"}]}"#,
    r#"{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metadata":{"name":"web-1","namespace":"shop","labels":{"app":"web"}},"timestamp":"2026-01-01T12:34:56Z","window":"10.06s",
         "containers":[{"name":"app","usage":{"cpu":"249999999n","memory":"300Mi"}},{"name":"proxy","usage":{"cpu":"1"}}]}]}"#,
    r#"{"kind":"NodeMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metadata":{"name":"n1"},"timestamp":"2026-01-01T12:34:56Z","window":"10s","usage":{"cpu":"2500m","memory":"3Gi"}}]}"#,
    r#"{"kind":"ExternalMetricValueList","apiVersion":"external.metrics.k8s.io/v1beta1","metadata":{},"items":[
        {"metricName":"cpu","metricLabels":{"container":"app","pod":"web-1"},"timestamp":"2026-01-01T12:34:56Z","window":60,"value":"249999999n"},
        {"metricName":"cpu","metricLabels":{"container":"proxy"},"timestamp":"2026-01-01T12:34:56Z","value":"-1"}]}"#,
    r#"{"timestamp":1767225600,"window":{"duration":"15m","start":1767224700,"end":1767225600},"source":"Prometheus","data":{"NodeMetricsMap":{
        "n1":{"metrics":[{"name":"m","type":"CPU","operator":"AVG","rollup":"15m","value":40.5},{"name":"m","type":"Memory","operator":"STD","value":3}],
              "tags":{},"metadata":{"dataCenter":""}}}}}"#,
];

/// The next answer of the server.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<(u16, Vec<u8>)>>);

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        Client::new(
            tower::service_fn(move |request: http::Request<Body>| {
                let (code, mut body) = server.0.lock().clone();
                // The detection of series asks for values after names.
                let has_values = body.windows(4).any(|part| part == b"Type");
                if request.uri().path() == "/api/v1/query" && !has_values {
                    body = br#"{"data":{"resultType":"vector","result":[]}}"#.to_vec();
                }
                let response = http::Response::builder().status(code);
                std::future::ready(response.body(Body::from(body)))
            }),
            "default",
        )
    }
}

struct Clients {
    prometheus: Prometheus,
    pods: MetricsApi,
    nodes: NodeMetricsApi,
    external: ExternalMetrics,
    window: Window,
    query: PodQuery,
}

impl Clients {
    fn new(server: &Server) -> Self {
        let client = server.client();
        let names = ExternalMetricNames::new(Some("cpu".to_owned()), None, "container".to_owned());
        let at = |second| Timestamp::from_second(second).expect("in range");
        let step = "1h".parse().expect("a step");
        let selector = "app=web".parse().expect("a selector");
        let connection = Connection {
            query_timeout: PATIENCE,
            ..Connection::default()
        };
        Self {
            prometheus: Prometheus::with_client(client.clone(), "", &connection, Arc::new(|_| ())),
            pods: MetricsApi::new(client.clone(), None),
            nodes: NodeMetricsApi::new(client.clone()),
            external: ExternalMetrics::new(client, names.expect("names")),
            window: Window::new(at(1_767_225_600), at(1_767_232_800), step).expect("not empty"),
            query: PodQuery::new("shop", "web-1", &selector),
        }
    }

    /// Reads an answer of this kind. `Err` has the text of the error.
    async fn read(&self, kind: usize) -> Result<(), String> {
        let Self {
            prometheus, window, ..
        } = self;
        let of_store = |error: PrometheusError| {
            // It names the series that flags configure, and quotes no answer.
            assert!(error.text_for_others().chars().count() <= 2 * LONGEST_ERROR);
            with_causes(&error)
        };
        match kind {
            0 => {
                let mut series = UsageSettings::default().cpu_candidates();
                let (series, mut found) = (series.remove(0), Vec::new());
                let usage = prometheus.read_usage(&series, "shop", *window, |one| found.push(one));
                usage.await.map_err(of_store)?;
                for one in &found {
                    check_series(&one.usage);
                }
                let found = prometheus.read_expression("a", *window).await;
                for Labelled { series, .. } in found.map_err(of_store)? {
                    check_series(&series);
                }
            }
            1 => {
                let series = PodLabelSettings::default().candidates().remove(1);
                let labels = prometheus.read_pod_labels(&series, "shop", *window).await;
                assert!(labels.map_err(of_store)?.keys().all(|pod| !pod.is_empty()));
            }
            2 => {
                let (usage, labels) = (UsageSettings::default(), PodLabelSettings::default());
                let layout = prometheus.detect(&usage, &labels, *window).await;
                assert!(layout.map_err(of_store)?.cpu.is_some());
            }
            3 => drop(prometheus.query("a", PATIENCE).await.map_err(of_store)?),
            4 => {
                let shapes = prometheus.shapes("a", Timestamp::UNIX_EPOCH).await;
                drop(shapes.map_err(of_store)?);
            }
            5 => drop(
                self.pods
                    .read()
                    .await
                    .map_err(|error| with_causes(&error))?,
            ),
            6 => drop(
                self.nodes
                    .read()
                    .await
                    .map_err(|error| with_causes(&error))?,
            ),
            _ => {
                let read = self.external.read(vec![self.query.clone()], PATIENCE).await;
                let ours = |usage: &crate::ContainerUsage| usage.container.pod == "web-1";
                assert!(read.usage.iter().all(ours) && read.skipped == 0);
                read.problem
                    .map_or(Ok(()), |error| Err(with_causes(&error)))?;
            }
        }
        Ok(())
    }
}

fn check_series(series: &model::Series) {
    assert!(
        series
            .values()
            .all(|value| value.is_finite() && value >= 0.0)
    );
    let times: Vec<_> = series.timestamps().collect();
    assert!(times.is_sorted());
}

fn read_load(body: &[u8]) -> Result<(), String> {
    let load = load_watcher::parse(body).map_err(|error| with_causes(&error))?;
    drop(load);
    Ok(())
}

#[tokio::test]
async fn hostile_answers_neither_panic_nor_fill_memory_or_log() {
    let count = std::env::var(COUNT)
        .ok()
        .map(|count| count.parse::<usize>().expect("a number"));
    let seed = std::env::var("PROPTEST_RNG_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let mut random = StdRng::seed_from_u64(seed);
    let examples = EXAMPLES.map(|example| serde_json::from_str::<Value>(example).expect("JSON"));
    let (server, all) = (Server::default(), count.unwrap_or(FEW));
    let clients = Clients::new(&server);
    let (mut read, mut refused) = ([0; EXAMPLES.len()], [0; EXAMPLES.len()]);
    for number in 0..all {
        let kind = number % examples.len();
        let mut body = mutated(&examples[kind], &mut random)
            .to_string()
            .into_bytes();
        if random.random_range(0..5) == 0 {
            spoil(&mut body, &mut random);
        }
        let code = [200, 200, 200, 200, 200, 200, 400, 403, 422, 503][random.random_range(0..10)];
        let result = if kind == EXAMPLES.len() - 1 {
            read_load(&body)
        } else {
            *server.0.lock() = (code, body);
            clients.read(kind).await
        };
        match result {
            Ok(()) => read[kind] += 1,
            Err(error) => {
                refused[kind] += 1;
                let characters = error.chars().count();
                assert!(characters <= LONGEST_ERROR, "{error:.300}");
            }
        }
    }
    let enough = all / EXAMPLES.len() / 20;
    assert!(
        read.iter().chain(&refused).all(|count| *count > enough),
        "{read:?} and {refused:?} of {all}"
    );
    // In other runs other tests share the process.
    if count.is_some() {
        let peak = peak_bytes().expect("/proc/self/status");
        println!(
            "{all} answers, of which {read:?} were read, in at most {} MiB",
            peak >> 20
        );
        assert!(peak < MOST_MEMORY, "{} MiB", peak >> 20);
    }
}
