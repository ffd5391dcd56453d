//! The API client against services that answer slowly, at length or never.

use tower::ServiceExt as _;

use super::*;
use crate::args::tests::parse;

const PROGRAM: Program = Program {
    name: "recommender",
    version: "1.2.3",
    defaults: &[],
};

const TIMED_OUT: &str = "no answer from the API server within 65s";
const TOO_LONG: &str = "an answer of the API server is longer than 128 MiB";

type Answer = Result<Response<Body>, BoxError>;

/// The request layer in front of a response.
fn service<R>(
    throttle: Throttle,
    answer: impl Fn() -> R + Clone,
) -> (
    RequestService<
        impl Service<Request<KubeBody>, Response = Response<Body>, Error = BoxError, Future = R>,
    >,
    Registry,
)
where
    R: Future<Output = Answer> + Send + 'static,
{
    let registry = Registry::new();
    let metrics = RestMetrics::register(&registry).unwrap();
    let throttle = Arc::new(Mutex::new(throttle));
    let shared = RequestState {
        throttle,
        metrics,
        host: "api:6443".into(),
        timeout: REQUEST_TIMEOUT,
    };
    let inner = tower::service_fn(move |_request| answer());
    (RequestService { inner, shared }, registry)
}

fn get(path: &str) -> Request<KubeBody> {
    Request::get(path).body(KubeBody::empty()).unwrap()
}

fn urgent() -> Request<KubeBody> {
    let mut request = get("/api/v1/pods");
    request.extensions_mut().insert(Urgent);
    request
}

fn assert_at(start: tokio::time::Instant, milliseconds: std::ops::Range<u128>) {
    let took = start.elapsed();
    assert!(milliseconds.contains(&took.as_millis()), "{took:?}");
}

async fn whole() -> Answer {
    Ok(Response::new(Body::from("whole")))
}

async fn never_ending() -> Answer {
    let begun = futures::stream::iter([Ok::<_, BoxError>("begun")]);
    Ok(Response::new(Body::from_stream(
        begun.chain(futures::stream::pending()),
    )))
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_throttle_and_watches_do_not() {
    let (mut service, _registry) = service(Throttle::new(10.0, 2), whole);
    let start = tokio::time::Instant::now();
    let writes: Vec<_> = (0..12).map(|_| service.call(get("/api/v1/pods"))).collect();
    service
        .call(get("/api/v1/pods?allowWatchBookmarks=true&watch=true"))
        .await
        .unwrap();
    assert_at(start, 0..10);
    for write in writes {
        write.await.unwrap();
    }
    assert_at(start, 900..1100);
}

#[tokio::test(start_paused = true)]
async fn an_urgent_request_does_not_wait_behind_others() {
    let (mut service, _registry) = service(Throttle::new(10.0, 20).reserving(10), whole);
    let start = tokio::time::Instant::now();
    let _writes: Vec<_> = (0..15).map(|_| service.call(get("/api/v1/pods"))).collect();
    service.call(urgent()).await.unwrap();
    assert_at(start, 0..10);
    service.call(get("/api/v1/pods")).await.unwrap();
    assert_at(start, 691..u128::MAX);
}

#[tokio::test(start_paused = true)]
async fn with_rejection_an_urgent_request_does_not_wait_behind_others() {
    let (mut service, _registry) = service(Throttle::new(10.0, 20).reserving(10).refusing(), whole);
    let start = tokio::time::Instant::now();
    let others: Vec<_> = (0..100)
        .map(|_| service.call(get("/api/v1/pods")))
        .collect();
    service.call(urgent()).await.unwrap();
    assert_at(start, 0..10);
    let answers = futures::future::join_all(others).await;
    let refusals = answers.into_iter().filter_map(Result::err);
    let refusals: Vec<_> = refusals.map(|error| error.to_string()).collect();
    assert_eq!(
        refusals,
        vec!["too many requests wait for the API server"; 85]
    );
}

#[tokio::test(start_paused = true)]
async fn a_response_that_does_not_end_fails_unless_it_is_a_watch() {
    let (mut service, registry) = service(Throttle::new(10.0, 2), never_ending);
    let error = service.call(get("/api/v1/pods")).await.unwrap_err();
    assert_eq!(error.to_string(), TIMED_OUT);

    let watch = service.call(get("/api/v1/pods?watch=1")).await.unwrap();
    tokio::time::sleep(Duration::from_hours(5)).await;
    let first = watch
        .into_body()
        .into_data_stream()
        .next()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(first, "begun");

    let text = prometheus::TextEncoder::new()
        .encode_to_string(&registry.gather())
        .unwrap();
    for line in [
        r#"rest_client_requests_total{code="200",host="api:6443",method="GET"} 1"#,
        r#"rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1"#,
        r#"rest_client_request_duration_seconds_count{host="api:6443",verb="GET"} 2"#,
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

async fn endless() -> Answer {
    Ok(Response::new(Body::from_stream(
        futures::stream::repeat_with(|| Ok::<_, BoxError>(vec![b' '; 1 << 20])),
    )))
}

#[tokio::test(start_paused = true)]
async fn a_page_is_streamed_and_must_end_in_time() {
    let (mut service, _registry) = service(Throttle::new(10.0, 2), never_ending);
    let page = service
        .call(get("/api/v1/pods?limit=500&continue=x"))
        .await
        .unwrap();
    let mut chunks = page.into_body().into_data_stream();
    assert_eq!(chunks.next().await.unwrap().unwrap(), "begun");
    let error = chunks.next().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), TIMED_OUT);
}

#[tokio::test]
async fn a_response_that_is_too_long_fails_whether_it_is_a_page_or_not() {
    let (mut service, _registry) = service(Throttle::new(10.0, 2), endless);
    let page = service.call(get("/api/v1/pods?limit=500")).await.unwrap();
    let chunks: Vec<_> = page
        .into_body()
        .into_data_stream()
        .map(|chunk| chunk.map(|chunk| chunk.len()))
        .collect()
        .await;
    let (last, before) = chunks.split_last().unwrap();
    let length: usize = before.iter().map(|length| length.as_ref().unwrap()).sum();
    assert_eq!(length, MAX_RESPONSE_BYTES);
    assert_eq!(last.as_ref().unwrap_err().to_string(), TOO_LONG);
    let whole = service.call(get("/api/v1/pods")).await.unwrap_err();
    assert_eq!(whole.to_string(), TOO_LONG);
    assert!(is_too_long(&*whole));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_begin_fails() {
    let (service, _registry) = service(Throttle::new(10.0, 2), std::future::pending::<Answer>);
    let error = service.oneshot(get("/api/v1/pods?watch=true")).await;
    assert_eq!(error.unwrap_err().to_string(), TIMED_OUT);
}

#[tokio::test]
async fn the_kubeconfig_named_by_the_flag_is_used_with_our_name_on_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config");
    let kubeconfig = "apiVersion: v1\nkind: Config\ncurrent-context: c\nusers: []\n\
        clusters: [{name: c, cluster: {server: 'https://127.0.0.1:7'}}]\n\
        contexts: [{name: c, context: {cluster: c, user: ''}}]\n";
    std::fs::write(&path, kubeconfig).unwrap();
    let args = parse(&format!("--kubeconfig={}", path.display()))
        .unwrap()
        .common;
    let config = config(&args, &PROGRAM).await.unwrap();
    assert_eq!(config.cluster_url, "https://127.0.0.1:7");
    let agent = HeaderValue::from_static("plimsoll-recommender/1.2.3");
    assert_eq!(config.headers, [(USER_AGENT, agent)]);
    assert!(config.read_timeout.is_none(), "it would end quiet watches");
}

#[tokio::test]
async fn a_wrong_kubeconfig_is_named() {
    let args = parse("--kubeconfig=/nonexistent/config").unwrap().common;
    let error = config(&args, &PROGRAM).await.unwrap_err().to_string();
    let named = "--kubeconfig=/nonexistent/config";
    assert!(error.contains(named), "{error}");
}
