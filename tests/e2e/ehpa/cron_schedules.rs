//! Windows of time, from the object over the native autoscaler to the workload, on the examples of
//! Crane's documentation and others, and dates on which no window opens.

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::{eventually, is_true, message_of, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::jiff::civil::Weekday;
use k8s_openapi::jiff::tz::TimeZone;
use k8s_openapi::jiff::{Timestamp, ToSpan as _, Unit, Zoned};
use serde_json::{Value, json};

use super::fixture::EhpaFixture;

/// Metric of the windows.
const CRON: &str = "crane_autoscaling_cron";

pub(crate) fn utc() -> Zoned {
    Timestamp::now().to_zoned(TimeZone::UTC)
}

/// A cron of this time of every day.
fn daily(time: &Zoned) -> String {
    format!("{} {} * * *", time.minute(), time.hour())
}

/// A window with six replicas that has been open for two hours, and closes then.
pub(crate) fn window(end: &Zoned) -> Result<Value> {
    let start = daily(&utc().checked_sub(2.hours())?);
    Ok(json!([{"name": "busy", "start": start, "end": daily(end), "targetReplicas": 6}]))
}

/// Scaled by the CPU that pods use, and by the clock; quick to shrink.
pub(crate) fn spec(deployment: &str, strategy: &str, crons: &Value) -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    json!({
        "scaleTargetRef": target("Deployment", deployment),
        "minReplicas": 1,
        "maxReplicas": 10,
        "scaleStrategy": strategy,
        "metrics": [{"type": "Resource", "resource": cpu}],
        "crons": crons,
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    })
}

#[tokio::test]
async fn a_window_of_time_raises_and_releases_and_a_preview_changes_nothing() -> Result<()> {
    let fixture = EhpaFixture::together("windows").await?;
    let open = window(&utc().checked_add(10.hours())?)?;
    for (name, strategy) in [("web", "Auto"), ("seen", "Preview")] {
        fixture.deploy(name, 2, "20m").await?;
        let spec = spec(name, strategy, &open);
        fixture.make::<Ehpa>(name, spec).await?;
    }
    // Nothing but a window that is closed: it keeps what it has.
    let later = |hours: i64| utc().checked_add(hours.hours()).map(|time| daily(&time));
    let closed =
        json!([{"name": "later", "start": later(10)?, "end": later(12)?, "targetReplicas": 6}]);
    let mut alone = spec("alone", "Auto", &closed);
    alone["metrics"] = json!([]);
    alone["maxReplicas"] = json!(20);
    fixture.deploy("alone", 3, "20m").await?;
    fixture.make::<Ehpa>("alone", alone).await?;

    fixture.has_replicas("web", 6).await?;
    let cron = async || fixture.external(CRON, "web", "cron").await;
    let answer = cron().await?;
    assert_eq!(answer["items"][0]["value"], "6");
    assert_eq!(answer["items"].as_array().map(Vec::len), Some(1));

    let would = json!({"status": {"expectReplicas": 6}});
    fixture.await_fields::<Ehpa>("seen", would).await?;

    // It closes with the next minute but one at the latest; until then nothing needs to be seen.
    let soon = utc().round(Unit::Minute)?.checked_add(1.minute())?;
    let closing = json!({"spec": {"crons": window(&soon)?}});
    fixture.patch::<Ehpa>("web", closing).await?;
    fixture.has_replicas("web", 1).await?;
    assert_eq!(cron().await?["items"][0]["value"], "1");

    let external = json!({"current": {"averageValue": "1"}});
    let as_wanted = json!({"status": {"currentMetrics": [{"external": external}]}});
    fixture.await_fields::<Hpa>("ehpa-alone", as_wanted).await?;
    let ten = json!({"spec": {"replicas": 10}});
    fixture.patch::<Deployment>("alone", ten).await?;
    let kept = json!({"status": {"currentReplicas": 10, "desiredReplicas": 10}});
    fixture.await_fields::<Hpa>("ehpa-alone", kept).await?;
    // A rollout that makes one pod more, which no node takes, and gets no further.
    let rollout = json!({"spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
        "template": {"spec": {"nodeSelector": {"there": "is-none"}}},
    }});
    fixture.patch::<Deployment>("alone", rollout).await?;
    let waits = |it: &Value| {
        let conditions = it["status"]["conditions"].as_array().into_iter().flatten();
        let mut messages = conditions.filter_map(|condition| condition["message"].as_str());
        messages.any(|message| message.contains("11 of 10 pods exist"))
    };
    fixture
        .when::<Hpa>("ehpa-alone", "what a rollout adds is not wanted", waits)
        .await?;
    for (name, replicas, generation) in [("seen", 2, 1), ("alone", 10, 3)] {
        let untouched = fixture.get::<Deployment>(name).await?;
        assert_eq!(untouched["spec"]["replicas"], replicas, "{name}");
        assert_eq!(untouched["metadata"]["generation"], generation, "{name}");
    }
    Ok(())
}

/// Replicas by the example's windows at this hour.
fn documented_crons() -> i64 {
    if matches!(utc().hour(), 6..9 | 11..14 | 17..20) {
        80
    } else {
        10
    }
}

/// Replicas by the example's window, which opens on Saturday at midnight and closes on Sunday at
/// 23:00.
fn documented_weekend() -> &'static str {
    let now = utc();
    let is_open = match now.weekday() {
        Weekday::Saturday => true,
        Weekday::Sunday => now.hour() < 23,
        _ => false,
    };
    if is_open { "100" } else { "1" }
}

#[tokio::test]
async fn the_windows_of_cranes_documentation_work_as_it_says() -> Result<()> {
    let fixture = EhpaFixture::together("documented").await?;
    fixture.deploy("php-apache", 1, "10m").await?;
    fixture.apply_documented("crons").await?;
    let has_size_of_hour = |it: &Value| it["spec"]["replicas"] == documented_crons();
    let what = "the workload has the size of the hour";
    fixture
        .when::<Deployment>("php-apache", what, has_size_of_hour)
        .await?;

    fixture.delete::<Ehpa>("php-apache-local").await?;
    fixture.gone::<Hpa>("ehpa-php-apache-local").await?;
    let one = json!({"spec": {"replicas": 1}});
    fixture.patch::<Deployment>("php-apache", one).await?;
    fixture.apply_documented("all").await?;
    let name = "ehpa-php-apache-multi-dimensions";
    let has_cron = |it: &Value| {
        let mut metrics = it["spec"]["metrics"].as_array().into_iter().flatten();
        metrics.any(|metric| metric["external"]["metric"]["name"] == CRON)
    };
    fixture
        .when::<Hpa>(name, "the clock is among the metrics", has_cron)
        .await?;
    fixture.await_fields::<Prediction>(name, json!({})).await?;
    let item = eventually("the window of the weekend is served", async || {
        let mut answer = fixture.external(CRON, "php-apache", "cron").await?;
        let item = answer["items"][0].take();
        ensure!(item["value"] == documented_weekend(), "{item}");
        Ok(item)
    })
    .await?;
    assert_eq!(item["metricLabels"]["resourceIdentifier"], "cron");
    Ok(())
}

const ANNOTATION: &str = "plimsoll.dev/holidays";

/// The dates that are this number of days away.
fn dates(today: &Zoned, days: &[i64]) -> Result<Value> {
    let dates = days.iter().map(|day| today.checked_add(day.days()));
    let dates = dates.map(|date| date.map(|date| date.date().to_string()));
    let dates: Vec<String> = dates.collect::<Result<_, _>>()?;
    Ok(dates.join(",").into())
}

#[tokio::test]
async fn no_window_opens_on_a_holiday() -> Result<()> {
    let fixture = EhpaFixture::together("holidays").await?;
    let now = utc();
    let open = window(&now.checked_add(10.hours())?)?;
    // The window may have opened yesterday, and midnight may pass.
    let rows = [
        ("off", dates(&now, &[-1, 0, 1])?),
        ("works", dates(&now, &[-9, -8, 8, 9])?),
    ];
    for (name, holidays) in rows {
        fixture.deploy(name, 2, "20m").await?;
        let annotations = json!({ANNOTATION: holidays});
        let spec = spec(name, "Auto", &open);
        fixture
            .make_annotated::<Ehpa>(name, &annotations, spec)
            .await?;
    }
    fixture.has_replicas("works", 6).await?;
    served(&fixture, "off", "1").await?;
    // Usage alone counts.
    fixture.has_replicas("off", 1).await?;

    let wrong = json!({ANNOTATION: "someday"});
    fixture.annotate::<Ehpa>("off", wrong).await?;
    let is_reported = |it: &Value| {
        let message = message_of(&it["status"], "Ready");
        !is_true(&it["status"], "Ready") && message.contains("\"someday\" is not a date")
    };
    fixture
        .when::<Ehpa>("off", "the invalid date is reported", is_reported)
        .await?;
    served(&fixture, "off", "6").await?;
    let none = json!({ANNOTATION: null});
    fixture.annotate::<Ehpa>("off", none).await?;
    fixture.has_replicas("off", 6).await
}

/// Waits until this number of replicas is served for the windows of a Deployment.
async fn served(fixture: &EhpaFixture, deployment: &str, replicas: &str) -> Result<()> {
    eventually(&format!("{deployment} has {replicas}"), async || {
        let answer = fixture.external(CRON, deployment, "cron").await?;
        ensure!(answer["items"][0]["value"] == replicas, "{answer}");
        Ok(())
    })
    .await
}
