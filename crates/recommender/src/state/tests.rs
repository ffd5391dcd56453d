//! Small clusters: what is decided about their objects as pods, usage and targets come and go.

mod churn;
mod history;
mod kills;
mod quality;
mod schedulable;

use std::sync::Arc;
use std::time::Duration;

use cluster::target::Resolution;
use cluster::{
    Autoscaler, Checkpoint, Container, Controller, ObjectKey, OomKill, Phase, Pod, Resources, View, WellKnown,
};
use jiff::Timestamp;
use model::{Bound, ContainerRecommendation, ContainerRef, Cpu, Labels, Memory, Sample, Selector};
use serde_json::json;
use sizing::Config;
use sources::ContainerUsage;

use super::checkpoints::Loaded;
use super::{Charge, Decision, Ingested, KillCount, State, Target, target};
use crate::checkpoint::form;

const MI: i64 = 1 << 20;

/// A cluster of one namespace and the state that follows it.
struct Cluster {
    view: View,
    state: State,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).expect("in range")
}

fn pod(name: &str, app: &str) -> Pod {
    Pod {
        key: ObjectKey::new("shop", name),
        uid: name.to_owned(),
        labels: Labels::from_iter([("app", app)]),
        phase: Phase::Running,
        owner: None,
        started_at: None,
        containers: vec![Container {
            name: "main".to_owned(),
            requests: Resources::default(),
            limits: Resources::default(),
            status: None,
        }],
        init_containers: vec!["setup".to_owned()],
        placement: None,
        running: None,
    }
}

fn autoscaler(name: &str, deployment: &str, uid: &str, recommender: Option<&str>) -> Autoscaler {
    let recommenders: Vec<_> = recommender.into_iter().map(|name| json!({"name": name})).collect();
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": name, "uid": uid, "generation": 1},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "recommenders": recommenders,
        },
    });
    Autoscaler { key: ObjectKey::new("shop", name), object: api::vpa::parse(object).expect("an autoscaler") }
}

impl Cluster {
    fn new(recommender: &str, memory_saver: bool) -> Self {
        let charge =
            Charge { recommender_name: recommender.to_owned(), memory_saver, patience: Duration::from_mins(1) };
        let state = State::new(charge, Config::default()).expect("defaults are valid");
        Self { view: View::default(), state }
    }

    /// A deployment `web`, an object of that name, and these pods of the deployment.
    fn web(pods: &[&str]) -> Self {
        let mut cluster = Self::new("default", false);
        cluster.deploy("web");
        cluster.view.autoscalers.apply(Arc::new(autoscaler("web", "web", "u1", None)));
        for name in pods {
            cluster.view.pods.apply(Arc::new(pod(name, "web")));
        }
        cluster.load(0);
        cluster
    }

    fn deploy(&mut self, name: &str) {
        let controller = Controller {
            key: ObjectKey::new("shop", name),
            labels: Labels::default(),
            selector: Ok(Selector::match_labels([("app", name)])),
            owner: None,
            replicas: Some(1),
        };
        self.view.controllers_mut(WellKnown::Deployment).apply(Arc::new(controller));
    }

    fn load(&mut self, second: i64) {
        self.state.load_autoscalers(&self.view);
        self.state.load_pods(&self.view, at(second));
        self.state.delete_removed_pods();
    }

    fn measure(&mut self, pod: &str, container: &str, second: i64) -> Ingested {
        let container =
            ContainerRef { namespace: "shop".to_owned(), pod: pod.to_owned(), container: container.to_owned() };
        let sample =
            Sample { at: at(second), cpu: Some(Cpu::from_millicores(250)), memory: Some(Memory::from_bytes(300 * MI)) };
        self.state.add_usage(&[ContainerUsage { container, sample }], at(second))
    }

    fn kill(&mut self, pod: &str, second: i64) -> KillCount {
        let kill = OomKill {
            pod: ObjectKey::new("shop", pod),
            container: "main".to_owned(),
            at: at(second),
            memory: Memory::from_bytes(1024 * MI),
            seen_in: None,
        };
        let mut count = KillCount::default();
        self.state.add_kill(&kill, &self.view, at(second), &mut count);
        count
    }

    /// Decides, and writes the decisions back as the API server would.
    fn decide(&mut self, second: i64) -> Vec<Decision> {
        let decisions = self.state.decide(at(second));
        for decision in &decisions {
            let mut written = (*decision.autoscaler).clone();
            written.object.status = Some(decision.status.clone());
            self.view.autoscalers.apply(Arc::new(written));
        }
        decisions
    }
}

impl Cluster {
    /// Loads what is stored now.
    fn load_stored(&mut self, second: i64) -> Loaded {
        self.state.load_checkpoints(&self.view.checkpoints, at(second))
    }

    /// Stores what is to be stored of the object `web`, as the API server would.
    fn store(&mut self, second: i64) {
        let checkpoints = self.state.checkpoints(&ObjectKey::new("shop", "web"), at(second));
        for (container, checkpoint) in checkpoints {
            self.view.checkpoints.apply(Arc::new(stored("web", &container, checkpoint)));
        }
    }

    /// How many samples of the object `web` are known.
    fn samples(&self, second: i64) -> i64 {
        let checkpoints = self.state.checkpoints(&ObjectKey::new("shop", "web"), at(second));
        checkpoints.get("main").map_or(0, |checkpoint| checkpoint.total_samples_count)
    }

    /// Another process that finds the same objects.
    fn restarted(self, second: i64) -> Self {
        let mut restarted = Self { view: self.view, ..Self::new("default", false) };
        restarted.state.load_autoscalers(&restarted.view);
        restarted.load_stored(second);
        restarted.load(second);
        restarted
    }

    fn delete_web(&mut self, second: i64) {
        self.view.autoscalers.delete(&ObjectKey::new("shop", "web"));
        self.load(second);
        self.load_stored(second);
    }

    fn make_web_again(&mut self, uid: &str, second: i64) {
        self.view.autoscalers.apply(Arc::new(autoscaler("web", "web", uid, None)));
        self.load(second);
        self.load_stored(second);
    }
}

fn stored(autoscaler: &str, container: &str, checkpoint: sizing::Checkpoint) -> Checkpoint {
    let name = format!("{autoscaler}-{container}");
    Checkpoint {
        uid: name.clone(),
        key: ObjectKey::new("shop", name),
        created: None,
        spec: api::checkpoint::VerticalPodAutoscalerCheckpointSpec {
            vpa_object_name: autoscaler.to_owned(),
            container_name: container.to_owned(),
        },
        status: Some(form::write(checkpoint)),
    }
}

/// The object `web` with these annotations.
fn annotated(annotations: &serde_json::Value) -> Autoscaler {
    let mut web = autoscaler("web", "web", "u1", None);
    web.object.metadata.annotations = serde_json::from_value(annotations.clone()).expect("annotations");
    web
}

/// `expected`: each object with its CPU target, or none without recommendation.
fn check(cluster: &mut Cluster, second: i64, expected: &[(&str, Option<&str>)]) {
    let decisions = cluster.decide(second);
    let targets: Vec<_> = decisions
        .iter()
        .map(|decision| {
            let status = serde_json::to_value(&decision.status).expect("a status");
            let cpu = &status["recommendation"]["containerRecommendations"][0]["target"]["cpu"];
            (decision.autoscaler.key.name.clone(), cpu.as_str().map(str::to_owned))
        })
        .collect();
    let targets: Vec<_> = targets.iter().map(|(name, cpu)| (name.as_str(), cpu.as_deref())).collect();
    assert_eq!(targets, expected, "second {second}");
}

#[test]
fn usage_becomes_a_recommendation() {
    let mut cluster = Cluster::web(&["web-1", "web-2", "web-3"]);
    for pod in ["web-1", "web-2", "web-3"] {
        assert_eq!(cluster.measure(pod, "main", 1).accepted, 1);
    }
    check(&mut cluster, 2, &[("web", Some("296m"))]);
}

#[test]
fn the_minimum_waits_for_usage_for_one_interval() {
    let mut cluster = Cluster::web(&["web-1"]);
    check(&mut cluster, 59, &[("web", None)]);
    check(&mut cluster, 60, &[("web", Some("25m"))]);
    cluster.measure("web-1", "main", 61);
    check(&mut cluster, 62, &[("web", Some("296m"))]);
}

#[test]
fn a_decision_that_was_written_is_no_change_any_more() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    assert!(cluster.decide(2).iter().all(|decision| decision.is_change() && decision.is_first_recommendation()));
    cluster.load(3);
    assert!(cluster.decide(4).iter().all(|decision| !decision.is_change() && !decision.is_first_recommendation()));
}

#[test]
fn a_recommendation_outlives_the_pods() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    cluster.view.pods.delete(&ObjectKey::new("shop", "web-1"));
    cluster.load(2);
    check(&mut cluster, 3, &[("web", Some("296m"))]);
    assert_eq!(cluster.decide(4)[0].pods, 0);
}

#[test]
fn a_restart_keeps_what_was_recommended_until_usage_arrives() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let mut after = Cluster { view: before.view, ..Cluster::new("default", false) };
    after.load(10);
    check(&mut after, 11, &[("web", Some("296m"))]);
    check(&mut after, 1000, &[("web", Some("296m"))]);
}

#[test]
fn samples_that_cannot_be_used_say_why() {
    let mut cluster = Cluster::web(&["web-1"]);
    let count = |accepted, repeated, unknown, future| Ingested { accepted, repeated, unknown, future };
    assert_eq!(cluster.measure("web-1", "main", 10), count(1, 0, 0, 0));
    assert_eq!(cluster.measure("web-1", "main", 5), count(0, 1, 0, 0));
    assert_eq!(cluster.measure("web-1", "setup", 10), count(0, 1, 0, 0), "init containers are passed over");
    assert_eq!(cluster.measure("web-1", "other", 10), count(0, 0, 1, 0));
    assert_eq!(cluster.measure("gone", "main", 10), count(0, 0, 1, 0));
}

#[test]
fn a_kill_counts_until_its_pod_is_forgotten() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.view.pods.delete(&ObjectKey::new("shop", "web-1"));
    cluster.state.load_pods(&cluster.view, at(1));
    assert_eq!(cluster.kill("web-1", 2), KillCount { accepted: 1, ..KillCount::default() });
    cluster.state.delete_removed_pods();
    assert_eq!(cluster.kill("web-1", 3), KillCount { refused: 1, ..KillCount::default() });
}

#[test]
fn each_object_is_handled_by_the_recommender_that_it_names() {
    for (recommender, expected) in [("default", ["plain"]), ("frugal", ["special"])] {
        let mut cluster = Cluster::new(recommender, false);
        cluster.deploy("web");
        cluster.view.autoscalers.apply(Arc::new(autoscaler("plain", "web", "u1", None)));
        cluster.view.autoscalers.apply(Arc::new(autoscaler("special", "web", "u2", Some("frugal"))));
        cluster.load(0);
        check(&mut cluster, 1, &expected.map(|name| (name, None)));
    }
}

#[test]
fn two_objects_on_one_target_get_the_same() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.view.autoscalers.apply(Arc::new(autoscaler("also", "web", "u2", None)));
    cluster.load(1);
    cluster.measure("web-1", "main", 2);
    check(&mut cluster, 3, &[("also", Some("296m")), ("web", Some("296m"))]);
}

#[test]
fn an_object_that_is_made_again_starts_anew_and_one_that_is_gone_is_forgotten() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    cluster.decide(2);
    cluster.view.autoscalers.apply(Arc::new(autoscaler("web", "nothing", "u2", None)));
    cluster.load(3);
    let decisions = cluster.decide(4);
    assert!(decisions[0].unsupported && decisions[0].autoscaler.uid() == "u2");
    cluster.view.autoscalers.delete(&ObjectKey::new("shop", "web"));
    cluster.load(5);
    check(&mut cluster, 6, &[]);
}

#[test]
fn history_survives_a_target_that_is_away_for_a_while() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    let key = ObjectKey::new("shop", "web");
    let deployment = cluster.view.controller(WellKnown::Deployment, &key).cloned().expect("deployed");
    cluster.view.controllers_mut(WellKnown::Deployment).delete(&key);
    cluster.load(2);
    assert!(cluster.decide(3)[0].unsupported);
    cluster.view.controllers_mut(WellKnown::Deployment).apply(deployment);
    cluster.load(4);
    check(&mut cluster, 5, &[("web", Some("296m"))]);
}

/// `before`: what the target came down to before; `expected`: the pods that are selected now, or none where nothing is known.
fn check_target(resolution: Resolution, before: Option<Target>, expected: Option<&Selector>) {
    let shown = format!("{resolution:?} after {before:?}");
    match (target(resolution, before), expected) {
        (Target::Known { selector, .. }, Some(expected)) => assert_eq!(&selector, expected, "{shown}"),
        (Target::Unknown, None) => {}
        (target, expected) => panic!("{shown}: {target:?}, not {expected:?}"),
    }
}

#[test]
fn an_error_that_may_pass_leaves_the_selector_as_it_was() {
    let selector = Selector::match_labels([("app", "web")]);
    let known = || Some(Target::Known { selector: selector.clone(), unsupported: None });
    let failed = |transient| Resolution::Unsupported { message: "it hurts".to_owned(), transient };
    check_target(failed(true), known(), Some(&selector));
    check_target(failed(true), None, Some(&Selector::nothing()));
    check_target(failed(false), known(), Some(&Selector::nothing()));
    check_target(Resolution::Pods(selector.clone()), None, Some(&selector));
}

#[test]
fn empty_optional_fields_hurt_nobody() {
    let spec = json!({
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {}, "startupBoost": {},
        "resourcePolicy": {"containerPolicies": [{"containerName": "main", "minAllowed": {}, "startupBoost": {}}]},
    });
    let object = json!({
        "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
        "metadata": {"namespace": "shop", "name": "web"}, "spec": spec, "status": {"recommendation": {}},
    });
    let mut cluster = Cluster::web(&["web-1"]);
    let object = api::vpa::parse(object).expect("an autoscaler");
    cluster.view.autoscalers.apply(Arc::new(Autoscaler { key: ObjectKey::new("shop", "web"), object }));
    cluster.load(0);
    cluster.measure("web-1", "main", 1);
    check(&mut cluster, 2, &[("web", Some("296m"))]);
}

#[test]
fn memory_saver_keeps_nothing_of_pods_that_no_object_selects() {
    for (memory_saver, expected) in [(true, 1), (false, 2)] {
        let mut cluster = Cluster::new("default", memory_saver);
        cluster.deploy("web");
        cluster.view.autoscalers.apply(Arc::new(autoscaler("web", "web", "u1", None)));
        cluster.view.pods.apply(Arc::new(pod("web-1", "web")));
        cluster.view.pods.apply(Arc::new(pod("other-1", "other")));
        cluster.load(0);
        for pod in ["web-1", "other-1"] {
            cluster.measure(pod, "main", 1);
        }
        assert_eq!(cluster.state.history_count(), expected, "memory saver {memory_saver}");
    }
}

#[test]
fn a_restart_goes_on_from_what_was_stored() {
    let mut before = Cluster::web(&["web-1"]);
    for second in 1..=60 {
        before.measure("web-1", "main", second);
    }
    before.view.pods.delete(&ObjectKey::new("shop", "web-1"));
    before.load(61);
    before.store(61);
    let recommended = before.decide(62).remove(0).status;
    let mut after = before.restarted(63);
    assert_eq!(after.decide(64).remove(0).status, recommended);
    assert_eq!(after.samples(64), 60);
    assert_eq!(after.load_stored(65), Loaded::default(), "nothing is loaded twice");
    assert_eq!(after.samples(65), 60);
}

#[test]
fn a_stand_by_does_not_add_what_the_leader_stores_of_the_same_samples() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let mut stand_by = before.restarted(3);
    stand_by.measure("web-1", "main", 10);
    stand_by.store(11);
    assert_eq!(stand_by.load_stored(12), Loaded::default());
    assert_eq!(stand_by.samples(12), 2);
}

#[test]
fn an_object_that_comes_later_gets_its_stored_history() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    before.view.autoscalers.delete(&ObjectKey::new("shop", "web"));
    let mut after = before.restarted(3);
    after.measure("web-1", "main", 10);
    after.make_web_again("u2", 11);
    assert_eq!(after.samples(12), 2, "what was stored, and what was measured since");
}

#[test]
fn an_object_that_is_made_again_neither_loses_history_nor_counts_it_twice() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let mut after = before.restarted(3);
    after.measure("web-1", "main", 10);
    after.store(11);
    after.delete_web(12);
    after.make_web_again("u2", 13);
    assert_eq!(after.samples(14), 2);
}

#[test]
fn a_checkpoint_that_cannot_be_used_is_reported_once_and_the_others_are_loaded() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.store(2);
    let mut odd = sizing::Checkpoint { version: "v4".to_owned(), ..sizing::Checkpoint::default() };
    odd.last_sample_start = Some(at(1));
    before.view.checkpoints.apply(Arc::new(stored("web", "a", odd)));
    let mut after = Cluster { view: before.view, ..Cluster::new("default", false) };
    after.load(3);
    let loaded = after.load_stored(4);
    assert_eq!((loaded.accepted, loaded.refused.len()), (1, 1));
    assert_eq!(loaded.refused[0].1, sizing::CheckpointError::Version("v4".to_owned()));
    assert_eq!(after.load_stored(5), Loaded::default());
}

#[test]
fn nothing_is_stored_while_pods_are_not_known_or_another_loads_history() {
    let mut cluster = Cluster::web(&["web-1"]);
    cluster.measure("web-1", "main", 1);
    assert_eq!(cluster.state.checkpointed(), [ObjectKey::new("shop", "web")]);
    let fetching = json!([{"type": "FetchingHistory", "status": "True"}]);
    let mut object = autoscaler("web", "web", "u1", None);
    object.object.status = serde_json::from_value(json!({"conditions": fetching})).expect("a status");
    for object in [object, autoscaler("web", "gone", "u1", None)] {
        cluster.view.autoscalers.apply(Arc::new(object));
        cluster.load(2);
        assert!(cluster.state.checkpointed().is_empty());
        assert_eq!(cluster.samples(3), 0);
    }
}

#[test]
fn an_abandoned_container_is_forgotten_with_its_checkpoint_and_not_stored_again() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    let old = before.state.checkpoints(&ObjectKey::new("shop", "web"), at(2)).remove("main").expect("stored");
    before.view.checkpoints.apply(Arc::new(stored("web", "old", old)));
    let nine_days = 9 * 86_400;
    let mut after = before.restarted(nine_days);
    after.measure("web-1", "main", nine_days + 1);
    let names = |cluster: &Cluster, second| {
        let found = cluster.state.decide(at(second)).remove(0).status.recommendation.expect("one");
        found.container_recommendations.into_iter().map(|container| container.container_name).collect::<Vec<_>>()
    };
    assert_eq!(names(&after, nine_days + 2), ["main", "old"]);
    after.store(nine_days + 3);
    let object = after.view.checkpoints.get(&ObjectKey::new("shop", "web-old")).expect("still there");
    let last = object.status.as_ref().and_then(|status| status.last_sample_start.clone());
    assert_eq!(last.map(|time| time.0), Some(at(1)), "it was not written");
    after.view.checkpoints.delete(&ObjectKey::new("shop", "web-old"));
    after.load_stored(nine_days + 4);
    assert_eq!(names(&after, nine_days + 5), ["main"]);
}

#[test]
fn what_is_explained_and_told_is_what_is_written() {
    let mut cluster = Cluster::web(&["web-1"]);
    let key = ObjectKey::new("shop", "web");
    let explain = |cluster: &Cluster, second| cluster.state.explain(&key, "main", at(second)).expect("an explanation");
    let waiting = explain(&cluster, 1);
    assert!(!waiting.is_measured && waiting.published.target.is_empty());
    cluster.measure("web-1", "main", 2);
    let written = cluster.decide(3).remove(0);
    let told = crate::serve::recommendation(&written);
    assert_eq!((told.uid.as_str(), told.namespace.as_str(), told.name.as_str()), ("u1", "shop", "web"));
    assert_eq!(written.status.recommendation, Some(told.recommendation.clone().into()));
    let explained = explain(&cluster, 3);
    assert_eq!((explained.uid.as_str(), explained.is_measured), ("u1", true));
    assert_eq!(explained.published, told.recommendation.containers[0]);
    for number in explained.explanation.numbers {
        let list = match number.bound {
            Bound::Target => &explained.published.target,
            Bound::Lower => &explained.published.lower_bound,
            Bound::Upper => &explained.published.upper_bound,
        };
        assert_eq!(list.get(&number.resource), Some(&number.capped));
    }
    assert_eq!(cluster.state.explain(&key, "other", at(3)), None);
    assert_eq!(cluster.state.explain(&ObjectKey::new("shop", "other"), "main", at(3)), None);
}

#[test]
fn an_annotation_chooses_the_way_of_sizing_and_a_wrong_one_is_reported() {
    let crane = json!({"plimsoll.dev/sizing-policy": "crane"});
    let wrong = json!({"plimsoll.dev/sizing-policy": "magic"});
    let wrong_cap = json!({"plimsoll.dev/cap-to-schedulable": "node"});
    // 345m: the third tenth of a core and 15 %.
    for (annotations, expected, is_refused) in
        [(json!({}), "296m", false), (crane, "345m", false), (wrong, "296m", true), (wrong_cap, "296m", true)]
    {
        let mut cluster = Cluster::new("default", false);
        cluster.deploy("web");
        cluster.view.autoscalers.apply(Arc::new(annotated(&annotations)));
        cluster.view.pods.apply(Arc::new(pod("web-1", "web")));
        cluster.load(0);
        cluster.measure("web-1", "main", 1);
        let refused = |decision: &Decision| {
            decision.status.conditions.iter().any(|condition| condition.kind == "AnnotationRefused")
        };
        assert_eq!(cluster.decide(2).iter().any(refused), is_refused, "{annotations}");
        check(&mut cluster, 3, &[("web", Some(expected))]);
    }
}

#[test]
fn a_restarted_way_of_sizing_keeps_what_was_published_until_a_day_is_known() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    before.decide(2);
    let status = before.view.autoscalers.get(&ObjectKey::new("shop", "web")).and_then(|web| web.object.status.clone());
    let mut web = annotated(&json!({"plimsoll.dev/sizing-policy": "autopilot-window"}));
    web.object.status = status;
    let mut after = Cluster { view: before.view, ..Cluster::new("default", false) };
    after.view.autoscalers.apply(Arc::new(web));
    after.load(10);
    for minute in 0..=24 * 60 {
        let second = 60 * minute;
        let container = ContainerRef { namespace: "shop".into(), pod: "web-1".into(), container: "main".into() };
        let usage = (Some(Cpu::from_millicores(10)), Some(Memory::from_bytes(300 * MI)));
        let sample = Sample { at: at(second), cpu: usage.0, memory: usage.1 };
        after.state.add_usage(&[ContainerUsage { container, sample }], at(second));
        if minute == 0 || minute == 60 || minute == 24 * 60 - 1 {
            check(&mut after, second, &[("web", Some("296m"))]);
        }
    }
    check(&mut after, 24 * 3600, &[("web", Some("25m"))]);
}
