//! Series for a cluster of a few objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-07T12:00:00Z";

fn now() -> Timestamp {
    NOW.parse().expect("a time")
}

fn key(object: &Value) -> ObjectKey {
    ObjectKey::new("shop", object["metadata"]["name"].as_str().expect("a name"))
}

fn effective(
    name: &str,
    annotations: &Value,
    spec: &Value,
) -> Stripped<EffectiveHorizontalPodAutoscaler> {
    let mut object = json!({
        "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "annotations": annotations},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 10,
        },
        "status": {"expectReplicas": 4, "currentReplicas": 3},
    });
    for (field, value) in spec.as_object().expect("fields") {
        object["spec"][field] = value.clone();
    }
    Stripped {
        key: key(&object),
        object: api::ehpa::parse(object).expect("an object"),
    }
}

fn native(
    name: &str,
    owner: Option<&str>,
    wanted: i32,
    reason: &str,
) -> Stripped<HorizontalPodAutoscaler> {
    let owners = owner.map(|owner| {
        json!([{
            "apiVersion": "autoscaling.crane.io/v1alpha1", "kind": "EffectiveHorizontalPodAutoscaler",
            "name": owner, "uid": owner, "controller": true,
        }])
    });
    let object = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "ownerReferences": owners},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 10},
        "status": {
            "desiredReplicas": wanted, "currentReplicas": 1,
            "conditions": [{"type": "AbleToScale", "status": "True", "reason": reason}],
        },
    });
    Stripped {
        key: key(&object),
        object: serde_json::from_value(object).expect("an autoscaler"),
    }
}

/// A prediction of 1, 2, … at each minute from a minute before now on.
fn prediction(
    name: &str,
    series: usize,
    is_ready: bool,
    labels: &Value,
) -> Stripped<TimeSeriesPrediction> {
    let sample = |minute: i64| json!({"timestamp": now().as_second() + (minute - 1) * 60, "value": format!("{}.50000", minute)});
    let samples: Vec<_> = (0..=120).map(sample).collect();
    let object = json!({
        "apiVersion": "prediction.crane.io/v1alpha1", "kind": "TimeSeriesPrediction",
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "predictionWindowSeconds": 3600,
            "predictionMetrics": [{
                "resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu",
                "algorithm": {"algorithmType": "percentile"},
            }],
        },
        "status": {"predictionMetrics": [{
            "resourceIdentifier": "resource.cpu", "ready": is_ready,
            "prediction": vec![json!({"labels": [], "samples": samples}); series],
        }]},
    });
    Stripped {
        key: key(&object),
        object: api::prediction::parse(object).expect("an object"),
    }
}

fn add_ehpa(view: &mut View, name: &str, annotations: &Value, spec: &Value) {
    let ehpa = effective(name, annotations, spec);
    view.ehpas.apply(Arc::new(ehpa));
}

fn add_hpa(view: &mut View, name: &str, owner: Option<&str>, wanted: i32, reason: &str) {
    let hpa = native(name, owner, wanted, reason);
    view.hpas.apply(Arc::new(hpa));
}

fn add_prediction(view: &mut View, name: &str, series: usize, is_ready: bool, labels: &Value) {
    let prediction = prediction(name, series, is_ready, labels);
    view.predictions.apply(Arc::new(prediction));
}

/// `expected`: the series as metric, labels, value, and time as seconds from now.
fn check(
    view: &View,
    counts: &mut ScaleCounts,
    expected: &[(CraneMetric, &str, f64, Option<i64>)],
) {
    let found = samples(view, counts, "default", now());
    let labels: Vec<_> = found.iter().map(|sample| sample.labels.join(" ")).collect();
    let found = found.iter().zip(&labels).map(|(sample, labels)| {
        let at = sample.at.map(|at| at - now().as_second());
        (sample.metric, labels.as_str(), sample.value, at)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
}

#[test]
fn replicas_are_shown_of_our_ehpas_and_of_all_other_hpas() {
    let mut view = View::default();
    add_ehpa(&mut view, "web", &json!({}), &json!({}));
    let of_another = json!({"plimsoll.dev/recommender": "another"});
    add_ehpa(&mut view, "api", &of_another, &json!({}));
    add_hpa(&mut view, "ehpa-api", Some("api"), 7, "");
    add_hpa(&mut view, "ehpa-web", Some("web"), 5, "");
    add_hpa(&mut view, "plain", None, 6, "");
    for (name, adopter) in [("adopted", "web/web"), ("taken", "api/api")] {
        let mut adopted = native(name, None, 8, "");
        let annotation = ("plimsoll.dev/adopted-by".to_owned(), adopter.to_owned());
        adopted.object.metadata.annotations = Some([annotation].into());
        view.hpas.apply(Arc::new(adopted));
    }
    check(
        &view,
        &mut ScaleCounts::default(),
        &[
            (CraneMetric::EffectiveReplicas, "shop web", 4.0, None),
            (CraneMetric::Replicas, "shop adopted", 8.0, None),
            (CraneMetric::ScaleCount, "shop adopted ehpa", 0.0, None),
            (CraneMetric::Replicas, "shop ehpa-web", 5.0, None),
            (CraneMetric::ScaleCount, "shop ehpa-web ehpa", 0.0, None),
            (CraneMetric::Replicas, "shop plain", 6.0, None),
            (CraneMetric::ScaleCount, "shop plain hpa", 0.0, None),
        ],
    );
}

#[test]
fn scalings_of_an_hpa_are_counted_until_it_is_gone() {
    let (mut view, mut counts) = (View::default(), ScaleCounts::default());
    for (wanted, reason, times) in [
        (3, "SucceededRescale", 0.0),
        (4, "SucceededRescale", 1.0),
        (4, "SucceededRescale", 1.0),
        (5, "FailedUpdateScale", 1.0),
        (2, "SucceededRescale", 2.0),
    ] {
        add_hpa(&mut view, "plain", None, wanted, reason);
        let expected = [
            (CraneMetric::Replicas, "shop plain", f64::from(wanted), None),
            (CraneMetric::ScaleCount, "shop plain hpa", times, None),
        ];
        check(&view, &mut counts, &expected);
    }
    let plain = ObjectKey::new("shop", "plain");
    view.hpas.delete(&plain);
    check(&view, &mut counts, &[]);
    assert!(counts.0.is_empty());
}

#[test]
fn open_crons_request_the_largest_of_their_replicas() {
    let cron = |start: &str, end: &str, replicas: i32| json!([{"name": "a", "start": start, "end": end, "targetReplicas": replicas}]);
    let open = cron("0 9 * * *", "0 17 * * *", 8);
    let closed = cron("0 17 * * *", "0 9 * * *", 9);
    let metrics = json!([{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]);
    let mut broken = cron("0 9 * * *", "0 17 * * *", 9);
    broken[0]["timezone"] = json!("Nowhere/Else");
    for (spec, expected) in [
        (json!({"crons": open}), Some(8.0)),
        (json!({"crons": closed, "metrics": metrics}), Some(2.0)),
        (json!({"crons": closed}), Some(3.0)),
        (json!({"crons": broken}), None),
    ] {
        let mut view = View::default();
        add_ehpa(&mut view, "web", &json!({}), &spec);
        let mut wanted = vec![(CraneMetric::EffectiveReplicas, "shop web", 4.0, None)];
        let labels = "Deployment web shop cron";
        wanted.extend(expected.map(|value| (CraneMetric::Cron, labels, value, None)));
        check(&view, &mut ScaleCounts::default(), &wanted);
    }
}

#[test]
fn predictions_are_shown_by_the_largest_of_the_window_and_by_the_next() {
    let labels = "Deployment web shop resource.cpu percentile";
    let next = (CraneMetric::NextPredicted, labels, 1.5, Some(0));
    let largest = (CraneMetric::Prediction, labels, 61.5, None);
    for (series, is_ready, expected) in [
        (1, true, vec![largest, next]),
        (1, false, vec![next]),
        (2, true, vec![]),
        (0, true, vec![]),
    ] {
        let mut view = View::default();
        add_prediction(&mut view, "web", series, is_ready, &json!({}));
        check(&view, &mut ScaleCounts::default(), &expected);
    }
}

#[test]
fn of_two_predictions_of_the_same_the_managed_one_is_shown() {
    let mut view = View::default();
    add_prediction(&mut view, "a", 1, true, &json!({}));
    add_prediction(
        &mut view,
        "b",
        1,
        false,
        &json!({MANAGED_BY.0: MANAGED_BY.1}),
    );
    let labels = "Deployment web shop resource.cpu percentile";
    let next = (CraneMetric::NextPredicted, labels, 1.5, Some(0));
    check(&view, &mut ScaleCounts::default(), &[next]);
}

#[test]
fn of_several_objects_for_a_workload_the_oldest_is_shown() {
    let cron = |replicas: i32| json!({"crons": [{"name": "a", "start": "0 9 * * *", "end": "0 17 * * *", "targetReplicas": replicas}]});
    let labels = "Deployment web shop resource.cpu percentile";
    // Creation time of z, which wants five; a wants nine.
    for (created_at, replicas, expected) in [
        ("2026-01-01T00:00:00Z", 5.0, 1.5),
        ("2026-01-01T00:00:02Z", 9.0, 100.0),
    ] {
        let mut view = View::default();
        for (name, created_at, replicas) in [("a", "2026-01-01T00:00:01Z", 9), ("z", created_at, 5)]
        {
            let mut object = effective(name, &json!({}), &cron(replicas));
            object.object.metadata.creation_timestamp =
                serde_json::from_value(json!(created_at)).expect("a time");
            view.ehpas.apply(Arc::new(object));
            let mut owned = prediction(name, 1, false, &json!({MANAGED_BY.0: MANAGED_BY.1}));
            let owners = json!([{"apiVersion": "v1", "kind": "E", "name": name, "uid": name, "controller": true}]);
            owned.object.metadata.owner_references =
                serde_json::from_value(owners).expect("owners");
            if name == "a" {
                let status = owned.object.status.as_mut().expect("a status");
                status.prediction_metrics[0].prediction[0].samples[1].value = "100".to_owned();
            }
            view.predictions.apply(Arc::new(owned));
        }
        let effective = |name| (CraneMetric::EffectiveReplicas, name, 4.0, None);
        let windows = (
            CraneMetric::Cron,
            "Deployment web shop cron",
            replicas,
            None,
        );
        let next = (CraneMetric::NextPredicted, labels, expected, Some(0));
        let expected = [effective("shop a"), effective("shop z"), windows, next];
        check(&view, &mut ScaleCounts::default(), &expected);
    }
}
