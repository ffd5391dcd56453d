//! Recommendations that samples and OOM kills are compared with.

use api::vpa::UpdateMode;
use model::{ContainerRef, Cpu, Memory};
use serde_json::json;
use view::{OomKill, Vpa};

use super::fixture::{Cluster, MI, at, container, kill, pod, usage, vpa};

/// The object `web` with this in its specification.
fn with(spec: &serde_json::Value) -> Vpa {
    let web = vpa("web", "web", "u1");
    let mut object = serde_json::to_value(&web.object).expect("an object");
    json_patch::merge(&mut object["spec"], spec);
    Vpa {
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
    let recommended = cluster.state.recommended(of).map(|recommended| {
        let cpu = recommended.uncapped.and_then(model::ResourceList::cpu);
        (recommended.update_mode, cpu.map(Cpu::millicores))
    });
    assert_eq!(recommended, expected, "{of}");
}

#[test]
fn usage_is_held_against_what_the_object_says() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.add_pod(pod("other-1", "other"));
    cluster.load(0);
    let main = container("web-1", "main");
    let sidecar = container("web-1", "sidecar");
    check(&cluster, &main, Some((None, None)));
    cluster.measure("web-1", "main", 1);
    cluster.decide(2);
    cluster.load(3);
    check(&cluster, &main, Some((None, Some(296))));
    check(&cluster, &sidecar, Some((None, None)));
    check(&cluster, &container("other-1", "main"), None);
    check(&cluster, &container("gone", "main"), None);
    let off = json!({
        "updatePolicy": {"updateMode": "Initial"},
        "resourcePolicy": {"containerPolicies": [{"containerName": "sidecar", "mode": "Off"}]},
    });
    cluster.apply(with(&off));
    cluster.load(4);
    check(&cluster, &main, Some((Some(UpdateMode::Initial), None)));
    check(&cluster, &sidecar, None);
}

#[test]
fn only_samples_that_enter_a_history_are_judged() {
    let mut cluster = Cluster::web(&["web-1"]);
    let judged = std::cell::RefCell::new(Vec::new());
    for (pod, second) in [("web-1", 1), ("web-1", 1), ("gone", 1), ("web-1", 2)] {
        let usage = [usage(pod, second, 1, 1)];
        cluster
            .state
            .take_usage(&usage, at(second), |_, usage, accepted| {
                let judgement = (usage.sample.at, accepted.cpu, accepted.memory);
                judged.borrow_mut().push(judgement);
            });
    }
    let expected = [
        (at(1), true, true),
        (at(1), false, true),
        (at(2), true, true),
    ];
    assert_eq!(judged.into_inner(), expected);
}

#[test]
fn a_kill_is_the_peak_that_it_becomes() {
    let mut cluster = Cluster::web(&["web-1"]);
    let peak = |cluster: &Cluster, pod, bytes| {
        let kill = OomKill {
            memory: Memory::from_bytes(bytes),
            ..kill(pod, 5)
        };
        cluster.state.oom_peak(&kill).map(Memory::bytes)
    };
    assert_eq!(
        peak(&cluster, "web-1", 1024 * MI),
        Some((1024 * MI * 6) / 5)
    );
    assert_eq!(peak(&cluster, "gone", 1024 * MI), None);
    cluster.measure("web-1", "main", 1);
    // From the peak of usage, which is 300Mi.
    assert_eq!(peak(&cluster, "web-1", 100 * MI), Some(400 * MI));
}
