//! Histories of sizing methods other than the VPA's: across a restart, and from a store.

use serde_json::{Value, json};

use super::backfill::{START, lived_through_as};
use super::fixture::{Cluster, MI, annotated, at, pod, usage, web_key};
use crate::backfill::PodLabels;

const METHODS: [&str; 4] = ["crane", "autopilot-window", "autopilot-ml", RUNS];
/// The method `plimsoll` with a history that counts in runs.
const RUNS: &str = "runs";
const DAY: i64 = 86_400;

/// Annotations of a method whose recommendation counts at once.
fn at_once(method: &str) -> Value {
    if method == RUNS {
        return json!({
            "plimsoll.dev/sizing-policy": "plimsoll",
            "plimsoll.dev/sizing-history-unit": "runs",
            "plimsoll.dev/sizing-minimum-runs": "0",
        });
    }
    json!({
        "plimsoll.dev/sizing-policy": method,
        "plimsoll.dev/sizing-minimum-history": "0s",
    })
}

/// The object `web` with these annotations and one pod.
fn cluster(annotations: &Value) -> Cluster {
    let mut cluster = Cluster::new("default", false);
    cluster.deploy("web");
    cluster.apply(annotated(annotations));
    cluster.add_pod(pod("web-1", "web"));
    cluster.load(0);
    cluster
}

impl Cluster {
    /// A sample per minute from 0 to `end`, first of much usage, then of little.
    fn use_less(&mut self, end: i64) {
        for minute in 0..end / 60 {
            let (millicores, mebibytes) = if minute * 60 < end / 2 {
                (800 + minute % 50, 900)
            } else {
                (50 + minute % 50, 90)
            };
            let second = minute * 60;
            self.add_usage(&usage("web-1", second, millicores, mebibytes * MI), second);
        }
    }

    /// The recommendation of all containers; the published one is not read.
    fn recommended(&mut self, annotations: &Value, second: i64) -> Value {
        self.apply(annotated(annotations));
        self.load(second);
        let status = self.state.decide(at(second)).remove(0).status;
        serde_json::to_value(status.recommendation).expect("JSON")
    }

    fn stored_text(&self) -> Option<String> {
        let mut stored = self.view.checkpoints.iter();
        let text = stored.find_map(|stored| stored.sizing_history.clone())?;
        Some(text.to_string())
    }

    /// Replaces the stored history by this text.
    fn store_text(&mut self, text: &str) {
        let all: Vec<_> = self.view.checkpoints.iter().cloned().collect();
        for stored in all {
            let mut stored = (*stored).clone();
            stored.sizing_history = Some(text.into());
            self.view.checkpoints.apply(stored.into());
        }
    }
}

#[test]
fn a_restart_keeps_the_recommendation_to_the_last_digit() {
    for method in METHODS {
        let annotations = at_once(method);
        let mut lived = cluster(&annotations);
        lived.use_less(2 * DAY);
        lived.store(2 * DAY);
        let before = lived.recommended(&annotations, 2 * DAY);
        let mut restarted = lived.restarted(2 * DAY + 30);
        assert_eq!(
            restarted.recommended(&annotations, 2 * DAY + 31),
            before,
            "{method}"
        );

        // The same without the stored history: it differs, so that the history decided.
        restarted.store(2 * DAY + 40);
        restarted.store_text("{}");
        let mut anew = restarted.new_process();
        anew.load(2 * DAY + 50);
        let loaded = anew.load_stored(2 * DAY + 50);
        assert_eq!(loaded.refused_histories.len(), 1, "{method}");
        let (object, error) = &loaded.refused_histories[0];
        assert_eq!(object.name, "web-main");
        assert!(error.to_string().contains("plimsoll.dev/sizing-history"));
        anew.add_usage(&usage("web-1", 2 * DAY + 60, 60, 90 * MI), 2 * DAY + 60);
        assert_ne!(
            anew.recommended(&annotations, 2 * DAY + 61),
            before,
            "{method}"
        );
    }
}

#[test]
fn a_sample_that_is_stored_and_read_again_counts_once() {
    for method in METHODS {
        let annotations = at_once(method);
        let mut lived = cluster(&annotations);
        lived.use_less(DAY);
        lived.store(DAY);
        let stored = lived.stored_text().expect("a history");
        let mut restarted = lived.restarted(DAY + 1);
        let last = DAY - 60;
        restarted.add_usage(&usage("web-1", last, 99, 90 * MI), DAY + 2);
        let again = restarted.state.sizing_history(&web_key(), "main");
        assert_eq!(again, Some(stored), "{method}");
    }
}

#[test]
fn a_loaded_history_is_as_long_as_it_was() {
    let annotations = json!({"plimsoll.dev/sizing-policy": "crane"});
    for (days, kept) in [(2, false), (1, true)] {
        let mut lived = cluster(&annotations);
        lived.use_less(days * DAY);
        lived.store(days * DAY);
        let now = days * DAY + 60;
        let mut restarted = lived.restarted(now);
        // A higher recommendation was published. It may fall after a day of history.
        let mut web = annotated(&annotations);
        let high = json!({"containerName": "main", "target": {"cpu": "7", "memory": "7Gi"}});
        web.object.status = serde_json::from_value(
            json!({"recommendation": {"containerRecommendations": [high]}, "conditions": []}),
        )
        .ok();
        restarted.apply(web);
        restarted.load(now);
        let status = restarted.state.decide(at(now)).remove(0).status;
        let target = super::fixture::cpu_target(&status);
        assert_eq!(
            target.as_deref() == Some("7"),
            kept,
            "{days} days: {target:?}"
        );
    }
}

#[test]
fn pods_of_a_store_are_runs_and_end_when_they_are_gone() {
    let pods = ["web-1", "web-2", "web-3"];
    let annotations = at_once(RUNS);
    let mut fresh = Cluster::awaiting_history_as(&annotations, &pods[..1]);
    let labels = ["web-2", "web-3"].map(|name| {
        let label = ("app".to_owned(), "web".to_owned());
        (name.to_owned(), [label].into())
    });
    fresh.answer(START + 10, &pods, &PodLabels::from(labels));
    fresh.load(START + 20);
    let history = |cluster: &Cluster| {
        let explained = cluster.state.explain(&web_key(), "main");
        let steps = explained.expect("a recommendation").remove(0).method_steps;
        let step = |name| steps.iter().find(|step| step.name == name).cloned();
        ["history", "runs-in-progress"].map(|name| step(name).and_then(|step| step.value))
    };
    assert_eq!(history(&fresh), [Some(2.0), Some(1.0)]);
}

#[test]
fn a_history_outlives_a_typo_a_rollback_and_its_object() {
    let crane = at_once("crane");
    let mut typo = crane.clone();
    typo["plimsoll.dev/sizing-caution"] = json!("hgih");
    let mut lived = cluster(&crane);
    lived.use_less(DAY);
    lived.store(DAY);
    let before = lived.recommended(&crane, DAY + 1);
    let stored = lived.stored_text();
    assert!(stored.is_some());

    // The method stays as it was.
    assert_eq!(lived.recommended(&typo, DAY + 2), before);
    lived.store(DAY + 3);
    assert_eq!(lived.stored_text(), stored);

    // Without the annotation for a while, and deleted and made again.
    lived.recommended(&json!({}), DAY + 10);
    lived.store(DAY + 11);
    assert_eq!(lived.stored_text(), stored);
    let mut again = annotated(&crane);
    again.object.metadata.uid = Some("another".to_owned());
    lived.apply(again);
    lived.load(DAY + 12);
    lived.load_stored(DAY + 12);
    lived.store(DAY + 13);
    assert_eq!(lived.stored_text(), stored);

    // A process that never saw a valid setting uses no history, and deletes none.
    let mut restarted = lived.new_process();
    restarted.apply(annotated(&typo));
    restarted.load(DAY + 14);
    restarted.load_stored(DAY + 14);
    restarted.recommended(&typo, DAY + 15);
    restarted.store(DAY + 16);
    assert_eq!(restarted.stored_text(), stored);
    restarted.apply(annotated(&crane));
    restarted.load(DAY + 17);
    restarted.load_stored(DAY + 17);
    assert_eq!(restarted.recommended(&crane, DAY + 18), before);
}

#[test]
fn a_history_goes_with_its_method() {
    let crane = at_once("crane");
    let mut lived = cluster(&crane);
    lived.use_less(DAY);
    lived.store(DAY);
    assert!(lived.stored_text().is_some());
    for (annotations, expected) in [(at_once("autopilot-ml"), None), (json!({}), None)] {
        lived.recommended(&annotations, DAY);
        let history = lived.state.sizing_history(&web_key(), "main");
        assert_eq!(history, expected, "{annotations}");
    }

    // A process that finds the history of another method.
    let mut changed = lived.new_process();
    changed.apply(annotated(&at_once("autopilot-window")));
    changed.load(DAY + 10);
    let loaded = changed.load_stored(DAY + 10);
    let errors: Vec<_> = loaded
        .refused_histories
        .iter()
        .map(|(_, error)| error.to_string())
        .collect();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].contains("another sizing method"), "{errors:?}");
    changed.apply(annotated(&json!({})));
    let mut plain = changed.new_process();
    plain.load(DAY + 20);
    assert_eq!(plain.load_stored(DAY + 20).refused_histories, []);
}

#[test]
fn a_history_from_the_future_is_refused() {
    let annotations = at_once("autopilot-window");
    let mut lived = cluster(&annotations);
    lived.use_less(DAY);
    lived.store(DAY);
    let mut early = lived.new_process();
    early.load(DAY / 2);
    let loaded = early.load_stored(DAY / 2);
    let errors: Vec<_> = loaded
        .refused_histories
        .iter()
        .map(|(_, error)| error.to_string())
        .collect();
    assert!(
        errors.len() == 1 && errors[0].contains("future"),
        "{errors:?}"
    );
    early.add_usage(&usage("web-1", DAY / 2, 60, 90 * MI), DAY / 2);
}

#[test]
fn late_history_of_a_method_is_what_a_recommender_has_that_lived_through_it() {
    let pods = ["web-1", "web-2"];
    for method in METHODS {
        let annotations = at_once(method);
        let mut lived = lived_through_as(&annotations, &pods);
        let mut fresh = Cluster::awaiting_history_as(&annotations, &pods);
        let history = |cluster: &Cluster| cluster.state.sizing_history(&web_key(), "main");
        for second in [START + 60, START + 120] {
            lived.measure("web-1", "main", second);
            fresh.measure("web-1", "main", second);
            lived.kill("web-2", second + 1);
            fresh.kill("web-2", second + 1);
        }
        assert_eq!(history(&fresh), None, "not stored yet");
        let gaps = fresh.gaps(START + 130);
        assert_eq!(gaps.iter().filter(|gap| gap.methods).count(), 1);
        assert!(gaps.iter().all(|gap| gap.namespace == "shop"));
        fresh.answer(START + 130, &pods, &PodLabels::new());
        assert!(fresh.gaps(START + 140).is_empty(), "{method}");
        for second in [START + 180, START + 600] {
            lived.measure("web-1", "main", second);
            fresh.measure("web-1", "main", second);
        }
        assert_eq!(history(&fresh), history(&lived), "{method}");
        let expected = lived.recommended(&annotations, START + 601);
        assert_eq!(
            fresh.recommended(&annotations, START + 601),
            expected,
            "{method}"
        );
    }
}

#[test]
fn a_method_that_is_chosen_later_gets_its_history_from_the_store() {
    let pods = ["web-1"];
    for method in METHODS {
        let annotations = at_once(method);
        let mut fresh = Cluster::awaiting_history_as(&json!({}), &pods);
        fresh.answer(START + 10, &pods, &PodLabels::new());
        assert!(fresh.gaps(START + 20).is_empty());
        fresh.apply(annotated(&annotations));
        fresh.load(START + 30);
        assert!(fresh.gaps(START + 40).iter().all(|gap| gap.methods));
        fresh.answer(START + 50, &pods, &PodLabels::new());
        assert!(fresh.gaps(START + 60).is_empty());
        let mut lived = lived_through_as(&annotations, &pods);
        let expected = lived.recommended(&annotations, START + 61);
        assert_eq!(
            fresh.recommended(&annotations, START + 61),
            expected,
            "{method}"
        );
    }
}
