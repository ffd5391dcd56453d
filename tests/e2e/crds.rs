//! Our objects on the API server with the definitions of `deploy/crds`: validation and printed
//! columns.

#![allow(
    clippy::needless_pass_by_value,
    reason = "tables of `json!` values read better without references"
)]

pub(crate) mod fixture;
mod schema;

use anyhow::{Context as _, Result};
use api::checkpoint::{
    self, HistogramCheckpoint, VerticalPodAutoscalerCheckpoint as Checkpoint,
    VerticalPodAutoscalerCheckpointStatus as CheckpointStatus,
};
use api::vpa::{self, VerticalPodAutoscaler as Vpa, VerticalPodAutoscalerStatus as VpaStatus};
use e2e::{kubectl, shared};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use fixture::{Fixture, example, name, refused, spec, update_policy};

#[tokio::test]
async fn the_definitions_are_approved_and_structural() -> Result<()> {
    let client = shared().await?.client().await?;
    let definitions: Api<CustomResourceDefinition> = Api::all(client);
    for name in [
        "verticalpodautoscalers.autoscaling.k8s.io",
        "verticalpodautoscalercheckpoints.autoscaling.k8s.io",
    ] {
        let status = definitions
            .get(name)
            .await?
            .status
            .context("a definition has a status")?;
        let conditions = status.conditions.unwrap_or_default();
        for (kind, expected) in [
            ("Established", Some("True")),
            ("NamesAccepted", Some("True")),
            ("KubernetesAPIApprovalPolicyConformant", Some("True")),
            ("NonStructuralSchema", None),
        ] {
            let found = conditions.iter().find(|it| it.type_ == kind);
            let found = found.map(|condition| condition.status.as_str());
            assert_eq!(found, expected, "{kind} of {name}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn our_status_patch_writes_the_status_and_nothing_else() -> Result<()> {
    let fixture = Fixture::new().await?;
    let made = fixture.vpa(&spec(json!({}))).await?;
    let name = name(&made);
    let example = vpa::parse(example("vpa.json")?)?;
    let autoscalers = fixture.typed::<Vpa>();
    // The first patch finds no status, the others one to replace.
    for status in [
        VpaStatus {
            recommendation: Some(model::Recommendation::default()),
            ..Default::default()
        },
        example.status.context("the example has a status")?,
        VpaStatus {
            observed_generation: 2,
            ..Default::default()
        },
    ] {
        let patch = Patch::<()>::Json(api::patch::put_status(&status)?);
        let written = autoscalers
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        assert_eq!(
            written.metadata.generation,
            Some(1),
            "a status is no new generation"
        );
        assert_eq!(autoscalers.get(name).await?.status, Some(status.clone()));
        let read = fixture.get::<Vpa>(name).await?;
        assert_eq!(read["status"], serde_json::to_value(&status)?);
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_prints_upstreams_columns() -> Result<()> {
    let fixture = Fixture::new().await?;
    let spec =
        update_policy(json!({"updateMode": "Off", "minReplicas": 3, "evictAfterOOMSeconds": 600}));
    let made = fixture.vpa(&spec).await?;
    let name = name(&made);
    let status = json!({
        "recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": {"cpu": "126m", "memory": "250Mi"}},
            {"containerName": "sidecar", "target": {"cpu": "25m", "memory": "100Mi"}},
        ]},
        "conditions": [{"type": "RecommendationProvided", "status": "True"}],
    });
    fixture.patch_status::<Vpa>(name, &status).await?;

    let short = fixture.table("get vpa").await?;
    assert_eq!(short[0], ["NAME", "MODE", "CPU", "MEM", "PROVIDED", "AGE"]);
    assert_eq!(short[1][..5], [name, "Off", "126m", "250Mi", "True"]);
    let wide = fixture.table("get verticalpodautoscalers -o wide").await?;
    let columns = "NAME MODE CPU MEM PROVIDED AGE MINREPLICAS OOMSECONDS";
    assert_eq!(wide[0].join(" "), columns);
    assert_eq!(wide[1][6..], ["3", "600"]);
    Ok(())
}

#[tokio::test]
async fn only_v1_is_served() -> Result<()> {
    let fixture = Fixture::new().await?;
    let groups = fixture.client.list_api_groups().await?;
    let group = groups
        .groups
        .into_iter()
        .find(|group| group.name == "autoscaling.k8s.io")
        .context("the group is served")?;
    let versions = group.versions.into_iter().map(|version| version.version);
    let versions: Vec<String> = versions.collect();
    assert_eq!(versions, ["v1"]);
    for plural in ["verticalpodautoscalers", "verticalpodautoscalercheckpoints"] {
        let resource = ApiResource {
            group: "autoscaling.k8s.io".into(),
            version: "v1beta2".into(),
            api_version: "autoscaling.k8s.io/v1beta2".into(),
            kind: "any".into(),
            plural: plural.into(),
        };
        let unserved: Api<DynamicObject> =
            Api::namespaced_with(fixture.client.clone(), &fixture.namespace, &resource);
        refused(
            unserved.list(&ListParams::default()).await,
            404,
            &[],
            &json!(plural),
        );
    }
    Ok(())
}

#[tokio::test]
async fn a_checkpoint_comes_back_as_it_was_written_with_null_for_unknown_times() -> Result<()> {
    let fixture = Fixture::new().await?;
    let checkpoints = fixture.typed::<Checkpoint>();
    let name = checkpoint::object_name("web", "app");
    let spec = serde_json::from_value(json!({"vpaObjectName": "web", "containerName": "app"}))
        .context("a checkpoint's spec")?;
    let mut object = Checkpoint::new(&name, spec);
    object.status = Some(CheckpointStatus::default());
    checkpoints
        .create(&PostParams::default(), &object)
        .await
        .context("there is no status subresource to write to")?;

    let time = Time("2026-01-01T12:34:56Z".parse()?);
    let histogram = HistogramCheckpoint {
        reference_timestamp: Some(time.clone()),
        bucket_weights: [(8, 9957), (14, 9962), (175, 10_000)].into(),
        total_weight: 149.355_173_068_049_82,
    };
    for status in [
        CheckpointStatus {
            version: checkpoint::VERSION.into(),
            ..Default::default()
        },
        CheckpointStatus {
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
        checkpoints
            .patch(&name, &PatchParams::default(), &patch)
            .await?;
        assert_eq!(checkpoints.get(&name).await?.status, Some(status.clone()));
        let namespace = &fixture.namespace;
        let raw = kubectl(&format!("get vpacheckpoint {name} -n {namespace} -o json")).await?;
        let raw: Value = serde_json::from_str(&raw)?;
        assert_eq!(raw["status"], serde_json::to_value(&status)?);
    }
    Ok(())
}
