//! Holidays: dates on which no window of an EHPA opens.

use anyhow::{Context as _, Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use e2e::{condition, eventually};
use k8s_openapi::jiff::{ToSpan as _, Zoned};
use serde_json::{Value, json};

use super::cron_schedules::{spec, utc, window};
use super::ehpa_fixture::EhpaFixture;

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
        let metadata = json!({"name": name, "annotations": {ANNOTATION: holidays}});
        let object = json!({"metadata": metadata, "spec": spec(name, "Auto", &open)});
        fixture.create::<Ehpa>(object).await?;
    }
    fixture
        .scaled("works", "the window raises", |replicas| replicas == 6)
        .await?;
    served(&fixture, "off", "1").await?;
    fixture
        .scaled("off", "usage alone counts", |replicas| replicas == 1)
        .await?;

    let annotate = async |holidays: Value| {
        let change = json!({"metadata": {"annotations": {ANNOTATION: holidays}}});
        fixture.patch::<Ehpa>("off", change).await
    };
    annotate(json!("someday")).await?;
    let is_reported = |it: &Value| {
        let ready = condition(&it["status"], "Ready");
        let message = ready.and_then(|ready| ready["message"].as_str());
        ready.is_some_and(|ready| ready["status"] == "False")
            && message.is_some_and(|message| message.contains("\"someday\" is not a date"))
    };
    fixture
        .when::<Ehpa>("off", "the invalid date is reported", is_reported)
        .await?;
    served(&fixture, "off", "6").await?;
    annotate(Value::Null).await?;
    fixture
        .scaled("off", "the window raises", |replicas| replicas == 6)
        .await?;
    Ok(())
}

/// Waits until this number of replicas is served for the windows of a Deployment.
async fn served(fixture: &EhpaFixture, deployment: &str, replicas: &str) -> Result<()> {
    eventually(&format!("{deployment} has {replicas}"), async || {
        let answer = fixture
            .external("crane_autoscaling_cron", deployment, "cron")
            .await?;
        let value = answer["items"][0]["value"].as_str().context("a value")?;
        ensure!(value == replicas, "{answer}");
        Ok(())
    })
    .await
}
