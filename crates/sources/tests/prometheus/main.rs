//! Requests to a store over HTTP: credentials, smaller pieces after refusals, and timeouts.

mod clusters;

use std::collections::HashMap;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use sources::error_chain::with_causes;
use sources::prometheus::{
    Connection, Credentials, Excess, Exchange, PodLabelSettings, Prometheus, PrometheusError,
    Secret, UsageSeries, UsageSettings, Window, headers,
};
use tokio::net::TcpListener;

/// Codes of the responses, `None` for none.
type Codes = Arc<Mutex<Vec<Option<u16>>>>;

/// Start, end and query of the answered ranges.
type Answered = Arc<Mutex<Vec<(f64, f64, String)>>>;

/// Behaviour of a store.
#[derive(Clone)]
struct Store {
    authorization: Option<&'static str>,
    /// The series of the store.
    has: &'static str,
    /// Maximum number of points in one response.
    most_points: f64,
    /// Number of pods in one response, each in that alone; 0 for `web-1` in all.
    jobs: usize,
    /// Refusal of more points.
    refusal: (StatusCode, &'static str),
    answered: Answered,
    /// Values of the label `cluster`.
    clusters: &'static [&'static str],
    /// Labels of series of equal names.
    equal_names: &'static [&'static str],
    /// Path and selectors of all requests.
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Store {
    fn new(has: &'static str) -> Self {
        let too_many = include_str!("../../fixtures/too_many_samples.json");
        Self {
            authorization: None,
            has,
            most_points: 1e9,
            jobs: 0,
            refusal: (StatusCode::UNPROCESSABLE_ENTITY, too_many),
            answered: Answered::default(),
            clusters: &[],
            equal_names: &[],
            asked: Arc::default(),
        }
    }

    /// Refuses more points.
    fn with_points(has: &'static str, most_points: f64) -> Self {
        Self {
            most_points,
            ..Self::new(has)
        }
    }

    /// Refuses everything so.
    fn refusing(has: &'static str, code: StatusCode, body: &'static str) -> Self {
        Self {
            refusal: (code, body),
            ..Self::with_points(has, 0.0)
        }
    }

    /// A client without credentials.
    async fn connect(&self) -> (Prometheus, Codes) {
        connect(self.serve().await, Credentials::None).await
    }

    /// Serves as long as the test runs; returns its URL, with a path as behind a gateway.
    async fn serve(&self) -> String {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        format!("http://{address}/tenant/a")
    }
}

async fn answer(
    State(store): State<Store>,
    Query(asked): Query<HashMap<String, String>>,
    request: Request,
) -> Response {
    let authorization = request
        .headers()
        .get("authorization")
        .map(|value| value.to_str().expect("text"));
    if authorization != store.authorization {
        return (StatusCode::UNAUTHORIZED, format!("{authorization:?}")).into_response();
    }
    let selectors = asked.get("query").or(asked.get("match[]"));
    let selectors = selectors.cloned().unwrap_or_default();
    let path = request.uri().path().to_owned();
    let mut log = store.asked.lock().expect("no panic");
    log.push((path.clone(), selectors.clone()));
    drop(log);
    let vector = |metrics: &[String]| {
        let one = |metric: &String| format!(r#"{{"metric":{metric},"value":[0,"1"]}}"#);
        let all: Vec<_> = metrics.iter().map(one).collect();
        format!(
            r#"{{"data":{{"resultType":"vector","result":[{}]}}}}"#,
            all.join(",")
        )
    };
    let is_cluster = |value: &&&str| {
        !selectors.contains("cluster=") || selectors.contains(&format!("cluster={value:?}"))
    };
    let clusters = store.clusters.iter().filter(is_cluster);
    match path.as_str() {
        "/tenant/a/api/v1/label/cluster/values" => {
            let found: Vec<_> = clusters.map(|value| format!("{value:?}")).collect();
            format!(r#"{{"data":[{}]}}"#, found.join(",")).into_response()
        }
        "/tenant/a/api/v1/query" if selectors.starts_with("count by (cluster)") => {
            let found = clusters.map(|value| format!(r#"{{"cluster":{value:?}}}"#));
            vector(&found.collect::<Vec<_>>()).into_response()
        }
        "/tenant/a/api/v1/query" => {
            let found = store.equal_names.iter().map(ToString::to_string);
            vector(&found.collect::<Vec<_>>()).into_response()
        }
        "/tenant/a/api/v1/label/__name__/values" => {
            let has = asked["match[]"].starts_with(store.has);
            let found = if has { r#""x""# } else { "" };
            format!(r#"{{"status":"success","data":[{found}]}}"#).into_response()
        }
        "/tenant/a/api/v1/query_range" => {
            let number = |name: &str| asked[name].parse::<f64>().expect("a number");
            let (start, end) = (number("start"), number("end"));
            if (end - start) / number("step") + 1.0 > store.most_points {
                return store.refusal.into_response();
            }
            let mut answered = store.answered.lock().expect("no panic");
            answered.push((start, end, asked["query"].clone()));
            let metric = r#"{"namespace":"shop","pod":"web-1","container":"app"}"#;
            let job = |number: usize| {
                let labels = r#""exported_namespace":"shop","label_app":"ci""#;
                format!(
                    r#"{{"metric":{{{labels},"exported_pod":"job-{start}-{number}"}},"values":[[{end},"1"]]}}"#
                )
            };
            let result = match store.jobs {
                0 => format!(r#"[{{"metric":{metric},"values":[[{start},"1"],[{end},"2"]]}}]"#),
                jobs => format!("[{}]", (0..jobs).map(job).collect::<Vec<_>>().join(",")),
            };
            format!(r#"{{"status":"success","data":{{"resultType":"matrix","result":{result}}}}}"#)
                .into_response()
        }
        path if path.starts_with("/tenant/a/api/v1/label/") => r#"{"data":[]}"#.into_response(),
        "/tenant/a/api/v1/series" => r#"{"data":[]}"#.into_response(),
        path => (StatusCode::NOT_FOUND, path.to_owned()).into_response(),
    }
}

fn window() -> Window {
    let at = |second| Timestamp::from_second(second).expect("in range");
    Window::new(at(0), at(7), "1s".parse().expect("a step")).expect("not empty")
}

fn connection(address: String, credentials: Credentials) -> Connection {
    Connection {
        address,
        credentials,
        query_timeout: Duration::from_secs(30),
        ..Connection::default()
    }
}

async fn connect(address: String, credentials: Credentials) -> (Prometheus, Codes) {
    connect_to(&connection(address, credentials)).await
}

async fn connect_to(connection: &Connection) -> (Prometheus, Codes) {
    let codes = Codes::default();
    let seen = Arc::clone(&codes);
    let observer =
        Arc::new(move |exchange: Exchange| seen.lock().expect("no panic").push(exchange.code));
    let client = Prometheus::connect(connection, observer).await;
    (client.expect("a client"), codes)
}

/// Reads the CPU usage of the namespace `shop`.
async fn read_cpu(client: &Prometheus) -> Result<(), PrometheusError> {
    let series = UsageSettings::default().cpu_candidates().remove(1);
    client
        .read_usage(&series, "shop", window(), |_| ())
        .await
        .map(drop)
}

/// `expected`: the code of the only response.
async fn check(authorization: Option<&'static str>, credentials: Credentials, expected: u16) {
    let store = Store {
        authorization,
        ..Store::new("container_")
    };
    let (client, codes) = connect(store.serve().await, credentials).await;
    let read = read_cpu(&client).await;
    let codes = codes.lock().expect("no panic");
    assert_eq!(*codes, [Some(expected)], "{read:?}");
}

#[tokio::test]
async fn requests_carry_the_credentials() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    fs::write(&file, " abc\n").expect("a file");
    let text = |text: &str| Secret::Text(text.to_owned());
    check(None, Credentials::None, 200).await;
    check(Some("Bearer abc"), Credentials::Bearer(text("abc")), 200).await;
    let from_file = Credentials::Bearer(Secret::File(file));
    check(Some("Bearer abc"), from_file, 200).await;
    let basic = || Credentials::Basic {
        username: "me".to_owned(),
        password: text("pass"),
    };
    check(Some("Basic bWU6cGFzcw=="), basic(), 200).await;
    check(Some("Bearer other"), basic(), 401).await;
}

#[tokio::test]
async fn requests_carry_the_headers() {
    for (header, expected) in [
        (("Authorization", "Token abc"), 200),
        (("X-Scope-OrgID", "shop"), 401),
    ] {
        let store = Store {
            authorization: Some("Token abc"),
            ..Store::new("container_")
        };
        let headers = headers([header], &Credentials::None).expect("a header");
        let connection = Connection {
            headers,
            ..connection(store.serve().await, Credentials::None)
        };
        let (client, codes) = connect_to(&connection).await;
        let read = read_cpu(&client).await;
        let codes = codes.lock().expect("no panic");
        assert_eq!(*codes, [Some(expected)], "{header:?}: {read:?}");
    }
}

#[tokio::test]
async fn large_ranges_are_read_in_pieces() {
    let store = Store::with_points("container_", 3.0);
    let (client, _) = store.connect().await;
    let series = UsageSettings::default().memory_candidates().remove(1);
    let mut found = Vec::new();
    client
        .read_usage(&series, "shop", window(), |series| found.push(series))
        .await
        .expect("answers");
    let answered = store.answered.lock().expect("no panic");
    let ranges: Vec<_> = answered
        .iter()
        .map(|(start, end, _)| (*start, *end))
        .collect();
    assert_eq!(ranges, [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0)]);
    let query = &answered[0].2;
    assert!(query.contains(r#"namespace="shop""#), "{answered:?}");
    let points: usize = found.iter().map(|series| series.usage.len()).sum();
    assert_eq!(points, 8);
    assert_eq!(found[0].container.to_string(), "shop/web-1/app");
}

#[tokio::test]
async fn of_many_short_lived_pods_those_seen_last_are_kept() {
    let store = Store {
        jobs: 30_000,
        ..Store::with_points("kube_pod_labels", 3.0)
    };
    let (client, _) = store.connect().await;
    let series = PodLabelSettings::default().candidates().remove(1);
    let labels = client.read_pod_labels(&series, "shop", window()).await;
    let labels = labels.expect("answers");
    assert_eq!(labels.len(), 20_000);
    assert!(labels.keys().all(|pod| pod.starts_with("job-6-")));
}

#[tokio::test]
async fn responses_of_too_many_series_are_read_in_pieces() {
    let store = Store {
        jobs: 100_001,
        ..Store::new("kube_pod_labels")
    };
    let (client, codes) = store.connect().await;
    let series = PodLabelSettings::default().candidates().remove(1);
    let error = client.read_pod_labels(&series, "shop", window()).await;
    assert!(
        matches!(error, Err(PrometheusError::TooManySeries(_))),
        "{error:?}"
    );
    let requests = codes.lock().expect("no panic").len();
    assert_eq!(requests, 4, "8, 4, 2 points and 1");
}

#[tokio::test]
async fn what_cannot_be_made_smaller_is_an_error() {
    let (client, codes) = Store::with_points("container_", 0.0).connect().await;
    let error = read_cpu(&client).await.expect_err("refused");
    let is_refused = matches!(error, PrometheusError::Refused { code: 422, .. });
    assert!(is_refused, "{error}");
    let requests = codes.lock().expect("no panic").len();
    assert_eq!(requests, 4, "8, 4, 2 points and 1");
}

#[tokio::test]
async fn slow_ranges_are_halved_twice_and_no_more() {
    let store = Store::refusing("container_", StatusCode::GATEWAY_TIMEOUT, "");
    let (client, codes) = store.connect().await;
    let error = read_cpu(&client).await.expect_err("refused");
    assert_eq!(error.excess(), Some(Excess::Time), "{error}");
    let requests = codes.lock().expect("no panic").len();
    assert_eq!(requests, 3, "8, 4 and 2 points");
}

/// The error of the query `up`, and the number of requests.
async fn refused_expression(store: Store) -> (PrometheusError, usize) {
    let (client, codes) = store.connect().await;
    let read = client.read_expression("up", window()).await;
    let requests = codes.lock().expect("no panic").len();
    (read.expect_err("refused"), requests)
}

#[tokio::test]
async fn an_expression_is_one_question_with_a_short_answer() {
    let (error, requests) = refused_expression(Store::with_points("up", 3.0)).await;
    assert_eq!(error.excess(), Some(Excess::Size), "{error}");
    assert_eq!(requests, 1);
    let long: &'static str = "x".repeat(3 << 20).leak();
    let (error, _) = refused_expression(Store::refusing("up", StatusCode::OK, long)).await;
    assert!(matches!(error, PrometheusError::TooLong(_)), "{error}");
}

#[tokio::test]
async fn an_expression_with_many_short_series_is_refused() {
    let one = r#"{"metric":{"a":"1"},"values":[[0,"1"]]},"#.repeat(47_000);
    let body: &'static str = format!(
        r#"{{"data":{{"resultType":"matrix","result":[{}]}}}}"#,
        one.trim_end_matches(',')
    )
    .leak();
    let (error, _) = refused_expression(Store::refusing("up", StatusCode::OK, body)).await;
    let is_refused = matches!(error, PrometheusError::TooManySeries(1000));
    assert!(is_refused, "{error}");
}

#[tokio::test]
async fn the_names_that_a_store_uses_are_found_out() {
    let detect = async |has| {
        let (client, _) = Store::new(has).connect().await;
        let (usage, labels) = (UsageSettings::default(), PodLabelSettings::default());
        client.detect(&usage, &labels, window()).await
    };
    for (has, cpu, memory) in [
        ("container_cpu_usage_seconds_total{pod!", Some("pod"), None),
        (
            "container_memory_working_set_bytes{k8s_",
            None,
            Some("k8s_pod_name"),
        ),
    ] {
        let found = detect(has).await.expect("found");
        let [of_cpu, of_memory] = [found.cpu, found.memory]
            .map(|series: Option<UsageSeries>| series.map(|series| series.pod_label));
        assert_eq!((of_cpu.as_deref(), of_memory.as_deref()), (cpu, memory));
        assert_eq!(found.pod_labels.map(|series| series.query), None);
    }
    let error = detect("kube_pod_labels").await.expect_err("no usage");
    let series = "container_cpu_usage_seconds_total{job=";
    assert!(error.to_string().contains(series), "{error}");
}

#[tokio::test]
async fn a_store_that_is_away_is_an_error_that_says_so() {
    let (client, codes) = connect("http://127.0.0.1:1".to_owned(), Credentials::None).await;
    let error = read_cpu(&client).await.expect_err("no store");
    // The texts of conditions and events, and of the log.
    assert_eq!(error.to_string(), "Prometheus cannot be reached");
    let log = with_causes(&error);
    assert!(
        log.starts_with("Prometheus cannot be reached: ") && log.contains("refused"),
        "{log}"
    );
    assert_eq!(*codes.lock().expect("no panic"), [None]);
}
