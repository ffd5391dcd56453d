//! A script stands for the API server: each request must be the next one of the script and gets its
//! answer. After the last one the server falls silent, and the table is compared.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};
use view::{Namespace, ObjectKey, Resource, StopSwitch, View};

use super::{CATCH_UP, LIST_AGAIN, PAGE_BYTES, SILENCE, Source, WATCH_SECONDS, follow};
use crate::allowance::Limits;
use crate::excluded_fields;
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};

/// One request and its answer.
enum Step {
    /// A list, with the token of the page that is asked for.
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

/// A watch that the server ends after these events.
fn events(events: &[(&str, Value)]) -> Answer {
    Text(
        events
            .iter()
            .map(|(kind, object)| json!({"type": kind, "object": object}).to_string() + "\n")
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

/// `expected`: the names in the table at the end, whether the watch is stale, and the failures so
/// far.
async fn check(script: Vec<Step>, expected: &[&str], stale: bool, errors: u64) {
    let script = Arc::new(Mutex::new(VecDeque::from(script)));
    let (ended, end) = oneshot::channel();
    let ended = Arc::new(Mutex::new(Some(ended)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (script, ended) = (Arc::clone(&script), Arc::clone(&ended));
        async move {
            let step = script.lock().expect("whole").pop_front();
            if step.is_none() {
                ended
                    .lock()
                    .expect("whole")
                    .take()
                    .map(|ended| ended.send(()));
                std::future::pending::<()>().await;
            }
            answer(step, request.uri())
        }
    });
    let store = Arc::new(watch::Sender::new(View::default()));
    let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
    let source = Source::new::<v1::Namespace>(
        Client::new(service, "default"),
        None,
        excluded_fields::OTHERS,
    );
    let following = tokio::spawn(follow(source, read, writer));
    end.await.expect("the script is played to its end");
    following.abort();
    let view = store.borrow();
    let names: Vec<_> = view
        .namespaces
        .iter()
        .map(|namespace| namespace.name.as_str())
        .collect();
    assert_eq!(names, expected);
    let (_, freshness) = view.freshness().next().expect("it is watched");
    assert_eq!(
        (freshness.stale_since.is_some(), freshness.errors),
        (stale, errors)
    );
}

#[tokio::test(start_paused = true)]
async fn pages_make_one_list_and_events_change_it() {
    check(
        vec![
            List(None, page(&["a", "b"], "5", "next")),
            List(Some("next"), page(&["c"], "5", "")),
            Watch(
                "5",
                events(&[
                    ("ADDED", namespace("d", "6")),
                    ("MODIFIED", namespace("a", "7")),
                    ("DELETED", namespace("b", "8")),
                    (
                        "BOOKMARK",
                        json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}),
                    ),
                ]),
            ),
            Watch("9", events(&[])),
        ],
        &["a", "c", "d"],
        false,
        0,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_broke_off() {
    check(
        vec![
            List(None, page(&["a"], "5", "")),
            Watch("5", events(&[("ADDED", namespace("b", "6"))])),
            Watch("6", Broken),
            Watch("6", Refused(503)),
            Watch(
                "6",
                events(&[("ADDED", namespace("c", "7")), ("BOOKMARK", bookmark())]),
            ),
            Watch("9", events(&[])),
        ],
        &["a", "b", "c"],
        false,
        2,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_nobody_watched_is_gone_after_the_next_list() {
    for expired in [Refused(410), events(&[("ERROR", status(410))])] {
        check(
            vec![
                List(None, page(&["a", "b"], "5", "")),
                Watch("5", expired),
                List(None, page(&["b", "c"], "50", "")),
                Watch("50", events(&[])),
            ],
            &["b", "c"],
            false,
            1,
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_leaves_the_last_state() {
    check(
        vec![
            List(None, page(&["a"], "5", "")),
            Watch("5", Refused(410)),
            List(None, Broken),
            List(None, Refused(500)),
        ],
        &["a"],
        true,
        3,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_cannot_be_read_is_asked_for_again() {
    check(
        vec![
            List(None, Text("{".to_owned())),
            List(None, page(&["a"], "5", "")),
            Watch(
                "5",
                Text("{\"type\": \"ADDED\", \"object\": 1}\n".to_owned()),
            ),
            List(None, page(&["b"], "6", "")),
            Watch("6", events(&[])),
        ],
        &["b"],
        false,
        2,
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_does_not_parse_stops_nothing() {
    check(
        vec![
            List(None, page(&["a", "broken"], "5", "")),
            Watch(
                "5",
                events(&[
                    ("MODIFIED", namespace("broken", "6")),
                    ("ADDED", namespace("c", "7")),
                ]),
            ),
            Watch("7", events(&[])),
        ],
        &["a", "c"],
        false,
        0,
    )
    .await;
}

/// Objects of a kibibyte less than a mebibyte each, in pages of at most `limit`.
fn fat_page(uri: &http::Uri, count: usize) -> Response<Body> {
    let asked = |parameter: &str| {
        let mut pairs = uri.query().unwrap_or_default().split('&');
        pairs.find_map(|pair| {
            pair.strip_prefix(parameter)?
                .strip_prefix('=')?
                .parse::<usize>()
                .ok()
        })
    };
    let (first, limit) = (
        asked("continue").unwrap_or_default(),
        asked("limit").expect("a page"),
    );
    let end = count.min(first + limit);
    let fat = "x".repeat((1 << 20) - 1024);
    let object = |number: usize| json!({"metadata": {"name": format!("n{number}"), "annotations": {"fat": fat}}});
    let items: Vec<_> = (first..end).map(object).collect();
    let next = if end < count {
        end.to_string()
    } else {
        String::new()
    };
    let body =
        json!({"metadata": {"resourceVersion": "5", "continue": next}, "items": items}).to_string();
    Response::new(Body::from(body.into_bytes()))
}

#[tokio::test(start_paused = true)]
async fn pages_of_fat_objects_are_asked_for_again_in_parts() {
    let count = (PAGE_BYTES >> 20) + 8;
    let pages = Arc::new(Mutex::new(0));
    let asked = Arc::clone(&pages);
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = Arc::clone(&asked);
        async move {
            if request
                .uri()
                .query()
                .unwrap_or_default()
                .contains("watch=true")
            {
                std::future::pending::<()>().await;
            }
            *asked.lock().expect("whole") += 1;
            Ok::<_, std::io::Error>(fat_page(request.uri(), count))
        }
    });
    let store = Arc::new(watch::Sender::new(View::default()));
    let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
    let source = Source::new::<v1::Namespace>(
        Client::new(service, "default"),
        None,
        excluded_fields::OTHERS,
    );
    let following = tokio::spawn(follow(source, read, writer));
    let mut view = store.subscribe();
    let view = view
        .wait_for(View::is_synced)
        .await
        .expect("the store lives");
    assert_eq!(view.namespaces.len(), count);
    assert_eq!(
        view.freshness()
            .map(|(_, freshness)| freshness.errors)
            .sum::<u64>(),
        0
    );
    // All are too many for one page. They came in one chunk, so half as many are asked for.
    assert_eq!(*pages.lock().expect("whole"), 3);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_as_good_as_not_there() {
    let fat = |name: &str, version: &str| {
        let labels: serde_json::Map<_, _> = (0..10_000)
            .map(|number| (format!("l{number}"), json!("")))
            .collect();
        json!({"metadata": {"name": name, "resourceVersion": version, "labels": labels}})
    };
    let items = [namespace("a", "1"), fat("b", "1"), namespace("c", "1")];
    check(
        vec![
            List(
                None,
                Text(json!({"metadata": {"resourceVersion": "5"}, "items": items}).to_string()),
            ),
            Watch(
                "5",
                events(&[
                    ("MODIFIED", fat("c", "6")),
                    ("ADDED", fat("d", "7")),
                    ("ADDED", namespace("e", "8")),
                ]),
            ),
            Watch("8", events(&[])),
        ],
        &["a", "e"],
        false,
        0,
    )
    .await;
}

/// The lines of a watch that stays open, one by one.
type Lines = mpsc::UnboundedSender<Result<String, std::io::Error>>;

/// A view whose last watch is open without an event so far, after others that were answered so.
async fn watched(
    before: Vec<Answer>,
) -> (watch::Receiver<View>, Lines, tokio::task::JoinHandle<()>) {
    let (lines, mut said) = mpsc::unbounded_channel();
    let body = axum::body::Body::from_stream(futures::stream::poll_fn(move |context| {
        said.poll_recv(context)
    }));
    let mut answers = VecDeque::from([page(&["a"], "5", "")]);
    answers.extend(before);
    let mut answers: VecDeque<_> = answers.into_iter().map(response).collect();
    answers.push_back(Response::new(body));
    let answers = Arc::new(Mutex::new(answers));
    let (opened, open) = oneshot::channel();
    let opened = Arc::new(Mutex::new(Some(opened)));
    let service = tower::service_fn(move |_: Request<Body>| {
        let mut answers = answers.lock().expect("whole");
        let answer = answers.pop_front();
        if answers.is_empty() {
            opened
                .lock()
                .expect("whole")
                .take()
                .map(|opened| opened.send(()));
        }
        async { answer.ok_or_else(|| std::io::Error::other("broken")) }
    });
    let store = Arc::new(watch::Sender::new(View::default()));
    let writer = TableWriter::new(Resource::Namespaces, &store, |view| &mut view.namespaces);
    let source = Source::new::<v1::Namespace>(
        Client::new(service, "default"),
        None,
        excluded_fields::OTHERS,
    );
    let following = tokio::spawn(follow(source, read, writer));
    open.await.expect("the watch is opened");
    (store.subscribe(), lines, following)
}

/// A watch that broke and is open again.
async fn resumed() -> (watch::Receiver<View>, Lines, tokio::task::JoinHandle<()>) {
    watched(vec![Refused(503)]).await
}

fn response(answer: Answer) -> Response<axum::body::Body> {
    let (code, body) = match answer {
        Text(body) => (200, body),
        Refused(code) => (code, status(code).to_string()),
        Broken => (502, String::new()),
    };
    Response::builder()
        .status(code)
        .body(body.into())
        .expect("a response")
}

fn bookmark() -> Value {
    json!({"kind": "Namespace", "metadata": {"resourceVersion": "9"}})
}

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string() + "\n"
}

async fn until_current(view: &mut watch::Receiver<View>) {
    view.wait_for(|view| view.stale_since().is_none())
        .await
        .expect("the store lives");
}

async fn until_stale(view: &mut watch::Receiver<View>) {
    view.wait_for(|view| view.stale_since().is_some())
        .await
        .expect("the store lives");
}

/// Checks that `time` has passed since `started`, and less than a second more.
fn assert_passed(started: Instant, time: Duration) {
    let passed = started.elapsed();
    assert!(
        (time..time + Duration::from_secs(1)).contains(&passed),
        "{passed:?} instead of {time:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_is_stale_until_what_was_missed_is_taken_in() {
    for (first, second, names) in [
        (
            Ok(event("ADDED", &namespace("b", "6"))),
            Ok(event("ADDED", &namespace("c", "7"))),
            vec!["a", "b", "c"],
        ),
        (
            Ok(event("DELETED", &namespace("a", "6"))),
            Ok(event("ADDED", &namespace("c", "7"))),
            vec!["c"],
        ),
    ] {
        let (mut view, lines, following) = resumed().await;
        let opened = Instant::now();
        for event in [first, second] {
            sleep(CATCH_UP / 3).await;
            lines.send(event).expect("the watch is open");
        }
        until_current(&mut view).await;
        assert_passed(opened, CATCH_UP);
        let view = view.borrow();
        assert_eq!(
            view.namespaces
                .iter()
                .map(|namespace| namespace.name.as_str())
                .collect::<Vec<_>>(),
            names
        );
        following.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_is_current_at_a_bookmark() {
    let (mut view, lines, following) = resumed().await;
    let opened = Instant::now();
    sleep(CATCH_UP / 2).await;
    lines
        .send(Ok(event("BOOKMARK", &bookmark())))
        .expect("the watch is open");
    until_current(&mut view).await;
    assert_passed(opened, CATCH_UP / 2);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_with_events_all_the_time_becomes_current() {
    let (mut view, lines, following) = resumed().await;
    let opened = Instant::now();
    let events = tokio::spawn(async move {
        while lines.send(Ok(event("ADDED", &namespace("b", "6")))).is_ok() {
            sleep(Duration::from_millis(100)).await;
        }
    });
    until_current(&mut view).await;
    assert_passed(opened, CATCH_UP);
    following.abort();
    events.abort();
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_without_bookmarks_stays_current_until_the_server_ends_it() {
    let (mut view, lines, following) = resumed().await;
    let opened = Instant::now();
    until_current(&mut view).await;
    assert_passed(opened, CATCH_UP);
    let end = opened + Duration::from_secs(WATCH_SECONDS.into());
    tokio::select! {
        () = until_stale(&mut view) => panic!("stale after {:?}", opened.elapsed()),
        () = sleep_until(end) => {}
    }
    drop(lines);
    // Further requests fail.
    until_stale(&mut view).await;
    assert_passed(end, Duration::ZERO);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_silent_for_too_long_is_dead() {
    let with_bookmark = vec![events(&[("BOOKMARK", bookmark())]), Refused(503)];
    let unended = Duration::from_secs(WATCH_SECONDS.into());
    for (before, longest) in [
        (vec![Refused(503)], unended..unended * 2),
        (with_bookmark, SILENCE..SILENCE + CATCH_UP),
    ] {
        let (mut view, _lines, following) = watched(before).await;
        until_current(&mut view).await;
        let current = Instant::now();
        until_stale(&mut view).await;
        assert!(
            longest.contains(&current.elapsed()),
            "{:?}",
            current.elapsed()
        );
        following.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_dead_after_two_bookmarks_did_not_come() {
    let (mut view, lines, following) = resumed().await;
    lines
        .send(Ok(event("BOOKMARK", &bookmark())))
        .expect("the watch is open");
    until_current(&mut view).await;
    let current = Instant::now();
    until_stale(&mut view).await;
    assert_passed(current, SILENCE);
    following.abort();
}

/// Objects of one namespace, two of which have room together. At first there are three, of which
/// the first watch deletes one. Each watch takes this long. The third object comes after
/// `expected`.
async fn check_refused(watch_time: Duration, expected: Duration) {
    let [lists, watches] = [0, 0].map(|count| Arc::new(AtomicUsize::new(count)));
    let count = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let object = |name| {
            let metadata = json!({"namespace": "shop", "name": name, "resourceVersion": "5", "labels": {"large": "x".repeat(10_000)}});
            json!({"metadata": metadata})
        };
        let is_watch = request
            .uri()
            .query()
            .unwrap_or_default()
            .contains("watch=true");
        let earlier = if is_watch { &watches } else { &lists }.fetch_add(1, Ordering::Relaxed);
        let (text, time) = match (is_watch, earlier) {
            (true, 0) => (
                Ok::<_, std::io::Error>(event("DELETED", &object("a"))),
                watch_time,
            ),
            (true, _) => (Ok(String::new()), watch_time),
            (false, _) => {
                let items: Vec<_> = ["a", "b", "c"]
                    .into_iter()
                    .skip(earlier)
                    .map(object)
                    .collect();
                (
                    Ok(json!({"metadata": {"resourceVersion": "5"}, "items": items}).to_string()),
                    Duration::ZERO,
                )
            }
        };
        let end = futures::stream::once(sleep(time)).filter_map(|()| std::future::ready(None));
        let body = futures::stream::once(std::future::ready(text)).chain(end);
        std::future::ready(Ok::<_, std::io::Error>(Response::new(
            axum::body::Body::from_stream(body),
        )))
    });
    let store = Arc::new(watch::Sender::new(View::default()));
    let writer = TableWriter::new(Resource::StopSwitches, &store, |view| {
        &mut view.stop_switches
    });
    let limits = Limits {
        usual: 1000,
        object: 20_000,
        namespace: 25_000,
    };
    let source = Source::new::<v1::ConfigMap>(
        Client::new(service, "default"),
        None,
        excluded_fields::WHOLE,
    );
    let keep = |item: &Item<'_>| Reading::Keep(StopSwitch { key: item.key() });
    let mut view = store.subscribe();
    let (started, following) = (
        Instant::now(),
        tokio::spawn(follow(source.with_limits(limits), keep, writer)),
    );
    let has = |name| {
        move |view: &View| {
            view.stop_switches
                .get(&ObjectKey::new("shop", name))
                .is_some()
        }
    };
    view.wait_for(has("b")).await.expect("the store lives");
    view.wait_for(|view| !has("a")(view))
        .await
        .expect("the store lives");
    assert!(!has("c")(&view.borrow()), "there is no room");
    let third = tokio::time::timeout(expected * 4, view.wait_for(has("c"))).await;
    third.expect("it is read again").expect("the store lives");
    let passed = started.elapsed();
    assert!(
        (expected..expected + Duration::from_secs(5)).contains(&passed),
        "{passed:?} instead of {expected:?}"
    );
    sleep(expected * 4).await;
    assert_eq!(count.load(Ordering::Relaxed), 2, "all have room now");
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn objects_without_room_are_read_again_after_another_is_gone() {
    check_refused(
        Duration::from_secs(WATCH_SECONDS.into()),
        Duration::from_secs(WATCH_SECONDS.into()),
    )
    .await;
    // Not more often where watches end at once.
    check_refused(Duration::from_secs(2), LIST_AGAIN).await;
}
