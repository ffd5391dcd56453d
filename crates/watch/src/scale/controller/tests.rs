//! Repeated reads of scale subresources, with a server that answers for one `CloneSet`.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

use k8s_openapi::api::core::v1;
use model::WorkloadRef;
use serde_json::{Value, json};
use testing::api_server;
use tokio::time::sleep;
use view::{ObjectKey, Pod, Vpa};

use super::*;
use crate::scale::ScaleRequests;

fn key() -> ScaleKey {
    ScaleKey {
        group: "apps.kruise.io".to_owned(),
        kind: "CloneSet".to_owned(),
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    }
}

fn check(before: Option<Scale>, read: Scale, expected: &Scale) {
    let mut view = View::default();
    if let Some(scale) = before {
        put(&mut view, key(), scale, PodSet::default());
    }
    put(&mut view, key(), read, PodSet::default());
    assert_eq!(view.scale(&key()), Some(expected));
}

fn found(replicas: i32) -> Scale {
    Scale::Found {
        selector: "app=web".to_owned(),
        owner: None,
        replicas: Some(replicas),
    }
}

#[test]
fn only_a_failure_that_may_pass_leaves_a_good_answer_in_place() {
    let found = found(1);
    let failed = |transient| Scale::Failed {
        reason: "no".to_owned(),
        transient,
    };
    check(Some(found.clone()), failed(true), &found);
    check(Some(found.clone()), failed(false), &failed(false));
    check(Some(failed(false)), found.clone(), &found);
    check(None, failed(true), &failed(true));
}

fn pod(number: usize, change: impl FnOnce(&mut Value)) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {
            "namespace": "shop", "name": format!("web-{number}"), "uid": format!("uid-{number}"),
            "ownerReferences": [{
                "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web", "uid": "u", "controller": true,
            }],
        },
        "spec": {"nodeName": "n1", "containers": []},
        "status": {"phase": "Running"},
    });
    change(&mut pod);
    let pod: v1::Pod = serde_json::from_value(pod).expect("a pod");
    Arc::new(Pod::from_k8s_running(pod, false))
}

fn view(pods: usize) -> View {
    let mut view = View::default();
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {"targetRef": {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}},
    });
    let object = api::vpa::parse(object).expect("an autoscaler");
    view.vpas.apply(Arc::new(Vpa {
        key: ObjectKey::new("shop", "web"),
        object,
    }));
    for number in 0..pods {
        view.pods.apply(pod(number, |_| ()));
    }
    view
}

#[test]
fn an_answer_counts_for_the_live_pods_that_it_was_read_with() {
    let mut view = view(2);
    let pods = view.live_pods_by_scale()[&key()];
    view.apply_scale(key(), found(2), pods);
    let is_current = |view: &View| {
        let pods = view.live_pods_by_scale().get(&key()).copied();
        view.scale_with(&key(), pods.unwrap_or_default()) == Some(&found(2))
    };
    view.pods.apply(pod(2, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }));
    view.pods
        .apply(pod(3, |pod| pod["status"]["phase"] = json!("Failed")));
    view.pods.apply(pod(4, |pod| {
        pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!("other.io/v1");
    }));
    assert!(is_current(&view));
    view.pods.apply(pod(5, |_| ()));
    assert!(!is_current(&view), "there is one more");
    view.pods.delete(&ObjectKey::new("shop", "web-1"));
    assert!(!is_current(&view), "as many, but not the same ones");
    // The selector is used all the same.
    assert_eq!(view.scale(&key()), Some(&found(2)));
}

/// A server of one `CloneSet` with this number of replicas. Counts the reads of its scale.
fn server(replicas: &Arc<AtomicI32>, reads: &Arc<AtomicUsize>) -> Client {
    let (replicas, reads) = (Arc::clone(replicas), Arc::clone(reads));
    api_server(move |request| {
        let version = json!({"groupVersion": "apps.kruise.io/v1alpha1", "version": "v1alpha1"});
        let answer = match request.uri().path() {
            "/apis" => json!({
                "groups": [{"name": "apps.kruise.io", "versions": [version], "preferredVersion": version}],
            }),
            "/apis/apps.kruise.io/v1alpha1" => {
                let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "kind": kind, "namespaced": true, "verbs": ["get"]});
                json!({
                    "groupVersion": "apps.kruise.io/v1alpha1",
                    "resources": [resource("clonesets", "CloneSet"), resource("clonesets/scale", "Scale")],
                })
            }
            "/apis/apps.kruise.io/v1alpha1/namespaces/shop/clonesets/web/scale" => {
                reads.fetch_add(1, Ordering::Relaxed);
                json!({
                    "metadata": {"namespace": "shop", "name": "web"},
                    "spec": {"replicas": replicas.load(Ordering::Relaxed)},
                    "status": {"replicas": 0, "selector": "app=web"},
                })
            }
            path => unreachable!("{path}"),
        };
        std::future::ready((200, answer))
    })
}

#[tokio::test(start_paused = true)]
async fn a_scale_is_read_again_soon_after_pods_come_or_go() {
    let (replicas, reads) = (Arc::new(AtomicI32::new(4)), Arc::new(AtomicUsize::new(0)));
    let store = Arc::new(watch::Sender::new(view(4)));
    let keeping = tokio::spawn(run(server(&replicas, &reads), Arc::clone(&store)));
    let mut seen = store.subscribe();
    seen.wait_for(|view| view.scale(&key()) == Some(&found(4)))
        .await
        .expect("it is read");
    sleep(Duration::from_mins(5)).await;
    let settled = reads.load(Ordering::Relaxed);
    assert!(settled <= 2, "{settled} reads of pods that stay");

    replicas.store(10, Ordering::Relaxed);
    let changed_at = Instant::now();
    for number in 4..10 {
        store.send_modify(|view| drop(view.pods.apply(pod(number, |_| ()))));
    }
    seen.wait_for(|view| view.scale(&key()) == Some(&found(10)))
        .await
        .expect("it is read again");
    let passed = changed_at.elapsed();
    assert!(passed <= Duration::from_secs(2), "{passed:?}");
    let pods = seen.borrow().live_pods_by_scale()[&key()];
    seen.wait_for(|view| view.scale_with(&key(), pods).is_some())
        .await
        .expect("it is read with all pods");
    keeping.abort();
}

/// An API server that knows the group `example.com` with the kind `Web`, and the group
/// `slow.example.com`, which never answers.
fn two_groups() -> Client {
    let group = |name: &str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    api_server(move |request| async move {
        let answer = match request.uri().path() {
            "/apis" => json!({"groups": [group("example.com"), group("slow.example.com")]}),
            "/apis/example.com/v1" => {
                let resource = |name: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": "Web", "verbs": ["get"]});
                json!({"groupVersion": "example.com/v1", "resources": [resource("webs"), resource("webs/scale")]})
            }
            path if path.starts_with("/apis/example.com/v1/namespaces/") => {
                json!({"metadata": {}, "spec": {"replicas": 2}, "status": {"replicas": 2, "selector": "app=web"}})
            }
            _ => std::future::pending().await,
        };
        (200, answer)
    })
}

#[tokio::test(start_paused = true)]
async fn reads_that_hang_do_not_hold_up_those_of_others() {
    let workload = |group: &str, namespace: &str, name: String| WorkloadRef {
        api_version: format!("{group}/v1"),
        kind: "Web".to_owned(),
        namespace: namespace.to_owned(),
        name,
    };
    let hanging: Vec<WorkloadRef> = (0..100)
        .map(|name| workload("slow.example.com", "a", format!("web{name}")))
        .collect();
    let good = workload("example.com", "z", "web".to_owned());
    let store = Arc::new(watch::Sender::new(View::default()));
    ScaleRequests::new(Arc::clone(&store)).ask(hanging.iter().chain([&good]).cloned().collect());
    let started = Instant::now();
    let keeping = tokio::spawn(run(two_groups(), Arc::clone(&store)));
    let key = ScaleKey::of(&good).expect("a key");
    let mut view = store.subscribe();
    let is_found = |view: &View| view.scale(&key) == Some(&found(2));
    drop(view.wait_for(is_found).await.expect("the store lives"));
    let passed = started.elapsed();
    assert!(passed < Duration::from_secs(1), "{passed:?}");
    // The group is asked once; what it should say of 100 objects fails with it.
    let has_failed = |view: &View| {
        hanging.iter().all(|workload| {
            let key = ScaleKey::of(workload).expect("a key");
            matches!(view.scale(&key), Some(Scale::Failed { .. }))
        })
    };
    drop(view.wait_for(has_failed).await.expect("the store lives"));
    let passed = started.elapsed();
    assert!(passed < Duration::from_secs(35), "{passed:?}");
    keeping.abort();
}
