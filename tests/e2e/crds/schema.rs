//! Objects that the schema accepts and refuses.

use anyhow::{Context, Result};
use api::vpa;
use e2e::repository;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::fixture::{Fixture, container_policy, cpu_boost, refused, spec, update_policy};

#[tokio::test]
async fn what_upstream_accepts_is_accepted_and_read_back_unchanged() -> Result<()> {
    let fixture = Fixture::new().await?;
    let example = std::fs::read(repository().join("crates/api/tests/objects/vpa.json"))?;
    let example: Value = serde_json::from_slice(&example)?;
    for spec in [
        example["spec"].clone(),
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
        let name = fixture
            .create(&spec)
            .await
            .with_context(|| format!("create {spec}"))?
            .name_any();
        assert_eq!(fixture.autoscalers.get(&name).await?.data["spec"], spec);
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
        let name = fixture
            .create(&spec(extra.clone()))
            .await
            .with_context(|| format!("create {extra}"))?
            .name_any();
        let read = fixture.autoscalers.get(&name).await?;
        assert_eq!(read.data["spec"], spec(json!({})), "{extra}");
        vpa::parse(serde_json::to_value(read)?)?;
    }
    Ok(())
}

/// A spec that is rejected, with parts of the message.
type Rejected = (Value, Vec<&'static str>);

fn rejected_targets_and_update_policies() -> Vec<Rejected> {
    vec![
        (json!({}), vec!["spec.targetRef: Required value"]),
        (
            json!({"targetRef": {"kind": "Deployment"}}),
            vec!["spec.targetRef.name: Required value"],
        ),
        (
            json!({"targetRef": {"name": "web"}}),
            vec!["spec.targetRef.kind: Required value"],
        ),
        (
            spec(json!({"recommenders": [{}]})),
            vec!["spec.recommenders[0].name: Required value"],
        ),
        (
            update_policy(json!({"updateMode": "Sometimes"})),
            vec![
                r#"spec.updatePolicy.updateMode: Unsupported value: "Sometimes""#,
                r#""Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto""#,
            ],
        ),
        (
            update_policy(json!({"updateMode": ""})),
            vec![r#"spec.updatePolicy.updateMode: Unsupported value: """#],
        ),
        (
            update_policy(json!({"updateMode": false})),
            vec!["spec.updatePolicy.updateMode", "must be of type string"],
        ),
        (
            update_policy(json!({"evictAfterOOMSeconds": 0})),
            vec![
                "spec.updatePolicy.evictAfterOOMSeconds",
                "should be greater than or equal to 1",
            ],
        ),
        (
            update_policy(json!({"minReplicas": "two"})),
            vec!["spec.updatePolicy.minReplicas", "must be of type integer"],
        ),
        (
            update_policy(
                json!({"evictionRequirements": [{"changeRequirement": "TargetHigherThanRequests"}]}),
            ),
            vec!["spec.updatePolicy.evictionRequirements[0].resources: Required value"],
        ),
        (
            update_policy(
                json!({"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "Bigger"}]}),
            ),
            vec![
                r#"spec.updatePolicy.evictionRequirements[0].changeRequirement: Unsupported value: "Bigger""#,
                r#""TargetHigherThanRequests", "TargetLowerThanRequests""#,
            ],
        ),
    ]
}

fn rejected_container_policies() -> Vec<Rejected> {
    let policy = "spec.resourcePolicy.containerPolicies[0]";
    vec![
        (
            container_policy(json!({"mode": "Initial"})),
            vec![
                r#"containerPolicies[0].mode: Unsupported value: "Initial""#,
                r#""Auto", "Off""#,
            ],
        ),
        (
            container_policy(json!({"controlledValues": "LimitsOnly"})),
            vec![
                r#"containerPolicies[0].controlledValues: Unsupported value: "LimitsOnly""#,
                r#""RequestsAndLimits", "RequestsOnly""#,
            ],
        ),
        (
            container_policy(json!({"minAllowed": {"cpu": "much"}})),
            vec![policy, "minAllowed.cpu", "should match"],
        ),
        (
            container_policy(json!({"maxAllowed": {"cpu": 1.5}})),
            vec![policy, "maxAllowed.cpu", "must be of type"],
        ),
        (
            container_policy(json!({"oomBumpUpRatio": "1.2 "})),
            vec![policy, "oomBumpUpRatio", "should match"],
        ),
        (
            container_policy(json!({"oomMinBumpUp": "100MB"})),
            vec![policy, "oomMinBumpUp", "should match"],
        ),
        (
            container_policy(json!({"memoryAggregationIntervalSeconds": 0})),
            vec![
                policy,
                "memoryAggregationIntervalSeconds",
                "should be greater than or equal to 1",
            ],
        ),
        (
            container_policy(json!({"memoryAggregationIntervalCount": -1})),
            vec![
                policy,
                "memoryAggregationIntervalCount",
                "should be greater than or equal to 1",
            ],
        ),
        (
            container_policy(json!({"startupBoost": {"cpu": {"type": "Factor"}}})),
            vec![
                policy,
                "startupBoost.cpu",
                "factor is required when type is Factor and forbidden otherwise",
            ],
        ),
    ]
}

fn rejected_startup_boosts() -> Vec<Rejected> {
    let boost = "spec.startupBoost.cpu: Invalid value:";
    vec![
        (
            cpu_boost(json!({"type": "Factor"})),
            vec![
                boost,
                "factor is required when type is Factor and forbidden otherwise",
            ],
        ),
        (
            cpu_boost(json!({"type": "Quantity", "factor": 2, "quantity": "1"})),
            vec![
                boost,
                "factor is required when type is Factor and forbidden otherwise",
            ],
        ),
        (
            cpu_boost(json!({"type": "Quantity"})),
            vec![
                boost,
                "quantity is required when type is Quantity and forbidden otherwise",
            ],
        ),
        (
            cpu_boost(json!({"type": "Factor", "factor": 2, "quantity": "1"})),
            vec![
                boost,
                "quantity is required when type is Quantity and forbidden otherwise",
            ],
        ),
        (
            cpu_boost(json!({"factor": 2})),
            vec!["spec.startupBoost.cpu.type: Required value"],
        ),
        (
            cpu_boost(json!({"type": "Double", "factor": 2})),
            vec![
                r#"spec.startupBoost.cpu.type: Unsupported value: "Double""#,
                r#""Factor", "Quantity""#,
            ],
        ),
    ]
}

#[tokio::test]
async fn what_upstream_refuses_is_refused_with_the_field_and_the_reason() -> Result<()> {
    let fixture = Fixture::new().await?;
    let rejected = [
        rejected_targets_and_update_policies(),
        rejected_container_policies(),
        rejected_startup_boosts(),
    ];
    for (spec, expected) in rejected.concat() {
        refused(fixture.create(&spec).await, 422, &expected, &spec);
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_status_is_refused() -> Result<()> {
    let fixture = Fixture::new().await?;
    let name = fixture.create(&spec(json!({}))).await?.name_any();
    for (status, expected) in [
        (
            json!({"observedGeneration": -1}),
            vec!["status.observedGeneration", "greater than or equal to 0"],
        ),
        (
            json!({"conditions": [{"type": "NoPodsMatched"}]}),
            vec!["status.conditions[0].status: Required value"],
        ),
        (
            json!({"conditions": [{"type": "A", "status": "True", "observedGeneration": -1}]}),
            vec![
                "status.conditions[0].observedGeneration",
                "greater than or equal to 0",
            ],
        ),
        (
            json!({"recommendation": {"containerRecommendations": [{"containerName": "app"}]}}),
            vec!["status.recommendation.containerRecommendations[0].target: Required value"],
        ),
    ] {
        refused(
            fixture.patch_status(&name, &status).await,
            422,
            &expected,
            &status,
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_quantity_that_only_looks_like_one_spoils_its_own_object_only() -> Result<()> {
    let fixture = Fixture::new().await?;
    let good = fixture.create(&spec(json!({}))).await?.name_any();
    let bad = fixture
        .create(&container_policy(json!({"minAllowed": {"cpu": "1e1.5"}})))
        .await?
        .name_any();
    for object in fixture.autoscalers.list(&ListParams::default()).await? {
        let name = object.name_any();
        match vpa::parse(serde_json::to_value(object)?) {
            Ok(_) => assert_eq!(name, good),
            Err(error) => {
                let text = error.to_string();
                let expected = format!(
                    "VerticalPodAutoscaler {}/{bad}: spec.resourcePolicy",
                    fixture.namespace
                );
                assert!(text.starts_with(&expected), "{text}");
            }
        }
    }
    Ok(())
}
