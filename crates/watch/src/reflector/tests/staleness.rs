//! Staleness of a watch: open, resumed, silent and dead ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use view::View;

use super::super::{CATCH_UP, SILENCE, WATCH_SECONDS};
use super::Answer::{self, Body as Text, Broken, Refused};
use super::{bookmark, event, events, follow_namespaces, namespace, page, status};

/// The lines of a watch that stays open, one by one.
type Lines = mpsc::UnboundedSender<Result<String, std::io::Error>>;

type Watched = (watch::Receiver<View>, Lines, JoinHandle<()>);

/// A view whose watch is open without an event so far, after requests with the answers `before`.
async fn watched(before: Vec<Answer>) -> Watched {
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
            let opened = opened.lock().expect("whole").take();
            opened.map(|opened| opened.send(()));
        }
        async { answer.ok_or_else(|| std::io::Error::other("broken")) }
    });
    let (view, following) = follow_namespaces(Client::new(service, "default"));
    open.await.expect("the watch is opened");
    (view, lines, following)
}

/// A watch that broke and is open again.
async fn resumed() -> Watched {
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
    for (kind, name, names) in [
        ("ADDED", "b", vec!["a", "b", "c"]),
        ("DELETED", "a", vec!["c"]),
    ] {
        let first = event(kind, &namespace(name, "6"));
        let second = event("ADDED", &namespace("c", "7"));
        let (mut view, lines, following) = resumed().await;
        let opened = Instant::now();
        for event in [first, second] {
            sleep(CATCH_UP / 3).await;
            lines.send(Ok(event)).expect("the watch is open");
        }
        until_current(&mut view).await;
        assert_passed(opened, CATCH_UP);
        let view = view.borrow();
        let found = view.namespaces.iter().map(|namespace| &*namespace.name);
        assert_eq!(found.collect::<Vec<_>>(), names);
        following.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_resumed_watch_is_current_at_a_bookmark() {
    let (mut view, lines, following) = resumed().await;
    let opened = Instant::now();
    sleep(CATCH_UP / 2).await;
    let sent = lines.send(Ok(event("BOOKMARK", &bookmark())));
    sent.expect("the watch is open");
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
        let passed = current.elapsed();
        assert!(longest.contains(&passed), "{passed:?}");
        following.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_dead_after_two_bookmarks_did_not_come() {
    let (mut view, lines, following) = resumed().await;
    let sent = lines.send(Ok(event("BOOKMARK", &bookmark())));
    sent.expect("the watch is open");
    until_current(&mut view).await;
    let current = Instant::now();
    until_stale(&mut view).await;
    assert_passed(current, SILENCE);
    following.abort();
}
