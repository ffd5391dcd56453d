//! Limits on the memory and the texts of one prediction.

use std::collections::BTreeMap;

use api::prediction::TimeSeriesPrediction;
use serde_json::json;

use super::super::access::ObjectAccess;
use super::super::annotations::Annotations;
use super::super::crane;
use super::super::spec::forecast_spec;
use super::*;

fn percentile_of_each_second() -> Method {
    let settings = json!({
        "sampleInterval": "1s", "historyLength": "13h", "aggregated": false, "histogram": {"halfLife": "24h"},
    });
    let settings = serde_json::from_value(settings).expect("settings");
    let (method, note) = crane::percentile(Some(&settings)).expect("a method");
    assert_eq!((method.step_seconds(), note), (1, None));
    method
}

#[test]
fn a_forecast_of_a_week_by_the_second_is_kept_in_few_values() {
    let now = START + 10 * DAY + 60;
    let window = 7 * DAY;
    let metric = ForecastSpec {
        method: percentile_of_each_second(),
        ..Fixture::new(own(), now).metric
    };
    let mut pipeline = MetricPipeline::new(
        "u-1",
        metric,
        u32::try_from(window).expect("a week"),
        INTERVALS,
        at(now),
    );
    let range = pipeline.range(at(now));
    pipeline.append(range, answer(range, START), at(now));
    let series = &pipeline
        .result()
        .forecasts
        .as_ref()
        .expect("it is forecast")
        .series[0];
    assert!(
        (720..=1440).contains(&series.values.len()),
        "{} values",
        series.values.len()
    );
    let last = series.points().last().map(|(last, _)| last);
    assert!(
        last.is_some_and(|last| last > now + 2 * window - 2000),
        "{last:?}"
    );
    let kept = series.values.len() * size_of::<f64>();
    assert!(
        (kept..50_000).contains(&pipeline.bytes()),
        "{} bytes",
        pipeline.bytes()
    );
}

#[test]
fn a_long_annotation_makes_a_short_reason() {
    let long = "x".repeat(200_000);
    let annotations = BTreeMap::from([
        ("plimsoll.dev/forecast".to_owned(), long.clone()),
        ("plimsoll.dev/forecast-quantile".to_owned(), long.clone()),
    ]);
    let dsp = json!({"algorithmType": "dsp", "dsp": {"sampleInterval": &long}});
    let metrics = (0..20).map(|number| {
        json!({"resourceIdentifier": format!("m-{number}"), "type": "ResourceQuery", "resourceQuery": &long, "algorithm": dsp})
    });
    let object = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {
        "predictionMetrics": metrics.collect::<Vec<_>>(), "targetRef": {"name": &long}, "predictionWindowSeconds": 3600,
    }});
    let object: TimeSeriesPrediction = serde_json::from_value(object).expect("an object");
    let annotations = Annotations {
        own: &annotations,
        owner: None,
    };
    let spec = PredictionSpec::new(ObjectKey::new("shop", "web"), &object);
    let metrics = object.spec.prediction_metrics.iter().map(|metric| {
        let metric = forecast_spec(
            &object,
            metric,
            annotations,
            &ObjectAccess::to_namespace("shop"),
        );
        MetricPipeline::new("u-1", metric, WINDOW, INTERVALS, at(START))
            .result()
            .clone()
    });
    let result = PredictionResult {
        metrics: metrics.collect(),
        spec: Arc::new(spec),
    };
    for metric in result.forecast(None, at(START)).metrics {
        assert!(
            (100..1000).contains(&metric.reason.len()),
            "{}",
            metric.reason.len()
        );
        assert!(
            metric.reason.contains("forecast-quantile") && metric.reason.contains("sampleInterval"),
            "{}",
            metric.reason
        );
    }
}

#[test]
fn a_series_with_long_labels_is_not_kept() {
    let now = START + 10 * DAY;
    let mut fixture = Fixture::new(own(), now);
    let range = fixture.pipeline.range(at(now));
    let samples = answer(range, START)
        .remove(&Labels::new())
        .expect("samples");
    let labels = BTreeMap::from([("path".to_owned(), "x".repeat(100_000))]);
    fixture
        .pipeline
        .append(range, Samples::from([(labels, samples)]), at(now));
    let metric = &fixture.forecast(now).metrics[0];
    assert!(
        !metric.is_ready && metric.reason.contains("bytes of labels"),
        "{}",
        metric.reason
    );
    assert!(
        fixture.pipeline.bytes() < 1000,
        "{} bytes",
        fixture.pipeline.bytes()
    );
}

#[test]
fn several_series_are_distinguished_and_too_many_refused() {
    let now = START + 10 * DAY;
    for (count, is_ready) in [(2, true), (11, false)] {
        let mut fixture = Fixture::new(own(), now);
        let range = fixture.pipeline.range(at(now));
        let samples = answer(range, START)
            .remove(&Labels::new())
            .expect("samples");
        let found = (0..count).map(|pod| {
            (
                BTreeMap::from([("pod".to_owned(), format!("web-{pod}"))]),
                samples.clone(),
            )
        });
        fixture.pipeline.append(range, found.collect(), at(now));
        let forecast = fixture.forecast(now);
        assert_eq!(
            forecast.metrics[0].is_ready, is_ready,
            "{count}: {}",
            forecast.metrics[0].reason
        );
        let labels: Vec<_> = forecast.metrics[0]
            .series
            .iter()
            .filter_map(|series| series.labels.get("pod"))
            .collect();
        assert_eq!(labels.first().map(|pod| pod.as_str()), Some("web-0"));
    }
}
