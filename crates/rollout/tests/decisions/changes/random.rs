//! Random changes in random order.

use std::sync::Arc;
use std::time::Duration;

use model::{Cpu, Labels, LimitRangeItem, LimitType, ResourceList};
use proptest::prelude::*;
use serde_json::{Value, json};
use view::{LimitRange, Namespace, ObjectKey, Quota, Scale, ScaleKey, WellKnown};

use rollout::{Action, ActionOutcome, MAINTENANCE_WINDOW, OOM_RESIZE, PauseReason, REVERTED_AT};

use super::super::fixture::{
    ACCEPTED, Fixture, TOO_MANY_REQUESTS, boosted, pending, recommendation, set_requests,
};
use super::super::oom::killed;
use super::comparison::Comparison;

/// Namespaces with their Deployments. Names tell pods of different namespaces apart.
const APPS: [(&str, &str); 5] = [
    ("shop", "web"),
    ("shop", "api"),
    ("shop", "set"),
    ("bank", "db"),
    ("bank", "log"),
];
const NOON: &str = "2026-01-01T12:00:00Z";
const MODES: [&str; 5] = [
    "Recreate",
    "Recreate",
    "InPlaceOrRecreate",
    "InPlace",
    "Off",
];
const SELECTORS: [&str; 4] = [
    "app=web",
    "app in (web,api)",
    "app notin (web)",
    "tier=none",
];
const WINDOWS: [&str; 3] = ["0 13 * * *; for=1h", "30 11 * * *; for=1h", "soon"];
/// Just enough and just too little for what is waited for.
const PAUSES: [u64; 9] = [
    50,
    999,
    2_000,
    31_000,
    61_000,
    125_000,
    301_000,
    3_601_000,
    13 * 3_600_000,
];

/// One change: what, of which application, and two details.
type Step = (u8, usize, u8, u8);

struct Change<'a> {
    kind: u8,
    namespace: &'a str,
    app: &'a str,
    pod: String,
    cpu: &'a str,
    a: u8,
    b: u8,
}

/// The cluster, and the actions in flight.
struct Scenario {
    comparison: Comparison,
    begun: Vec<Arc<Action>>,
}

impl Scenario {
    fn new() -> Self {
        let mut fixture = Fixture::new();
        (fixture.settings.in_place, fixture.settings.startup_boost) = (true, true);
        fixture.settings.settling_time = Duration::from_secs(2);
        for (namespace, app) in APPS {
            namespace.clone_into(&mut fixture.namespace);
            if app == "set" {
                fixture.clone_set(app, 3);
            } else {
                fixture.deployment(app, 3, &json!({"minReplicas": 1}));
            }
        }
        Self {
            comparison: Comparison::new(fixture),
            begun: Vec::new(),
        }
    }

    fn change(&mut self, (kind, app, a, b): Step) {
        let (namespace, app) = APPS[app];
        let fixture = &mut self.comparison.fixture;
        namespace.clone_into(&mut fixture.namespace);
        let change = Change {
            kind,
            namespace,
            app,
            pod: format!("{app}-{}", a % 5),
            cpu: ["100m", "1", "900m", "3"][usize::from(b) % 4],
            a,
            b,
        };
        match kind {
            0..=9 => change_pod(fixture, &change),
            10..=15 => change_vpa(fixture, &change),
            16 | 17 => change_controller(fixture, &change),
            18..=23 => change_constraints(fixture, &change),
            24..=29 => self.change_time(kind, b),
            _ => self.change_actions(kind, a, b),
        }
    }

    fn change_time(&mut self, kind: u8, b: u8) {
        let fixture = &mut self.comparison.fixture;
        match kind {
            24..=27 => self
                .comparison
                .wait(Duration::from_millis(PAUSES[usize::from(b) % PAUSES.len()])),
            28 => {
                let hour = Duration::from_hours(1);
                let wall = fixture.now.wall;
                fixture.now.wall = if b < 8 { wall + hour } else { wall - hour };
            }
            29 => fixture.pause = (b < 4).then_some(PauseReason::ViewStale),
            _ => {}
        }
    }

    fn change_actions(&mut self, kind: u8, a: u8, b: u8) {
        match kind {
            30..=35 => {
                let actions = &self.comparison.plan.actions;
                let Some(action) = actions.get(usize::from(a) % actions.len().max(1)) else {
                    return;
                };
                if self
                    .begun
                    .iter()
                    .any(|begun| begun.pod_uid == action.pod_uid)
                {
                    return;
                }
                let action = Arc::clone(action);
                self.comparison.begin(&action);
                self.begun.push(action);
            }
            36..=40 if !self.begun.is_empty() => {
                let action = self.begun.swap_remove(usize::from(a) % self.begun.len());
                let outcome = match b {
                    0..=6 => ACCEPTED,
                    7 | 8 => ActionOutcome::Unknown,
                    9 | 10 => TOO_MANY_REQUESTS,
                    11 => ActionOutcome::PodGone,
                    12 | 13 => ActionOutcome::Infeasible,
                    _ => ActionOutcome::Rejected,
                };
                self.comparison.end(&action, &outcome);
            }
            _ => {}
        }
    }
}

fn change_pod(fixture: &mut Fixture, change: &Change) {
    let b = change.b;
    let with = match change.kind {
        0..=2 => json!({"cpu": change.cpu, "ready": b < 8}),
        5 => json!({"cpu": "100m"}),
        7 => json!({"cpu": "3"}),
        _ => json!({"cpu": change.cpu}),
    };
    if change.kind == 3 {
        return fixture.delete(&change.pod);
    }
    fixture.pod_with(change.app, &change.pod, &with, |pod| {
        if change.app == "set" {
            pod["metadata"]["ownerReferences"][0]["kind"] = json!("CloneSet");
            pod["metadata"]["ownerReferences"][0]["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        }
        match (change.kind, b % 3) {
            (4, _) => pod["metadata"]["deletionTimestamp"] = json!(NOON),
            (5, _) => killed_with_limit(pod, b),
            (6, reason) => {
                let reason = ["Deferred", "Infeasible", "InProgress"][usize::from(reason)];
                pending(pod, reason, "2026-01-01T11:59:00Z");
            }
            (7, _) => boosted(pod, "1", NOON),
            (8, _) => {
                pod["metadata"]["annotations"] = json!({REVERTED_AT: NOON});
                set_requests(pod, change.cpu, "300Mi");
            }
            (9, 0) => pod["metadata"]["labels"] = json!({"app": "other"}),
            (9, 1) => pod["metadata"]["ownerReferences"] = json!([]),
            (9, _) => pod["status"]["phase"] = json!("Pending"),
            _ => {}
        }
    });
}

/// A pod that was OOM killed: without a limit, or with one below, at or above the target, before or
/// after a resize, while it runs or waits.
fn killed_with_limit(pod: &mut Value, b: u8) {
    killed(pod);
    if b < 4 {
        return;
    }
    let memory = ["60Mi", "100Mi", "101Mi"][usize::from(b) % 3];
    let resources =
        json!({"requests": {"cpu": "1", "memory": memory}, "limits": {"memory": memory}});
    pod["spec"]["containers"][0]["resources"] = resources;
    if b.is_multiple_of(2) {
        let act = if b < 10 { "resize" } else { "step" };
        let note = format!(r#"{{"at":"2026-01-01T11:59:00Z","act":"{act}","refuted":1}}"#);
        pod["metadata"]["annotations"] = json!({"vpaInPlaceUpdated": "true", OOM_RESIZE: note});
    }
    if b.is_multiple_of(5) {
        pod["status"]["containerStatuses"][0]["state"] = json!({"waiting": {}});
    }
}

fn change_vpa(fixture: &mut Fixture, change: &Change) {
    let (kind, app, a, b) = (change.kind, change.app, change.a, change.b);
    let key = ObjectKey::new(change.namespace, app);
    let has_vpa = fixture.view.vpas.get(&key).is_some();
    match kind {
        10 if has_vpa => fixture.recommend(app, ["1", "2", "3"][usize::from(a) % 3]),
        11 => match (app, b % 4) {
            (_, 0) => drop(fixture.view.vpas.delete(&key)),
            ("set", _) => fixture.vpa_of("apps.kruise.io/v1alpha1", "CloneSet", app, &policy(a, b)),
            _ => fixture.vpa(app, &policy(a, b)),
        },
        12 if has_vpa => fixture.annotate(app, MAINTENANCE_WINDOW, WINDOWS[usize::from(a) % 3]),
        13 if has_vpa => fixture.made_at(app, &format!("2026-01-01T11:00:0{}Z", a % 10)),
        14 if has_vpa => fixture.boost(app, i32::from(a)),
        15 if has_vpa => fixture.edit_vpa(app, |object| {
            object["status"]["conditions"] =
                json!([{"type": "SourceStale", "status": if b < 8 { "True" } else { "False" }}]);
        }),
        _ => {}
    }
}

fn change_controller(fixture: &mut Fixture, change: &Change) {
    let (kind, app, a, b) = (change.kind, change.app, change.a, change.b);
    let key = ObjectKey::new(change.namespace, app);
    let has_vpa = fixture.view.vpas.get(&key).is_some();
    match kind {
        16 if app == "set" && b > 12 => {
            let [group, kind] = ["apps.kruise.io", "CloneSet"].map(str::to_owned);
            let (namespace, name) = (change.namespace.to_owned(), app.to_owned());
            let key = ScaleKey {
                group,
                kind,
                namespace,
                name,
            };
            let gone = Scale::NotFound {
                reason: "gone".to_owned(),
                kind_has_scale: true,
            };
            fixture.view.apply_scale(key, gone, view::PodSet::default());
        }
        16 if app == "set" => fixture.read_scale(app, i32::from(b % 6)),
        16 => {
            let sets = fixture.view.controllers_mut(WellKnown::ReplicaSet);
            if let Some(mut set) = sets.get(&key).map(|set| set.as_ref().clone()) {
                set.replicas = Some(i32::from(b % 6));
                sets.apply(Arc::new(set));
            }
        }
        17 if b < 4 => drop(
            fixture
                .view
                .controllers_mut(WellKnown::ReplicaSet)
                .delete(&key),
        ),
        17 if app != "set" && has_vpa => fixture.workload(app, 3, &policy(a, b)),
        _ => {}
    }
}

fn change_constraints(fixture: &mut Fixture, change: &Change) {
    let (a, b) = (change.a, change.b);
    let key = || ObjectKey::new(change.namespace, "all");
    match change.kind {
        18 if b == 0 => drop(
            fixture
                .view
                .disruption_budgets
                .delete(&ObjectKey::new("shop", format!("b{}", a % 3))),
        ),
        18 => {
            let disrupted = if b > 12 {
                std::slice::from_ref(&change.pod)
            } else {
                &[]
            };
            let selector = SELECTORS[if b < 14 { usize::from(a) % 3 } else { 3 }];
            let namespace = std::mem::replace(&mut fixture.namespace, "shop".to_owned());
            fixture.budget_over(
                &format!("b{}", a % 3),
                selector,
                [i32::from(b % 5), 1],
                disrupted,
            );
            fixture.namespace = namespace;
        }
        19 if b < 4 => drop(fixture.view.limit_ranges.delete(&key())),
        19 => {
            let cpu = Cpu::from_millicores(500 * i64::from(b));
            let item = LimitRangeItem {
                kind: LimitType::Container,
                min: None,
                max: Some(ResourceList::of(cpu, model::Memory::from_bytes(1 << 32))),
                default: None,
                default_request: None,
                max_limit_request_ratio: None,
            };
            let range = LimitRange {
                key: key(),
                items: vec![item],
            };
            fixture.view.limit_ranges.apply(Arc::new(range));
        }
        20 if b < 4 => drop(fixture.view.quotas.delete(&key())),
        20 => {
            let quota = Quota {
                key: key(),
                hard: ResourceList::new(),
                scopes: vec![],
            };
            fixture.view.quotas.apply(Arc::new(quota));
        }
        21 => {
            let annotation = |text: &&str| (MAINTENANCE_WINDOW.to_owned(), (*text).to_owned());
            let window = WINDOWS.get(usize::from(b) % 5).map(annotation);
            let namespace = Namespace {
                name: change.namespace.to_owned(),
                labels: Labels::default(),
                annotations: window.into_iter().collect(),
            };
            fixture.view.namespaces.apply(Arc::new(namespace));
        }
        22 => {
            let uid = format!("uid-{}", change.app);
            fixture.feed.remove(&uid);
            if b >= 4 {
                fixture
                    .feed
                    .insert(uid, Arc::new(recommendation(500 * i64::from(b))));
            }
        }
        23 => fixture.node(&b.to_string(), "8Gi"),
        _ => {}
    }
}

fn policy(a: u8, b: u8) -> Value {
    json!({"updateMode": MODES[usize::from(a) % 5], "minReplicas": 1 + b % 3})
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    proptest::collection::vec((0u8..41, 0..APPS.len(), 0u8..16, 0u8..16), 1..120)
}

proptest! {
    #[test]
    fn a_pass_decides_the_same_as_one_that_decides_about_everything(steps in steps()) {
        let mut scenario = Scenario::new();
        scenario.comparison.pass();
        for step in steps {
            scenario.change(step);
            scenario.comparison.pass();
        }
    }
}
