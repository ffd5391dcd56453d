//! A forecast reaches the adapter over the recommender's feed before it is written. Once the
//! recommender is gone, the written forecast is served until it is stale.

use anyhow::{Context as _, Result, ensure};
use api::prediction::TimeSeriesPrediction;
use e2e::deployed::{replicas_of, scrape};
use e2e::eventually;
use e2e::remote_write::{Labels, Receiver};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::jiff::Timestamp;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Error};
use serde_json::{Value, json};

use super::ehpa_fixture::{EhpaFixture, PATIENCE, RECOMMENDER, RECOMMENDER_PORT};

const NAME: &str = "web";
const METRIC: &str = "crane_autoscaling_prediction";
const IDENTIFIER: &str = "external.load";
const DAY: i64 = 86_400;
const STEP: i64 = 300;
const LOAD: f64 = 10.0;

#[tokio::test]
async fn a_forecast_is_served_before_it_is_written_and_stands_without_the_recommender() -> Result<()>
{
    let fixture = EhpaFixture::open("feed").await?;
    let result = tell_and_fall_silent(&fixture).await;
    // Others use this sandbox, too.
    fixture.let_write(true).await?;
    fixture.resize("plimsoll-recommender", 1).await?;
    result
}

async fn tell_and_fall_silent(fixture: &EhpaFixture) -> Result<()> {
    let namespace = &fixture.0.namespace;
    fixture.write_history().await?;
    fixture
        .create::<TimeSeriesPrediction>(
            NAME,
            &spec(&format!("sum(load{{namespace=\"{namespace}\"}})")),
        )
        .await?;
    fixture.served("it is served", LOAD).await?;
    fixture
        .when::<TimeSeriesPrediction>(NAME, "it is written", |it| is_written(it, LOAD))
        .await?;

    fixture.let_write(false).await?;
    let twice = format!("2 * sum(load{{namespace=\"{namespace}\"}})");
    fixture
        .patch::<TimeSeriesPrediction>(NAME, &json!({"spec": spec(&twice)}))
        .await?;
    fixture.served("the change is served", 2.0 * LOAD).await?;
    let object = fixture
        .when::<TimeSeriesPrediction>(NAME, "it is there", |_| true)
        .await?;
    ensure!(
        is_written(&object, LOAD),
        "it was served from the feed, not from the status: {:#}",
        object["status"]
    );

    fixture.let_write(true).await?;
    fixture
        .when::<TimeSeriesPrediction>(NAME, "the change is written", |it| {
            is_written(it, 2.0 * LOAD)
        })
        .await?;
    fixture.measured(2.0 * LOAD).await?;
    fixture.resize("plimsoll-recommender", 0).await?;
    fixture.served("it remains", 2.0 * LOAD).await?;

    fixture.age_prediction(NAME).await?;
    eventually(
        "it is refused when it is stale",
        PATIENCE,
        async || match fixture.external(METRIC, NAME, IDENTIFIER).await {
            Ok(answer) => anyhow::bail!("{answer}"),
            Err(error) => {
                let text = format!("{error:#}");
                ensure!(text.contains("ended its last whole window"), "{text}");
                Ok(())
            }
        },
    )
    .await
}

fn spec(expression: &str) -> Value {
    json!({
        "predictionMetrics": [{
            "resourceIdentifier": IDENTIFIER,
            "type": "ExpressionQuery",
            "expressionQuery": {"expression": expression},
            "algorithm": {"algorithmType": "dsp", "dsp": {"sampleInterval": "5m", "historyLength": "7d"}},
        }],
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
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
    async fn write_history(&self) -> Result<()> {
        let sandbox = self.0.sandbox()?;
        let receiver = Receiver::new(
            &sandbox.prometheus_url().context("a Prometheus")?,
            sandbox.authority(),
        )?;
        let now = Timestamp::now().as_second() / STEP * STEP;
        let samples = (now - 3 * DAY..=now)
            .step_by(300)
            .map(|second| (second, LOAD));
        let labels = Labels::from([
            ("__name__", "load"),
            ("namespace", self.0.namespace.as_str()),
        ]);
        receiver.write(labels, samples).await
    }

    async fn served(&self, what: &str, expected: f64) -> Result<()> {
        eventually(what, PATIENCE, async || {
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
            self.0.namespace
        );
        eventually("it is shown as Crane's metrics", PATIENCE, async || {
            let replicas = replicas_of(&self.0.client, RECOMMENDER, RECOMMENDER_PORT).await?;
            let text = scrape(replicas.first().context("it runs")?).await?;
            for name in ["crane_autoscaling_prediction{", "crane_prediction_tsp{"] {
                let line = text
                    .lines()
                    .find(|line| line.starts_with(name) && line.contains(&own))
                    .context(name)?;
                let value = line
                    .split("} ")
                    .nth(1)
                    .and_then(|rest| rest.split(' ').next())
                    .context("a value")?;
                ensure!(is_near(value.parse()?, expected), "{line}");
            }
            Ok(())
        })
        .await
    }

    /// Lets predictions of this namespace be written, or not; returns once that counts.
    async fn let_write(&self, lets: bool) -> Result<()> {
        let name = format!("{}-silence", self.0.namespace);
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(self.0.client.clone());
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(self.0.client.clone());
        if lets {
            for gone in [
                bindings.delete(&name, &DeleteParams::default()).await.err(),
                policies.delete(&name, &DeleteParams::default()).await.err(),
            ] {
                match gone {
                    Some(Error::Api(status)) if status.code == 404 => {}
                    Some(error) => return Err(error.into()),
                    None => {}
                }
            }
        } else {
            let policy = json!({
                "metadata": {"name": name},
                "spec": {
                    "failurePolicy": "Fail",
                    "matchConstraints": {
                        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.0.namespace}},
                        "resourceRules": [{
                            "apiGroups": ["prediction.crane.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                            "resources": ["timeseriespredictions/status"],
                        }],
                    },
                    "validations": [{"expression": "false", "message": "nothing is written here"}],
                },
            });
            policies
                .create(&PostParams::default(), &serde_json::from_value(policy)?)
                .await?;
            let binding = json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
            bindings
                .create(&PostParams::default(), &serde_json::from_value(binding)?)
                .await?;
        }
        let api = self.api::<TimeSeriesPrediction>();
        let asking = PatchParams {
            dry_run: true,
            ..PatchParams::default()
        };
        let change = Patch::Merge(json!({"status": {"conditions": []}}));
        eventually("it counts who may write", PATIENCE, async || {
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
