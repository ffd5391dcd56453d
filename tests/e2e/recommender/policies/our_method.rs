//! Our own sizing method, the default of policies: recommended numbers and caution.

use anyhow::{Context as _, Result, ensure};
use api::sizing_policy::SizingPolicy;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, message_of};
use k8s_openapi::api::core::v1::LimitRange;
use model::Quantity;
use serde_json::{Value, json};

use super::ONE;
use super::fixture::PolicyFixture;
use crate::recommender::fixture::first_container;

/// Target of CPU in thousandths of a millicore.
fn cpu_target(object: &Value) -> Option<i64> {
    let target = first_container(object)["target"]["cpu"].as_str()?;
    Some(target.parse::<Quantity>().ok()?.milli_value())
}

#[tokio::test]
async fn a_policy_without_sizing_uses_our_method_with_the_users_caution() -> Result<()> {
    let base = super::super::fixture("caution").await?;
    base.deploy("one", 2, "240m", "300Mi").await?;
    let fixture = PolicyFixture::of(base.client.clone(), &base.namespace);
    let spec = json!({"limitMode": "memory=equal"});
    fixture.policy("web", spec).await?;
    let has_target = |object: &Value| cpu_target(object).is_some();
    let made = fixture
        .when::<Vpa>(ONE, "it has a target", has_target)
        .await?;
    let expected = json!({
        "plimsoll.dev/sizing-policy": "plimsoll", "plimsoll.dev/limit-mode": "memory=equal",
    });
    assert_eq!(made["metadata"]["annotations"], expected);
    let normal = cpu_target(&made).context("a target")?;
    let is_near = (240..=380).contains(&normal);
    ensure!(is_near, "{normal}m for a usage of 240m");

    let caution = json!({"spec": {"sizing": {"caution": "10"}}});
    fixture.patch::<SizingPolicy>("web", caution).await?;
    let is_higher = |object: &Value| cpu_target(object) > Some(11 * normal / 10);
    fixture
        .when::<Vpa>(ONE, "more caution raises the target", is_higher)
        .await?;
    let crane = json!({"spec": {"sizing": {
        "policy": "crane", "caution": null, "settings": {"margin-fraction": "0.1"},
    }}});
    fixture.patch::<SizingPolicy>("web", crane).await?;
    let what = "it names the setting that Crane's method ignores";
    let is_named = |object: &Value| {
        let message = message_of(&object["status"], "AnnotationUnused");
        message.ends_with(": plimsoll.dev/sizing-margin-fraction")
    };
    fixture.when::<Vpa>(ONE, what, is_named).await?;
    recommendations_can_be_scheduled_unless_the_policy_says_otherwise(&fixture).await
}

async fn recommendations_can_be_scheduled_unless_the_policy_says_otherwise(
    fixture: &PolicyFixture,
) -> Result<()> {
    let item = json!({"type": "Container", "max": {"cpu": "200m"}});
    let spec = json!({"limits": [item]});
    fixture.make::<LimitRange>("small", spec).await?;
    let is_capped = |object: &Value| condition(&object["status"], "RecommendationCapped").is_some();
    fixture
        .when::<Vpa>(ONE, "the target fits the limit range", |object| {
            // The limit is the range's default, and follows the request.
            is_capped(object) && cpu_target(object).is_some_and(|target| target <= 200)
        })
        .await?;
    let uncapped = json!({"spec": {"capToSchedulable": "none"}});
    fixture.patch::<SizingPolicy>("web", uncapped).await?;
    fixture
        .when::<Vpa>(ONE, "it is capped no longer", |object| {
            !is_capped(object) && cpu_target(object) > Some(200)
        })
        .await
        .map(drop)
}
