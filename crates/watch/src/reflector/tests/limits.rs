//! Limits of objects, pages and namespaces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use http::{Request, Response};
use k8s_openapi::api::core::v1;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use view::{ObjectKey, Resource, Scope, StopSwitch, View};

use super::super::{LIST_AGAIN, PAGE_BYTES, Source, WATCH_SECONDS, follow};
use super::Answer::Body as Text;
use super::Step::{List, Watch};
use super::{check, event, events, follow_namespaces, namespace};
use crate::memory_limits::Limits;
use crate::splitter::Item;
use crate::table_writer::{Reading, TableWriter};
use crate::{Watches, excluded_fields};

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
    let next = (end < count).then(|| end.to_string());
    let body =
        json!({"metadata": {"resourceVersion": "5", "continue": next}, "items": items}).to_string();
    Response::new(Body::from(body.into_bytes()))
}

fn is_watch<B>(request: &Request<B>) -> bool {
    request
        .uri()
        .query()
        .is_some_and(|query| query.contains("watch=true"))
}

#[tokio::test(start_paused = true)]
async fn oversized_pages_are_requested_again_in_parts() {
    let count = (PAGE_BYTES >> 20) + 8;
    let pages = Arc::new(Mutex::new(0));
    let asked = Arc::clone(&pages);
    let service = tower::service_fn(move |request: Request<Body>| {
        let asked = Arc::clone(&asked);
        async move {
            if is_watch(&request) {
                std::future::pending::<()>().await;
            }
            *asked.lock().expect("whole") += 1;
            Ok::<_, std::io::Error>(fat_page(request.uri(), count))
        }
    });
    let (mut view, following) = follow_namespaces(Client::new(service, "default"));
    let view = view.wait_for(View::is_synced).await;
    let view = view.expect("the store lives");
    assert_eq!(view.namespaces.len(), count);
    let errors = view.freshness.values().map(|freshness| freshness.errors);
    assert_eq!(errors.sum::<u64>(), 0);
    // All are too many for one page. They came in one chunk, so half as many are asked for.
    assert_eq!(*pages.lock().expect("whole"), 3);
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_large_is_treated_as_absent() {
    let fat = |name: &str, version: &str| {
        let labels: serde_json::Map<_, _> = (0..10_000)
            .map(|number| (format!("l{number}"), json!("")))
            .collect();
        json!({"metadata": {"name": name, "resourceVersion": version, "labels": labels}})
    };
    let items = [namespace("a", "1"), fat("b", "1"), namespace("c", "1")];
    let script = vec![
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
    ];
    check(script, &["a", "e"], false, 0).await;
}

/// A VPA object with policies and recommendations of 200 containers.
fn vpa_of_200_containers(name: usize) -> serde_json::Value {
    let names: Vec<_> = (0..200).map(|n| format!("executor-{n:03}")).collect();
    let amounts = json!({"cpu": "1500m", "memory": "2147483648"});
    let policy = |name: &String| {
        json!({
            "containerName": name, "mode": "Auto", "minAllowed": amounts, "maxAllowed": amounts,
            "controlledResources": ["cpu", "memory"], "controlledValues": "RequestsOnly",
        })
    };
    let recommended = |name: &String| {
        json!({
            "containerName": name, "target": amounts, "uncappedTarget": amounts,
            "lowerBound": amounts, "upperBound": amounts,
        })
    };
    let policies: Vec<_> = names.iter().map(policy).collect();
    let recommendations: Vec<_> = names.iter().map(recommended).collect();
    json!({
        "metadata": {"namespace": "spark", "name": name.to_string(), "resourceVersion": "1"},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "resourcePolicy": {"containerPolicies": policies},
        },
        "status": {"recommendation": {"containerRecommendations": recommendations}},
    })
}

#[tokio::test(start_paused = true)]
async fn vpa_objects_of_200_containers_are_in_the_view() {
    let items: Vec<_> = (0..20).map(vpa_of_200_containers).collect();
    let list = json!({"metadata": {"resourceVersion": "5"}, "items": items});
    let client = testing::api_server(move |request| {
        let list = list.clone();
        async move {
            if is_watch(&request) {
                std::future::pending::<()>().await;
            }
            (200, list)
        }
    });
    let watches = Watches::new(client, Scope::default()).vpas();
    let mut view = watches.view();
    let view = view.wait_for(View::is_synced).await;
    assert_eq!(view.expect("the store lives").vpas.len(), 20);
}

/// Three objects of one namespace, of which two have room together. The first watch deletes one.
/// Each watch lasts `watch_time`. The third object must appear after `expected`.
async fn check_refused(watch_time: Duration, expected: Duration) {
    let [lists, watches] = [0, 0].map(|count| Arc::new(AtomicUsize::new(count)));
    let count = Arc::clone(&lists);
    let service = tower::service_fn(move |request: Request<Body>| {
        let object = |name| {
            let metadata = json!({"namespace": "shop", "name": name, "resourceVersion": "5", "labels": {"large": "x".repeat(10_000)}});
            json!({"metadata": metadata})
        };
        let is_watch = is_watch(&request);
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
        let key = ObjectKey::new("shop", name);
        move |view: &View| view.stop_switches.get(&key).is_some()
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
    let watch_time = Duration::from_secs(WATCH_SECONDS.into());
    check_refused(watch_time, watch_time).await;
    // Not more often where watches end at once.
    check_refused(Duration::from_secs(2), LIST_AGAIN).await;
}
