//! VPA objects next to HPAs of the same workload, with the control plane's own HPA controller.

use anyhow::{Result, ensure};
use api::ehpa::EffectiveHorizontalPodAutoscaler as Ehpa;
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, requests, target};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler as Hpa;
use serde_json::{Value, json};

use super::first_container;
use super::fixture::Fixture;

/// Reason of the conflict with an HPA.
fn conflict(object: &Value) -> Option<&str> {
    condition(&object["status"], "ConflictsWithHPA")?["reason"].as_str()
}

/// The sized resources of the first container.
fn sized(object: &Value) -> Vec<&str> {
    let target = first_container(object)["target"].as_object();
    target
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .collect()
}

fn by_cpu() -> Value {
    let cpu = json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}});
    json!([{"type": "Resource", "resource": cpu}])
}

impl Fixture {
    /// An HPA of the Deployment `web` by CPU, which leaves it at one replica.
    async fn scale_by_cpu(&self) -> Result<()> {
        let spec = json!({"scaleTargetRef": target("Deployment", "web"), "maxReplicas": 1, "metrics": by_cpu()});
        self.make::<Hpa>("native", spec).await?;
        Ok(())
    }
}

#[tokio::test]
async fn a_conflict_with_an_hpa_is_reported_and_ends_with_the_hpa() -> Result<()> {
    let fixture = super::fixture("hpa-conflict").await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    let is_plain =
        |object: &Value| sized(object) == ["cpu", "memory"] && conflict(object).is_none();
    fixture
        .when::<Vpa>("web", "both resources are sized", is_plain)
        .await?;
    fixture.scale_by_cpu().await?;
    // As upstream, both are sized nevertheless.
    let is_reported = |object: &Value| {
        sized(object) == ["cpu", "memory"] && conflict(object) == Some("ResourceSized")
    };
    let object = fixture
        .when::<Vpa>("web", "the conflict is reported", is_reported)
        .await?;
    let condition = condition(&object["status"], "ConflictsWithHPA");
    let message = condition
        .and_then(|it| it["message"].as_str())
        .unwrap_or_default();
    let start = "HorizontalPodAutoscaler native scales by utilization of cpu; ";
    ensure!(message.starts_with(start), "{message}");
    fixture.await_event("web", "ConflictsWithHPA").await?;
    let refused = json!({"metadata": {"annotations": {"plimsoll.dev/hpa": "sometimes"}}});
    fixture.patch::<Vpa>("web", refused).await?;
    let is_refused = |object: &Value| {
        condition_message(object, "AnnotationRefused").contains("plimsoll.dev/hpa")
    };
    fixture
        .when::<Vpa>("web", "the annotation is refused", is_refused)
        .await?;
    fixture.delete::<Hpa>("native").await?;
    fixture
        .when::<Vpa>("web", "the conflict has ended", |object| {
            conflict(object).is_none()
        })
        .await?;
    fixture.await_event("web", "HPAConflictResolved").await
}

fn condition_message<'a>(object: &'a Value, kind: &str) -> &'a str {
    let condition = condition(&object["status"], kind);
    condition
        .and_then(|it| it["message"].as_str())
        .unwrap_or_default()
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
    let is_ignored = |object: &Value| {
        sized(object) == ["cpu", "memory"] && conflict(object) == Some("ResourceSized")
    };
    fixture
        .when::<Vpa>(name, "the HPA is ignored", is_ignored)
        .await?;
    fixture
        .patch::<SizingPolicy>("all", json!({"spec": {"hpa": null}}))
        .await?;
    fixture
        .when::<Vpa>(name, "memory alone is sized again", is_left_out)
        .await?;
    fixture.delete::<Hpa>("native").await?;
    let is_plain =
        |object: &Value| sized(object) == ["cpu", "memory"] && conflict(object).is_none();
    fixture
        .when::<Vpa>(name, "both are sized without an HPA", is_plain)
        .await?;
    Ok(())
}

/// The target of the first metric.
fn target_of(hpa: &Value) -> &Value {
    &hpa["spec"]["metrics"][0]["resource"]["target"]
}

#[tokio::test]
async fn an_ehpa_keeps_its_scale_point_while_requests_change() -> Result<()> {
    let fixture = super::fixture("hpa-keep").await?;
    fixture.deploy("web", 1, "50m", "300Mi").await?;
    fixture.autoscale("web", "web").await?;
    let keep = json!({"metadata": {"annotations": {"plimsoll.dev/hpa": "KeepScalePoint"}}});
    fixture.patch::<Vpa>("web", keep).await?;
    let metadata = json!({"name": "web", "annotations": {"plimsoll.dev/recommender": "e2e"}});
    let spec = json!({
        "scaleTargetRef": target("Deployment", "web"), "maxReplicas": 10, "metrics": by_cpu(),
    });
    fixture
        .create::<Ehpa>(json!({"metadata": metadata, "spec": spec}))
        .await?;
    // Half of the request of 100m.
    let by_value = json!({"type": "AverageValue", "averageValue": "50m"});
    fixture
        .when::<Hpa>("ehpa-web", "it scales by an amount", |hpa| {
            *target_of(hpa) == by_value
        })
        .await?;
    let points = json!([{"resource": "cpu", "averageRequest": "100m", "averageValue": "50m"}]);
    fixture
        .when::<Ehpa>("web", "the status has the amount", |ehpa| {
            ehpa["status"]["scalePoints"] == points
        })
        .await?;
    let is_sized =
        |object: &Value| sized(object) == ["cpu", "memory"] && conflict(object).is_none();
    fixture
        .when::<Vpa>("web", "CPU is sized again", is_sized)
        .await?;

    let resources = requests("400m", "100Mi");
    let template = json!({"spec": {"containers": [{"name": "app", "resources": resources}]}});
    let change = json!({"spec": {"template": template}});
    let deployments = fixture.typed::<Deployment>();
    let patch = kube::api::Patch::Strategic(change);
    deployments
        .patch("web", &kube::api::PatchParams::default(), &patch)
        .await?;
    e2e::eventually("the pods request more", async || {
        let pods = fixture.pods_of("web").await?;
        let has_more = |pod: &k8s_openapi::api::core::v1::Pod| {
            e2e::requests_in_effect(pod).is_some_and(|requests| requests["cpu"].0 == "400m")
        };
        ensure!(!pods.is_empty() && pods.iter().all(has_more), "not yet");
        Ok(())
    })
    .await?;
    // A later pass writes the HPA again.
    fixture
        .patch::<Ehpa>("web", json!({"spec": {"maxReplicas": 11}}))
        .await?;
    let hpa = fixture
        .when::<Hpa>("ehpa-web", "it is written again", |hpa| {
            hpa["spec"]["maxReplicas"] == 11
        })
        .await?;
    assert_eq!(*target_of(&hpa), by_value);

    let ignore = json!({"metadata": {"annotations": {"plimsoll.dev/hpa": "Ignore"}}});
    fixture.patch::<Vpa>("web", ignore).await?;
    let is_back = |hpa: &Value| target_of(hpa)["averageUtilization"] == 50;
    fixture
        .when::<Hpa>("ehpa-web", "it scales by utilization again", is_back)
        .await?;
    fixture
        .when::<Vpa>("web", "the conflict is reported", |object| {
            conflict(object) == Some("ResourceSized")
        })
        .await?;
    Ok(())
}
