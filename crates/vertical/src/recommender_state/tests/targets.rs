//! Targets that go, cannot be used, or are the same for several objects.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::{Selector, WorkloadRef};
use serde_json::json;
use view::target::Resolution;
use view::{Controller, HpaTargets, ObjectKey, Owner, Pod, WellKnown};

use super::fixture::{Cluster, MI, check, pod, usage, vpa, web_key};
use crate::fixture::deployment;
use crate::recommender_state::{Target, target};

#[test]
fn each_object_is_handled_by_the_recommender_that_it_names() {
    for (recommender, expected) in [("default", ["plain"]), ("frugal", ["special"])] {
        let mut cluster = Cluster::new(recommender, false);
        cluster.deploy("web");
        cluster.apply(vpa("plain", "web", "u1"));
        let mut special = vpa("special", "web", "u2");
        let recommenders = json!([{"name": "frugal"}]);
        special.object.spec.recommenders = serde_json::from_value(recommenders).expect("a list");
        cluster.apply(special);
        cluster.load(0);
        check(&mut cluster, 1, &expected.map(|name| (name, None)));
    }
}

#[test]
fn two_objects_on_one_target_get_the_same() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.apply(vpa("also", "web", "u2"));
    cluster.load(1);
    cluster.measure("web-1", "main", 2);
    check(
        &mut cluster,
        3,
        &[("also", Some("296m")), ("web", Some("296m"))],
    );
}

#[test]
fn an_object_that_is_made_again_starts_anew_and_one_that_is_gone_is_forgotten() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    cluster.decide(2);
    cluster.apply(vpa("web", "nothing", "u2"));
    cluster.load(3);
    let decisions = cluster.decide(4);
    assert!(decisions[0].unsupported && decisions[0].vpa.uid() == "u2");
    cluster.view.vpas.delete(&web_key());
    cluster.load(5);
    check(&mut cluster, 6, &[]);
}

#[test]
fn history_survives_a_target_that_is_away_for_a_while() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    let key = web_key();
    let deployments = cluster.view.controllers_mut(WellKnown::Deployment);
    let deployment = deployments.get(&key).cloned().expect("deployed");
    deployments.delete(&key);
    cluster.load(2);
    assert!(cluster.decide(3)[0].unsupported);
    cluster
        .view
        .controllers_mut(WellKnown::Deployment)
        .apply(deployment);
    cluster.load(4);
    check(&mut cluster, 5, &[("web", Some("296m"))]);
}

/// `before`: what the target came down to before; `expected`: the pods that are selected now, or
/// none where nothing is known.
fn check_target(resolution: Resolution, before: Option<&Target>, expected: Option<&Selector>) {
    let shown = format!("{resolution:?} after {before:?}");
    match (target(resolution, before), expected) {
        (Some(Target { selector, .. }), Some(expected)) => {
            assert_eq!(&selector, expected, "{shown}");
        }
        (None, None) => {}
        (target, expected) => panic!("{shown}: {target:?}, not {expected:?}"),
    }
}

#[test]
fn an_error_that_may_pass_leaves_the_selector_as_it_was() {
    let selector = Selector::match_labels([("app", "web")]);
    let known = Target {
        selector: selector.clone(),
        unsupported: None,
    };
    let failed = |transient| Resolution::Unsupported {
        message: "it hurts".to_owned(),
        transient,
    };
    check_target(failed(true), Some(&known), Some(&selector));
    check_target(failed(true), None, Some(&Selector::nothing()));
    check_target(failed(false), Some(&known), Some(&Selector::nothing()));
    check_target(Resolution::Pods(selector.clone()), None, Some(&selector));
}

#[test]
fn ten_hpas_of_a_workload_count() {
    let mut cluster = Cluster::web(&["web-1"]);
    for number in 0..50 {
        cluster.apply(vpa(&format!("web-{number}"), "web", "u2"));
    }
    for number in 0..1000 {
        let workload = WorkloadRef {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
        };
        cluster.view.hpa_targets.apply(Arc::new(HpaTargets {
            key: ObjectKey::new("shop", format!("web-{number}")),
            workload,
            ehpa: None,
            utilization: BTreeSet::new(),
        }));
    }
    cluster.load(1);
    let held = cluster
        .state
        .vpas
        .values()
        .map(|tracked| tracked.hpas.len());
    assert_eq!(held.collect::<Vec<_>>(), [10; 51]);
}

#[test]
fn pods_of_another_controller_with_the_same_labels_do_not_count() {
    let owner = |api_version: &str, kind: &str, name: &str| {
        let [api_version, kind, name] = [api_version, kind, name].map(str::to_owned);
        let uid = name.clone();
        Some(Owner {
            api_version,
            kind,
            name,
            uid,
        })
    };
    let controller = |name: &str, owner: Option<Owner>| Controller {
        key: ObjectKey::new("shop", name),
        owner,
        ..Controller::clone(&deployment("web", 1))
    };
    let mut cluster = Cluster::new("default", false);
    cluster.deploy("web");
    cluster.apply(vpa("web", "web", "u1"));
    let of_web = controller("web-5d", owner("apps/v1", "Deployment", "web"));
    let replica_sets = cluster.view.controllers_mut(WellKnown::ReplicaSet);
    replica_sets.apply(Arc::new(of_web));
    let jobs = cluster.view.controllers_mut(WellKnown::Job);
    jobs.apply(Arc::new(controller("migrate", None)));
    for (name, owner) in [
        ("migrate-1", owner("batch/v1", "Job", "migrate")),
        ("other-1", owner("example.com/v1", "Widget", "unknown")),
        ("web-1", owner("apps/v1", "ReplicaSet", "web-5d")),
    ] {
        cluster.add_pod(Pod {
            owner,
            ..pod(name, "web")
        });
    }
    cluster.load(0);
    let web = web_key();
    let pods = cluster.state.cluster.pods_of(&web);
    let pods: BTreeSet<_> = pods.map(|pod| pod.key.name.as_str()).collect();
    assert_eq!(pods, ["other-1", "web-1"].into());
    cluster.add_usage(&usage("web-1", 60, 50, 200 * MI), 60);
    cluster.add_usage(&usage("migrate-1", 60, 2000, 4096 * MI), 60);
    let decision = cluster.decide(61).remove(0);
    assert_eq!(decision.pods, 2);
    let targets = decision.status.recommendation.expect("a recommendation");
    let target = &targets.containers[0].target;
    assert_eq!(
        target.memory().map(|memory| memory.bytes() < 400 * MI),
        Some(true),
        "{target:?}"
    );
}
