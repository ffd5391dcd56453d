//! Invalid, hostile and late requests.

use std::convert::Infallible;
use std::pin::pin;

use axum::body::{Body, Bytes};
use axum::http::{Request, StatusCode};
use futures::future::join_all;
use futures::stream;
use proptest::prelude::*;
use serde_json::json;

use super::super::*;
use super::fixture::{Fixture, args, config, found, pod};

#[tokio::test]
async fn invalid_requests_are_refused_with_a_reason() {
    let fixture = Fixture::new(config(), &[25.0]);
    let quantity = args(&pod("u1", 100), &["node-1"]).replace("100m", "lots");
    let not_a_number = args(&pod("u1", 100), &["node-1"]).replace("\"100m\"", "NaN");
    let deep = format!("{{\"Pod\":{{\"x\":{}", "[".repeat(100_000));
    for (body, expected) in [
        ("", "EOF while parsing"),
        ("never", "expected ident"),
        ("[]", "invalid length 0, expected struct ExtenderArgs"),
        ("{}", "missing field `Pod`"),
        (r#"{"Pod":null,"NodeNames":[]}"#, "invalid type: null"),
        (r#"{"Pod":{},"NodeNames":[1]}"#, "invalid type: integer `1`"),
        (
            r#"{"Pod":{},"Nodes":{"items":[{}]}}"#,
            "missing field `metadata`",
        ),
        (&quantity, "Pod.spec.containers[0].resources.limits"),
        (&not_a_number, "expected value"),
        (&deep, "EOF while parsing"),
    ] {
        for path in ["/prioritize", "/filter"] {
            let found = fixture.post(path, body.to_owned()).await;
            let start: String = body.chars().take(80).collect();
            assert_eq!(found.status, StatusCode::BAD_REQUEST, "{path} {start}");
            assert!(
                found.text.starts_with("not ExtenderArgs: "),
                "{}",
                found.text
            );
            assert!(found.text.contains(expected), "{start}: {}", found.text);
        }
    }
    let refused = "plimsoll_extender_refused_requests_total";
    let count = fixture.metric(refused, &["prioritize", "invalid"]);
    assert!((count - 10.0).abs() < 0.5, "{count}");
}

#[tokio::test]
async fn unusual_requests_are_answered() {
    let fixture = Fixture::new(config(), &[25.0, 50.0]);
    let empty = json!({"metadata": {}, "spec": {"containers": null}});
    let huge = "9".repeat(30);
    let large = pod("u1", 1).to_string().replace("1m", &huge);
    let large = serde_json::from_str(&large).expect("JSON");
    let escaped = r#"{"Pod":{},"NodeNames":["\u006eode-2","n\"1\n"]}"#.to_owned();
    for (body, expected) in [
        // A pod without containers has no load. 25 % of a target of 50 % scores 75, 50 % 100.
        (args(&empty, &["node-1", "node-2"]), vec![8, 10]),
        (args(&large, &["node-1", "node-2"]), vec![0, 0]),
        (args(&empty, &[]), vec![]),
        (args(&empty, &["node-2", "node-2"]), vec![10, 10]),
        (escaped, vec![10, 5]),
        (r#"{"Pod":{}}"#.to_owned(), vec![]),
        (r#"{"Pod":{},"Nodes":{"items":null}}"#.to_owned(), vec![]),
    ] {
        let found = fixture.post("/prioritize", body.clone()).await;
        assert_eq!(found.status, StatusCode::OK, "{}", found.text);
        assert_eq!(found.scores(), expected, "{body}");
        let found = fixture.post("/filter", body).await;
        let names = found.json();
        let left = names["NodeNames"].as_array().map_or(0, Vec::len);
        assert!(
            left == expected.len() || names["Nodes"].is_object(),
            "{names}"
        );
    }
}

#[tokio::test]
async fn unknown_nodes_have_a_neutral_score_and_stay() {
    let mut config = config();
    config.filter.cpu_percent = Some(1.0);
    let fixture = Fixture::new(config, &[50.0]);
    let names: Vec<_> = (0..100_000).map(|number| format!("n{number}")).collect();
    let mut names: Vec<_> = names.iter().map(String::as_str).collect();
    names.push("node-1");
    let body = args(&json!({}), &names);
    let found = fixture.post("/prioritize", body.clone()).await;
    let scores = found.scores();
    assert_eq!((scores.len(), scores[0], scores[100_000]), (100_001, 5, 10));
    let count = fixture.metric("plimsoll_extender_unknown_nodes_total", &[]);
    assert!((count - 100_000.0).abs() < 0.5, "{count}");
    let left = fixture.post("/filter", body).await.json();
    assert_eq!(left["NodeNames"].as_array().map(Vec::len), Some(100_000));
    let reasons = left["FailedAndUnresolvableNodes"].as_object();
    assert_eq!(reasons.map(serde_json::Map::len), Some(1));
}

#[tokio::test]
async fn the_size_of_a_body_is_limited() {
    let mut config = config();
    let body = args(&pod("u1", 100), &["node-1"]);
    config.max_body_bytes = body.len();
    let fixture = Fixture::new(config, &[50.0]);
    for (body, expected) in [
        (body.clone(), StatusCode::OK),
        (format!("{body} "), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let found = fixture.post("/prioritize", body).await;
        assert_eq!(found.status, expected);
    }
    // It is not read to its end.
    let part = Bytes::from_static(&[b' '; 4096]);
    let endless = stream::repeat_with(move || Ok::<_, Infallible>(part.clone()));
    let found = fixture.post("/filter", Body::from_stream(endless)).await;
    assert_eq!(found.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(
        found.text.starts_with("a body has at most "),
        "{}",
        found.text
    );
}

#[tokio::test]
async fn texts_that_are_kept_are_short() {
    let fixture = Fixture::new(config(), &[50.0]);
    for (field, most) in [("namespace", 63), ("uid", 64)] {
        for (length, expected) in [(most, StatusCode::OK), (most + 1, StatusCode::BAD_REQUEST)] {
            let mut pod = pod("u1", 100);
            pod["metadata"][field] = json!("a".repeat(length));
            let body = args(&pod, &["node-1"]);
            let found = fixture.post("/prioritize", body).await;
            assert_eq!(found.status, expected, "{field}: {}", found.text);
        }
    }
}

#[tokio::test]
async fn bodies_that_never_end_delay_no_other_request() {
    let fixture = Fixture::new(config(), &[50.0]);
    let unfinished = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let requests = config().max_requests;
    let slow = join_all((0..requests).map(|_| fixture.post("/prioritize", unfinished())));
    let whole = async {
        tokio::task::yield_now().await;
        let body = args(&pod("u1", 100), &["node-1"]);
        let found = fixture.post("/prioritize", body).await;
        assert_eq!(found.scores().len(), 1);
    };
    // Most that a request waits is the deadline.
    let mut slow = pin!(slow);
    tokio::select! {
        biased;
        _ = slow.as_mut() => panic!("the slow ones ended before the whole one"),
        () = whole => {}
    }
}

#[tokio::test]
async fn only_post_to_known_paths_is_answered() {
    let mut config = config();
    config.profiles.insert("web".to_owned(), Policy::Peaks);
    let fixture = Fixture::new(config, &[50.0]);
    let body = || args(&pod("u1", 100), &["node-1"]);
    for (method, path, expected) in [
        ("POST", "/profiles/web/prioritize", StatusCode::OK),
        ("POST", "/profiles/web/filter", StatusCode::OK),
        ("POST", "/profiles/Web/prioritize", StatusCode::NOT_FOUND),
        ("POST", "/profiles/%ff/prioritize", StatusCode::BAD_REQUEST),
        ("POST", "/profiles/none/filter", StatusCode::NOT_FOUND),
        ("GET", "/prioritize", StatusCode::METHOD_NOT_ALLOWED),
        ("POST", "/bind", StatusCode::NOT_FOUND),
    ] {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body())).expect("a request");
        let found = found(fixture.router(), request).await;
        assert_eq!(found.status, expected, "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_is_neutral() {
    let mut config = config();
    config.deadline = Duration::from_millis(50);
    config.max_requests = 1;
    config.filter.cpu_percent = Some(1.0);
    let fixture = Fixture::new(config, &[25.0]);
    // The body never ends, so the request holds the only place until its deadline.
    let unfinished = || Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    for body in [unfinished(), unfinished()] {
        let found = fixture.post("/prioritize", body).await;
        assert_eq!((found.status, &*found.text), (StatusCode::OK, "[]"));
        assert_eq!(found.basis.as_deref(), Some("neutral"));
    }
    let found = fixture.post("/filter", unfinished()).await;
    assert_eq!(found.status, StatusCode::SERVICE_UNAVAILABLE);
    let answers = "plimsoll_extender_answers_total";
    let late = fixture.metric(answers, &["prioritize", "neutral", "deadline"]);
    assert!((late - 2.0).abs() < 0.5, "{late}");
}

#[test]
fn after_the_deadline_scores_are_equal_and_no_node_is_removed() {
    let mut config = config();
    config.filter.cpu_percent = Some(1.0);
    let fixture = Fixture::new(config, &[25.0, 75.0]);
    let body = args(&pod("u1", 100), &["node-1", "node-2"]);
    let past = std::time::Instant::now();
    let answer = fixture.scheduler.prioritize(body.as_bytes(), None, past);
    let answer = answer.expect("a valid request");
    let expected = r#"[{"Host":"node-1","Score":5},{"Host":"node-2","Score":5}]"#;
    assert_eq!(String::from_utf8(answer.body).as_deref(), Ok(expected));
    assert_eq!(answer.basis.name(), "neutral");
    let answer = fixture.scheduler.filter(body.as_bytes(), past);
    let text = String::from_utf8(answer.expect("a valid request").body).expect("UTF-8");
    assert!(
        text.contains(r#""NodeNames":["node-1","node-2"]"#),
        "{text}"
    );
}

proptest! {
    #[test]
    fn answers_have_the_offered_names_with_any_content(
        names in prop::collection::vec(prop_oneof![".{0,20}", "node-[1-3]"], 0..20),
        threshold in 0..100_u8,
    ) {
        let mut config = config();
        config.filter.cpu_percent = Some(threshold.into());
        config.filter.max_removed_percent = 100;
        let fixture = Fixture::new(config, &[25.0, 50.0, 75.0]);
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let body = args(&pod("u1", 100), &names);
        let later = std::time::Instant::now() + Duration::from_mins(1);
        let read = |body: Vec<u8>| -> serde_json::Value {
            serde_json::from_slice(&body).expect("JSON")
        };
        let scored = fixture.scheduler.prioritize(body.as_bytes(), None, later);
        let scored = read(scored.expect("a valid request").body);
        let hosts: Vec<_> = scored.as_array().expect("a list").iter().map(|it| &it["Host"]).collect();
        prop_assert_eq!(&hosts, &names);
        for entry in scored.as_array().expect("a list") {
            let score = entry["Score"].as_u64();
            prop_assert!(score.is_some_and(|score| score <= 10), "{}", entry);
        }
        let filtered = fixture.scheduler.filter(body.as_bytes(), later);
        let filtered = read(filtered.expect("a valid request").body);
        let removed = filtered["FailedAndUnresolvableNodes"].as_object().expect("reasons");
        let left = names.iter().filter(|name| !removed.contains_key(**name));
        prop_assert_eq!(&filtered["NodeNames"], &json!(left.collect::<Vec<_>>()));
        prop_assert!(removed.keys().all(|name| name.starts_with("node-")));
    }
}
