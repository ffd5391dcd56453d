//! Explanations of written EHPAs.

use serde_json::{Value, json};

use super::{EhpaFacts, explain};
use crate::explain::document::of_ehpa;
use crate::explain::lines::plain;
use crate::json::tests::{check_plain, parse};
use crate::json::{items, text};

fn condition([kind, status, reason, message]: [&str; 4]) -> Value {
    json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-11-01T00:00:00Z",
    })
}

const READY: [&str; 4] = ["Ready", "True", "Ready", "ready"];

/// An EHPA of 2 to 10 replicas with this status and changes of its specification.
fn ehpa(extra: &Value, conditions: &[[&str; 4]]) -> Value {
    let conditions: Vec<Value> = conditions.iter().copied().map(condition).collect();
    let mut object = json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u-1"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10,
        },
        "status": {"currentReplicas": 3, "expectReplicas": 4, "conditions": conditions},
    });
    for (field, value) in extra.as_object().into_iter().flatten() {
        object["spec"][field] = value.clone();
    }
    object
}

fn external(name: &str, identifier: &str) -> Value {
    let selector = json!({"matchLabels": {"resourceIdentifier": identifier}});
    json!({"name": name, "selector": selector})
}

/// An HPA that scales by CPU and its prediction, and wants `desired` replicas.
fn hpa(desired: i32, conditions: &[[&str; 4]]) -> Value {
    let conditions: Vec<Value> = conditions.iter().copied().map(condition).collect();
    let predicted = external("crane_autoscaling_prediction", "resource.cpu");
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    let average = json!({"type": "AverageValue", "averageValue": "100m"});
    json!({
        "metadata": {"name": "ehpa-web", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10,
            "metrics": [
                {"type": "Resource", "resource": {"name": "cpu", "target": target}},
                {"type": "External", "external": {"metric": predicted, "target": average}},
            ],
        },
        "status": {
            "currentReplicas": 3, "desiredReplicas": desired, "conditions": conditions,
            "currentMetrics": [
                // A metric without a value has an empty entry.
                {"type": "", "resource": null},
                {"type": "External", "external": {"metric": predicted, "current": {"averageValue": "90m"}}},
                {"type": "Resource", "resource": {
                    "name": "cpu", "current": {"averageUtilization": 48, "averageValue": "96m"},
                }},
            ],
        },
    })
}

fn facts(ehpa: Value, hpa: Option<Value>) -> EhpaFacts {
    EhpaFacts {
        ehpa: parse(ehpa),
        others: Vec::new(),
        hpa: hpa.map(parse),
        hpa_is_read: true,
        prediction: None,
        events: Vec::new(),
        now: jiff::Timestamp::from_second(1_000).expect("a time"),
        missing: Vec::new(),
    }
}

fn reasons(explanation: &Value) -> Vec<&str> {
    let waits = items(&explanation["waits"]);
    waits.map(|it| text(&it["reason"])).collect()
}

#[test]
fn each_strategy_and_condition_has_its_reason() {
    let check = |extra: Value, desired: i32, native: &str, expected: &[&str]| {
        let mut words = native.split(' ');
        let condition = [(); 3].map(|()| words.next().expect("type, status and reason"));
        let [kind, status, reason] = condition;
        let hpa = hpa(desired, &[[kind, status, reason, "message"]]);
        let facts = facts(ehpa(&extra, &[READY]), Some(hpa));
        assert_eq!(reasons(&explain(&facts)), expected, "{extra} {native}");
    };
    let auto = || json!({});
    let able = "AbleToScale True ReadyForNewScale";
    let preview = json!({"scaleStrategy": "Preview"});
    let manual = json!({"scaleStrategy": "Preview", "specificReplicas": 7});
    check(auto(), 4, able, &[]);
    check(auto(), 3, able, &["AtDesiredReplicas"]);
    check(preview, 4, able, &["DryRun"]);
    check(manual, 4, able, &["Manual"]);
    for (native, expected) in [
        ("ScalingLimited True TooManyReplicas", "MaxReplicas"),
        ("ScalingLimited True TooFewReplicas", "MinReplicas"),
        ("ScalingLimited True ScaleUpLimit", "ScalingLimited"),
        (
            "ScalingLimited False DesiredWithinRange",
            "AtDesiredReplicas",
        ),
        ("AbleToScale False FailedGetScale", "AbleToScale"),
        ("AbleToScale True ScaleDownStabilized", "AbleToScale"),
        ("ScalingActive False ScalingDisabled", "ScalingActive"),
    ] {
        check(auto(), 3, native, &[expected]);
    }
}

#[test]
fn a_missing_hpa_or_status_is_a_reason() {
    let auto = json!({});
    let conflict = ["Ready", "False", "Conflict", "the HPA mine scales it"];
    let mut known = facts(ehpa(&auto, &[conflict]), None);
    let explanation = explain(&known);
    assert_eq!(reasons(&explanation), ["NotReady", "NoHpa"]);
    let message = "Conflict: the HPA mine scales it";
    assert_eq!(explanation["waits"][0]["message"], message);
    let without_status = explain(&facts(ehpa(&auto, &[]), Some(hpa(4, &[]))));
    assert_eq!(reasons(&without_status), ["NoStatus", "NoHpaStatus"]);

    // Where the user may not read HPAs, the conditions that the EHPA repeats count.
    let limited = ["ScalingLimited", "True", "TooManyReplicas", "limited"];
    known = facts(ehpa(&auto, &[READY, limited]), None);
    known.hpa_is_read = false;
    let explanation = explain(&known);
    assert_eq!(reasons(&explanation), ["MaxReplicas"]);
    let message = "the metrics ask for more than maxReplicas 10";
    assert_eq!(explanation["waits"][0]["message"], message);
}

#[test]
fn replicas_come_from_the_hpa_and_else_from_the_status() {
    let auto = json!({"specificReplicas": 7});
    let of_hpa = explain(&facts(ehpa(&auto, &[READY]), Some(hpa(5, &[]))));
    // Without Preview, specificReplicas has no effect.
    let expected = json!({"current": 3, "desired": 5, "min": 2, "max": 10, "specific": null});
    assert_eq!(of_hpa["replicas"], expected);
    let of_status = explain(&facts(ehpa(&auto, &[READY]), None));
    assert_eq!(of_status["replicas"]["desired"], 4);
}

#[test]
fn a_prediction_that_is_not_used_is_a_reason() {
    let algorithm = json!({"algorithmType": "dsp"});
    let spec = json!({"prediction": {"predictionAlgorithm": algorithm}});
    let none = json!({"prediction": {"predictionWindowSeconds": 3600}});
    let history = ["PredictionReady", "False", "HistoryPending", "2 of 14 days"];
    let ready = ["PredictionReady", "True", "Ready", "fine"];
    let mut observed_only = hpa(4, &[["AbleToScale", "True", "ReadyForNewScale", ""]]);
    let used = observed_only.clone();
    observed_only["spec"]["metrics"]
        .as_array_mut()
        .expect("metrics")
        .truncate(1);
    let no_series = "no metric of the HPA is predicted by exactly one series";
    let pending = "the HPA scales by observed metrics: HistoryPending: 2 of 14 days";
    let unknown = "the HPA scales by observed metrics: nothing is predicted yet";
    for (spec, conditions, hpa, expected) in [
        (&spec, vec![READY, history], &observed_only, Some(pending)),
        (&spec, vec![READY, ready], &observed_only, Some(no_series)),
        (&spec, vec![READY], &observed_only, Some(unknown)),
        (&spec, vec![READY, ready], &used, None),
        (&none, vec![READY], &observed_only, None),
    ] {
        let explanation = explain(&facts(ehpa(spec, &conditions), Some(hpa.clone())));
        let expected = expected.map(|it| json!({"reason": "NoPrediction", "message": it}));
        let expected = Value::from_iter(expected.as_slice().to_vec());
        assert_eq!(explanation["waits"], expected, "{conditions:?}");
    }
}

#[test]
fn metrics_have_their_current_and_predicted_values() {
    let mut object = ehpa(&json!({}), &[READY]);
    object["status"]["prediction"] = json!({"method": "peak", "windowSeconds": 600});
    object["status"]["scalePoints"] = json!([
        {"resource": "cpu", "averageRequest": "200m", "averageValue": "100m"},
    ]);
    let mut facts = facts(object, Some(hpa(4, &[])));
    let samples = json!([
        {"timestamp": 1_100, "value": "0.25"}, {"timestamp": 1_200, "value": "0.4"},
        // After the window.
        {"timestamp": 1_700, "value": "3"},
    ]);
    let metric = |identifier: &str, ready: bool| {
        let series = json!([{"samples": samples}]);
        json!({"resourceIdentifier": identifier, "ready": ready, "prediction": series})
    };
    let metrics = json!([
        metric("resource.cpu", true),
        metric("resource.memory", false)
    ]);
    let node = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    facts.prediction = Some(parse(json!({
        "metadata": {"name": "ehpa-web", "namespace": "shop"},
        "spec": {"predictionMetrics": [], "predictionWindowSeconds": 600, "targetRef": node},
        "status": {"predictionMetrics": metrics, "conditions": []},
    })));
    let explanation = explain(&facts);
    let metric = |source: &str, name: &str, current: Value, target: Value, maximum: Value| {
        json!({"source": source, "name": name, "current": current, "target": target,
               "predictedMaximum": maximum})
    };
    let null = Value::Null;
    let expected = json!([
        metric(
            "observed",
            "cpu",
            json!("48% (96m per pod)"),
            json!("50%"),
            null.clone()
        ),
        metric(
            "predicted",
            "resource.cpu",
            json!("90m per pod"),
            json!("100m per pod"),
            json!(0.4)
        ),
        metric(
            "predicted",
            "resource.memory",
            null.clone(),
            null.clone(),
            null
        ),
    ]);
    assert_eq!(explanation["metrics"], expected);
    assert_eq!(explanation["scalePoints"][0]["averageValue"], "100m");
    let tables = of_ehpa(explanation).tables.into_iter().map(|it| it.title);
    let titles = "EHPA|Metrics|Prediction|Scale points|Why the replicas do not change|Conditions";
    assert_eq!(tables.collect::<Vec<_>>().join("|"), titles);
}

#[test]
fn no_control_character_of_an_object_is_printed() {
    let text = "a\u{1b}[31mb\nc";
    let conditions = [[text, "True", text, text], ["Ready", "False", text, text]];
    let mut object = ehpa(&json!({}), &conditions);
    object["metadata"]["name"] = json!(text);
    object["spec"]["scaleTargetRef"]["name"] = json!(text);
    let mut native = hpa(4, &[["AbleToScale", "False", text, text]]);
    native["metadata"]["name"] = json!(text);
    native["spec"]["metrics"][0]["resource"]["name"] = json!(text);
    native["spec"]["metrics"][1]["external"]["metric"] =
        external("crane_autoscaling_prediction", text);
    let mut facts = facts(object, Some(native));
    facts.others = vec![text.to_owned()];
    facts.missing = vec![text.to_owned()];
    check_plain(&of_ehpa(plain(explain(&facts))));
}

#[test]
fn an_explanation_has_six_forms() {
    let message = "the desired count is 12";
    let limited = ["ScalingLimited", "True", "TooManyReplicas", message];
    let ehpa = ehpa(&json!({}), &[READY]);
    let explanation = plain(explain(&facts(ehpa, Some(hpa(10, &[limited])))));
    crate::output::tests::golden::check_forms("explain_ehpa", &of_ehpa(explanation));
}
