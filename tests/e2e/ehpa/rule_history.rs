//! The history of a metric of pods is asked for by the query of its rule, over all pods that a
//! workload had, and so it is predicted.

use anyhow::Result;
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::remote_write::Receiver;
use e2e::{is_true, message_of};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::feed::is_written;
use super::fixture::EhpaFixture;

const DAY: i64 = 86_400;
const MINUTE: i64 = 60;
/// Pod, method, requests per second. The last two do not count.
const SERIES: [(&str, &str, f64); 4] = [
    ("web-6d5f7c-aaaaa", "GET", 12.0),
    ("web-6d5f7c-bbbbb", "GET", 8.0),
    ("web-6d5f7c-aaaaa", "POST", 5.0),
    ("web-site-6d5f7c-aaaaa", "GET", 70.0),
];

#[tokio::test]
async fn a_metric_of_pods_is_predicted_from_what_its_rule_asks_for() -> Result<()> {
    let fixture = EhpaFixture::together("asked").await?;
    write_history(&fixture).await?;
    fixture.deploy("web", 2, "10m").await?;
    fixture.make::<Ehpa>("web", spec()).await?;

    let namespace = &fixture.namespace;
    let matchers = format!(
        r#"namespace!="",pod!="",method="GET",namespace="{namespace}",pod=~"web-[a-z0-9]+-[a-z0-9]{{5}}""#
    );
    let expression = format!("sum(rate(http_requests_total{{{matchers}}}[2m]))");
    let query = json!({"expressionQuery": {"expression": expression}});
    let asked = json!({"spec": {"predictionMetrics": [query]}});
    fixture
        .await_fields::<Prediction>("ehpa-web", asked)
        .await?;

    let is_ready =
        |it: &Value| it["status"]["predictionMetrics"][0]["ready"] == true && is_written(it, 20.0);
    fixture
        .when::<Prediction>("ehpa-web", "it is predicted", is_ready)
        .await?;
    let labels = json!({"resourceIdentifier": "pods.http_requests"});
    let external = json!({
        "metric": {"selector": {"matchLabels": labels}}, "target": {"averageValue": "10"},
    });
    let scaled = json!({"spec": {"metrics": [{}, {"external": external}]}});
    fixture.await_fields::<Hpa>("ehpa-web", scaled).await?;

    let shows_window = |it: &Value| {
        let prediction = &it["status"]["prediction"];
        let window = prediction["windowSeconds"].as_i64();
        let ready = prediction["podReadySeconds"].as_i64();
        prediction["method"] == "peak"
            && window.zip(ready).is_some_and(|(window, ready)| {
                // A minute and a slot are the least.
                window >= 360 && window >= ready + 300
            })
            && is_true(&it["status"], "PredictionAccurate")
    };
    let what = "its status shows method, window, accuracy";
    fixture.when::<Ehpa>("web", what, shows_window).await?;

    let annotations = json!({
        "plimsoll.dev/forecast-window": "20m", "plimsoll.dev/forecast-caution": "much",
    });
    fixture.annotate::<Ehpa>("web", annotations).await?;
    let shows_requested = |it: &Value| {
        let status = &it["status"];
        let message = message_of(status, "PredictionReady");
        status["prediction"]["windowSeconds"] == 1200
            && is_true(status, "PredictionReady")
            && message.contains("plimsoll.dev/forecast-caution: \"much\" is not")
    };
    let what = "its annotations count or are reported";
    fixture.when::<Ehpa>("web", what, shows_requested).await?;
    Ok(())
}

/// The rule makes this metric from series of another name.
fn spec() -> Value {
    let metric = json!({"name": "http_requests", "selector": {"matchLabels": {"method": "GET"}}});
    let target = json!({"type": "AverageValue", "averageValue": "10"});
    let dsp = json!({"sampleInterval": "5m", "historyLength": "7d"});
    json!({
        "scaleTargetRef": e2e::target("Deployment", "web"),
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [{"type": "Pods", "pods": {"metric": metric, "target": target}}],
        "prediction": {
            "predictionWindowSeconds": 3600,
            "predictionAlgorithm": {"algorithmType": "dsp", "dsp": dsp},
        },
    })
}

/// Four days of counters, enough for a day of evaluated forecasts, and some minutes that are still to come.
async fn write_history(fixture: &EhpaFixture) -> Result<()> {
    let receiver = Receiver::of(&fixture.sandbox)?;
    let now = Timestamp::now().as_second();
    let start = now - 4 * DAY;
    for (pod, method, per_second) in SERIES {
        let namespace = fixture.namespace.as_str();
        let labels = [("method", method), ("namespace", namespace), ("pod", pod)];
        let seconds = (start..now + 9 * MINUTE).step_by(MINUTE as usize);
        let samples = seconds.map(|second| (second, (second - start) as f64 * per_second));
        receiver
            .write("http_requests_total", &labels, samples)
            .await?;
    }
    Ok(())
}
