//! Time of one decision, without the network: `cargo bench -p admission`.
//!
//! The pod belongs to one of 10,000 Deployments, each with a `ReplicaSet` and a VPA: all in one
//! namespace, or in a hundred.

use std::hint::black_box;
use std::sync::Arc;

use admission::{AdmissionConfig, AdmissionStatus, Input, admit_unreviewed, review};
use api::vpa;
use criterion::{Criterion, criterion_group, criterion_main};
use model::{Labels, Selector};
use serde_json::json;
use view::{Controller, ObjectKey, Owner, View, Vpa, WellKnown};

const VPAS: usize = 10_000;

fn namespace(number: usize, namespaces: usize) -> String {
    format!("team-{}", number % namespaces)
}

fn view(namespaces: usize) -> View {
    let mut view = View::default();
    for number in 0..VPAS {
        let (namespace, name) = (namespace(number, namespaces), format!("web-{number}"));
        let controller = |name: &str, owner: Option<&str>| Controller {
            key: ObjectKey::new(&namespace, name),
            labels: Labels::default(),
            selector: Ok(Selector::match_labels([("app", format!("web-{number}"))])),
            owner: owner.map(|owner| Owner {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: owner.to_owned(),
                uid: owner.to_owned(),
            }),
            replicas: Some(1),
            min_ready: std::time::Duration::ZERO,
            template: view::PodTemplate::default(),
        };
        view.controllers_mut(WellKnown::Deployment)
            .apply(Arc::new(controller(&name, None)));
        let replica_set = controller(&format!("{name}-abc"), Some(&name));
        view.controllers_mut(WellKnown::ReplicaSet)
            .apply(Arc::new(replica_set));
        let object = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}},
            "status": {"recommendation": {"containerRecommendations": [
                {"containerName": "app", "target": {"cpu": "126m", "memory": "250Mi"},
                 "lowerBound": {"cpu": "25m", "memory": "250Mi"}, "upperBound": {"cpu": "2", "memory": "1Gi"}},
            ]}},
        });
        let object = vpa::parse(object).expect("an autoscaler");
        view.vpas.apply(Arc::new(Vpa {
            key: ObjectKey::new(&namespace, &name),
            object,
        }));
    }
    view
}

/// A review of a typical pod, with volumes, probes and environment.
fn body(namespaces: usize) -> Vec<u8> {
    let number = 7_321;
    let name = format!("web-{number}");
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 1});
    let mounts: Vec<_> = (0..4)
        .map(|n| json!({"name": format!("v{n}"), "mountPath": format!("/var/v{n}")}))
        .collect();
    let environment: Vec<_> = (0..20)
        .map(|n| json!({"name": format!("VARIABLE_{n}"), "value": "a value"}))
        .collect();
    let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace(number, namespaces),
        "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:serviceaccounts"]},
        "object": {
            "metadata": {
                "generateName": format!("{name}-abc-"),
                "labels": {"app": name, "pod-template-hash": "abc"},
                "ownerReferences": [
                    {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{name}-abc"), "uid": "r", "controller": true},
                ],
            },
            "spec": {"containers": [{
                "name": "app", "image": "registry.example.com/team/app:v1.2.3",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
                "livenessProbe": probe, "readinessProbe": probe, "volumeMounts": mounts, "env": environment,
            }]},
        },
    }});
    review.to_string().into_bytes()
}

fn reviews(bench: &mut Criterion) {
    let config = AdmissionConfig::default();
    for namespaces in [1, 100] {
        let (view, body) = (view(namespaces), body(namespaces));
        let input = Input {
            view: &view,
            feed: None,
            config: &config,
        };
        assert_eq!(review(&input, &body).status, AdmissionStatus::Applied);
        let name = format!(
            "a pod of {} bytes among {VPAS} autoscalers in {namespaces} namespaces",
            body.len()
        );
        bench.bench_function(&name, |bencher| {
            bencher.iter(|| review(&input, black_box(&body)));
        });
    }
    let body = body(1);
    bench.bench_function("admitted without review", |bencher| {
        bencher.iter(|| admit_unreviewed(black_box(&body)));
    });
}

criterion_group!(benches, reviews);
criterion_main!(benches);
