//! Small clusters: what is decided about their objects as pods, usage and targets come and go.

use std::sync::Arc;
use std::time::Duration;

use cluster::{Autoscaler, Container, Controller, ObjectKey, OomKill, Phase, Pod, Resources, View, WellKnown};
use jiff::Timestamp;
use model::{ContainerRef, Cpu, Labels, Memory, Sample, Selector};
use serde_json::json;
use sizing::Config;
use sources::ContainerUsage;

use super::{Charge, Decision, Ingested, State};

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

    fn kill(&mut self, pod: &str, second: i64) -> Option<bool> {
        let kill = OomKill {
            pod: ObjectKey::new("shop", pod),
            container: "main".to_owned(),
            at: at(second),
            memory_request: Memory::from_bytes(1024 * MI),
        };
        self.state.add_kill(&kill, at(second)).ok()
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
    assert!(!cluster.decide(4)[0].matches_pods);
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
    assert_eq!(cluster.kill("web-1", 2), Some(true));
    cluster.state.delete_removed_pods();
    assert_eq!(cluster.kill("web-1", 3), None);
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
