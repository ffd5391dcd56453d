//! Writes to an API server where objects are gone, refused or unavailable.

use std::collections::BTreeMap;
use std::future::ready;

use http::Method;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use prometheus::Registry;
use runtime::{Leading, ObjectWriter};
use serde_json::{Value, json};
use testing::{api_server, refusal};

use super::*;
use crate::fixture;
use crate::metrics::Metrics;

/// The bodies that came, by the name of their object.
type Patches = Arc<Mutex<BTreeMap<String, Value>>>;

/// Names tell what the API server answers.
fn answer(name: &str) -> (u16, Value) {
    match name.split('-').next() {
        Some("gone") => refusal(404, "no"),
        Some("refused") => refusal(422, "no"),
        Some("failing") => refusal(500, "no"),
        _ => (
            200,
            json!({"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name}}),
        ),
    }
}

fn client(patches: &Patches) -> Client {
    let patches = Arc::clone(patches);
    api_server(move |request| {
        let prefix = "/apis/autoscaling.k8s.io/v1/namespaces/shop/verticalpodautoscalers/";
        let name = request.uri().path().strip_prefix(prefix);
        let name = name
            .and_then(|rest| rest.strip_suffix("/status"))
            .expect("a status");
        assert_eq!(request.method(), Method::PATCH);
        let patch = serde_json::from_slice(request.body()).expect("a patch");
        patches.lock().insert(name.to_owned(), patch);
        ready(answer(name))
    })
}

fn decision(name: &str) -> Arc<Decision> {
    let metadata = json!({"uid": format!("uid-of-{name}"), "resourceVersion": "7"});
    let (more, status) = (
        json!({"metadata": metadata}),
        json!({"observedGeneration": 1}),
    );
    Arc::new(fixture::decision(name, &more, status))
}

/// Writes these at once with this number of workers, during or after the term. Returns the counted
/// outcomes and the requests that were sent.
async fn write(
    names: &[String],
    workers: usize,
    leads: bool,
) -> (BTreeMap<&'static str, usize>, BTreeMap<String, Value>) {
    let patches = Patches::default();
    let metrics = Metrics::register(&Registry::new(), Vec::new())
        .expect("valid names")
        .publish;
    let objects = ObjectWriter::new(client(&patches), "test");
    let leading = Leading::alone(Timestamp::UNIX_EPOCH);
    if !leads {
        leading.lost().cancel();
    }
    let writer = StatusWriter::new(objects, metrics).during(&leading);
    let mut queue = StatusWrites::new(writer, workers, Duration::ZERO);
    for name in names {
        queue.put(decision(name), Priority::Ordinary);
    }
    let mut outcomes = BTreeMap::new();
    while !queue.is_idle() {
        *outcomes.entry(queue.ended().await.name()).or_default() += 1;
    }
    let patches = patches.lock().clone();
    (outcomes, patches)
}

#[tokio::test]
async fn objects_that_are_gone_or_refuse_stop_no_other_write() {
    // More of each than there are workers: upstream's workers end with the first object that is
    // missing.
    let names: Vec<String> = ["gone", "refused", "failing", "web"]
        .iter()
        .flat_map(|kind| (0..5).map(move |n| format!("{kind}-{n}")))
        .collect();
    let (outcomes, patches) = write(&names, 2, true).await;
    assert_eq!(
        outcomes,
        BTreeMap::from([("failed", 5), ("gone", 5), ("refused", 5), ("written", 5)])
    );
    assert_eq!(patches.len(), names.len());
}

#[tokio::test]
async fn after_the_term_no_status_is_written() {
    let (outcomes, patches) = write(&["web".to_owned()], 1, false).await;
    assert_eq!(outcomes, BTreeMap::from([("not_leading", 1)]));
    assert_eq!(patches, BTreeMap::new());
}

#[tokio::test]
async fn a_status_is_put_in_place_as_upstream_does_but_only_of_the_object_that_was_decided_about() {
    let (_, patches) = write(&["web".to_owned()], 1, true).await;
    let patch = patches["web"].as_array().expect("a list of operations");
    assert_eq!(
        patch[0],
        json!({"op": "test", "path": "/metadata/uid", "value": "uid-of-web"})
    );
    assert_eq!(
        (&patch[1]["op"], &patch[1]["path"], patch.len()),
        (&json!("add"), &json!("/status"), 2)
    );
    assert!(
        !patches["web"].to_string().contains("resourceVersion"),
        "the last writer wins, as upstream"
    );
}
