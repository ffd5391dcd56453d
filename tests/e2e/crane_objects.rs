//! Crane's objects on the API server with the definitions of `deploy/crds`: validation, defaults
//! and printed columns.

#![allow(
    clippy::needless_pass_by_value,
    reason = "tables of `json!` values read better without references"
)]

use anyhow::{Context, Result};
use api::ehpa::{self, EffectiveHorizontalPodAutoscaler};
use api::prediction::{self, TimeSeriesPrediction};
use api::substitute::{self, Substitute};
use e2e::{kubectl, namespace, repository, shared};
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client, Error, Resource, ResourceExt};
use serde_json::{Value, json};

use crate::crds::refused;

struct Fixture {
    client: Client,
    namespace: String,
}

impl Fixture {
    async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "crane").await?;
        Ok(Self { client, namespace })
    }

    fn api<K: Resource<DynamicType = ()>>(&self) -> Api<DynamicObject> {
        Api::namespaced_with(
            self.client.clone(),
            &self.namespace,
            &ApiResource::erase::<K>(&()),
        )
    }

    async fn create<K: Resource<DynamicType = ()>>(
        &self,
        spec: &Value,
    ) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": {"generateName": "web-"},
            "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(Error::SerdeError)?;
        self.api::<K>()
            .create(&PostParams::default(), &object)
            .await
    }

    async fn patch_status<K: Resource<DynamicType = ()>>(
        &self,
        name: &str,
        status: &Value,
    ) -> Result<()> {
        let patch = Patch::<Value>::Merge(json!({"status": status}));
        self.api::<K>()
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(&[&["-n", &self.namespace], arguments].concat()).await
    }

    /// Lines of a table, cut into words.
    async fn table(&self, arguments: &[&str]) -> Result<Vec<Vec<String>>> {
        let text = self.kubectl(arguments).await?;
        Ok(text
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect())
    }
}

/// The example of a kind, as it is in the tests of `api`.
fn example(name: &str) -> Result<Value> {
    let text = std::fs::read(repository().join("crates/api/tests/objects").join(name))
        .context("read an example")?;
    Ok(serde_json::from_slice(&text)?)
}

fn with(mut spec: Value, extra: Value) -> Value {
    if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
        spec.extend(extra);
    }
    spec
}

/// An EHPA with a target and `extra`.
fn ehpa(extra: Value) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    with(json!({"scaleTargetRef": target, "maxReplicas": 10}), extra)
}

fn metric(metric: Value) -> Value {
    ehpa(json!({"metrics": [metric]}))
}

fn cron(extra: Value) -> Value {
    ehpa(
        json!({"crons": [with(json!({"name": "day", "start": "0 9 * * *", "end": "0 18 * * *"}), extra)]}),
    )
}

/// A prediction with a target and these metrics.
fn tsp(metrics: Value, extra: Value) -> Value {
    let target = json!({"kind": "Deployment", "name": "web"});
    with(
        json!({"targetRef": target, "predictionWindowSeconds": 600, "predictionMetrics": metrics}),
        extra,
    )
}

fn cpu_query(identifier: &str) -> Value {
    json!({"resourceIdentifier": identifier, "type": "ResourceQuery", "resourceQuery": "cpu"})
}

#[tokio::test]
async fn cranes_objects_are_accepted_with_cranes_defaults() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (name, kind) in [("ehpa.json", 0), ("substitute.json", 1), ("tsp.json", 2)] {
        let spec = example(name)?["spec"].clone();
        let created = match kind {
            0 => {
                fixture
                    .create::<EffectiveHorizontalPodAutoscaler>(&spec)
                    .await
            }
            1 => fixture.create::<Substitute>(&spec).await,
            _ => fixture.create::<TimeSeriesPrediction>(&spec).await,
        };
        assert_eq!(
            created.with_context(|| format!("create {name}"))?.data["spec"],
            spec,
            "{name}"
        );
    }
    let bare = fixture
        .create::<EffectiveHorizontalPodAutoscaler>(&ehpa(json!({"prediction": {}})))
        .await?;
    let filled = json!({"minReplicas": 1, "scaleStrategy": "Auto", "prediction": {"predictionWindowSeconds": 3600}});
    assert_eq!(bare.data["spec"], ehpa(filled));
    for spec in [
        cron(json!({"timezone": "Europe/Berlin", "targetReplicas": 5, "start": "@daily"})),
        cron(json!({"start": "CRON_TZ=Asia/Tokyo 0 9 ? * MON-FRI", "end": "@every 1h30m"})),
        ehpa(json!({"minReplicas": 0, "specificReplicas": 0})),
        metric(json!({"type": "Pods", "pods": {
            "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 10},
        }})),
    ] {
        fixture
            .create::<EffectiveHorizontalPodAutoscaler>(&spec)
            .await
            .with_context(|| format!("create {spec}"))?;
    }
    for object in fixture
        .api::<EffectiveHorizontalPodAutoscaler>()
        .list(&kube::api::ListParams::default())
        .await?
    {
        ehpa::parse(serde_json::to_value(object)?)?;
    }
    Ok(())
}

/// EHPAs that are rejected, with parts of the message.
fn rejected_ehpas() -> Vec<(Value, Vec<&'static str>)> {
    vec![
        (
            json!({"maxReplicas": 3}),
            vec!["spec.scaleTargetRef: Required value"],
        ),
        (
            json!({"scaleTargetRef": {"kind": "Deployment", "name": "web"}}),
            vec!["spec.maxReplicas: Required value"],
        ),
        (
            ehpa(json!({"maxReplicas": 0})),
            vec!["spec.maxReplicas", "greater than or equal to 1"],
        ),
        (
            ehpa(json!({"minReplicas": 11})),
            vec!["minReplicas must not be above maxReplicas"],
        ),
        (
            ehpa(json!({"scaleStrategy": "Manual"})),
            vec![
                r#"spec.scaleStrategy: Unsupported value: "Manual""#,
                r#""Auto", "Preview""#,
            ],
        ),
        (
            ehpa(json!({"specificReplicas": -1})),
            vec!["spec.specificReplicas", "greater than or equal to 0"],
        ),
        (
            ehpa(json!({"crons": [
                {"name": "a", "start": "@daily", "end": "@hourly"}, {"name": "a", "start": "@daily", "end": "@hourly"},
            ]})),
            vec!["crons must have different names"],
        ),
        (
            cron(json!({"start": ""})),
            vec!["spec.crons[0].start", "should match"],
        ),
        (
            cron(json!({"end": "0 9 * *"})),
            vec!["spec.crons[0].end", "should match"],
        ),
        (
            ehpa(json!({"crons": [{"name": "a", "start": "@daily"}]})),
            vec!["spec.crons[0].end: Required value"],
        ),
        (
            cron(json!({"targetReplicas": -1})),
            vec!["spec.crons[0].targetReplicas", "greater than or equal to 0"],
        ),
        (
            ehpa(
                json!({"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]}}}),
            ),
            vec![
                "behavior.scaleUp.policies[0].value",
                "greater than or equal to 1",
            ],
        ),
        (
            ehpa(json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}})),
            vec![
                "behavior.scaleDown.stabilizationWindowSeconds",
                "less than or equal to 3600",
            ],
        ),
        (
            ehpa(json!({"prediction": {"predictionWindowSeconds": 60}})),
            vec![
                "prediction.predictionWindowSeconds",
                "greater than or equal to 600",
            ],
        ),
        (
            ehpa(json!({"prediction": {"predictionAlgorithm": {"algorithmType": "oracle"}}})),
            vec![
                r#"algorithmType: Unsupported value: "oracle""#,
                r#""dsp", "percentile""#,
            ],
        ),
    ]
}

/// EHPAs that are rejected for a metric, with parts of the message.
fn rejected_metrics() -> Vec<(Value, Vec<&'static str>)> {
    let cpu = |target: Value| {
        metric(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}))
    };
    vec![
        (
            metric(json!({"type": "Resource"})),
            vec!["a metric has the field of its type and no other"],
        ),
        (
            metric(json!({"type": "Custom"})),
            vec![r#"metrics[0].type: Unsupported value: "Custom""#],
        ),
        (
            cpu(json!({"type": "Value", "value": "1"})),
            vec!["the target of a Resource metric is Utilization or AverageValue"],
        ),
        (
            cpu(json!({"type": "Utilization"})),
            vec!["a target of type Utilization needs averageUtilization"],
        ),
        (
            cpu(json!({"type": "AverageValue", "averageValue": "much"})),
            vec!["target.averageValue", "should match"],
        ),
    ]
}

/// Predictions that are rejected, with parts of the message.
fn rejected_predictions() -> Vec<(Value, Vec<&'static str>)> {
    let double = json!([cpu_query("a"), cpu_query("a")]);
    let no_query =
        json!([{"resourceIdentifier": "a", "type": "ExpressionQuery", "resourceQuery": "cpu"}]);
    vec![
        (
            tsp(json!([]), json!({})),
            vec!["spec.predictionMetrics", "should have at least 1 items"],
        ),
        (
            tsp(double, json!({})),
            vec!["spec.predictionMetrics[1]: Duplicate value"],
        ),
        (
            tsp(no_query, json!({})),
            vec!["a metric has the query that its type names"],
        ),
        (
            tsp(
                json!([cpu_query("a")]),
                json!({"predictionWindowSeconds": 599}),
            ),
            vec![
                "spec.predictionWindowSeconds",
                "greater than or equal to 600",
            ],
        ),
        (
            tsp(
                json!([cpu_query("a")]),
                json!({"targetRef": {"kind": "Deployment", "name": ""}}),
            ),
            vec!["spec.targetRef.name", "should be at least 1 chars long"],
        ),
    ]
}

#[tokio::test]
async fn what_could_never_work_is_refused_with_the_field_and_the_reason() -> Result<()> {
    let fixture = Fixture::new().await?;
    for (spec, expected) in [rejected_ehpas(), rejected_metrics()].concat() {
        refused(
            fixture
                .create::<EffectiveHorizontalPodAutoscaler>(&spec)
                .await,
            422,
            &expected,
            &spec,
        );
    }
    for (spec, expected) in rejected_predictions() {
        refused(
            fixture.create::<TimeSeriesPrediction>(&spec).await,
            422,
            &expected,
            &spec,
        );
    }
    refused(
        fixture.create::<Substitute>(&json!({})).await,
        422,
        &["spec.substituteTargetRef: Required value"],
        &json!({}),
    );
    Ok(())
}

#[tokio::test]
async fn kubectl_prints_cranes_columns() -> Result<()> {
    let fixture = Fixture::new().await?;
    let (autoscaler, series) = (example("ehpa.json")?, example("tsp.json")?);
    let name = fixture
        .create::<EffectiveHorizontalPodAutoscaler>(&autoscaler["spec"])
        .await?
        .name_any();
    fixture
        .patch_status::<EffectiveHorizontalPodAutoscaler>(&name, &autoscaler["status"])
        .await?;
    let table = fixture.table(&["get", "ehpa"]).await?;
    assert_eq!(
        table[0],
        [
            "NAME",
            "STRATEGY",
            "MINPODS",
            "MAXPODS",
            "SPECIFICPODS",
            "REPLICAS",
            "AGE"
        ]
    );
    assert_eq!(table[1][..6], [&name, "Preview", "1", "10", "5", "6"]);
    let read = fixture
        .api::<EffectiveHorizontalPodAutoscaler>()
        .get(&name)
        .await?;
    assert_eq!(read.data["status"], autoscaler["status"]);

    let name = fixture
        .create::<TimeSeriesPrediction>(&series["spec"])
        .await?
        .name_any();
    fixture
        .patch_status::<TimeSeriesPrediction>(&name, &series["status"])
        .await?;
    let table = fixture.table(&["get", "tsp"]).await?;
    assert_eq!(
        table[0],
        [
            "NAME",
            "TARGETREFNAME",
            "TARGETREFKIND",
            "PREDICTIONWINDOWSECONDS",
            "AGE"
        ]
    );
    assert_eq!(table[1][..4], [&name, "php-apache", "Deployment", "3600"]);
    let read = fixture.api::<TimeSeriesPrediction>().get(&name).await?;
    assert_eq!(
        prediction::parse(serde_json::to_value(&read)?)?.status,
        prediction::parse(series)?.status
    );
    Ok(())
}

#[tokio::test]
async fn a_substitute_can_be_scaled_and_shows_whose_pods_it_stands_for() -> Result<()> {
    let fixture = Fixture::new().await?;
    let example = example("substitute.json")?;
    let name = fixture
        .create::<Substitute>(&example["spec"])
        .await?
        .name_any();
    fixture
        .patch_status::<Substitute>(&name, &example["status"])
        .await?;
    fixture
        .kubectl(&["scale", "substitute", &name, "--replicas=4"])
        .await?;
    let scale = fixture.api::<Substitute>().get_scale(&name).await?;
    let status = scale.status.context("a scale has a status")?;
    let found = (
        scale.spec.and_then(|spec| spec.replicas),
        status.replicas,
        status.selector.as_deref(),
    );
    assert_eq!(found, (Some(4), 3, Some("run=php-apache")));
    let table = fixture.table(&["get", "subs"]).await?;
    assert_eq!(
        (&table[0][..], &table[1][..2]),
        (
            &["NAME", "REPLICAS", "AGE"].map(str::to_owned)[..],
            &[name.clone(), "3".to_owned()][..]
        )
    );
    let read = fixture.api::<Substitute>().get(&name).await?;
    assert_eq!(
        substitute::parse(serde_json::to_value(read)?)?
            .spec
            .replicas,
        Some(4)
    );
    Ok(())
}
