//! Limits on the memory and the texts of one prediction.

use std::collections::BTreeMap;

use api::prediction::TimeSeriesPrediction;
use serde_json::json;

use super::super::access::ObjectAccess;
use super::super::annotations::Annotations;
use super::super::crane_settings;
use super::super::spec::forecast_spec;
use super::*;

fn percentile_of_each_second() -> Method {
    let settings = json!({
        "sampleInterval": "1s", "historyLength": "13h", "aggregated": false, "histogram": {"halfLife": "24h"},
    });
    let settings = serde_json::from_value(settings).expect("settings");
    let (method, note) = crane_settings::percentile(Some(&settings)).expect("a method");
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
    let pipeline = warm_pipeline(metric, window, now);
    let series = first_series(&pipeline);
    let count = series.values.len();
    assert!((720..=1440).contains(&count), "{count} values");
    let last = series.points().last().map(|(last, _)| last);
    assert!(last > Some(now + 2 * window - 2000), "{last:?}");
    let (kept, bytes) = (count * size_of::<f64>(), pipeline.bytes());
    assert!((kept..50_000).contains(&bytes), "{bytes} bytes");
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
        let access = ObjectAccess::to_namespace("shop");
        let metric = forecast_spec(&object, metric, annotations, &access);
        let pipeline = MetricPipeline::new("u-1", metric, WINDOW, INTERVALS, at(START));
        pipeline.result().clone()
    });
    let result = PredictionResult {
        metrics: metrics.collect(),
        spec: Arc::new(spec),
    };
    for metric in result.forecast(None, at(START)).metrics {
        let reason = metric.reason;
        assert!((100..1000).contains(&reason.len()), "{}", reason.len());
        for part in ["forecast-quantile", "sampleInterval"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
}

#[test]
fn a_series_with_long_labels_is_not_kept() {
    let now = START + 10 * DAY;
    let mut fixture = Fixture::new(own(), now);
    let range = fixture.pipeline.range(at(now));
    let samples = only_series(range);
    let labels = BTreeMap::from([("path".to_owned(), "x".repeat(100_000))]);
    let samples = Samples::from([(labels, samples)]);
    fixture.pipeline.append(range, samples, at(now));
    fixture.check_forecast(now, false, "bytes of labels");
    let bytes = fixture.pipeline.bytes();
    assert!(bytes < 1000, "{bytes} bytes");
}

#[test]
fn several_series_are_distinguished_and_too_many_refused() {
    let now = START + 10 * DAY;
    for (count, is_ready) in [(2, true), (11, false)] {
        let mut fixture = Fixture::new(own(), now);
        let range = fixture.pipeline.range(at(now));
        let samples = only_series(range);
        let labels = |pod| BTreeMap::from([("pod".to_owned(), format!("web-{pod}"))]);
        let found = (0..count).map(|pod| (labels(pod), samples.clone()));
        fixture.pipeline.append(range, found.collect(), at(now));
        let metric = fixture.metric_forecast(now);
        assert_eq!(metric.is_ready, is_ready, "{count}: {}", metric.reason);
        let pod = metric
            .series
            .first()
            .and_then(|series| series.labels.get("pod"));
        assert_eq!(pod.map(String::as_str), Some("web-0"));
    }
}
