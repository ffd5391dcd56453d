//! Precedence between the feed and the status of a VPA object, seen in the patch of a pod.

use std::sync::Arc;
use std::time::Instant;

use admission::AdmissionConfig;
use api::vpa;
use axum::body::{Body, to_bytes};
use axum::http::{Request, header};
use feed::Subscription;
use feed::client::{LeaderState, Received};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use model::{ContainerRecommendation, Cpu, Labels, Memory, Recommendation, ResourceList, Selector};
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;
use view::{Controller, ObjectKey, View, Vpa, WellKnown};
use webhook::metrics::Metrics;
use webhook::overload::Overload;
use webhook::serve::ReviewHandler;

const NAMESPACE: &str = "shop";

struct Fed {
    uid: &'static str,
    generation: i64,
    is_fresh: bool,
    is_empty: bool,
}

const FRESH: Fed = Fed {
    uid: "web",
    generation: 3,
    is_fresh: true,
    is_empty: false,
};

const STALE: Fed = Fed {
    is_fresh: false,
    ..FRESH
};

fn subscription(fed: &Fed) -> Subscription {
    let target = ResourceList::of(Cpu::from_millicores(7), Memory::from_bytes(8));
    let app = ContainerRecommendation {
        container_name: "app".to_owned(),
        target,
        ..ContainerRecommendation::default()
    };
    let recommendation = feed::Recommendation {
        uid: fed.uid.to_owned(),
        observed_generation: fed.generation,
        recommendation: Recommendation {
            containers: Vec::from_iter((!fed.is_empty).then_some(app)),
        },
        ..feed::Recommendation::default()
    };
    let received = Received {
        value: Arc::new(recommendation),
        term: 1,
        revision: 1,
        changed_at: Timestamp::UNIX_EPOCH,
    };
    Subscription::from_leaders(vec![LeaderState {
        values: [(fed.uid.to_owned(), received)].into(),
        stale_since: (!fed.is_fresh).then(Instant::now),
    }])
}

/// A Deployment `web` with a VPA object of the same name and UID.
fn view(status: &Value) -> View {
    let mut view = View::default();
    view.controllers_mut(WellKnown::Deployment)
        .apply(Arc::new(Controller {
            key: ObjectKey::new(NAMESPACE, "web"),
            labels: Labels::default(),
            selector: Ok(Selector::match_labels([("app", "web")])),
            owner: None,
            replicas: Some(1),
            min_ready: std::time::Duration::ZERO,
            template: view::PodTemplate::default(),
        }));
    let object = json!({
        "metadata": {"namespace": NAMESPACE, "name": "web", "uid": "web"},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
        "status": status,
    });
    view.vpas.apply(Arc::new(Vpa {
        key: ObjectKey::new(NAMESPACE, "web"),
        object: vpa::parse(object).unwrap(),
    }));
    view
}

fn review() -> Request<Body> {
    let owner = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": true,
    });
    let review = json!({"request": {
        "uid": "u-1",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "object": {
            "metadata": {"labels": {"app": "web"}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "app", "resources": {"requests": {}}}]},
        },
    }});
    Request::post("/")
        .header(header::CONTENT_TYPE, "application/json")
        .body(review.to_string().into())
        .unwrap()
}

async fn cpu_request(status: &Value, fed: Option<&Fed>) -> Option<String> {
    let handler = ReviewHandler {
        view: watch::channel(view(status)).1,
        feed: fed.map(|fed| watch::channel(subscription(fed)).1),
        config: Arc::new(AdmissionConfig::default()),
        metrics: Metrics::register(&Registry::new()).unwrap(),
        overload: Overload::default(),
        shutdown: CancellationToken::new(),
    };
    let response = handler.router().oneshot(review()).await.unwrap();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let mut review: Value = serde_json::from_slice(&body).unwrap();
    let patch: ByteString = serde_json::from_value(review["response"]["patch"].take()).unwrap();
    let operations: Vec<Value> = serde_json::from_slice(&patch.0).unwrap();
    operations
        .iter()
        .find(|operation| operation["path"] == "/spec/containers/0/resources/requests/cpu")
        .and_then(|operation| Some(operation["value"].as_str()?.to_owned()))
}

/// Expects the CPU request of a new pod, given the status of generation 3 and the value of the
/// feed.
async fn check(recommendation: &Value, fed: Option<&Fed>, expected: Option<&str>) {
    let status = json!({"observedGeneration": 3, "recommendation": recommendation});
    let found = cpu_request(&status, fed).await;
    assert_eq!(found.as_deref(), expected, "{status}");
}

fn written() -> Value {
    json!({"containerRecommendations": [
        {"containerName": "app", "target": {"cpu": "100m", "memory": "200Mi"}},
    ]})
}

#[tokio::test]
async fn status_and_feed_each_work_alone() {
    check(&written(), None, Some("100m")).await;
    check(&Value::Null, Some(&FRESH), Some("7m")).await;
    check(&Value::Null, None, None).await;
    check(&Value::Null, Some(&STALE), Some("7m")).await;
    // A VPA object without any status.
    for (fed, expected) in [
        (None, None),
        (Some(&FRESH), Some("7m")),
        (Some(&STALE), Some("7m")),
    ] {
        let found = cpu_request(&Value::Null, fed).await;
        assert_eq!(found.as_deref(), expected);
    }
}

#[tokio::test]
async fn the_feed_precedes_the_status_while_connected() {
    check(&written(), Some(&FRESH), Some("7m")).await;
    let newer = Fed {
        generation: 4,
        ..FRESH
    };
    check(&written(), Some(&newer), Some("7m")).await;
    check(&written(), Some(&STALE), Some("100m")).await;
}

#[tokio::test]
async fn values_of_older_generations_and_other_objects_are_ignored() {
    let older = Fed {
        generation: 2,
        ..FRESH
    };
    check(&written(), Some(&older), Some("100m")).await;
    let recreated = Fed {
        uid: "recreated",
        ..FRESH
    };
    check(&written(), Some(&recreated), Some("100m")).await;
}

#[tokio::test]
async fn empty_recommendations_are_ignored() {
    let empty = Fed {
        is_empty: true,
        ..FRESH
    };
    check(&written(), Some(&empty), Some("100m")).await;
    check(&Value::Null, Some(&empty), None).await;
    let without_containers = json!({"containerRecommendations": []});
    check(&without_containers, Some(&STALE), Some("7m")).await;
    check(&without_containers, None, None).await;
}
