//! Backfill while usage is recorded: the objects that wait for it, and the same result as
//! uninterrupted recording.

use std::collections::BTreeMap;

use model::{ContainerUsage, Series};
use serde_json::{Value, json};

use super::fixture::{self, Cluster, MI, annotated, at, container, pod, vpa};
use crate::backfill::{HistoryGap, PodLabels, Resource};
use crate::recommender_state::Decision;

/// Recording begins here, after five days of history.
pub(super) const START: i64 = 5 * 24 * 3600;

/// One point of usage per hour of history.
fn series(value: impl Fn(i64) -> f64) -> Series {
    let points = (0..START / 3600).map(|hour| (at(hour * 3600), value(hour)));
    Series::new(points.collect())
}

/// Cores and bytes that wander about.
fn cores(hour: i64) -> f64 {
    0.1 + (hour * 37 % 60) as f64 / 100.0
}

fn bytes(hour: i64) -> f64 {
    (200 * MI + hour * 53 % 400 * MI) as f64
}

impl Cluster {
    fn awaiting_history(pods: &[&str]) -> Self {
        Self::awaiting_history_as(&json!({}), pods)
    }

    /// The object `web` with these annotations and these pods, before its history has arrived.
    pub(super) fn awaiting_history_as(annotations: &Value, pods: &[&str]) -> Self {
        let mut cluster = Self::new("default", false);
        cluster.state.await_history(at(START));
        cluster.load_web(annotations, pods);
        cluster
    }

    fn load_web(&mut self, annotations: &Value, pods: &[&str]) {
        self.deploy("web");
        self.apply(annotated(annotations));
        for name in pods {
            self.add_pod(pod(name, "web"));
        }
        self.load(0);
    }

    pub(super) fn gaps(&mut self, second: i64) -> Vec<HistoryGap> {
        self.state.missing_history(at(second))
    }

    /// A store with these pods and stored labels answers.
    pub(super) fn answer(&mut self, second: i64, pods: &[&str], labels: &PodLabels) {
        for gap in self.gaps(second) {
            let mut rebuild = self.state.rebuild(&gap, labels.clone());
            for pod in pods {
                for name in ["main", "setup"] {
                    let container = container(pod, name);
                    let (cpu, memory) = (series(cores), series(bytes));
                    rebuild.add(Resource::Cpu, &container, &cpu, at(second));
                    rebuild.add(Resource::Memory, &container, &memory, at(second));
                }
            }
            let (earlier, _) = rebuild.finish();
            self.state.add_history(&gap, &earlier, at(second));
        }
    }

    fn targets(&mut self, second: i64) -> BTreeMap<String, String> {
        let decisions = self.decide(second);
        let text = |decision: &Decision| {
            serde_json::to_string(&decision.status.recommendation.clone().unwrap_or_default())
                .expect("a recommendation")
        };
        decisions
            .iter()
            .map(|decision| (decision.vpa.key.name.clone(), text(decision)))
            .collect()
    }

    fn is_fetching(&mut self, second: i64) -> bool {
        let decisions = self.decide(second);
        let mut conditions = decisions
            .iter()
            .flat_map(|decision| &decision.status.conditions);
        conditions.any(|condition| condition.kind == "FetchingHistory")
    }
}

fn stored(pod: &str, labels: &[(&str, &str)]) -> PodLabels {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    PodLabels::from([(pod.to_owned(), labels.iter().map(owned).collect())])
}

/// A recommender that recorded the usage of these pods itself.
fn lived_through(pods: &[&str]) -> Cluster {
    lived_through_as(&json!({}), pods)
}

/// The same for the object `web` with these annotations.
pub(super) fn lived_through_as(annotations: &Value, pods: &[&str]) -> Cluster {
    let mut cluster = Cluster::new("default", false);
    cluster.load_web(annotations, pods);
    for hour in 0..START / 3600 {
        for pod in pods {
            let millicores = (cores(hour) * 1000.0) as i64;
            let usage = fixture::usage(pod, hour * 3600, millicores, bytes(hour) as i64);
            cluster.add_usage(&usage, hour * 3600);
        }
    }
    cluster
}

#[test]
fn late_history_gives_what_a_recommender_has_that_lived_through_it() {
    let mut lived = lived_through(&["web-1", "web-2"]);
    let mut fresh = Cluster::awaiting_history(&["web-1", "web-2"]);
    for second in [START + 60, START + 120] {
        lived.measure("web-1", "main", second);
        fresh.measure("web-1", "main", second);
    }
    assert_ne!(fresh.targets(START + 120), lived.targets(START + 120));
    fresh.answer(START + 130, &["web-1", "web-2"], &PodLabels::new());
    lived.measure("web-1", "main", START + 180);
    fresh.measure("web-1", "main", START + 180);
    assert_eq!(fresh.targets(START + 180), lived.targets(START + 180));
}

#[test]
fn pods_that_are_gone_count_by_the_labels_that_are_stored() {
    let mut lived = lived_through(&["web-1"]);
    let mut fresh = Cluster::awaiting_history(&["web-9"]);
    lived.delete_pod("web-1");
    lived.add_pod(pod("web-9", "web"));
    lived.load(START);
    let labels = stored("web-1", &[("app", "web")]);
    fresh.answer(START, &["web-1", "unknown"], &labels);
    assert_eq!(fresh.targets(START + 1), lived.targets(START + 1));
}

#[test]
fn a_recommendation_stays_until_history_has_come() {
    let mut before = Cluster::web(&["web-1"]);
    before.measure("web-1", "main", 1);
    let published = before.targets(2);
    let mut after = before.new_process();
    after.state.await_history(at(START));
    after.load(START);
    after.add_usage(&small("web-1", START + 1), START + 1);
    assert_eq!(after.targets(START + 2), published);
    assert!(after.is_fetching(START + 3));
    after.answer(START + 4, &["web-1"], &PodLabels::new());
    assert_ne!(after.targets(START + 5), published);
    assert!(!after.is_fetching(START + 6));
    assert!(after.gaps(START + 7).is_empty());
}

#[test]
fn after_a_day_without_history_what_was_measured_is_recommended() {
    let mut cluster = Cluster::awaiting_history(&["web-1"]);
    cluster.measure("web-1", "main", START + 1);
    let published = cluster.targets(START + 2);
    cluster.load(START + 3);
    for hour in 0..24 {
        let second = START + hour * 3600 + 60;
        cluster.add_usage(&small("web-1", second), second);
    }
    assert_eq!(cluster.targets(START + 24 * 3600 - 1), published);
    assert_ne!(cluster.targets(START + 24 * 3600), published);
    assert!(cluster.is_fetching(START + 24 * 3600));
}

#[test]
fn history_of_a_namespace_serves_objects_that_come_later() {
    let mut cluster = Cluster::awaiting_history(&["web-1"]);
    cluster.answer(START, &["web-1"], &PodLabels::new());
    cluster.apply(vpa("also", "web", "u2"));
    cluster.load(START + 1);
    assert!(cluster.gaps(START + 1).is_empty());
    let targets = cluster.targets(START + 2);
    assert_eq!(targets["also"], targets["web"]);
}

#[test]
fn with_a_memory_saver_an_object_that_comes_later_has_its_history_fetched_then() {
    let mut cluster = Cluster::new("default", true);
    cluster.state.await_history(at(START));
    for name in ["web", "other"] {
        cluster.deploy(name);
        cluster.add_pod(pod(&format!("{name}-1"), name));
    }
    cluster.apply(vpa("web", "web", "u1"));
    cluster.load(START);
    let pods = ["web-1", "other-1"];
    cluster.answer(START, &pods, &stored("other-1", &[("app", "other")]));
    assert_eq!(
        cluster.state.history_count(),
        1,
        "pods without a VPA object have none"
    );
    cluster.apply(vpa("other", "other", "u2"));
    cluster.load(START + 60);
    let ends = cluster.gaps(START + 60).into_iter().map(|gap| gap.end);
    assert!(ends.eq([at(START + 60)]));
    let web = cluster.targets(START + 61)["web"].clone();
    cluster.answer(START + 70, &pods, &PodLabels::new());
    let targets = cluster.targets(START + 71);
    assert_eq!(targets["web"], web, "nothing counts twice");
    assert_eq!(targets["other"], targets["web"]);
}

fn small(pod: &str, second: i64) -> ContainerUsage {
    fixture::usage(pod, second, 1, MI)
}
