//! Small views with one target each: its selector, or the message of the condition.

use std::sync::Arc;

use model::{Labels, Selector, WorkloadRef};

use super::{Resolution, resolve, scales, topmost};
use crate::controller::{Controller, WellKnown};
use crate::owner::Owner;
use crate::scale::{PodSet, ReadScale, Scale, ScaleKey};
use crate::table::ObjectKey;
use crate::view::View;

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

fn unsupported(message: &str, transient: bool) -> Resolution {
    Resolution::Unsupported {
        message: message.to_owned(),
        transient,
    }
}

fn check(things: Vec<Thing>, target: &WorkloadRef, expected: &Resolution) {
    assert_eq!(resolve(&view(things), target), *expected, "{target}");
}

#[test]
fn well_known_kinds_are_told_by_kind_alone() {
    let web = || vec![Known(WellKnown::Deployment, "web", None)];
    check(
        web(),
        &workload("apps/v1", "Deployment", "web"),
        &pods("of=web"),
    );
    check(web(), &workload("v1", "Deployment", "web"), &pods("of=web"));
    check(web(), &workload("", "Deployment", "web"), &pods("of=web"));
}

#[test]
fn a_missing_target_is_named() {
    check(
        vec![],
        &workload("apps/v1", "Deployment", "web"),
        &unsupported(
            "Cannot read targetRef. Reason: Deployment shop/web does not exist",
            false,
        ),
    );
}

#[test]
fn a_target_with_a_parent_is_refused() {
    let parent = owner(("apps/v1", "Deployment", "web"));
    check(
        vec![
            Known(WellKnown::ReplicaSet, "web-1", Some(parent)),
            Known(WellKnown::Deployment, "web", None),
        ],
        &workload("apps/v1", "ReplicaSet", "web-1"),
        &unsupported(
            "The target apps/v1.ReplicaSet/web-1 has a parent controller but it should point to a topmost well-known \
             or scalable controller",
            false,
        ),
    );
}

#[test]
fn a_parent_that_cannot_be_scaled_does_not_count() {
    let parent = owner((CUSTOM, "Web", "top"));
    check(
        vec![
            Known(WellKnown::Deployment, "web", Some(parent)),
            Requirements("Web", "top", not_found()),
        ],
        &workload("apps/v1", "Deployment", "web"),
        &pods("of=web"),
    );
}

#[test]
fn a_parent_that_cannot_be_read_is_an_error() {
    let things = |scale| {
        vec![
            Known(
                WellKnown::Deployment,
                "web",
                Some(owner((CUSTOM, "Web", "top"))),
            ),
            Requirements("Web", "top", scale),
        ]
    };
    let message = "Error checking if target apps/v1.Deployment/web is a topmost well-known or scalable controller: \
                   unhandled targetRef example.com/v1 / Web / top, last error it hurts";
    check(
        things(failed(false)),
        &workload("apps/v1", "Deployment", "web"),
        &unsupported(message, false),
    );
    check(
        things(failed(true)),
        &workload("apps/v1", "Deployment", "web"),
        &unsupported(message, true),
    );
    check(
        vec![Known(
            WellKnown::ReplicaSet,
            "web",
            Some(owner(("apps/v1", "Deployment", "gone"))),
        )],
        &workload("apps/v1", "ReplicaSet", "web"),
        &unsupported(
            "Error checking if target apps/v1.ReplicaSet/web is a topmost well-known or scalable controller: \
             Deployment shop/gone does not exist",
            false,
        ),
    );
}

#[test]
fn custom_kinds_have_their_selector_in_the_scale() {
    let target = workload(CUSTOM, "Web", "web");
    let cannot = "Cannot read targetRef. Reason: unhandled targetRef example.com/v1 / Web / web, last error ";
    let with = |scale| vec![Requirements("Web", "web", scale)];
    check(
        with(found("app in (a,b)", None)),
        &target,
        &pods("app in (a,b)"),
    );
    check(
        with(found("", None)),
        &target,
        &unsupported(
            &format!("{cannot}resource shop/web has an empty selector for scale sub-resource"),
            false,
        ),
    );
    check(
        with(not_found()),
        &target,
        &unsupported(&format!("{cannot}no such web"), false),
    );
    check(
        with(failed(true)),
        &target,
        &unsupported(&format!("{cannot}it hurts"), true),
    );
}

#[test]
fn an_answer_that_is_not_there_yet_is_waited_for() {
    let target = workload(CUSTOM, "Web", "web");
    let key = ScaleKey::of(&target).expect("group/version");
    check(vec![], &target, &Resolution::Waiting(key.clone()));
    check(
        vec![Known(
            WellKnown::Deployment,
            "child",
            Some(owner((CUSTOM, "Web", "web"))),
        )],
        &workload("apps/v1", "Deployment", "child"),
        &Resolution::Waiting(key),
    );
}

#[test]
fn malformed_versions_are_named() {
    check(
        vec![],
        &workload("a/b/c", "Web", "web"),
        &unsupported(
            "Cannot read targetRef. Reason: unexpected GroupVersion string: a/b/c",
            false,
        ),
    );
}

#[test]
fn a_node_owns_no_workload() {
    check(
        vec![],
        &workload("v1", "Node", "n1"),
        &unsupported(
            "Cannot read targetRef. Reason: unhandled targetRef v1 / Node / n1, last error node is not a valid owner",
            false,
        ),
    );
    check(
        vec![Known(
            WellKnown::Job,
            "web",
            Some(owner(("v1", "Node", "n1"))),
        )],
        &workload("batch/v1", "Job", "web"),
        &unsupported(
            "Error checking if target batch/v1.Job/web is a topmost well-known or scalable controller: node is not a \
             valid owner",
            false,
        ),
    );
}

#[test]
fn a_cycle_is_found() {
    check(
        vec![
            Known(
                WellKnown::Deployment,
                "a",
                Some(owner(("apps/v1", "Deployment", "b"))),
            ),
            Known(
                WellKnown::Deployment,
                "b",
                Some(owner(("apps/v1", "Deployment", "a"))),
            ),
        ],
        &workload("apps/v1", "Deployment", "a"),
        &unsupported(
            "Error checking if target apps/v1.Deployment/a is a topmost well-known or scalable controller: cycle \
             detected in ownership chain",
            false,
        ),
    );
}

#[test]
fn the_search_skips_controllers_that_are_not_eligible() {
    let view = view(vec![
        Known(
            WellKnown::ReplicaSet,
            "rs",
            Some(owner((CUSTOM, "Rollout", "r"))),
        ),
        Requirements(
            "Rollout",
            "r",
            found("a=b", Some(owner((CUSTOM, "App", "app")))),
        ),
        Requirements("App", "app", not_found()),
    ]);
    let start = workload("apps/v1", "ReplicaSet", "rs");
    let top = topmost(&view, (&start).into());
    assert_eq!(top, Ok(Some((&workload(CUSTOM, "Rollout", "r")).into())));
}

#[test]
fn every_scale_on_the_way_is_asked_for() {
    let target = workload("apps/v1", "ReplicaSet", "rs");
    let kinds = |things: Vec<Thing>| {
        scales(&view(things), &target)
            .into_iter()
            .map(|key| key.kind)
            .collect::<Vec<_>>()
    };
    let rs = || {
        Known(
            WellKnown::ReplicaSet,
            "rs",
            Some(owner((CUSTOM, "Rollout", "r"))),
        )
    };
    assert_eq!(kinds(vec![rs()]), ["Rollout"]);
    let rollout = || {
        Requirements(
            "Rollout",
            "r",
            found("a=b", Some(owner((CUSTOM, "App", "app")))),
        )
    };
    assert_eq!(kinds(vec![rs(), rollout()]), ["App", "Rollout"]);
    assert_eq!(kinds(vec![]), Vec::<String>::new());
}
