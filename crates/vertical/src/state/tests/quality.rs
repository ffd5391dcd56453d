//! Recommendations that samples and OOM kills are compared with.

use std::sync::Arc;

use api::vpa::UpdateMode;
use model::ContainerUsage;
use model::{ContainerRef, Cpu, Memory, Sample};
use serde_json::json;
use view::{Autoscaler, ObjectKey, OomKill};

use super::fixture::{Cluster, MI, at, autoscaler, pod};

fn container(pod: &str, container: &str) -> ContainerRef {
    ContainerRef {
        namespace: "shop".to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
    }
}

/// The object `web` with this in its specification.
fn with(spec: &serde_json::Value) -> Autoscaler {
    let web = autoscaler("web", "web", "u1", None);
    let mut object = serde_json::to_value(&web.object).expect("an object");
    object["spec"]
        .as_object_mut()
        .expect("a map")
        .extend(spec.as_object().expect("a map").clone());
    Autoscaler {
        object: api::vpa::parse(object).expect("an autoscaler"),
        ..web
    }
}

/// `expected`: update mode and uncapped CPU, or none where no recommendation is due.
fn check(
    cluster: &Cluster,
    of: &ContainerRef,
    expected: Option<(Option<UpdateMode>, Option<i64>)>,
) {
    let recommended = cluster.state.recommended(of);
    let recommended = recommended.map(|recommended| {
        let cpu = recommended
            .uncapped
            .and_then(model::ResourceList::cpu)
            .map(Cpu::millicores);
        (recommended.update_mode, cpu)
    });
    assert_eq!(recommended, expected, "{of}");
}

#[test]
fn usage_is_held_against_what_the_object_says() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.view.pods.apply(Arc::new(pod("other-1", "other")));
    cluster.load(0);
    check(&cluster, &container("web-1", "main"), Some((None, None)));
    cluster.measure("web-1", "main", 1);
    cluster.decide(2);
    cluster.load(3);
    check(
        &cluster,
        &container("web-1", "main"),
        Some((None, Some(296))),
    );
    check(&cluster, &container("web-1", "sidecar"), Some((None, None)));
    check(&cluster, &container("other-1", "main"), None);
    check(&cluster, &container("gone", "main"), None);
    let off = json!({
        "updatePolicy": {"updateMode": "Initial"},
        "resourcePolicy": {"containerPolicies": [{"containerName": "sidecar", "mode": "Off"}]},
    });
    cluster.view.autoscalers.apply(Arc::new(with(&off)));
    cluster.load(4);
    check(
        &cluster,
        &container("web-1", "main"),
        Some((Some(UpdateMode::Initial), None)),
    );
    check(&cluster, &container("web-1", "sidecar"), None);
}

#[test]
fn only_samples_that_enter_a_history_are_judged() {
    let mut cluster = Cluster::web(&["web-1"]);
    let judged = std::cell::RefCell::new(Vec::new());
    for (pod, second) in [("web-1", 1), ("web-1", 1), ("gone", 1), ("web-1", 2)] {
        let sample = Sample {
            at: at(second),
            cpu: Some(Cpu::from_millicores(1)),
            memory: Some(Memory::from_bytes(1)),
        };
        let usage = [ContainerUsage {
            container: container(pod, "main"),
            sample,
        }];
        cluster
            .state
            .take_usage(&usage, at(second), |_, usage, accepted| {
                judged
                    .borrow_mut()
                    .push((usage.sample.at, accepted.cpu, accepted.memory));
            });
    }
    assert_eq!(
        judged.into_inner(),
        [
            (at(1), true, true),
            (at(1), false, true),
            (at(2), true, true)
        ]
    );
}

#[test]
fn a_kill_is_the_peak_that_it_becomes() {
    let mut cluster = Cluster::web(&["web-1"]);
    let kill = |pod: &str, bytes| OomKill {
        pod: ObjectKey::new("shop", pod),
        container: "main".to_owned(),
        at: at(5),
        memory: Memory::from_bytes(bytes),
        seen_in: None,
    };
    let peak = |cluster: &Cluster, pod, bytes| {
        cluster.state.oom_peak(&kill(pod, bytes)).map(Memory::bytes)
    };
    assert_eq!(
        peak(&cluster, "web-1", 1024 * MI),
        Some((1024 * MI * 6) / 5)
    );
    assert_eq!(peak(&cluster, "gone", 1024 * MI), None);
    cluster.measure("web-1", "main", 1);
    assert_eq!(
        peak(&cluster, "web-1", 100 * MI),
        Some(400 * MI),
        "from the peak of usage, which is 300Mi"
    );
}
