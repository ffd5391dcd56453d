//! Predictions from the history in Prometheus: unread while it is away, and ready before the load
//! rises.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction;
use e2e::eventually;
use e2e::remote_write::{Labels, Receiver};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource as _};
use sandbox::Sandbox;
use serde_json::{Value, json};

use super::{NAMESPACE, PATIENCE};

const DAY: i64 = 86_400;
const STEP: i64 = 300;
/// The load rises each day so long from now. Quantiles look half an hour to both sides.
const RISE: i64 = 4500;
const WINDOW: i64 = 3600;
const LOW: f64 = 10.0;
const HIGH: f64 = 100.0;

/// Objects whose metrics are predicted.
pub(crate) struct Predictions {
    api: Api<DynamicObject>,
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
        let url = sandbox
            .prometheus_url()
            .context("this sandbox has a Prometheus")?;
        let receiver = Receiver::new(&url, sandbox.authority())?;
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
            let labels = Labels::from([("__name__", name), ("namespace", NAMESPACE)]);
            receiver
                .write(labels, samples.map(|second| (second, load(second))))
                .await?;
        }
        let resource = ApiResource::erase::<TimeSeriesPrediction>(&());
        let api = Api::namespaced_with(client.clone(), NAMESPACE, &resource);
        let cpu = json!({"resourceIdentifier": "resource.cpu", "type": "ResourceQuery", "resourceQuery": "cpu"});
        let old = vec![
            metric("external.load", "sum(load{namespace=\"shop\"})"),
            cpu,
        ];
        for (name, metrics) in [
            ("old", old),
            ("young", vec![metric("external.young", "sum(young)")]),
        ] {
            let object = json!({
                "apiVersion": TimeSeriesPrediction::api_version(&()), "kind": TimeSeriesPrediction::kind(&()),
                "metadata": {"name": name},
                "spec": {
                    "predictionMetrics": metrics,
                    "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                    "predictionWindowSeconds": WINDOW,
                },
            });
            api.create(&PostParams::default(), &serde_json::from_value(object)?)
                .await?;
        }
        Ok(Self { api, rise })
    }

    async fn when(&self, name: &str, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        eventually(what, PATIENCE.min(Duration::from_mins(2)), async || {
            let object = serde_json::to_value(self.api.get(name).await?)?;
            ensure!(
                is_so(&object),
                "{}, {:?}",
                message(&object),
                samples(&object, 0)
            );
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
            let (low, high) = (
                *second < self.rise - 2400,
                *second > self.rise + STEP && *second < self.rise + DAY / 2,
            );
            ensure!(
                !low || *value < 2.0 * LOW,
                "{second} is before the rise at {}: {samples:?}",
                self.rise
            );
            ensure!(
                !high || *value > 0.8 * HIGH,
                "{second} is after the rise at {}: {samples:?}",
                self.rise
            );
        }
        ensure!(
            Timestamp::now().as_second() < self.rise,
            "the load has not risen yet"
        );
        let cores: Vec<f64> = self::samples(&object, 1)
            .into_iter()
            .map(|(_, cores)| cores)
            .collect();
        ensure!(
            cores.iter().all(|cores| *cores > 0.0 && *cores < 10.0) && !cores.is_empty(),
            "{cores:?}"
        );
        Ok(())
    }

    pub(crate) async fn await_young(&self) -> Result<()> {
        let is_young = |it: &Value| {
            !is_ready(it) && message(it).contains("external.young: too little history: there is")
        };
        let object = self
            .when(
                "young",
                "it says that there is too little history",
                is_young,
            )
            .await?;
        ensure!(
            samples(&object, 0).is_empty(),
            "nothing is predicted: {object:#}"
        );
        Ok(())
    }

    /// The prediction remains, and its condition says that it is not renewed.
    pub(crate) async fn await_ageing(&self) -> Result<()> {
        let is_ageing = |it: &Value| {
            is_ready(it)
                && message(it).contains("holds on for a while")
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
        let spec = Patch::Merge(json!({"spec": {"predictionWindowSeconds": 2 * WINDOW}}));
        self.api
            .patch("old", &PatchParams::default(), &spec)
            .await?;
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
