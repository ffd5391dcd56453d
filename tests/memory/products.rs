//! Objects of one namespace whose number times another number is large, while the only workload of a
//! second namespace is served.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api_server::ApiServer;
use crate::objects::Population;
use crate::program::Program;
use crate::servers::webhook;
use crate::table::{Row, SHORTEST_REQUEST, SHORTEST_START, Times, check, turn};

const MANY: &str = "aaa";
/// The second namespace: the last in order.
const OTHER: &str = "zzz";
const WORKLOAD: &str = "web";
/// Time until the second namespace is served.
const WITHIN: Duration = Duration::from_mins(2);
/// Duration of a series of reviews: the webhook resolves targets twice a second.
const REVIEWED_FOR: Duration = Duration::from_secs(3);

/// A name, and the objects.
type Shape = (&'static str, fn() -> Population);
type Objects = BTreeMap<&'static str, Vec<Value>>;

fn metadata(namespace: &str, name: &str) -> Value {
    json!({
        "namespace": namespace, "name": name, "uid": format!("{namespace}-{name}"), "generation": 1,
        "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
    })
}

fn set(namespace: &str, name: &str) -> Value {
    let containers = json!([{"name": "app", "image": "app"}]);
    json!({
        "metadata": metadata(namespace, name),
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}},
        },
    })
}

fn pod(namespace: &str, name: &str, containers: usize) -> Value {
    let mut metadata = metadata(namespace, name);
    metadata["labels"] = json!({"app": WORKLOAD});
    metadata["ownerReferences"] = json!([owner(namespace, WORKLOAD)]);
    let container = |number| json!({"name": format!("c{number}"), "image": "app"});
    let containers: Vec<_> = (0..containers).map(container).collect();
    json!({
        "metadata": metadata, "spec": {"nodeName": "n", "containers": containers},
        "status": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"},
    })
}

fn owner(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name,
        "uid": format!("{namespace}-{name}"), "controller": true,
    })
}

fn vpa(namespace: &str, name: &str, target: &str) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": target});
    json!({"metadata": metadata(namespace, name), "spec": {"targetRef": target}})
}

fn vpas(count: usize, target: &str) -> Vec<Value> {
    let vpa = |number: usize| vpa(MANY, &format!("v{number:05}"), target);
    (0..count).map(vpa).collect()
}

/// The objects of the second namespace, and these.
fn with_other(many: impl IntoIterator<Item = (&'static str, Vec<Value>)>) -> Population {
    let mut objects: Objects = [
        ("replicasets", vec![set(OTHER, WORKLOAD)]),
        ("pods", vec![pod(OTHER, "web-1", 1)]),
        (
            "verticalpodautoscalers",
            vec![vpa(OTHER, WORKLOAD, WORKLOAD)],
        ),
    ]
    .into();
    for (plural, more) in many {
        objects.entry(plural).or_default().extend(more);
    }
    Population::Given(objects)
}

/// `ReplicaSet`s that own one another, and VPA objects of the first.
fn chain(owners: usize, count: usize) -> Population {
    let link = |number: usize| {
        let mut set = set(MANY, &format!("r{number}"));
        let owner = owner(MANY, &format!("r{}", number + 1));
        set["metadata"]["ownerReferences"] = json!([owner]);
        set
    };
    let sets = (0..owners).map(link).collect();
    with_other([
        ("replicasets", sets),
        ("verticalpodautoscalers", vpas(count, "r0")),
    ])
}

/// VPA objects and HPAs of one workload.
fn with_hpas(count: usize, hpas: usize) -> Population {
    let cpu = json!({"type": "Utilization", "averageUtilization": 50});
    let hpa = |number: usize| {
        json!({
            "metadata": metadata(MANY, &format!("h{number}")),
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": WORKLOAD},
                "maxReplicas": 3,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": cpu}}],
            },
        })
    };
    with_other([
        ("replicasets", vec![set(MANY, WORKLOAD)]),
        ("verticalpodautoscalers", vpas(count, WORKLOAD)),
        ("horizontalpodautoscalers", (0..hpas).map(hpa).collect()),
    ])
}

/// VPA objects of pods with this number of containers.
fn with_containers(count: usize, containers: usize) -> Population {
    let pods = (0..5).map(|number| pod(MANY, &format!("web-{number}"), containers));
    with_other([
        ("replicasets", vec![set(MANY, WORKLOAD)]),
        ("pods", pods.collect()),
        ("verticalpodautoscalers", vpas(count, WORKLOAD)),
    ])
}

/// The peak of the recommender's memory, and the time from its start to its first write for the second
/// namespace.
fn first_write(program: &Program, population: Population, plural: &str) -> (usize, Times) {
    let api_server = ApiServer::start(population);
    let mut process = program.start(&api_server.url());
    let began = Instant::now();
    let path = format!("/namespaces/{OTHER}/{plural}");
    let written = loop {
        assert!(process.lives(), "the recommender ended");
        assert!(began.elapsed() < WITHIN, "no write to {path}");
        match api_server.written(&path) {
            Some(written) => break written,
            None => api_server.wait_for_news(Duration::from_secs(1)),
        }
    };
    (
        process.memory().peak_bytes(),
        Times::of(vec![written - began]),
    )
}

#[test]
fn products_of_objects_have_bounds_in_the_recommender() {
    let _turn = turn();
    let flags = &["--leader-elect=true", "--recommender-interval=2s"];
    let program = Program::new("recommender", flags);
    let status: [Shape; 4] = [
        ("2,000 VPA objects", || with_hpas(2000, 0)),
        ("1,000 VPA objects x 5,000 HPAs", || with_hpas(1000, 5000)),
        ("500 VPA objects x 2,000 owners", || chain(2000, 500)),
        ("50 VPA objects x 200 containers", || {
            with_containers(50, 200)
        }),
    ];
    let checkpoint = &status[3..];
    for (plural, what, shapes) in [
        ("verticalpodautoscalers/web/status", "status", &status[..]),
        ("verticalpodautoscalercheckpoints", "checkpoint", checkpoint),
    ] {
        let (_, usual) = first_write(&program, with_other([]), plural);
        for (shape, population) in shapes {
            check(|| {
                let (grown_bytes, times) = first_write(&program, population(), plural);
                Row {
                    program: "recommender",
                    shape: format!("{shape}, {what} of another"),
                    grown_bytes,
                    most_bytes: program.memory_limit() / 2,
                    times: Some([usual, times]),
                    shortest: SHORTEST_START,
                }
            });
        }
    }
}

#[test]
fn products_of_objects_have_bounds_in_the_webhook() {
    let _turn = turn();
    let server = webhook();
    let reviews = |population: Population| {
        let running = server.start(population);
        running.await_watches(&["replicasets", "verticalpodautoscalers"]);
        let mut connection = running.client.open().expect("a connection");
        let times = server.times(&mut connection, REVIEWED_FOR);
        (
            running.process.memory().peak_bytes(),
            running.most_bytes,
            times,
        )
    };
    let (.., usual) = reviews(with_other([]));
    check(|| {
        let (grown_bytes, most_bytes, times) = reviews(chain(5000, 1000));
        Row {
            program: "webhook",
            shape: "1,000 VPA objects x 5,000 owners".to_owned(),
            grown_bytes,
            most_bytes,
            times: Some([usual, times]),
            shortest: SHORTEST_REQUEST,
        }
    });
}
