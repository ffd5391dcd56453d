//! Passes against an API server that does not answer for a while.

use std::sync::Mutex;

use kube::Client;
use prometheus::Registry;
use runtime::ObjectWriter;
use serde_json::json;
use sizing::Config;
use testing::api_server;
use tokio::sync::Semaphore;
use vertical::recommender_state::{RecommenderConfig, RecommenderState};
use view::{View, WellKnown};

use super::*;
use crate::fixture::{at, deployment, pod, vpa};
use crate::metrics::Metrics;
use crate::status_writer::StatusWriter;

/// The names of the objects whose status was written.
type Written = Arc<Mutex<Vec<String>>>;

/// An API server that takes in each write and answers it when `answers` has a permit.
fn client(written: &Written, answers: &Arc<Semaphore>) -> Client {
    let (written, answers) = (Arc::clone(written), Arc::clone(answers));
    api_server(move |request| {
        let (written, answers) = (Arc::clone(&written), Arc::clone(&answers));
        async move {
            let path = request.uri().path().to_owned();
            let name = path
                .trim_end_matches("/status")
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .to_owned();
            written.lock().expect("whole").push(name.clone());
            answers.acquire().await.expect("open").forget();
            let object = json!({
                "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            });
            (200, object)
        }
    })
}

/// Objects `a` and `b`, each with a pod.
fn cluster() -> View {
    let mut view = View::default();
    for name in ["a", "b"] {
        view.controllers_mut(WellKnown::Deployment)
            .apply(deployment(name, 1));
        view.vpas.apply(Arc::new(vpa(name, &json!({}))));
        view.pods.apply(Arc::new(pod(&format!("{name}-1"), name)));
    }
    view
}

fn resync(recommend_loop: &mut RecommendLoop) {
    recommend_loop.begin_resync();
    while recommend_loop.resync.is_some() {
        recommend_loop.step();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_is_right_before_its_turn_is_not_written() {
    let (written, answers) = (Written::default(), Arc::new(Semaphore::new(0)));
    let recommender = RecommenderConfig {
        recommender_name: "default".to_owned(),
        memory_saver: false,
        native_sidecars: false,
        usage_interval: Duration::ZERO,
    };
    let mut view = cluster();
    let mut state =
        RecommenderState::new(recommender, Config::default()).expect("defaults are valid");
    state.load_vpas(&view);
    state.load_pods(&view, at(0));
    let shared = SharedState::new(state);
    let metrics = Metrics::register(&Registry::new(), Vec::new())
        .expect("valid names")
        .publish;
    let leading = Leading::alone(Timestamp::UNIX_EPOCH);
    let objects = ObjectWriter::new(client(&written, &answers), "test");
    let writer = StatusWriter::new(objects, metrics.clone());
    let queue = StatusWrites::new(writer, 1, Duration::ZERO);
    let mut recommend_loop = RecommendLoop::new(shared.clone(), None, queue, metrics, leading);
    resync(&mut recommend_loop);
    while written.lock().expect("whole").is_empty() {
        tokio::task::yield_now().await;
    }
    let decided = shared
        .lock()
        .decide_objects([&ObjectKey::new("shop", "b")], Timestamp::now())
        .remove(0);
    let mut right = (*decided.vpa).clone();
    right.object.status = Some(decided.status);
    view.vpas.apply(Arc::new(right));
    shared.lock().load_vpas(&view);
    resync(&mut recommend_loop);
    answers.add_permits(10);
    while !recommend_loop.writes.is_idle() {
        recommend_loop.writes.ended().await;
    }
    assert!(
        written
            .lock()
            .expect("whole")
            .iter()
            .all(|name| name == "a")
    );
}
