//! A script replaces the API server: each request must match its next step and gets the step's
//! answer. After the last step the server is silent, and the table is compared.

mod limits;
mod malformed;
mod staleness;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use view::{Namespace, Resource, View};

use super::{BACKOFF, Source, follow};
use crate::excluded_fields;
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};

/// One request and its answer.
enum Step {
    /// A list, with the continue token of the requested page.
    List(Option<&'static str>, Answer),
    /// A watch, with the version that it starts from.
    Watch(&'static str, Answer),
}
use Step::{List, Watch};

enum Answer {
    Body(String),
    Refused(u16),
    /// The connection breaks.
    Broken,
}
use Answer::{Body as Text, Broken, Refused};

fn namespace(name: &str, version: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": version}})
}

/// A page of a list. Only the last page has no token of a next one.
fn page(names: &[&str], version: &str, next: &str) -> Answer {
    let items: Vec<_> = names.iter().map(|name| namespace(name, "1")).collect();
    Text(
        json!({"metadata": {"resourceVersion": version, "continue": next}, "items": items})
            .to_string(),
    )
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

fn bookmark() -> Value {
    json!({"kind": "Namespace", "metadata": {"resourceVersion": "9"}})
}

/// A watch that the server ends after these events.
fn events(events: &[(&str, Value)]) -> Answer {
    Text(
        events
            .iter()
            .map(|(kind, object)| event(kind, object))
            .collect(),
    )
}

fn status(code: u16) -> Value {
    json!({"status": "Failure", "message": "no", "reason": "Reason", "code": code})
}

fn answer(step: Option<Step>, uri: &http::Uri) -> Result<Response<Body>, std::io::Error> {
    let query = uri.query().unwrap_or_default();
    let asked = |parameter: &str| {
        query
            .split('&')
            .find_map(|pair| pair.strip_prefix(parameter)?.strip_prefix('='))
    };
    let answer = match step.expect("a step") {
        List(page, answer) => {
            assert_eq!((asked("watch"), asked("continue")), (None, page), "{uri}");
            answer
        }
        Watch(version, answer) => {
            assert_eq!(
                (asked("watch"), asked("resourceVersion")),
                (Some("true"), Some(version)),
                "{uri}"
            );
            answer
        }
    };
    let (code, body) = match answer {
        Text(body) => (200, body),
        Refused(code) => (code, status(code).to_string()),
        Broken => return Err(std::io::Error::other("broken")),
    };
    Ok(Response::builder()
        .status(code)
        .body(Body::from(body.into_bytes()))
        .expect("a response"))
}

fn read(item: &Item<'_>) -> Reading<Namespace> {
    if item.name == "broken" {
        return Reading::Broken(item.name.to_owned(), "broken".to_owned());
    }
    Reading::of(item.name.to_owned(), item.parse().map(Namespace::from_k8s))
}

fn follow_namespaces(client: Client) -> (watch::Receiver<View>, JoinHandle<()>) {
    let store = Arc::new(watch::Sender::new(View::default()));
    let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
    let source = Source::new::<v1::Namespace>(client, None, excluded_fields::OTHERS);
    let following = tokio::spawn(follow(source, read, writer));
    (store.subscribe(), following)
}

/// Plays a script. `expected` are the names in the table at the end, `stale` and `errors` the
/// freshness.
async fn check(script: Vec<Step>, expected: &[&str], stale: bool, errors: u64) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let (ended, end) = oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (script, ended) = (Arc::clone(&script), Arc::clone(&ended));
        async move {
            let step = script.lock().expect("whole").pop_front();
            if step.is_none() {
                let ended = ended.lock().expect("whole").take();
                ended.map(|ended| ended.send(()));
                std::future::pending::<()>().await;
            }
            answer(step, request.uri())
        }
    });
    let (view, following) = follow_namespaces(Client::new(service, "default"));
    end.await.expect("the script is played to its end");
    following.abort();
    let view = view.borrow();
    let names: Vec<_> = view
        .namespaces
        .iter()
        .map(|namespace| namespace.name.as_str())
        .collect();
    assert_eq!(names, expected);
    let freshness = view.freshness.values().next().expect("it is watched");
    assert_eq!(
        (freshness.stale_since.is_some(), freshness.errors),
        (stale, errors)
    );
}

#[tokio::test(start_paused = true)]
async fn pages_make_one_list_and_events_change_it() {
    let script = vec![
        List(None, page(&["a", "b"], "5", "next")),
        List(Some("next"), page(&["c"], "5", "")),
        Watch(
            "5",
            events(&[
                ("ADDED", namespace("d", "6")),
                ("MODIFIED", namespace("a", "7")),
                ("DELETED", namespace("b", "8")),
                ("BOOKMARK", bookmark()),
            ]),
        ),
        Watch("9", events(&[])),
    ];
    check(script, &["a", "c", "d"], false, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke_off() {
    let script = vec![
        List(None, page(&["a"], "5", "")),
        Watch("5", events(&[("ADDED", namespace("b", "6"))])),
        Watch("6", Broken),
        Watch("6", Refused(503)),
        Watch(
            "6",
            events(&[("ADDED", namespace("c", "7")), ("BOOKMARK", bookmark())]),
        ),
        Watch("9", events(&[])),
    ];
    check(script, &["a", "b", "c"], false, 2).await;
}

#[tokio::test(start_paused = true)]
async fn objects_deleted_during_an_outage_are_gone_after_the_next_list() {
    for expired in [Refused(410), events(&[("ERROR", status(410))])] {
        let script = vec![
            List(None, page(&["a", "b"], "5", "")),
            Watch("5", expired),
            List(None, page(&["b", "c"], "50", "")),
            Watch("50", events(&[])),
        ];
        check(script, &["b", "c"], false, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_ends_each_watch_is_passed_over_by_a_list() {
    let error = || events(&[("ERROR", status(500))]);
    let script = vec![
        List(None, page(&["a"], "5", "")),
        Watch("5", error()),
        List(None, page(&["a", "b"], "7", "")),
        Watch("7", Refused(400)),
        List(None, page(&["b"], "8", "")),
    ];
    check(script, &["b"], false, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_leaves_the_last_state() {
    let script = vec![
        List(None, page(&["a"], "5", "")),
        Watch("5", Refused(410)),
        List(None, Broken),
        List(None, Refused(500)),
    ];
    check(script, &["a"], true, 3).await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_response_is_requested_again() {
    let script = vec![
        List(None, Text("{".to_owned())),
        List(None, page(&["a"], "5", "")),
        Watch(
            "5",
            Text("{\"type\": \"ADDED\", \"object\": 1}\n".to_owned()),
        ),
        List(None, page(&["b"], "6", "")),
        Watch("6", events(&[])),
    ];
    check(script, &["b"], false, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_parse_stops_nothing() {
    let script = vec![
        List(None, page(&["a", "broken"], "5", "")),
        Watch(
            "5",
            events(&[
                ("MODIFIED", namespace("broken", "6")),
                ("ADDED", namespace("c", "7")),
            ]),
        ),
        Watch("7", events(&[])),
    ];
    check(script, &["a", "c"], false, 0).await;
}

#[test]
fn delays_double_up_to_a_limit() {
    let longest_ms = [500, 1000, 2000, 4000, 8000, 10_000, 10_000];
    for (delay, longest) in BACKOFF.delays().zip(longest_ms.map(Duration::from_millis)) {
        assert!(
            (longest / 2..=longest).contains(&delay),
            "{delay:?} {longest:?}"
        );
    }
    assert_eq!(BACKOFF.delays().take(1000).count(), 1000);
}
