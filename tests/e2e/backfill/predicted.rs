//! Predictions from the history in Prometheus: unread while it is away, and ready before the load
//! rises.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::remote_write::Receiver;
use e2e::{Namespace, eventually_within, target};
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::NAMESPACE;

/// Everything is predicted within this time.
const PATIENCE: Duration = Duration::from_mins(2);
const DAY: i64 = 86_400;
const STEP: i64 = 300;
/// The load rises each day so long from now. Quantiles look half an hour to both sides.
const RISE: i64 = 4500;
const WINDOW: i64 = 3600;
const LOW: f64 = 10.0;
const HIGH: f64 = 100.0;

/// Objects whose metrics are predicted.
pub(crate) struct Predictions {
    namespace: Namespace,
    /// Time of the next rise of the load.
    rise: i64,
}

fn metric(identifier: &str, expression: &str) -> Value {
    json!({
        "resourceIdentifier": identifier,
        "type": "ExpressionQuery",
        "expressionQuery": {"expression": expression},
        "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "5m", "historyLength": "7d"}},
    })
}

fn message(object: &Value) -> &str {
    object["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap_or_default()
}

fn is_ready(object: &Value) -> bool {
    object["status"]["conditions"][0]["status"] == "True"
}

/// Seconds since 1970 and values of a metric's only series.
fn samples(object: &Value, metric: usize) -> Vec<(i64, f64)> {
    let samples =
        object["status"]["predictionMetrics"][metric]["prediction"][0]["samples"].as_array();
    let sample = |sample: &Value| {
        Some((
            sample["timestamp"].as_i64()?,
            sample["value"].as_str()?.parse().ok()?,
        ))
    };
    samples.into_iter().flatten().filter_map(sample).collect()
}

impl Predictions {
    /// Writes nine days of one load, and five hours of another, and makes objects that ask for
    /// both.
    pub(crate) async fn write(sandbox: &Sandbox, client: &Client) -> Result<Self> {
        let receiver = Receiver::of(sandbox)?;
        let now = Timestamp::now().as_second() / STEP * STEP;
        let rise = now + RISE;
        let load = |second: i64| {
            if (second - rise).rem_euclid(DAY) < DAY / 2 {
                HIGH
            } else {
                LOW
            }
        };
        for (name, length) in [("load", 9 * DAY), ("young", 5 * 3600)] {
            let samples = (0..=length / STEP).map(|number| now - length + number * STEP);
            let samples = samples.map(|second| (second, load(second)));
            receiver
                .write(name, &[("namespace", NAMESPACE)], samples)
                .await?;
        }
        let namespace = Namespace::of(client.clone(), NAMESPACE);
        let cpu = json!({"resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu"});
        let old = vec![
            metric("external.load", "sum(load{namespace=\"shop\"})"),
            cpu,
        ];
        for (name, metrics) in [
            ("old", old),
            ("young", vec![metric("external.young", "sum(young)")]),
        ] {
            let spec = json!({
                "predictionMetrics": metrics,
                "targetRef": target("Deployment", "web"),
                "predictionWindowSeconds": WINDOW,
            });
            namespace.make::<Prediction>(name, spec).await?;
        }
        Ok(Self { namespace, rise })
    }

    async fn when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually_within(PATIENCE, what, async || {
            let object = self.namespace.get::<Prediction>(name).await?;
            let samples = samples(&object, 0);
            ensure!(is_so(&object), "{}, {samples:?}", message(&object));
            Ok(object)
        })
        .await
    }

    pub(crate) async fn await_unread(&self) -> Result<()> {
        let is_unread =
            |it: &Value| !is_ready(it) && message(it).contains("the history cannot be read");
        self.when("old", "it says that the history cannot be read", is_unread)
            .await
            .map(drop)
    }

    /// Two windows are predicted, low at first and high before the load is.
    pub(crate) async fn await_rise(&self) -> Result<()> {
        let object = self
            .when("old", "it is ready", |it| {
                is_ready(it) && message(it).is_empty()
            })
            .await?;
        let samples = samples(&object, 0);
        let (first, last) = samples
            .first()
            .zip(samples.last())
            .context("there are samples")?;
        ensure!(
            last.0 - first.0 >= 2 * WINDOW - STEP,
            "two windows: {samples:?}"
        );
        for (second, value) in &samples {
            let (rise, second) = (self.rise, *second);
            let low = second < rise - 2400;
            let high = second > rise + STEP && second < rise + DAY / 2;
            let fits = (!low || *value < 2.0 * LOW) && (!high || *value > 0.8 * HIGH);
            ensure!(fits, "{second}, with a rise at {rise}: {samples:?}");
        }
        ensure!(
            Timestamp::now().as_second() < self.rise,
            "the load has not risen yet"
        );
        let cores = self::samples(&object, 1);
        let are_right = cores.iter().all(|(_, cores)| *cores > 0.0 && *cores < 10.0);
        ensure!(are_right && !cores.is_empty(), "{cores:?}");
        Ok(())
    }

    pub(crate) async fn await_young(&self) -> Result<()> {
        let is_young = |it: &Value| {
            !is_ready(it) && message(it).contains("external.young: too little history: ")
        };
        let what = "it says that there is too little history";
        let object = self.when("young", what, is_young).await?;
        let is_empty = samples(&object, 0).is_empty();
        ensure!(is_empty, "nothing is predicted: {object:#}");
        Ok(())
    }

    /// The prediction remains, and its condition says that it is not renewed.
    pub(crate) async fn await_ageing(&self) -> Result<()> {
        let is_ageing = |it: &Value| {
            is_ready(it)
                && message(it).contains("stays valid until its window ends")
                && !samples(it, 0).is_empty()
        };
        self.when("old", "it says that it ages", is_ageing)
            .await
            .map(drop)
    }

    pub(crate) async fn await_renewed(&self) -> Result<()> {
        self.when("old", "it is renewed", |it| {
            is_ready(it) && message(it).is_empty()
        })
        .await
        .map(drop)
    }

    /// A recommender that runs does what it is asked for.
    pub(crate) async fn await_longer_window(&self) -> Result<()> {
        let longer = json!({"spec": {"predictionWindowSeconds": 2 * WINDOW}});
        self.namespace.patch::<Prediction>("old", longer).await?;
        let is_longer = |it: &Value| {
            let samples = samples(it, 0);
            samples
                .first()
                .zip(samples.last())
                .is_some_and(|(first, last)| last.0 - first.0 >= 4 * WINDOW - STEP)
        };
        self.when("old", "twice as much is predicted", |it| {
            is_ready(it) && is_longer(it)
        })
        .await
        .map(drop)
    }
}
