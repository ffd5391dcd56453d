//! VPA objects next to HPAs of the same workload, with the control plane's own HPA controller.

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, message_of, requests, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::first_container;
use super::fixture::Fixture;

fn conflict(object: &Value) -> Option<&str> {
    condition(&object["status"], "ConflictsWithHPA")?["reason"].as_str()
}

fn sized(object: &Value) -> Vec<&str> {
    let target = first_container(object)["target"].as_object();
    target
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

/// Both resources are sized, and no HPA is in conflict with that.
fn is_plain(object: &Value) -> bool {
    sized(object) == ["cpu", "memory"] && conflict(object).is_none()
}

/// Both resources are sized in spite of an HPA.
fn is_reported(object: &Value) -> bool {
    sized(object) == ["cpu", "memory"] && conflict(object) == Some("ResourceSized")
}

fn by_cpu() -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    json!([{"type": "Resource", "resource": cpu}])
}

impl Fixture {
    async fn scale_by_cpu(&self) -> Result<()> {
        let spec = json!({"scaleTargetRef": target("Deployment", "web"), "maxReplicas": 1, "metrics": by_cpu()});
        self.make::<Hpa>("native", spec).await?;
        Ok(())
    }

    /// Sets what the VPA object does about HPAs of its workload.
    async fn respect_hpa(&self, way: &str) -> Result<()> {
        let annotations = json!({"plimsoll.dev/hpa": way});
        self.annotate::<Vpa>("web", annotations).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_conflict_with_an_hpa_is_reported_and_ends_with_the_hpa() -> Result<()> {
    let fixture = super::fixture("hpa-conflict").await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    fixture
        .when::<Vpa>("web", "both resources are sized", is_plain)
        .await?;
    fixture.scale_by_cpu().await?;
    // As upstream, both are sized nevertheless.
    let object = fixture
        .when::<Vpa>("web", "the conflict is reported", is_reported)
        .await?;
    let message = message_of(&object["status"], "ConflictsWithHPA");
    let start = "HorizontalPodAutoscaler native scales by utilization of cpu; ";
    ensure!(message.starts_with(start), "{message}");
    fixture.await_event("web", "ConflictsWithHPA").await?;
    fixture.respect_hpa("sometimes").await?;
    let is_refused = |object: &Value| {
        message_of(&object["status"], "AnnotationRefused").contains("plimsoll.dev/hpa")
    };
    fixture
        .when::<Vpa>("web", "the annotation is refused", is_refused)
        .await?;
    fixture.delete::<Hpa>("native").await?;
    let has_ended = |object: &Value| conflict(object).is_none();
    fixture
        .when::<Vpa>("web", "the conflict has ended", has_ended)
        .await?;
    fixture.await_event("web", "HPAConflictResolved").await
}

#[tokio::test]
async fn a_policy_leaves_out_what_an_hpa_scales_by() -> Result<()> {
    let fixture = super::fixture("hpa-respect").await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.scale_by_cpu().await?;
    let spec = json!({"updateMode": "Initial", "recommender": "e2e"});
    fixture.make::<SizingPolicy>("all", spec).await?;
    let name = "plimsoll-deployment-web";
    let is_left_out =
        |object: &Value| sized(object) == ["memory"] && conflict(object) == Some("ResourceLeftOut");
    fixture
        .when::<Vpa>(name, "memory alone is sized", is_left_out)
        .await?;
    fixture.await_event(name, "ConflictsWithHPA").await?;
    let ignore = json!({"spec": {"hpa": "Ignore"}});
    fixture.patch::<SizingPolicy>("all", ignore).await?;
    fixture
        .when::<Vpa>(name, "the HPA is ignored", is_reported)
        .await?;
    fixture
        .patch::<SizingPolicy>("all", json!({"spec": {"hpa": null}}))
        .await?;
    fixture
        .when::<Vpa>(name, "memory alone is sized again", is_left_out)
        .await?;
    fixture.delete::<Hpa>("native").await?;
    fixture
        .when::<Vpa>(name, "both are sized without an HPA", is_plain)
        .await
        .map(drop)
}

#[tokio::test]
async fn an_ehpa_keeps_its_scale_point_while_requests_change() -> Result<()> {
    let fixture = super::fixture("hpa-keep").await?;
    fixture.deploy("web", 1, "50m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    fixture.respect_hpa("KeepScalePoint").await?;
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"), "maxReplicas": 10, "metrics": by_cpu(),
    });
    fixture.own::<Ehpa>("web", spec).await?;
    // Half of the request of 100m.
    let by_value = json!({"type": "AverageValue", "averageValue": "50m"});
    let scales_by = |target: &Value| json!({"metrics": [{"resource": {"target": target}}]});
    let by_amount = json!({"spec": scales_by(&by_value)});
    fixture.await_fields::<Hpa>("ehpa-web", by_amount).await?;
    let points = json!([{"resource": "cpu", "averageRequest": "100m", "averageValue": "50m"}]);
    let status = json!({"status": {"scalePoints": points}});
    fixture.await_fields::<Ehpa>("web", status).await?;
    fixture
        .when::<Vpa>("web", "CPU is sized again", is_plain)
        .await?;

    let resources = requests("400m", "100Mi");
    let template = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
    let change = json!({"spec": {"template": template}});
    let patch = Patch::Strategic(change);
    fixture
        .typed::<Deployment>()
        .patch("web", &PatchParams::default(), &patch)
        .await?;
    e2e::eventually("the pods request more", async || {
        let pods = fixture.pods_of("web").await?;
        let has_more = |pod: &Pod| {
            e2e::requests_in_effect(pod).is_some_and(|requests| requests["cpu"].0 == "400m")
        };
        ensure!(!pods.is_empty() && pods.iter().all(has_more), "not yet");
        Ok(())
    })
    .await?;
    // A later pass writes the HPA again.
    let larger = json!({"spec": {"maxReplicas": 11}});
    fixture.patch::<Ehpa>("web", larger.clone()).await?;
    let hpa = fixture.await_fields::<Hpa>("ehpa-web", larger).await?;
    assert_eq!(hpa["spec"]["metrics"][0]["resource"]["target"], by_value);

    fixture.respect_hpa("Ignore").await?;
    let back = json!({"spec": scales_by(&json!({"averageUtilization": 50}))});
    fixture.await_fields::<Hpa>("ehpa-web", back).await?;
    let is_reported = |object: &Value| conflict(object) == Some("ResourceSized");
    fixture
        .when::<Vpa>("web", "the conflict is reported", is_reported)
        .await
        .map(drop)
}
