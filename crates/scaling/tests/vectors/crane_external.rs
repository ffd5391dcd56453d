//! Values of Crane's metric adapter.

use jiff::Timestamp;
use model::Quantity;
use scaling::cron::{CronReplicas, Window, WindowError, cron_replicas};
use scaling::{NoPrediction, Predicted, window_maximum};
use serde::Deserialize;
use serde_json::Value;
use testing::vectors::{each_case, items};

use crate::crane_cron::is_open_for_crane;

#[derive(Deserialize)]
#[serde(tag = "metric")]
enum Case {
    #[serde(rename = "crane_autoscaling_cron")]
    Cron {
        now: Timestamp,
        min_replicas: i32,
        crons: Vec<Cron>,
        expect: Expected,
    },
    #[serde(rename = "crane_autoscaling_prediction")]
    Prediction {
        now_unix: i64,
        prediction_window_seconds: i32,
        requested_identifier: String,
        status: Value,
        expect: Expected,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cron {
    timezone: Option<String>,
    start: String,
    end: String,
    #[serde(default)]
    target_replicas: i32,
}

#[derive(Deserialize)]
struct Expected {
    error: bool,
    value: Option<Quantity>,
}

fn windows(crons: &[Cron]) -> Result<Vec<Window>, WindowError> {
    let window = |cron: &Cron| {
        let zone = cron.timezone.as_deref();
        Window::new(zone, &cron.start, &cron.end, cron.target_replicas)
    };
    crons.iter().map(window).collect()
}

/// Whether the windows are open for Crane where they are here.
fn agree(crons: &[Cron], windows: &[Window], now: Timestamp) -> bool {
    crons.iter().zip(windows).all(|(cron, window)| {
        let zone = cron.timezone.as_deref().unwrap_or_default();
        let for_crane = is_open_for_crane(zone, [&cron.start, &cron.end], now);
        for_crane == Some(window.is_open(now))
    })
}

fn predicted(status: &Value, identifier: &str, now: i64, window: i32) -> Result<f64, NoPrediction> {
    // Values that do not parse are skipped.
    let sample = |sample: &Value| {
        let value = sample["value"].as_str()?.parse().ok()?;
        Some((sample["timestamp"].as_i64()?, value))
    };
    let series = |series: &Value| items(&series["samples"]).filter_map(sample).collect();
    let series: Vec<Vec<(i64, f64)>> = items(&status["prediction"]).map(series).collect();
    let predicted = Predicted {
        identifier: status["resourceIdentifier"].as_str().expect("a name"),
        ready: status["ready"].as_bool().expect("a boolean"),
        series: &series,
    };
    window_maximum(&[predicted], identifier, now, window)
}

#[test]
fn vectors_crane_external_metrics() {
    let mut compared = 0;
    each_case("crane/external_metrics", |number, case: Case| {
        let (found, expect) = match case {
            Case::Cron {
                now,
                min_replicas: min,
                crons,
                expect,
            } => {
                let replicas = CronReplicas { min, kept: None };
                let windows = windows(&crons);
                if let Ok(windows) = &windows
                    && !agree(&crons, windows, now)
                {
                    return;
                }
                compared += 1;
                let found = windows.map(|windows| cron_replicas(&windows, replicas, now));
                (
                    found.map(i64::from).map_err(|error| error.to_string()),
                    expect,
                )
            }
            Case::Prediction {
                now_unix,
                prediction_window_seconds,
                requested_identifier,
                status,
                expect,
            } => {
                let window = prediction_window_seconds;
                let value = predicted(&status, &requested_identifier, now_unix, window);
                // Crane uses single precision and truncates to whole units.
                let value = value.map(|value| value as f32 as i64);
                (value.map_err(|error| error.to_string()), expect)
            }
        };
        assert_eq!(found.is_err(), expect.error, "case {number}: {found:?}");
        let expected = expect.value.as_ref().map(Quantity::value);
        assert_eq!(found.ok(), expected, "case {number}");
    });
    assert!(
        compared > 10,
        "{compared} cases have windows that open and close in turn"
    );
}
