//! Resizes of simulated pods, and their refusal.

use anyhow::Result;
use e2e::kubernetes_minor;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use serde_json::json;

use super::{Subject, actual, container, request};

/// The condition of a resize that is not carried out.
fn pending(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let kinds = ["PodResizePending", "PodResizeInProgress"];
    conditions.iter().find(|it| kinds.contains(&&*it.type_))
}

/// The `observedGeneration` of a pod whose last change the kubelet has seen. The API server of
/// Kubernetes 1.33 drops it.
fn expected_generation() -> Result<impl Fn(&Pod) -> Option<i64>> {
    let is_kept = kubernetes_minor()? >= 34;
    Ok(move |pod: &Pod| pod.metadata.generation.filter(|_| is_kept))
}

#[tokio::test]
async fn a_resize_is_visible_in_the_status_and_touches_nothing_else() -> Result<()> {
    let subject = Subject::new("resize", json!({})).await?;
    let before = subject.now().await?;
    assert_eq!(actual(&before), request("100m", "100Mi"));
    subject.resize("250m", "300Mi").await?;
    let expected_generation = expected_generation()?;
    let is_observed = |pod: &Pod| {
        let status = pod.status.as_ref();
        status.and_then(|status| status.observed_generation) == expected_generation(pod)
    };
    let is_done = |pod: &Pod| actual(pod) == request("250m", "300Mi") && is_observed(pod);
    let after = subject.until("the resize is carried out", is_done).await?;
    assert_eq!(container(&after, "second"), container(&before, "second"));
    let without_resources = |pod: &Pod| ContainerStatus {
        resources: None,
        allocated_resources: None,
        ..container(pod, "first").clone()
    };
    assert_eq!(without_resources(&after), without_resources(&before));
    Ok(())
}

#[tokio::test]
async fn a_resize_without_room_is_deferred() -> Result<()> {
    let subject = Subject::new("room", json!({"sandbox.plimsoll.dev/cpu-room": "1.5"})).await?;
    subject.resize("1501m", "100Mi").await?;
    let is_deferred = |pod: &Pod| {
        pending(pod).is_some_and(|pending| pending.reason.as_deref() == Some("Deferred"))
    };
    let deferred = subject.until("the resize is deferred", is_deferred).await?;
    assert_eq!(actual(&deferred), request("100m", "100Mi"));
    subject.resize("1", "100Mi").await?;
    let is_done = |pod: &Pod| actual(pod) == request("1", "100Mi") && pending(pod).is_none();
    subject
        .until("a smaller one is carried out", is_done)
        .await?;
    Ok(())
}

#[tokio::test]
async fn a_refused_resize_says_why_until_it_is_let_through() -> Result<()> {
    let subject =
        Subject::new("refuse", json!({"sandbox.plimsoll.dev/resize": "Deferred"})).await?;
    subject.resize("250m", "300Mi").await?;
    let expected_generation = expected_generation()?;
    let refused = |pod: &Pod, reason: &str| {
        pending(pod).is_some_and(|pending| {
            let current = pending.observed_generation == expected_generation(pod);
            current && pending.status == "True" && pending.reason.as_deref() == Some(reason)
        })
    };
    let deferred = subject
        .until("the resize is deferred", |pod| refused(pod, "Deferred"))
        .await?;
    assert_eq!(actual(&deferred), request("100m", "100Mi"));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/resize": "Infeasible"}))
        .await?;
    let infeasible = subject
        .until("the resize is infeasible", |pod| refused(pod, "Infeasible"))
        .await?;
    assert_eq!(actual(&infeasible), request("100m", "100Mi"));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/resize": "Error"}))
        .await?;
    let failed = subject
        .until("the resize fails", |pod| refused(pod, "Error"))
        .await?;
    assert_eq!(actual(&failed), request("100m", "100Mi"));
    assert!(pending(&failed).is_some_and(|it| it.type_ == "PodResizeInProgress"));
    subject
        .annotate(json!({"sandbox.plimsoll.dev/resize": null}))
        .await?;
    let done = subject
        .until("the resize is carried out", |pod| {
            actual(pod) == request("250m", "300Mi")
        })
        .await?;
    assert!(pending(&done).is_none());
    Ok(())
}

#[tokio::test]
async fn a_resize_taken_back_is_no_longer_pending() -> Result<()> {
    let subject =
        Subject::new("undo", json!({"sandbox.plimsoll.dev/resize": "Infeasible"})).await?;
    subject.resize("250m", "300Mi").await?;
    subject
        .until("the resize is refused", |pod| pending(pod).is_some())
        .await?;
    subject.resize("100m", "100Mi").await?;
    subject
        .until("nothing is pending", |pod| pending(pod).is_none())
        .await
        .map(drop)
}
