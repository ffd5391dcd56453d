//! A `DaemonSet` with VPA objects per group of nodes.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use proptest::prelude::*;
use rollout::Action;
use serde_json::json;
use view::{Controller, ObjectKey, WellKnown};

use super::super::fixture::{ACCEPTED, Fixture, evicted};
use super::comparison::Comparison;

const ANNOTATION: &str = "plimsoll.dev/node-group";
const LABEL: &str = "node-group.plimsoll.dev/pool";
const GROUPS: [Option<&str>; 3] = [Some("big"), Some("small"), None];

/// A `DaemonSet` `logs` without pods.
fn daemon_set(fixture: &mut Fixture, desired: i32) {
    let spec = json!({"selector": {"matchLabels": {"app": "logs"}}, "template": {}});
    let status = json!({
        "desiredNumberScheduled": desired, "currentNumberScheduled": desired, "numberMisscheduled": 0,
        "numberReady": desired,
    });
    let metadata = json!({"namespace": "shop", "name": "logs"});
    let object = json!({"metadata": metadata, "spec": spec, "status": status});
    let object: DaemonSet = serde_json::from_value(object).expect("a DaemonSet");
    let daemon_sets = fixture.view.controllers_mut(WellKnown::DaemonSet);
    daemon_sets.apply(Arc::new(Controller::from(object)));
}

fn vpa(fixture: &mut Fixture, name: &str, group: Option<&str>) {
    fixture.vpa_of("apps/v1", "DaemonSet", name, &json!({}));
    fixture.edit_vpa(name, |object| {
        object["spec"]["targetRef"]["name"] = json!("logs");
        let annotations = group.map(|group| json!({ANNOTATION: group}));
        object["metadata"]["annotations"] = json!(annotations);
    });
}

fn pod(fixture: &mut Fixture, name: &str, group: Option<&str>, cpu: &str, is_ready: bool) {
    let with = json!({"cpu": cpu, "ready": is_ready});
    fixture.pod_with("logs", name, &with, |pod| {
        pod["metadata"]["ownerReferences"][0]["kind"] = json!("DaemonSet");
        if let Some(group) = group {
            pod["metadata"]["labels"][LABEL] = json!(group);
        }
    });
}

/// Four large and four small nodes, and one without a group.
fn fixture() -> Fixture {
    let mut fixture = Fixture::new();
    daemon_set(&mut fixture, 9);
    for index in 0..4 {
        pod(
            &mut fixture,
            &format!("b{index}"),
            Some("big"),
            "100m",
            true,
        );
        pod(
            &mut fixture,
            &format!("s{index}"),
            Some("small"),
            "100m",
            true,
        );
    }
    pod(&mut fixture, "x0", None, "100m", true);
    fixture
}

#[test]
fn each_group_is_updated_within_its_own_budget() {
    let mut fixture = fixture();
    vpa(&mut fixture, "big", Some("pool=big"));
    vpa(&mut fixture, "small", Some("pool=small"));
    fixture.recommend("small", "100m");
    let plan = fixture.pass();
    assert_eq!(evicted(&plan), ["b0", "b1"]);
    fixture.report(&plan, &ACCEPTED);
    fixture.check_idle("two are on their way");
    fixture.delete("b0");
    fixture.delete("b1");
    fixture.check_idle("two are gone");
    pod(&mut fixture, "b4", Some("big"), "1", false);
    pod(&mut fixture, "b5", Some("big"), "1", true);
    fixture.check_evicted(&["b2"], "one of two replacements is ready");
    fixture.recommend("small", "2");
    fixture.check_evicted(&["b2", "s0", "s1"], "the other group has its own budget");
}

#[test]
fn a_missing_pod_of_any_group_counts_in_each() {
    let mut fixture = fixture();
    vpa(&mut fixture, "big", Some("pool=big"));
    fixture.delete("s0");
    fixture.delete("x0");
    // Two of at most six pods are away; half of them may be.
    fixture.check_evicted(&["b0"], "two pods of other nodes are missing");
    fixture.delete("s1");
    fixture.check_idle("three pods are missing");
    pod(&mut fixture, "s4", Some("small"), "100m", true);
    pod(&mut fixture, "s5", Some("small"), "100m", true);
    pod(&mut fixture, "x1", None, "100m", true);
    fixture.check_evicted(&["b0", "b1"], "all are back");
}

#[test]
fn an_object_of_a_group_comes_before_an_older_one_of_all_nodes() {
    let mut fixture = fixture();
    vpa(&mut fixture, "all", None);
    vpa(&mut fixture, "big", Some("pool=big"));
    fixture.made_at("all", "2026-01-01T11:00:00Z");
    fixture.made_at("big", "2026-01-01T11:30:00Z");
    let controlling = |fixture: &mut Fixture| {
        let counts = fixture.first_pass().pod_counts;
        let counts = counts.iter().map(|counts| format!("{counts:?}"));
        counts.collect::<Vec<_>>()
    };
    let grouped = controlling(&mut fixture);
    fixture.recommend("big", "100m");
    fixture.check_evicted(
        &["s0", "s1"],
        "the other pods are those of the older object",
    );
    fixture.edit_vpa("big", |object| {
        object["metadata"]["annotations"] = json!(null);
    });
    let plain = controlling(&mut fixture);
    assert_ne!(grouped, plain);
    fixture.check_evicted(&["b0", "b1", "b2", "b3"], "it controls them all");
    fixture.edit_vpa("big", |object| {
        object["metadata"]["annotations"] = json!({ANNOTATION: "pool=none"});
    });
    assert_ne!(controlling(&mut fixture), grouped);
    fixture.edit_vpa("big", |object| {
        object["metadata"]["annotations"] = json!({ANNOTATION: "pool"});
    });
    fixture.check_evicted(&["b0", "b1", "b2", "b3"], "an invalid one controls none");
}

#[test]
fn a_pod_that_goes_concerns_the_groups_with_pods_and_no_other_object() {
    let mut fixture = fixture();
    for pool in ["big", "small"] {
        vpa(&mut fixture, pool, Some(&format!("pool={pool}")));
    }
    for index in 0..100 {
        vpa(&mut fixture, &format!("idle{index}"), Some("pool=idle"));
    }
    fixture.pass();
    super::check(&mut fixture, 0);
    pod(&mut fixture, "b0", Some("big"), "100m", false);
    super::check(&mut fixture, 1);
    fixture.delete("b0");
    super::check(&mut fixture, 2);
    fixture.delete("x0");
    super::check(&mut fixture, 2);
    pod(&mut fixture, "x1", Some("idle"), "100m", true);
    super::check(&mut fixture, 3);
}

/// One change: what, of which pod, and two details.
type Step = (u8, u8, u8, u8);

struct Scenario {
    comparison: Comparison,
    begun: Vec<Arc<Action>>,
}

impl Scenario {
    fn new() -> Self {
        let mut fixture = fixture();
        vpa(&mut fixture, "big", Some("pool=big"));
        vpa(&mut fixture, "small", Some("pool=small"));
        vpa(&mut fixture, "all", None);
        Self {
            comparison: Comparison::new(fixture),
            begun: Vec::new(),
        }
    }

    fn change(&mut self, (kind, index, a, b): Step) {
        let fixture = &mut self.comparison.fixture;
        let name = format!("{}{}", ["b", "s", "x"][usize::from(a) % 3], index % 5);
        let group = GROUPS[usize::from(if b == 0 { index } else { a }) % 3];
        let cpu = ["100m", "1", "3"][usize::from(b) % 3];
        match kind {
            0..=3 => pod(fixture, &name, group, cpu, b < 12),
            4 | 5 => fixture.delete(&name),
            6 => daemon_set(fixture, i32::from(b)),
            7 => {
                let groups = [Some("pool=big"), Some("pool=small"), None, Some("pool")];
                let vpas = ["big", "small", "all"];
                vpa(
                    fixture,
                    vpas[usize::from(a) % 3],
                    groups[usize::from(b) % 4],
                );
            }
            8 => {
                let name = ["big", "small", "all"][usize::from(a) % 3];
                fixture.view.vpas.delete(&ObjectKey::new("shop", name));
            }
            9 | 10 => {
                let seconds = [1, 31, 301][usize::from(b) % 3];
                self.comparison.wait(Duration::from_secs(seconds));
            }
            11 | 12 => {
                let actions = &self.comparison.plan.actions;
                let action = actions.get(usize::from(a) % actions.len().max(1));
                let Some(action) = action.map(Arc::clone) else {
                    return;
                };
                if self.begun.iter().all(|it| it.pod_uid != action.pod_uid) {
                    self.comparison.begin(&action);
                    self.begun.push(action);
                }
            }
            _ => {
                if let Some(action) = self.begun.pop() {
                    self.comparison.end(&action, &ACCEPTED);
                }
            }
        }
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0u8..14, 0u8..5, 0u8..16, 0u8..16), 1..80)
}

proptest! {
    #[test]
    fn a_pass_decides_about_groups_as_one_that_decides_about_everything(steps in steps()) {
        let mut scenario = Scenario::new();
        scenario.comparison.pass();
        for step in steps {
            scenario.change(step);
            scenario.comparison.pass();
        }
    }
}
