//! Small views with one target each: its selector, or the message of the condition.

use std::sync::Arc;

use model::{Labels, Selector, WorkloadRef};

use super::{Resolution, TargetError, owners, resolve, scales, topmost};
use crate::scale::{PodSet, ReadScale, Scale, ScaleKey};
use crate::table::ObjectKey;
use crate::view::View;
use crate::workload_controller::Owner;
use crate::workload_controller::{Controller, WellKnown};

const CUSTOM: &str = "example.com/v1";

fn workload(api_version: &str, kind: &str, name: &str) -> WorkloadRef {
    WorkloadRef {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

fn owner((api_version, kind, name): (&str, &str, &str)) -> Owner {
    Owner {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: "u".to_owned(),
    }
}

/// Content of the view: a well-known controller, or a scale subresource of group `example.com`.
enum Thing {
    Known(WellKnown, &'static str, Option<Owner>),
    Scale(&'static str, &'static str, Scale),
}
use Thing::{Known, Scale as Requirements};

fn found(selector: &str, owner: Option<Owner>) -> Scale {
    Scale::Found {
        selector: selector.to_owned(),
        owner,
        replicas: None,
    }
}

fn not_found() -> Scale {
    Scale::NotFound {
        reason: "no such web".to_owned(),
        kind_has_scale: true,
    }
}

fn failed(transient: bool) -> Scale {
    Scale::Failed {
        reason: "it hurts".to_owned(),
        transient,
    }
}

fn view(things: Vec<Thing>) -> View {
    let mut view = View::default();
    for thing in things {
        match thing {
            Known(kind, name, owner) => {
                let controller = Controller {
                    key: ObjectKey::new("shop", name),
                    labels: Labels::default(),
                    selector: Ok(Selector::match_labels([("of", name)])),
                    owner,
                    replicas: Some(1),
                    min_ready: std::time::Duration::ZERO,
                    template: crate::PodTemplate::default(),
                };
                view.controllers_mut(kind).apply(Arc::new(controller));
            }
            Requirements(kind, name, scale) => {
                let key = ScaleKey::of(&workload(CUSTOM, kind, name)).expect("group/version");
                view.scales.apply(Arc::new(ReadScale {
                    key,
                    scale,
                    pods: PodSet::default(),
                }));
            }
        }
    }
    view
}

fn pods(text: &str) -> Resolution {
    Resolution::Pods(text.parse().expect("a selector"))
}

fn refused(message: &str) -> Resolution {
    unsupported(message, false)
}

fn owned(kind: WellKnown, name: &'static str, by: (&str, &str, &str)) -> Thing {
    Known(kind, name, Some(owner(by)))
}

fn unsupported(message: &str, transient: bool) -> Resolution {
    Resolution::Unsupported {
        message: message.to_owned(),
        transient,
    }
}

fn check(things: Vec<Thing>, target: &WorkloadRef, expected: &Resolution) {
    assert_eq!(resolve(&view(things), target.into()), *expected, "{target}");
}

#[test]
fn well_known_kinds_are_told_by_kind_alone() {
    let web = || vec![Known(WellKnown::Deployment, "web", None)];
    for api_version in ["apps/v1", "v1", ""] {
        let target = workload(api_version, "Deployment", "web");
        check(web(), &target, &pods("of=web"));
    }
}

#[test]
fn a_missing_target_is_named() {
    let message = "Cannot read targetRef. Reason: Deployment shop/web does not exist";
    let target = workload("apps/v1", "Deployment", "web");
    check(vec![], &target, &refused(message));
}

#[test]
fn a_target_with_a_parent_is_refused() {
    let things = vec![
        owned(
            WellKnown::ReplicaSet,
            "web-1",
            ("apps/v1", "Deployment", "web"),
        ),
        Known(WellKnown::Deployment, "web", None),
    ];
    let message = "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should point to a topmost well-known \
                   or scalable controller";
    let target = workload("apps/v1", "ReplicaSet", "web-1");
    check(things, &target, &refused(message));
}

#[test]
fn a_parent_that_cannot_be_scaled_does_not_count() {
    let things = vec![
        owned(WellKnown::Deployment, "web", (CUSTOM, "Web", "top")),
        Requirements("Web", "top", not_found()),
    ];
    let target = workload("apps/v1", "Deployment", "web");
    check(things, &target, &pods("of=web"));
}

#[test]
fn a_parent_that_cannot_be_read_is_an_error() {
    let message = "Error checking if target apps/v1.Deployment/web is a topmost well-known or scalable controller: \
                   unhandled targetRef example.com/v1 / Web / top, last error it hurts";
    for transient in [false, true] {
        let things = vec![
            owned(WellKnown::Deployment, "web", (CUSTOM, "Web", "top")),
            Requirements("Web", "top", failed(transient)),
        ];
        let target = workload("apps/v1", "Deployment", "web");
        check(things, &target, &unsupported(message, transient));
    }
    let message = "Error checking if target apps/v1.ReplicaSet/web is a topmost well-known or scalable controller: \
                   Deployment shop/gone does not exist";
    let parent = ("apps/v1", "Deployment", "gone");
    let things = vec![owned(WellKnown::ReplicaSet, "web", parent)];
    let target = workload("apps/v1", "ReplicaSet", "web");
    check(things, &target, &refused(message));
}

#[test]
fn custom_kinds_have_their_selector_in_the_scale() {
    let target = workload(CUSTOM, "Web", "web");
    let cannot = |why: &str, transient| {
        let what = "Cannot read targetRef. Reason: unhandled targetRef example.com/v1 / Web / web";
        unsupported(&format!("{what}, last error {why}"), transient)
    };
    let empty = "resource shop/web has an empty selector for scale sub-resource";
    for (scale, expected) in [
        (found("app in (a,b)", None), pods("app in (a,b)")),
        (found("", None), cannot(empty, false)),
        (not_found(), cannot("no such web", false)),
        (failed(true), cannot("it hurts", true)),
    ] {
        check(vec![Requirements("Web", "web", scale)], &target, &expected);
    }
}

#[test]
fn an_answer_that_is_not_there_yet_is_waited_for() {
    let target = workload(CUSTOM, "Web", "web");
    let key = ScaleKey::of(&target).expect("group/version");
    check(vec![], &target, &Resolution::Waiting(key.clone()));
    let child = owned(WellKnown::Deployment, "child", (CUSTOM, "Web", "web"));
    let target = workload("apps/v1", "Deployment", "child");
    check(vec![child], &target, &Resolution::Waiting(key));
}

#[test]
fn malformed_versions_are_named() {
    let message = "Cannot read targetRef. Reason: unexpected GroupVersion string: a/b/c";
    check(vec![], &workload("a/b/c", "Web", "web"), &refused(message));
}

#[test]
fn a_node_owns_no_workload() {
    let message = "Cannot read targetRef. Reason: unhandled targetRef v1 / Node / n1, last error node is not a valid owner";
    check(vec![], &workload("v1", "Node", "n1"), &refused(message));
    let message = "Error checking if target batch/v1.Job/web is a topmost well-known or scalable controller: node is not a \
                   valid owner";
    let job = owned(WellKnown::Job, "web", ("v1", "Node", "n1"));
    check(
        vec![job],
        &workload("batch/v1", "Job", "web"),
        &refused(message),
    );
}

#[test]
fn a_kind_of_another_group_has_its_own_pods() {
    let things = || {
        vec![
            Known(WellKnown::StatefulSet, "web", None),
            Requirements("StatefulSet", "web", found("a=kruise", None)),
        ]
    };
    check(
        things(),
        &workload(CUSTOM, "StatefulSet", "web"),
        &pods("a=kruise"),
    );
    let built_in = workload("apps/v1", "StatefulSet", "web");
    assert_ne!(
        resolve(&view(things()), (&built_in).into()),
        pods("a=kruise")
    );
}

#[test]
fn a_cycle_is_found() {
    let things = vec![
        owned(WellKnown::Deployment, "a", ("apps/v1", "Deployment", "b")),
        owned(WellKnown::Deployment, "b", ("apps/v1", "Deployment", "a")),
    ];
    let message = "Error checking if target apps/v1.Deployment/a is a topmost well-known or scalable controller: cycle \
                   detected in ownership chain, or more than 10 owners";
    let target = workload("apps/v1", "Deployment", "a");
    check(things, &target, &refused(message));
}

#[test]
fn a_search_ends_after_ten_owners() {
    const NAMES: [&str; 12] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"];
    let owned_by_next = NAMES.windows(2).map(|pair| {
        let owner = ("apps/v1", "ReplicaSet", pair[1]);
        owned(WellKnown::ReplicaSet, pair[0], owner)
    });
    let last = Known(WellKnown::ReplicaSet, NAMES[11], None);
    let view = view(owned_by_next.chain([last]).collect());
    let top_of = |name| {
        let start = workload("apps/v1", "ReplicaSet", name);
        topmost(&view, (&start).into()).map(|top| top.map(|top| top.name.to_owned()))
    };
    assert_eq!(top_of("1"), Ok(Some("11".to_owned())));
    assert_eq!(top_of("0"), Err(TargetError::EndlessOwners));
    let owners = owners(&view, (&workload("apps/v1", "ReplicaSet", "0")).into());
    assert_eq!(owners.len(), 11, "with the start");
}

fn of_rollout() -> Thing {
    owned(WellKnown::ReplicaSet, "rs", (CUSTOM, "Rollout", "r"))
}

fn rollout() -> Thing {
    let app = owner((CUSTOM, "App", "app"));
    Requirements("Rollout", "r", found("a=b", Some(app)))
}

#[test]
fn the_search_skips_controllers_that_are_not_eligible() {
    let app = Requirements("App", "app", not_found());
    let view = view(vec![of_rollout(), rollout(), app]);
    let start = workload("apps/v1", "ReplicaSet", "rs");
    let top = topmost(&view, (&start).into());
    assert_eq!(top, Ok(Some((&workload(CUSTOM, "Rollout", "r")).into())));
}

#[test]
fn every_scale_on_the_way_is_asked_for() {
    let target = workload("apps/v1", "ReplicaSet", "rs");
    for (things, expected) in [
        (vec![of_rollout()], &["Rollout"][..]),
        (vec![of_rollout(), rollout()], &["App", "Rollout"]),
        (vec![], &[]),
    ] {
        let scales = scales(&view(things), (&target).into());
        let kinds: Vec<_> = scales.into_iter().map(|key| key.kind).collect();
        assert_eq!(kinds, expected);
    }
}
