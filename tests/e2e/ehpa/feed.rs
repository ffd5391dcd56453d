//! A forecast reaches the adapter over the recommender's feed before it is written. Once the
//! recommender is gone, the written forecast is served until it is stale.

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction as Prediction;
use e2e::deployment::{RECOMMENDER, replicas, scrape};
use e2e::remote_write::Receiver;
use e2e::{Namespace, eventually, target};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyBinding as PolicyBinding,
};
use k8s_openapi::jiff::Timestamp;
use kube::Error;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::fixture::EhpaFixture;

const NAME: &str = "web";
const METRIC: &str = "crane_autoscaling_prediction";
const IDENTIFIER: &str = "external.load";
const DAY: i64 = 86_400;
const STEP: i64 = 300;
pub(super) const LOAD: f64 = 10.0;

#[tokio::test]
async fn a_forecast_is_served_before_it_is_written_and_stands_without_the_recommender() -> Result<()>
{
    let fixture = EhpaFixture::alone("feed").await?;
    let result = tell_and_fall_silent(&fixture).await;
    // Others use this sandbox, too.
    fixture.let_write(true).await?;
    fixture.resize("plimsoll-recommender", 1).await?;
    result
}

async fn tell_and_fall_silent(fixture: &EhpaFixture) -> Result<()> {
    let namespace = &fixture.namespace;
    fixture.write_history().await?;
    let once = format!("sum(load{{namespace=\"{namespace}\"}})");
    fixture.make::<Prediction>(NAME, spec(&once)).await?;
    fixture.served("it is served", LOAD).await?;
    fixture
        .when::<Prediction>(NAME, "it is written", |it| is_written(it, LOAD))
        .await?;

    fixture.let_write(false).await?;
    let twice = format!("2 * sum(load{{namespace=\"{namespace}\"}})");
    let change = json!({"spec": spec(&twice)});
    fixture.patch::<Prediction>(NAME, change).await?;
    fixture.served("the change is served", 2.0 * LOAD).await?;
    // It was served from the feed, not from the status.
    let object = fixture.get::<Prediction>(NAME).await?;
    ensure!(is_written(&object, LOAD), "{:#}", object["status"]);

    fixture.let_write(true).await?;
    fixture
        .when::<Prediction>(NAME, "the change is written", |it| {
            is_written(it, 2.0 * LOAD)
        })
        .await?;
    fixture.measured(2.0 * LOAD).await?;
    fixture.resize("plimsoll-recommender", 0).await?;
    fixture.served("it remains", 2.0 * LOAD).await?;

    fixture.age_prediction(NAME).await?;
    eventually("it is refused when it is stale", async || {
        let answer = fixture.external(METRIC, NAME, IDENTIFIER).await;
        let text = answer.map_or_else(|error| format!("{error:#}"), |it| it.to_string());
        ensure!(text.contains("ended its last whole window"), "{text}");
        Ok(())
    })
    .await
}

fn spec(expression: &str) -> Value {
    predicted(IDENTIFIER, expression)
}

pub(super) fn predicted(identifier: &str, expression: &str) -> Value {
    json!({
        "predictionMetrics": [{
            "resourceIdentifier": identifier,
            "type": "ExpressionQuery",
            "expressionQuery": {"expression": expression},
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "5m", "historyLength": "7d"}},
        }],
        "targetRef": target("Deployment", NAME),
        "predictionWindowSeconds": 3600,
    })
}

fn is_near(value: f64, expected: f64) -> bool {
    (value - expected).abs() < 0.2 * expected
}

/// Whether the status has this value at all times.
pub(super) fn is_written(object: &Value, expected: f64) -> bool {
    let samples = object["status"]["predictionMetrics"][0]["prediction"][0]["samples"].as_array();
    let mut values = samples
        .into_iter()
        .flatten()
        .map(|sample| sample["value"].as_str().and_then(|it| it.parse().ok()));
    samples.is_some_and(|samples| !samples.is_empty())
        && values.all(|value: Option<f64>| value.is_some_and(|value| is_near(value, expected)))
}

impl EhpaFixture {
    /// Three days of one load.
    pub(super) async fn write_history(&self) -> Result<()> {
        let receiver = Receiver::of(&self.sandbox)?;
        let now = Timestamp::now().as_second() / STEP * STEP;
        let samples = (now - 3 * DAY..=now).step_by(300);
        let labels = [("namespace", self.namespace.as_str())];
        receiver
            .write("load", &labels, samples.map(|second| (second, LOAD)))
            .await
    }

    async fn served(&self, what: &str, expected: f64) -> Result<()> {
        eventually(what, async || {
            let answer = self.external(METRIC, NAME, IDENTIFIER).await?;
            let value = answer["items"][0]["value"].as_str().context("a value")?;
            let value = match value.strip_suffix('m') {
                Some(milli) => milli.parse::<f64>()? / 1000.0,
                None => value.parse()?,
            };
            ensure!(is_near(value, expected), "{answer}");
            Ok(())
        })
        .await
    }

    /// Returns once the recommender exports this value as Crane's metrics.
    async fn measured(&self, expected: f64) -> Result<()> {
        let own = format!(
            "targetNamespace=\"{}\",resourceIdentifier=\"{IDENTIFIER}\"",
            self.namespace
        );
        eventually("it is shown as Crane's metrics", async || {
            let all = replicas(&self.client, RECOMMENDER).await?;
            let text = scrape(all.first().context("it runs")?).await?;
            for name in ["crane_autoscaling_prediction{", "crane_prediction_tsp{"] {
                let is_own = |line: &&str| line.starts_with(name) && line.contains(&own);
                let line = text.lines().find(is_own).context(name)?;
                let rest = line.split("} ").nth(1).context("a value")?;
                let value = rest.split(' ').next().context("a value")?;
                ensure!(is_near(value.parse()?, expected), "{line}");
            }
            Ok(())
        })
        .await
    }

    /// Lets predictions of this namespace be written, or not; returns once that counts.
    async fn let_write(&self, lets: bool) -> Result<()> {
        let name = format!("{}-silence", self.namespace);
        let cluster = Namespace::cluster(self.client.clone());
        if lets {
            for gone in [
                cluster.delete::<PolicyBinding>(&name).await,
                cluster.delete::<Policy>(&name).await,
            ] {
                match gone {
                    Err(Error::Api(status)) if status.code == 404 => {}
                    gone => gone?,
                }
            }
        } else {
            let policy = json!({
                "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                        "resourceRules": [{
                            "apiGroups": ["prediction.crane.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                            "resources": ["timeseriespredictions/status"],
                        }],
                    },
                    "validations": [{"expression": "false", "message": "nothing is written here"}],
                },
            });
            cluster.create::<Policy>(policy).await?;
            let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
            cluster.create::<PolicyBinding>(binding).await?;
        }
        let api = self.api::<Prediction>();
        let asking = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let change = Patch::Merge(json!({"status": {"conditions": []}}));
        eventually("it counts who may write", async || {
            match api.patch_status(NAME, &asking, &change).await {
                Ok(_) if lets => Ok(()),
                Ok(_) => anyhow::bail!("it can be written"),
                Err(Error::Api(status)) if lets && status.code == 404 => Ok(()),
                Err(Error::Api(status))
                    if !lets && status.message.contains("nothing is written here") =>
                {
                    Ok(())
                }
                Err(error) => Err(error.into()),
            }
        })
        .await
    }
}
