//! Objects that the schema accepts and refuses.

use anyhow::{Context as _, Result};
use api::vpa::{self, VerticalPodAutoscaler as Vpa};
use serde_json::{Value, json};

use super::fixture::{
    Fixture, all_refused, container_policy, cpu_boost, example, name, refused, spec, split,
    update_policy,
};

#[tokio::test]
async fn what_upstream_accepts_is_accepted_and_read_back_unchanged() -> Result<()> {
    let fixture = Fixture::new().await?;
    let mut example = example("vpa.json")?;
    let of_containers = &mut example["spec"]["resourcePolicy"];
    // A policy of the pod stands alone.
    let of_pod = of_containers["podPolicy"].take();
    of_containers
        .as_object_mut()
        .context("the example has a policy")?
        .remove("podPolicy");
    for spec in [
        example["spec"].clone(),
        spec(json!({"resourcePolicy": {"podPolicy": of_pod}})),
        spec(json!({})),
        json!({"targetRef": {"kind": "Deployment", "name": "web"}}),
        spec(json!({"recommenders": [{"name": "not-running"}]})),
        spec(json!({"recommenders": [{"name": "a"}, {"name": "b"}]})),
        spec(json!({"recommenders": [], "resourcePolicy": {"containerPolicies": []}})),
        update_policy(json!({})),
        update_policy(json!({"updateMode": "Off"})),
        update_policy(json!({"updateMode": "Initial"})),
        update_policy(json!({"updateMode": "Recreate"})),
        update_policy(json!({"updateMode": "InPlaceOrRecreate"})),
        update_policy(json!({"updateMode": "InPlace"})),
        update_policy(json!({"updateMode": "Auto"})),
        update_policy(json!({"minReplicas": 1})),
        // The webhook refuses this, not the schema.
        update_policy(json!({"minReplicas": 0})),
        update_policy(json!({"evictAfterOOMSeconds": 1})),
        update_policy(json!({"evictionRequirements": [
            {"resources": ["cpu"], "changeRequirement": "TargetHigherThanRequests"},
            {"resources": [], "changeRequirement": "TargetLowerThanRequests"},
        ]})),
        container_policy(json!({})),
        container_policy(json!({"containerName": "*", "mode": "Auto"})),
        container_policy(json!({"containerName": "app", "mode": "Off"})),
        container_policy(
            json!({"minAllowed": {"cpu": 2, "memory": "1.5Gi"}, "maxAllowed": {"cpu": "+3", "memory": "5e9"}}),
        ),
        container_policy(json!({"controlledResources": [], "controlledValues": "RequestsOnly"})),
        container_policy(
            json!({"controlledResources": ["example.com/widgets"], "controlledValues": "RequestsAndLimits"}),
        ),
        container_policy(json!({"oomBumpUpRatio": "1.2", "oomMinBumpUp": 0})),
        container_policy(
            json!({"memoryAggregationIntervalSeconds": 1, "memoryAggregationIntervalCount": 1}),
        ),
        container_policy(
            json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 9}}}),
        ),
        spec(json!({"startupBoost": {}})),
        cpu_boost(json!({"type": "Factor", "factor": 0})),
        cpu_boost(json!({"type": "Quantity", "quantity": "500m", "durationSeconds": 0})),
    ] {
        let made = fixture.vpa(&spec).await;
        let made = made.with_context(|| format!("create {spec}"))?;
        let read = fixture.get::<Vpa>(name(&made)).await?;
        assert_eq!(read["spec"], spec);
    }
    Ok(())
}

#[tokio::test]
async fn nulls_and_unknown_fields_are_dropped() -> Result<()> {
    let fixture = Fixture::new().await?;
    for extra in [
        json!({"updatePolicy": null}),
        json!({"resourcePolicy": null, "recommenders": null, "startupBoost": null}),
        json!({"tomorrow": {"is": "another day"}}),
    ] {
        let made = fixture.vpa(&spec(extra.clone())).await;
        let made = made.with_context(|| format!("create {extra}"))?;
        let read = fixture.get::<Vpa>(name(&made)).await?;
        assert_eq!(read["spec"], spec(json!({})), "{extra}");
        vpa::parse(read)?;
    }
    Ok(())
}

/// Specs that are rejected, with parts of the message.
fn rejected() -> Value {
    let policy = "spec.resourcePolicy.containerPolicies[0]";
    let boost = "spec.startupBoost.cpu: Invalid value:";
    let of_factor = "factor is required when type is Factor and forbidden otherwise";
    let of_quantity = "quantity is required when type is Quantity and forbidden otherwise";
    json!([
        [{}, "spec.targetRef: Required value"],
        [{"targetRef": {"kind": "Deployment"}}, "spec.targetRef.name: Required value"],
        [{"targetRef": {"name": "web"}}, "spec.targetRef.kind: Required value"],
        [spec(json!({"recommenders": [{}]})), "spec.recommenders[0].name: Required value"],
        [update_policy(json!({"updateMode": "Sometimes"})),
            r#"spec.updatePolicy.updateMode: Unsupported value: "Sometimes""#, r#""Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto""#],
        [update_policy(json!({"updateMode": ""})), r#"spec.updatePolicy.updateMode: Unsupported value: """#],
        [update_policy(json!({"updateMode": false})), "spec.updatePolicy.updateMode", "must be of type string"],
        [update_policy(json!({"evictAfterOOMSeconds": 0})),
            "spec.updatePolicy.evictAfterOOMSeconds", "should be greater than or equal to 1"],
        [update_policy(json!({"minReplicas": "two"})), "spec.updatePolicy.minReplicas", "must be of type integer"],
        [update_policy(json!({"evictionRequirements": [{"changeRequirement": "TargetHigherThanRequests"}]})),
            "spec.updatePolicy.evictionRequirements[0].resources: Required value"],
        [update_policy(json!({"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "Bigger"}]})),
            r#"spec.updatePolicy.evictionRequirements[0].changeRequirement: Unsupported value: "Bigger""#, r#""TargetHigherThanRequests", "TargetLowerThanRequests""#],
        [container_policy(json!({"mode": "Initial"})),
            r#"containerPolicies[0].mode: Unsupported value: "Initial""#, r#""Auto", "Off""#],
        [container_policy(json!({"controlledValues": "LimitsOnly"})),
            r#"containerPolicies[0].controlledValues: Unsupported value: "LimitsOnly""#, r#""RequestsAndLimits", "RequestsOnly""#],
        [container_policy(json!({"minAllowed": {"cpu": "much"}})), policy, "minAllowed.cpu", "should match"],
        [container_policy(json!({"maxAllowed": {"cpu": 1.5}})), policy, "maxAllowed.cpu", "must be of type"],
        [container_policy(json!({"oomBumpUpRatio": "1.2 "})), policy, "oomBumpUpRatio", "should match"],
        [container_policy(json!({"oomMinBumpUp": "100MB"})), policy, "oomMinBumpUp", "should match"],
        [container_policy(json!({"memoryAggregationIntervalSeconds": 0})),
            policy, "memoryAggregationIntervalSeconds", "should be greater than or equal to 1"],
        [container_policy(json!({"memoryAggregationIntervalCount": -1})),
            policy, "memoryAggregationIntervalCount", "should be greater than or equal to 1"],
        [container_policy(json!({"startupBoost": {"cpu": {"type": "Factor"}}})),
            policy, "startupBoost.cpu", of_factor],
        [spec(json!({"resourcePolicy": {"podPolicy": {}, "containerPolicies": [{"containerName": "app"}]}})),
            "spec.resourcePolicy: Invalid value: podPolicy sizes the pod as a whole"],
        [cpu_boost(json!({"type": "Factor"})), boost, of_factor],
        [cpu_boost(json!({"type": "Quantity", "factor": 2, "quantity": "1"})), boost, of_factor],
        [cpu_boost(json!({"type": "Quantity"})), boost, of_quantity],
        [cpu_boost(json!({"type": "Factor", "factor": 2, "quantity": "1"})), boost, of_quantity],
        [cpu_boost(json!({"factor": 2})), "spec.startupBoost.cpu.type: Required value"],
        [cpu_boost(json!({"type": "Double", "factor": 2})),
            r#"spec.startupBoost.cpu.type: Unsupported value: "Double""#, r#""Factor", "Quantity""#],
    ])
}

#[tokio::test]
async fn what_upstream_refuses_is_refused_with_the_field_and_the_reason() -> Result<()> {
    all_refused::<Vpa>(&Fixture::new().await?, &rejected()).await
}

#[tokio::test]
async fn a_wrong_status_is_refused() -> Result<()> {
    let fixture = Fixture::new().await?;
    let made = fixture.vpa(&spec(json!({}))).await?;
    let rows = json!([
        [{"observedGeneration": -1}, "status.observedGeneration", "greater than or equal to 0"],
        [{"conditions": [{"type": "NoPodsMatched"}]}, "status.conditions[0].status: Required value"],
        [{"conditions": [{"type": "A", "status": "True", "observedGeneration": -1}]},
            "status.conditions[0].observedGeneration", "greater than or equal to 0"],
        [{"recommendation": {"containerRecommendations": [{"containerName": "app"}]}},
            "status.recommendation.containerRecommendations[0].target: Required value"],
    ]);
    for row in rows.as_array().context("a table")? {
        let (status, expected) = split(row)?;
        let answer = fixture.patch_status::<Vpa>(name(&made), status).await;
        refused(answer, 422, &expected, status);
    }
    Ok(())
}

#[tokio::test]
async fn a_quantity_that_only_looks_like_one_spoils_its_own_object_only() -> Result<()> {
    let fixture = Fixture::new().await?;
    let good = fixture.vpa(&spec(json!({}))).await?;
    let bad = container_policy(json!({"minAllowed": {"cpu": "1e1.5"}}));
    let bad = fixture.vpa(&bad).await?;
    for object in fixture.list::<Vpa>().await? {
        let own = name(&object).to_owned();
        match vpa::parse(object) {
            Ok(_) => assert_eq!(own, name(&good)),
            Err(error) => {
                let (text, id) = (
                    error.to_string(),
                    format!("{}/{}", fixture.namespace, name(&bad)),
                );
                let expected = format!("VerticalPodAutoscaler {id}: spec.resourcePolicy");
                assert!(text.starts_with(&expected), "{text}");
            }
        }
    }
    Ok(())
}
