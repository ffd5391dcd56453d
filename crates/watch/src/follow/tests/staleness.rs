//! Staleness of a watch: open, resumed, silent and dead ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::client::Body;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until};
use view::{Resource, View};

use super::super::{CATCH_UP, SILENCE, Source, WATCH_SECONDS, follow};
use super::Answer::{self, Body as Text, Broken, Refused};
use super::{bookmark, event, events, namespace, page, read, status};
use crate::excluded_fields;
use crate::table_writer::TableWriter;

/// The lines of a watch that stays open, one by one.
type Lines = mpsc::UnboundedSender<Result<String, std::io::Error>>;

/// A view whose watch is open without an event so far, after requests with the answers `before`.
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
async fn a_resumed_watch_is_stale_until_missed_events_are_applied() {
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
