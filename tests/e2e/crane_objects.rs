//! Crane's objects on the API server with the definitions of `deploy/crds`: validation, defaults
//! and printed columns.

#![allow(
    clippy::needless_pass_by_value,
    reason = "tables of `json!` values read better without references"
)]

use anyhow::{Context as _, Result};
use api::ehpa::{self, EffectiveHorizontalPodAutoscaler as Ehpa};
use api::prediction::{self, TimeSeriesPrediction as Prediction};
use api::substitute::{self, Substitute};
use e2e::{kubectl, target, with};
use kube::Resource;
use serde_json::{Value, json};

use crate::crds::fixture::{Fixture, all_refused, example, name};

fn ehpa(extra: Value) -> Value {
    let target = target("Deployment", "web");
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
    is_kept::<Ehpa>(&fixture, "ehpa.json").await?;
    is_kept::<Substitute>(&fixture, "substitute.json").await?;
    is_kept::<Prediction>(&fixture, "tsp.json").await?;
    let bare = fixture
        .make::<Ehpa>(&ehpa(json!({"prediction": {}})))
        .await?;
    let filled = json!({"minReplicas": 1, "scaleStrategy": "Auto", "prediction": {"predictionWindowSeconds": 3600}});
    assert_eq!(bare["spec"], ehpa(filled));
    for spec in [
        cron(json!({"timezone": "Europe/Berlin", "targetReplicas": 5, "start": "@daily"})),
        cron(json!({"start": "CRON_TZ=Asia/Tokyo 0 9 ? * MON-FRI", "end": "@every 1h30m"})),
        ehpa(json!({"minReplicas": 0, "specificReplicas": 0})),
        metric(json!({"type": "Pods", "pods": {
            "metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": 10},
        }})),
    ] {
        fixture
            .make::<Ehpa>(&spec)
            .await
            .with_context(|| format!("create {spec}"))?;
    }
    for object in fixture.list::<Ehpa>().await? {
        ehpa::parse(object)?;
    }
    Ok(())
}

/// Checks that the specification of an example is accepted as it is.
async fn is_kept<K: Resource<DynamicType = ()>>(fixture: &Fixture, file: &str) -> Result<()> {
    let spec = &example(file)?["spec"];
    let created = fixture.make::<K>(spec).await;
    assert_eq!(created.context(file.to_owned())?["spec"], *spec, "{file}");
    Ok(())
}

/// EHPAs that are rejected, with parts of the message.
fn rejected_ehpas() -> Value {
    json!([
        [{"maxReplicas": 3}, "spec.scaleTargetRef: Required value"],
        [{"scaleTargetRef": {"kind": "Deployment", "name": "web"}}, "spec.maxReplicas: Required value"],
        [ehpa(json!({"maxReplicas": 0})), "spec.maxReplicas", "greater than or equal to 1"],
        [ehpa(json!({"minReplicas": 11})), "minReplicas must not be above maxReplicas"],
        [ehpa(json!({"scaleStrategy": "Manual"})),
            r#"spec.scaleStrategy: Unsupported value: "Manual""#, r#""Auto", "Preview""#],
        [ehpa(json!({"specificReplicas": -1})), "spec.specificReplicas", "greater than or equal to 0"],
        [ehpa(json!({"crons": [ {"name": "a", "start": "@daily", "end": "@hourly"}, {"name": "a", "start": "@daily", "end": "@hourly"}, ]})),
            "crons must have different names"],
        [cron(json!({"start": ""})), "spec.crons[0].start", "should match"],
        [cron(json!({"end": "0 9 * *"})), "spec.crons[0].end", "should match"],
        [ehpa(json!({"crons": [{"name": "a", "start": "@daily"}]})), "spec.crons[0].end: Required value"],
        [cron(json!({"targetReplicas": -1})), "spec.crons[0].targetReplicas", "greater than or equal to 0"],
        [ehpa(json!({"behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 60}]}}})),
            "behavior.scaleUp.policies[0].value", "greater than or equal to 1"],
        [ehpa(json!({"behavior": {"scaleDown": {"stabilizationWindowSeconds": 3601}}})),
            "behavior.scaleDown.stabilizationWindowSeconds", "less than or equal to 3600"],
        [ehpa(json!({"prediction": {"predictionWindowSeconds": 60}})),
            "prediction.predictionWindowSeconds", "greater than or equal to 600"],
        [ehpa(json!({"prediction": {"predictionAlgorithm": {"algorithmType": "oracle"}}})),
            r#"algorithmType: Unsupported value: "oracle""#, r#""dsp", "percentile""#],
    ])
}

/// EHPAs that are rejected for a metric, with parts of the message.
fn rejected_metrics() -> Value {
    let cpu = |target: Value| {
        metric(json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}))
    };
    json!([
        [
            metric(json!({"type": "Resource"})),
            "a metric has the field of its type and no other"
        ],
        [
            metric(json!({"type": "Custom"})),
            r#"metrics[0].type: Unsupported value: "Custom""#
        ],
        [
            cpu(json!({"type": "Value", "value": "1"})),
            "the target of a Resource metric is Utilization or AverageValue"
        ],
        [
            cpu(json!({"type": "Utilization"})),
            "a target of type Utilization needs averageUtilization"
        ],
        [
            cpu(json!({"type": "AverageValue", "averageValue": "much"})),
            "target.averageValue",
            "should match"
        ],
    ])
}

/// Predictions that are rejected, with parts of the message.
fn rejected_predictions() -> Value {
    let double = json!([cpu_query("a"), cpu_query("a")]);
    let no_query =
        json!([{"resourceIdentifier": "a", "type": "ExpressionQuery", "resourceQuery": "cpu"}]);
    json!([
        [
            tsp(json!([]), json!({})),
            "spec.predictionMetrics",
            "should have at least 1 items"
        ],
        [
            tsp(double, json!({})),
            "spec.predictionMetrics[1]: Duplicate value"
        ],
        [
            tsp(no_query, json!({})),
            "a metric has the query that its type names"
        ],
        [
            tsp(
                json!([cpu_query("a")]),
                json!({"predictionWindowSeconds": 599})
            ),
            "spec.predictionWindowSeconds",
            "greater than or equal to 600"
        ],
        [
            tsp(
                json!([cpu_query("a")]),
                json!({"targetRef": {"kind": "Deployment", "name": ""}})
            ),
            "spec.targetRef.name",
            "should be at least 1 chars long"
        ],
    ])
}

#[tokio::test]
async fn what_could_never_work_is_refused_with_the_field_and_the_reason() -> Result<()> {
    let fixture = Fixture::new().await?;
    all_refused::<Ehpa>(&fixture, &rejected_ehpas()).await?;
    all_refused::<Ehpa>(&fixture, &rejected_metrics()).await?;
    all_refused::<Prediction>(&fixture, &rejected_predictions()).await?;
    let nothing = json!([[{}, "spec.substituteTargetRef: Required value"]]);
    all_refused::<Substitute>(&fixture, &nothing).await
}

#[tokio::test]
async fn kubectl_prints_cranes_columns() -> Result<()> {
    let fixture = Fixture::new().await?;
    let (autoscaler, series) = (example("ehpa.json")?, example("tsp.json")?);
    let made = fixture.make::<Ehpa>(&autoscaler["spec"]).await?;
    let own = name(&made);
    fixture
        .patch_status::<Ehpa>(own, &autoscaler["status"])
        .await?;
    let table = fixture.table("get ehpa").await?;
    let columns = "NAME STRATEGY MINPODS MAXPODS SPECIFICPODS REPLICAS AGE";
    assert_eq!(table[0].join(" "), columns);
    assert_eq!(table[1][..6], [own, "Preview", "1", "10", "5", "6"]);
    let read = fixture.get::<Ehpa>(own).await?;
    assert_eq!(read["status"], autoscaler["status"]);

    let made = fixture.make::<Prediction>(&series["spec"]).await?;
    let own = name(&made);
    fixture
        .patch_status::<Prediction>(own, &series["status"])
        .await?;
    let table = fixture.table("get tsp").await?;
    let columns = "NAME TARGETREFNAME TARGETREFKIND PREDICTIONWINDOWSECONDS AGE";
    assert_eq!(table[0].join(" "), columns);
    assert_eq!(table[1][..4], [own, "php-apache", "Deployment", "3600"]);
    let read = prediction::parse(fixture.get::<Prediction>(own).await?)?;
    assert_eq!(read.status, prediction::parse(series)?.status);
    Ok(())
}

#[tokio::test]
async fn a_substitute_can_be_scaled_and_shows_whose_pods_it_stands_for() -> Result<()> {
    let fixture = Fixture::new().await?;
    let example = example("substitute.json")?;
    let made = fixture.make::<Substitute>(&example["spec"]).await?;
    let own = name(&made);
    fixture
        .patch_status::<Substitute>(own, &example["status"])
        .await?;
    let namespace = &fixture.namespace;
    kubectl(&format!(
        "-n {namespace} scale substitute {own} --replicas=4"
    ))
    .await?;
    let scale = fixture.api::<Substitute>().get_scale(own).await?;
    let status = scale.status.context("a scale has a status")?;
    let found = (
        scale.spec.and_then(|spec| spec.replicas),
        status.replicas,
        status.selector.as_deref(),
    );
    assert_eq!(found, (Some(4), 3, Some("run=php-apache")));
    let table = fixture.table("get subs").await?;
    assert_eq!(table[0], ["NAME", "REPLICAS", "AGE"]);
    assert_eq!(table[1][..2], [own, "3"]);
    let read = fixture.get::<Substitute>(own).await?;
    assert_eq!(substitute::parse(read)?.spec.replicas, Some(4));
    Ok(())
}
