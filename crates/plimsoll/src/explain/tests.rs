//! Explanations of written objects.

use jiff::Timestamp;
use serde_json::{Value, json};
use sizing::Config;

use super::Facts;
use super::document::of_vpa;
use super::judge::explain;
use super::lines::plain;
use super::policy::{self, PolicyFacts};
use crate::json::tests::{check_plain, parse};
use crate::json::{items, text, texts};
use crate::output::tests::golden::check_forms;
use crate::subject::Subject;

fn pod(name: &str, cpu: &str) -> Value {
    let container = json!({"name": "app", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [container]},
        "status": {"phase": "Running"},
    })
}

fn budget(allowed: i64) -> Value {
    json!({
        "metadata": {"name": "strict"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {
            "disruptionsAllowed": allowed, "currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2,
        },
    })
}

/// A VPA with a target of 250m in bounds of 200m and 300m.
fn vpa(policy: &Value, conditions: &Value) -> Value {
    let recommendation = json!({
        "containerName": "app", "target": {"cpu": "250m"}, "lowerBound": {"cpu": "200m"},
        "upperBound": {"cpu": "300m"}, "uncappedTarget": {"cpu": "400m"},
    });
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"targetRef": target, "updatePolicy": policy},
        "status": {
            "recommendation": {"containerRecommendations": [recommendation]},
            "conditions": conditions,
        },
    })
}

fn facts(vpa: Value, pods: Vec<Value>) -> Facts {
    Facts {
        vpa: parse(vpa),
        others: Vec::new(),
        ehpa: None,
        policy: None,
        checkpoints: Vec::new(),
        sizing: Config::default(),
        sizing_note: None,
        now: Timestamp::from_second(1_800_000_000).expect("a time"),
        pods: pods.into_iter().map(parse).collect(),
        budgets: Vec::new(),
        events: Vec::new(),
        missing: Vec::new(),
    }
}

fn reasons(explanation: &Value) -> Vec<&str> {
    let waits = items(&explanation["waits"]);
    waits.map(|it| text(&it["reason"])).collect()
}

#[test]
fn kinds_have_the_names_of_kubectl() {
    let vpa = || Subject::Vpa("web".to_owned());
    let ehpa = || Subject::Ehpa("web".to_owned());
    let pod = || Subject::Pod("web".to_owned());
    let workload = |kind: &str| Subject::Workload {
        kind: kind.to_owned(),
        name: "web".to_owned(),
    };
    for (kinds, expected) in [
        ("vpa VerticalPodAutoscalers", vpa()),
        (
            "ehpa EffectiveHorizontalPodAutoscalers.autoscaling.crane.io",
            ehpa(),
        ),
        ("po pods", pod()),
        ("deploy Deployments.apps", workload("deployment")),
        ("ds", workload("daemonset")),
        ("sts", workload("statefulset")),
        ("rs", workload("replicaset")),
        ("cj", workload("cronjob")),
        ("rollout", workload("rollout")),
    ] {
        for kind in kinds.split(' ') {
            assert_eq!(
                format!("{kind}/web").parse(),
                Ok(expected.clone()),
                "{kind}"
            );
        }
    }
    for text in "web|/web|vpa/|vpa/a/b|vpa/..|vpa/a?b|vpa/\u{1b}".split('|') {
        assert!(text.parse::<Subject>().is_err(), "{text:?}");
    }
}

#[test]
fn targets_match_kind_and_name() {
    let subject: Subject = "ds/web".parse().expect("a subject");
    assert!(subject.is_target("DaemonSet", "web"));
    assert!(!subject.is_target("DaemonSet", "api"));
    assert!(!subject.is_target("Deployment", "web"));
}

#[test]
fn each_reason_is_named() {
    let stale = json!([{"type": "SourceStale", "status": "True", "message": "no answer"}]);
    let check = |policy: Value, conditions: &Value, cpu: &[&str], expected: &[&str]| {
        let pods = cpu.iter().enumerate();
        let pods = pods.map(|(index, cpu)| pod(&format!("web-{index}"), cpu));
        let explanation = explain(&facts(vpa(&policy, conditions), pods.collect()));
        assert_eq!(reasons(&explanation), expected, "{policy} {conditions}");
    };
    let none = &json!([]);
    let mode = |mode: &str| json!({"updateMode": mode});
    let small = &["100m", "250m"];
    check(mode("Recreate"), none, small, &[]);
    check(mode("Recreate"), none, &["250m"], &[]);
    check(mode("Recreate"), none, &["0.25"], &[]);
    check(mode("Recreate"), none, &["210m"], &["WithinBounds"]);
    check(mode("Recreate"), &stale, small, &["RecommendationFrozen"]);
    check(mode("Off"), none, small, &["UpdateMode"]);
    check(mode("Initial"), none, small, &["UpdateMode"]);
    check(json!({"minReplicas": 3}), none, small, &["MinReplicas"]);
    check(json!({"minReplicas": 2}), none, small, &[]);
}

#[test]
fn budgets_and_resizes_are_named_with_their_numbers() {
    let policy = json!({"updateMode": "InPlaceOrRecreate"});
    let mut pending = pod("web-2", "100m");
    pending["status"]["conditions"] = json!([{
        "type": "PodResizePending", "status": "True", "reason": "Infeasible",
        "message": "Node didn't have enough capacity",
    }]);
    let pods = vec![pod("web-1", "100m"), pending];
    let mut facts = facts(vpa(&policy, &json!([])), pods);
    facts.budgets = vec![parse(budget(0))];
    let budget_text =
        "the budget strict of 2 pods allows 0 evictions now: 2 of 2 required pods are healthy";
    let expected = json!([
        {"reason": "DisruptionBudget", "message": budget_text},
        {"reason": "ResizeInfeasible", "message": "pod web-2: Node didn't have enough capacity"},
    ]);
    assert_eq!(explain(&facts)["waits"], expected);
    facts.budgets = vec![parse(budget(1))];
    assert_eq!(reasons(&explain(&facts)), ["ResizeInfeasible"]);
}

#[test]
fn pods_are_counted_without_those_that_end() {
    let mut finished = pod("web-4", "100m");
    finished["status"]["phase"] = json!("Succeeded");
    let mut deleted = pod("web-5", "100m");
    deleted["metadata"]["deletionTimestamp"] = json!("2026-11-01T00:00:00Z");
    let mut resized = pod("web-3", "100m");
    let reported = json!({"requests": {"cpu": "250m"}});
    resized["status"]["containerStatuses"] = json!([{
        "name": "app", "resources": reported, "image": "", "imageID": "", "ready": true,
        "restartCount": 0,
    }]);
    let (small, large) = (pod("web-1", "100m"), pod("web-2", "300m"));
    let pods = vec![small, large, resized, finished, deleted];
    let pods = &explain(&facts(vpa(&json!({}), &json!([])), pods))["pods"];
    let counts = ["total", "withTarget", "withinBounds"].map(|count| pods[count].as_i64());
    assert_eq!(counts, [3, 1, 2].map(Some));
    assert_eq!(
        pods["list"][0]["differences"],
        json!(["app cpu 100m (target 250m)"])
    );
}

#[test]
fn the_bound_that_changed_the_target_is_named() {
    let capped = json!([{"type": "RecommendationCapped", "status": "True", "reason": "Node"}]);
    let max = |cpu: &str| json!({"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": cpu}}]});
    for (policy, conditions, expected) in [
        (max("0.25"), json!([]), "maxAllowed 250m"),
        (max("1"), capped, "Node"),
        (max("1"), json!([]), "maximum of the recommender"),
    ] {
        let mut object = vpa(&json!({}), &conditions);
        object["spec"]["resourcePolicy"] = policy;
        let explanation = explain(&facts(object, Vec::new()));
        assert_eq!(explanation["recommendations"][0]["changedBy"], expected);
    }
}

/// A checkpoint with all CPU samples in bucket 20 and all peaks of memory in bucket 10.
fn checkpoint() -> Value {
    let histogram = |bucket: &str| {
        json!({"referenceTimestamp": "2027-01-14T00:00:00Z", "totalWeight": 10.0,
               "bucketWeights": {bucket: 10_000}})
    };
    json!({
        "metadata": {"name": "web-app", "namespace": "shop"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "version": "v3", "totalSamplesCount": 5_000, "lastUpdateTime": "2027-01-15T07:00:00Z",
            "firstSampleStart": "2027-01-08T00:00:00Z", "lastSampleStart": "2027-01-15T07:00:00Z",
            "cpuHistogram": histogram("20"), "memoryHistogram": histogram("10"),
        },
    })
}

#[test]
fn steps_lead_from_the_stored_history_to_the_target() {
    let check = |config: Config, spec: &Value, expected: &[&str]| {
        let mut vpa = vpa(&json!({}), &json!([]));
        vpa["spec"]["resourcePolicy"] = spec.clone();
        let mut facts = facts(vpa, Vec::new());
        facts.checkpoints = vec![parse(checkpoint())];
        facts.sizing = config;
        let explanation = explain(&facts);
        let lines = items(&explanation["steps"]).map(|it| {
            let [resource, step, value] = texts(it, ["resource", "step", "value"]);
            format!("{resource} {step}: {value}")
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected);
    };
    // Bucket n ends at 200 * (1.05^(n+1) - 1) millicores, or 2e8 * the same bytes.
    let memory = [
        "memory 90th percentile of the history: 142067871",
        "memory plus a margin of 15 %: 163378051",
        "memory at least 262144000: 262144000",
        "memory as a quantity: 250Mi",
    ];
    let cpu = [
        "cpu 90th percentile of the history: 357m",
        "cpu plus a margin of 15 %: 410m",
        "cpu at least 25m: 410m",
        "cpu as a quantity: 410m",
    ];
    let differs = ["cpu in the status, with samples that are not stored yet: 250m"];
    let all = [&cpu[..], &differs, &memory].concat();
    check(Config::default(), &json!({}), &all);
    let limited = json!({"containerPolicies": [
        {"containerName": "*", "maxAllowed": {"cpu": "250m"}, "controlledResources": ["cpu"]}]});
    let mut expected = cpu.to_vec();
    expected.push("cpu limited by maxAllowed: 250m");
    check(Config::default(), &limited, &expected);
    let config = Config {
        margin_fraction: 0.5,
        round_cpu_millicores: 100,
        ..Config::default()
    };
    let controlled = json!({"containerPolicies": [
        {"containerName": "app", "controlledResources": ["cpu"]}]});
    let expected = [
        "cpu 90th percentile of the history: 357m",
        "cpu plus a margin of 50 %: 535m",
        "cpu at least 25m: 535m",
        "cpu as a quantity: 600m",
        differs[0],
    ];
    check(config, &controlled, &expected);
}

#[test]
fn settings_of_the_object_change_the_steps() {
    let mut vpa = vpa(&json!({}), &json!([]));
    vpa["metadata"]["annotations"] = json!({
        "plimsoll.dev/sizing-margin-fraction": "0.5", "plimsoll.dev/sizing-cpu-percentile": "0.29",
    });
    let mut facts = facts(vpa, Vec::new());
    facts.checkpoints = vec![parse(checkpoint())];
    let steps = &explain(&facts)["steps"];
    let named = |index: usize| texts(&steps[index], ["step", "value"]);
    assert_eq!(named(0), ["29th percentile of the history", "357m"]);
    assert_eq!(named(1), ["plus a margin of 50 %", "535m"]);
}

#[test]
fn flags_of_the_recommender_change_the_steps() {
    let arguments = [
        "--target-cpu-percentile=0.95",
        "--recommendation-margin-fraction=0.2",
        "--cpu-histogram-decay-half-life=48h",
        "--round-cpu-millicores=10",
        "--humanize-memory",
    ];
    let container = json!({"name": "recommender", "image": "recommender", "args": arguments});
    let labels =
        json!({"app.kubernetes.io/name": "recommender", "app.kubernetes.io/part-of": "plimsoll"});
    let deployment = parse(json!({
        "metadata": {"name": "plimsoll-recommender", "labels": labels},
        "spec": {"selector": {}, "template": {"spec": {"containers": [container]}}},
    }));
    let deployments = [deployment];
    let found = super::steps::config(crate::installation::programs(&deployments)[0]);
    let mut expected = Config {
        margin_fraction: 0.2,
        cpu_half_life_ns: 2 * 86_400 * 1_000_000_000,
        round_cpu_millicores: 10,
        humanize_memory: true,
        ..Config::default()
    };
    expected.cpu_percentiles.target = 0.95;
    assert_eq!(found, expected);
}

#[test]
fn the_history_is_that_of_the_checkpoint() {
    let mut facts = facts(vpa(&json!({}), &json!([])), Vec::new());
    facts.checkpoints = vec![parse(json!({
        "metadata": {"name": "web-app"},
        "spec": {"vpaObjectName": "web", "containerName": "app"},
        "status": {
            "firstSampleStart": "2026-11-01T00:00:00Z", "lastSampleStart": "2026-11-02T01:30:00Z",
            "totalSamplesCount": 1530, "cpuHistogram": {"totalWeight": 3.5},
        },
    }))];
    let samples = &explain(&facts)["samples"][0];
    let found = ["count", "hours", "cpuWeight"].map(|field| samples[field].as_f64());
    assert_eq!(found, [1530.0, 25.0, 3.5].map(Some));
}

#[test]
fn the_latest_events_come_first_and_are_bounded() {
    let mut facts = facts(vpa(&json!({}), &json!([])), Vec::new());
    let event = |second: i64| {
        parse(json!({
            "metadata": {}, "involvedObject": {"kind": "Pod", "name": "web-1"}, "type": "Normal",
            "reason": "EvictedByVPA", "message": "m",
            "eventTime": format!("2026-11-01T00:00:{second:02}.000000Z"),
        }))
    };
    facts.events = (0..30).map(event).collect();
    let events = &explain(&facts)["events"];
    assert_eq!(items(events).count(), 20);
    assert_eq!(events[0]["time"], "2026-11-01T00:00:29Z");
    assert_eq!(events[0]["object"], "Pod/web-1");
}

#[test]
fn the_policy_is_that_of_the_owner_reference() {
    let mut object = vpa(&json!({}), &json!([]));
    object["metadata"]["annotations"] =
        json!({"plimsoll.dev/sizing-policy": "plimsoll", "plimsoll.dev/sizing-caution": "high"});
    let owner = |kind: &str, controller: bool, group: &str| {
        json!({
            "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": "team",
            "uid": "u", "controller": controller,
        })
    };
    for (reference, expected) in [
        (owner("SizingPolicy", true, "plimsoll.dev"), true),
        (owner("ClusterSizingPolicy", true, "plimsoll.dev"), true),
        (owner("SizingPolicy", false, "plimsoll.dev"), false),
        (owner("SizingPolicy", true, "example.com"), false),
        (owner("Deployment", true, "plimsoll.dev"), false),
    ] {
        object["metadata"]["ownerReferences"] = json!([reference]);
        let found = policy::owner(&parse(object.clone())).is_some();
        assert_eq!(found, expected, "{reference}");
    }

    let conflict = |name: &str, by: &str| json!({"kind": "Deployment", "namespace": "shop", "name": name, "by": by});
    let mut facts = facts(object, Vec::new());
    facts.policy = Some(PolicyFacts {
        kind: "SizingPolicy".to_owned(),
        name: "team".to_owned(),
        status: Some(parse(json!({
            "observedGeneration": 1, "selected": 2, "managed": 1, "conflicts": 1,
            "conflicting": [conflict("api", "VerticalPodAutoscaler/api")],
            "overriddenBy": [conflict("web", "SizingPolicy/first")],
            "conditions": [{"type": "Ready", "status": "True", "reason": "UpToDate", "message": ""}],
        }))),
    });
    let policy = &explain(&facts)["policy"];
    assert_eq!(
        policy["settings"],
        json!({"caution": "high", "policy": "plimsoll"})
    );
    assert_eq!(policy["conflictsWith"], json!(["SizingPolicy/first"]));
    assert_eq!(policy["conditions"][0]["type"], "Ready");
}

#[test]
fn no_control_character_of_an_object_is_printed() {
    for hostile in ('\0'..='\u{ff}').filter(|letter| letter.is_control()) {
        let text = format!("a{hostile}[31mb");
        let conditions = json!([{
            "type": text, "status": text, "reason": text, "message": text,
        }]);
        let mut object = vpa(&json!({}), &conditions);
        object["metadata"]["name"] = json!(text);
        object["spec"]["targetRef"]["name"] = json!(text);
        object["status"]["recommendation"]["containerRecommendations"][0]["containerName"] =
            json!(text);
        let mut hostile_pod = pod(&text, "100m");
        hostile_pod["metadata"]["annotations"] = json!({"vpaUpdates": text});
        hostile_pod["spec"]["containers"][0]["name"] = json!(text);
        let mut facts = facts(object, vec![hostile_pod]);
        facts.others = vec![text.clone()];
        facts.missing = vec![text.clone()];
        let involved = json!({"kind": text, "name": text});
        let event = json!({
            "metadata": {}, "involvedObject": involved, "reason": text, "message": text,
        });
        facts.events = vec![parse(event)];
        check_plain(&of_vpa(plain(explain(&facts))));
    }
}

#[test]
fn an_explanation_has_six_forms() {
    let applied = json!([{
        "type": "Applied", "status": "False", "reason": "DisruptionBudget",
        "message": "2 of 3 pods need other requests; 2: a PodDisruptionBudget allows no disruption",
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    }]);
    let pods = [("web-1", "250m"), ("web-2", "100m"), ("web-3", "100m")];
    let pods = pods.map(|(name, cpu)| pod(name, cpu)).into();
    let mut facts = facts(vpa(&json!({"updateMode": "Recreate"}), &applied), pods);
    facts.budgets = vec![parse(budget(0))];
    facts.checkpoints = vec![parse(checkpoint())];
    facts.missing = vec!["events: you have no right to read them".to_owned()];
    check_forms("explain_vpa", &of_vpa(plain(explain(&facts))));
}
