//! Waves of a policy through its workloads.

use anyhow::{Result, ensure};
use api::sizing_policy::UPDATES_SINCE;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{condition, until, workload};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::fixture;
use super::fixture::PolicyFixture;

/// Names of the objects that update pods.
async fn updating(fixture: &PolicyFixture) -> Result<Vec<String>> {
    let objects = fixture.list::<Vpa>().await?;
    let is_updating = |it: &&Value| it["spec"]["updatePolicy"]["updateMode"] == "Recreate";
    let updating = objects.iter().filter(is_updating);
    let names = updating.filter_map(|it| it["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

#[tokio::test]
async fn workloads_of_a_policy_are_updated_one_after_the_other() -> Result<()> {
    let fixture = fixture("waves").await?;
    for number in 10..22 {
        let name = format!("web-{number}");
        let deployment = workload(&name, 1, &json!({}), &json!({}));
        fixture.create::<Deployment>(deployment).await?;
    }
    fixture
        .policy("web", json!({"updateMode": "Recreate"}))
        .await?;
    let waits = |status: &Value| {
        condition(status, "Ready").is_some_and(|it| it["reason"] == "Wave")
            && status["managed"] == 12
    };
    fixture.policy_when("web", waits).await?;
    let first = "plimsoll-deployment-web-10";
    assert_eq!(updating(&fixture).await?, [first]);

    // No updater reports about it: its turn is over half an hour later.
    let since = json!({UPDATES_SINCE: "2020-01-01T00:00:00Z"});
    fixture.annotate::<Vpa>(first, since).await?;
    let both = [first, "plimsoll-deployment-web-11"];
    until(
        "the second one follows",
        async || updating(&fixture).await,
        |names| *names == both,
    )
    .await?;
    fixture.policy_when("web", waits).await?;
    let second = fixture.get::<Vpa>(both[1]).await?;
    let since = second["metadata"]["annotations"][UPDATES_SINCE].is_string();
    ensure!(since, "{second:#}");
    assert_eq!(updating(&fixture).await?, both);
    Ok(())
}
