//! What the API server accepts, refuses and prints of our objects, with the definitions of `deploy/crds`.

#![allow(clippy::needless_pass_by_value, reason = "tables of `json!` values read better without references")]

use anyhow::{Context, Result};
use api::{
    checkpoint::{self, HistogramCheckpoint, VerticalPodAutoscalerCheckpoint, VerticalPodAutoscalerCheckpointStatus},
    vpa::{self, VerticalPodAutoscaler, VerticalPodAutoscalerStatus},
};
use e2e::{kubectl, namespace, repository, shared};
use k8s_openapi::{
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::Time,
};
use kube::{
    Api, Client, Error, ResourceExt,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

/// One namespace, with loosely typed access to its autoscalers.
struct Room {
    client: Client,
    namespace: String,
    autoscalers: Api<DynamicObject>,
}

impl Room {
    async fn new() -> Result<Self> {
        let client = shared().await?.client().await?;
        let namespace = namespace(&client, "crds").await?;
        let resource = ApiResource::erase::<VerticalPodAutoscaler>(&());
        let autoscalers = Api::namespaced_with(client.clone(), &namespace, &resource);
        Ok(Self { client, namespace, autoscalers })
    }

    async fn create(&self, spec: &Value) -> kube::Result<DynamicObject> {
        let object = json!({
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscaler",
            "metadata": {"generateName": "web-"},
            "spec": spec,
        });
        let object = serde_json::from_value(object).map_err(Error::SerdeError)?;
        self.autoscalers.create(&PostParams::default(), &object).await
    }

    async fn patch_status(&self, name: &str, status: &Value) -> kube::Result<DynamicObject> {
        let patch = Patch::<Value>::Merge(json!({"status": status}));
        self.autoscalers.patch_status(name, &PatchParams::default(), &patch).await
    }
}

/// A spec with a target and `extra`.
fn spec(extra: Value) -> Value {
    let mut spec = json!({"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}});
    if let (Some(spec), Value::Object(extra)) = (spec.as_object_mut(), extra) {
        spec.extend(extra);
    }
    spec
}

fn update_policy(policy: Value) -> Value {
    spec(json!({ "updatePolicy": policy }))
}

fn container_policy(policy: Value) -> Value {
    spec(json!({"resourcePolicy": {"containerPolicies": [policy]}}))
}

fn cpu_boost(boost: Value) -> Value {
    spec(json!({"startupBoost": {"cpu": boost}}))
}

#[tokio::test]
async fn the_definitions_are_approved_and_structural() -> Result<()> {
    let client = shared().await?.client().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    for name in ["verticalpodautoscalers.autoscaling.k8s.io", "verticalpodautoscalercheckpoints.autoscaling.k8s.io"] {
        let status = definitions.get(name).await?.status.context("a definition has a status")?;
        let conditions: Vec<(String, String)> = status
            .conditions
            .unwrap_or_default()
            .into_iter()
            .map(|condition| (condition.type_, condition.status))
            .collect();
        for (kind, expected) in [
            ("Established", Some("True")),
            ("NamesAccepted", Some("True")),
            ("KubernetesAPIApprovalPolicyConformant", Some("True")),
            ("NonStructuralSchema", None),
        ] {
            let found = conditions.iter().find(|(found, _)| found == kind).map(|(_, status)| status.as_str());
            assert_eq!(found, expected, "{kind} of {name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn what_upstream_accepts_is_accepted_and_read_back_unchanged() -> Result<()> {
    let room = Room::new().await?;
    let example = std::fs::read(repository().join("crates/api/tests/objects/vpa.json"))?;
    let example: Value = serde_json::from_slice(&example)?;
    for spec in [
        example["spec"].clone(),
        spec(json!({})),
        json!({"targetRef": {"kind": "Deployment", "name": "web"}}),
        spec(json!({"recommenders": [{"name": "nobody-runs-this-one"}]})),
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
        container_policy(json!({"memoryAggregationIntervalSeconds": 1, "memoryAggregationIntervalCount": 1})),
        container_policy(json!({"startupBoost": {"cpu": {"type": "Factor", "factor": 2, "durationSeconds": 9}}})),
        spec(json!({"startupBoost": {}})),
        cpu_boost(json!({"type": "Factor", "factor": 0})),
        cpu_boost(json!({"type": "Quantity", "quantity": "500m", "durationSeconds": 0})),
    ] {
        let name = room.create(&spec).await.with_context(|| format!("create {spec}"))?.name_any();
        assert_eq!(room.autoscalers.get(&name).await?.data["spec"], spec);
    }
    Ok(())
}

#[tokio::test]
async fn nulls_and_unknown_fields_are_dropped() -> Result<()> {
    let room = Room::new().await?;
    for extra in [
        json!({"updatePolicy": null}),
        json!({"resourcePolicy": null, "recommenders": null, "startupBoost": null}),
        json!({"tomorrow": {"is": "another day"}}),
    ] {
        let name = room.create(&spec(extra.clone())).await.with_context(|| format!("create {extra}"))?.name_any();
        let read = room.autoscalers.get(&name).await?;
        assert_eq!(read.data["spec"], spec(json!({})), "{extra}");
        vpa::parse(serde_json::to_value(read)?)?;
    }
    Ok(())
}

#[tokio::test]
async fn what_upstream_refuses_is_refused_with_the_field_and_the_reason() -> Result<()> {
    let room = Room::new().await?;
    let boost = "spec.startupBoost.cpu: Invalid value:";
    let policy = "spec.resourcePolicy.containerPolicies[0]";
    for (spec, expected) in [
        (json!({}), vec!["spec.targetRef: Required value"]),
        (json!({"targetRef": {"kind": "Deployment"}}), vec!["spec.targetRef.name: Required value"]),
        (json!({"targetRef": {"name": "web"}}), vec!["spec.targetRef.kind: Required value"]),
        (spec(json!({"recommenders": [{}]})), vec!["spec.recommenders[0].name: Required value"]),
        (
            update_policy(json!({"updateMode": "Sometimes"})),
            vec![
                r#"spec.updatePolicy.updateMode: Unsupported value: "Sometimes""#,
                r#""Off", "Initial", "Recreate", "InPlaceOrRecreate", "InPlace", "Auto""#,
            ],
        ),
        (update_policy(json!({"updateMode": ""})), vec![r#"spec.updatePolicy.updateMode: Unsupported value: """#]),
        (update_policy(json!({"updateMode": false})), vec!["spec.updatePolicy.updateMode", "must be of type string"]),
        (
            update_policy(json!({"evictAfterOOMSeconds": 0})),
            vec!["spec.updatePolicy.evictAfterOOMSeconds", "should be greater than or equal to 1"],
        ),
        (
            update_policy(json!({"minReplicas": "two"})),
            vec!["spec.updatePolicy.minReplicas", "must be of type integer"],
        ),
        (
            update_policy(json!({"evictionRequirements": [{"changeRequirement": "TargetHigherThanRequests"}]})),
            vec!["spec.updatePolicy.evictionRequirements[0].resources: Required value"],
        ),
        (
            update_policy(json!({"evictionRequirements": [{"resources": ["cpu"], "changeRequirement": "Bigger"}]})),
            vec![
                r#"spec.updatePolicy.evictionRequirements[0].changeRequirement: Unsupported value: "Bigger""#,
                r#""TargetHigherThanRequests", "TargetLowerThanRequests""#,
            ],
        ),
        (
            container_policy(json!({"mode": "Initial"})),
            vec![r#"containerPolicies[0].mode: Unsupported value: "Initial""#, r#""Auto", "Off""#],
        ),
        (
            container_policy(json!({"controlledValues": "LimitsOnly"})),
            vec![
                r#"containerPolicies[0].controlledValues: Unsupported value: "LimitsOnly""#,
                r#""RequestsAndLimits", "RequestsOnly""#,
            ],
        ),
        (container_policy(json!({"minAllowed": {"cpu": "much"}})), vec![policy, "minAllowed.cpu", "should match"]),
        (container_policy(json!({"maxAllowed": {"cpu": 1.5}})), vec![policy, "maxAllowed.cpu", "must be of type"]),
        (container_policy(json!({"oomBumpUpRatio": "1.2 "})), vec![policy, "oomBumpUpRatio", "should match"]),
        (container_policy(json!({"oomMinBumpUp": "100MB"})), vec![policy, "oomMinBumpUp", "should match"]),
        (
            container_policy(json!({"memoryAggregationIntervalSeconds": 0})),
            vec![policy, "memoryAggregationIntervalSeconds", "should be greater than or equal to 1"],
        ),
        (
            container_policy(json!({"memoryAggregationIntervalCount": -1})),
            vec![policy, "memoryAggregationIntervalCount", "should be greater than or equal to 1"],
        ),
        (
            container_policy(json!({"startupBoost": {"cpu": {"type": "Factor"}}})),
            vec![policy, "startupBoost.cpu", "factor is required when type is Factor and forbidden otherwise"],
        ),
        (
            cpu_boost(json!({"type": "Factor"})),
            vec![boost, "factor is required when type is Factor and forbidden otherwise"],
        ),
        (
            cpu_boost(json!({"type": "Quantity", "factor": 2, "quantity": "1"})),
            vec![boost, "factor is required when type is Factor and forbidden otherwise"],
        ),
        (
            cpu_boost(json!({"type": "Quantity"})),
            vec![boost, "quantity is required when type is Quantity and forbidden otherwise"],
        ),
        (
            cpu_boost(json!({"type": "Factor", "factor": 2, "quantity": "1"})),
            vec![boost, "quantity is required when type is Quantity and forbidden otherwise"],
        ),
        (cpu_boost(json!({"factor": 2})), vec!["spec.startupBoost.cpu.type: Required value"]),
        (
            cpu_boost(json!({"type": "Double", "factor": 2})),
            vec![r#"spec.startupBoost.cpu.type: Unsupported value: "Double""#, r#""Factor", "Quantity""#],
        ),
    ] {
        refused(room.create(&spec).await, 422, &expected, &spec);
    }
    Ok(())
}

#[tokio::test]
async fn a_wrong_status_is_refused() -> Result<()> {
    let room = Room::new().await?;
    let name = room.create(&spec(json!({}))).await?.name_any();
    for (status, expected) in [
        (json!({"observedGeneration": -1}), vec!["status.observedGeneration", "greater than or equal to 0"]),
        (json!({"conditions": [{"type": "NoPodsMatched"}]}), vec!["status.conditions[0].status: Required value"]),
        (
            json!({"conditions": [{"type": "A", "status": "True", "observedGeneration": -1}]}),
            vec!["status.conditions[0].observedGeneration", "greater than or equal to 0"],
        ),
        (
            json!({"recommendation": {"containerRecommendations": [{"containerName": "app"}]}}),
            vec!["status.recommendation.containerRecommendations[0].target: Required value"],
        ),
    ] {
        refused(room.patch_status(&name, &status).await, 422, &expected, &status);
    }
    Ok(())
}

#[tokio::test]
async fn our_status_patch_writes_the_status_and_nothing_else() -> Result<()> {
    let room = Room::new().await?;
    let name = room.create(&spec(json!({}))).await?.name_any();
    let example = std::fs::read(repository().join("crates/api/tests/objects/vpa.json"))?;
    let example = vpa::parse(serde_json::from_slice(&example)?)?;
    let autoscalers: Api<VerticalPodAutoscaler> = Api::namespaced(room.client.clone(), &room.namespace);
    // The first patch finds no status, the others one to replace.
    for status in [
        VerticalPodAutoscalerStatus {
            recommendation: Some(vpa::RecommendedPodResources::default()),
            ..Default::default()
        },
        example.status.context("the example has a status")?,
        VerticalPodAutoscalerStatus { observed_generation: 2, ..Default::default() },
    ] {
        let patch = Patch::<()>::Json(vpa::status_patch(&status)?);
        let written = autoscalers.patch_status(&name, &PatchParams::default(), &patch).await?;
        assert_eq!(written.metadata.generation, Some(1), "a status is no new generation");
        assert_eq!(autoscalers.get(&name).await?.status, Some(status.clone()));
        assert_eq!(room.autoscalers.get(&name).await?.data["status"], serde_json::to_value(&status)?);
    }
    Ok(())
}

#[tokio::test]
async fn a_quantity_that_only_looks_like_one_spoils_its_own_object_only() -> Result<()> {
    let room = Room::new().await?;
    let good = room.create(&spec(json!({}))).await?.name_any();
    let bad = room.create(&container_policy(json!({"minAllowed": {"cpu": "1e1.5"}}))).await?.name_any();
    for object in room.autoscalers.list(&ListParams::default()).await? {
        let name = object.name_any();
        match vpa::parse(serde_json::to_value(object)?) {
            Ok(_) => assert_eq!(name, good),
            Err(error) => {
                let text = error.to_string();
                let expected = format!("VerticalPodAutoscaler {}/{bad}: spec.resourcePolicy", room.namespace);
                assert!(text.starts_with(&expected), "{text}");
            }
        }
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_prints_upstreams_columns() -> Result<()> {
    let room = Room::new().await?;
    let spec = update_policy(json!({"updateMode": "Off", "minReplicas": 3, "evictAfterOOMSeconds": 600}));
    let name = room.create(&spec).await?.name_any();
    let status = json!({
        "recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": {"cpu": "126m", "memory": "250Mi"}},
            {"containerName": "sidecar", "target": {"cpu": "25m", "memory": "100Mi"}},
        ]},
        "conditions": [{"type": "RecommendationProvided", "status": "True"}],
    });
    room.patch_status(&name, &status).await?;

    let table = |text: String| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let short = table(kubectl(&["get", "vpa", "-n", &room.namespace]).await?);
    assert_eq!(short[0], ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]);
    assert_eq!(short[1][..5], [&name, "Off", "126m", "250Mi", "True"]);
    let wide = table(kubectl(&["get", "verticalpodautoscalers", "-o", "wide", "-n", &room.namespace]).await?);
    assert_eq!(wide[0], ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE", "MINREPLICAS", "OOMSECONDS"]);
    assert_eq!(wide[1][6..], ["3", "600"]);
    Ok(())
}

#[tokio::test]
async fn only_v1_is_served() -> Result<()> {
    let room = Room::new().await?;
    let groups = room.client.list_api_groups().await?;
    let group =
        groups.groups.into_iter().find(|group| group.name == "autoscaling.k8s.io").context("the group is served")?;
    let versions: Vec<String> = group.versions.into_iter().map(|version| version.version).collect();
    assert_eq!(versions, ["v1"]);
    for plural in ["verticalpodautoscalers", "verticalpodautoscalercheckpoints"] {
        let resource = ApiResource {
            group: "autoscaling.k8s.io".into(),
            version: "v1beta2".into(),
            api_version: "autoscaling.k8s.io/v1beta2".into(),
            kind: "any".into(),
            plural: plural.into(),
        };
        let unserved: Api<DynamicObject> = Api::namespaced_with(room.client.clone(), &room.namespace, &resource);
        refused(unserved.list(&ListParams::default()).await, 404, &[], &json!(plural));
    }
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_comes_back_as_it_was_written_with_null_for_unknown_times() -> Result<()> {
    let room = Room::new().await?;
    let checkpoints: Api<VerticalPodAutoscalerCheckpoint> = Api::namespaced(room.client.clone(), &room.namespace);
    let name = checkpoint::object_name("web", "app");
    let spec = serde_json::from_value(json!({"vpaObjectName": "web", "containerName": "app"}))
        .context("a checkpoint's spec")?;
    let mut object = VerticalPodAutoscalerCheckpoint::new(&name, spec);
    object.status = Some(VerticalPodAutoscalerCheckpointStatus::default());
    checkpoints.create(&PostParams::default(), &object).await.context("there is no status subresource to write to")?;

    let time = Time("2026-01-01T12:34:56Z".parse()?);
    let histogram = HistogramCheckpoint {
        reference_timestamp: Some(time.clone()),
        bucket_weights: [(8, 9957), (14, 9962), (175, 10_000)].into(),
        total_weight: 149.355_173_068_049_82,
    };
    for status in [
        VerticalPodAutoscalerCheckpointStatus { version: checkpoint::VERSION.into(), ..Default::default() },
        VerticalPodAutoscalerCheckpointStatus {
            last_update_time: Some(time.clone()),
            version: checkpoint::VERSION.into(),
            cpu_histogram: histogram,
            memory_histogram: HistogramCheckpoint::default(),
            first_sample_start: Some(time),
            last_sample_start: None,
            total_samples_count: 1440,
        },
    ] {
        let patch = Patch::<()>::Json(checkpoint::status_patch(&status)?);
        checkpoints.patch(&name, &PatchParams::default(), &patch).await?;
        assert_eq!(checkpoints.get(&name).await?.status, Some(status.clone()));
        let raw = kubectl(&["get", "vpacheckpoint", &name, "-n", &room.namespace, "-o", "json"]).await?;
        let raw: Value = serde_json::from_str(&raw)?;
        assert_eq!(raw["status"], serde_json::to_value(&status)?);
    }
    Ok(())
}

/// The server answers with `code` and a message that holds every part of `expected`.
pub(crate) fn refused<T>(answer: kube::Result<T>, code: u16, expected: &[&str], what: &Value) {
    match answer {
        Ok(_) => panic!("{what} was accepted"),
        Err(Error::Api(status)) => {
            assert_eq!(status.code, code, "{what}: {}", status.message);
            for part in expected {
                assert!(status.message.contains(part), "{what}: {part:?} is not in {:?}", status.message);
            }
        }
        Err(error) => panic!("{what}: {error}"),
    }
}
