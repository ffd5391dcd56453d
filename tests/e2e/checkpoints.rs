//! State across restarts: checkpoints written, loaded and collected on the real API server.

mod fixture;

use anyhow::{Result, ensure};
use api::checkpoint::VerticalPodAutoscalerCheckpoint as Checkpoint;
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{eventually, usage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use fixture::Fixture;
use fixture::Recommender;

/// 240m lies in the bucket of CPU from 236m to 258m, with room above for what measuring adds, and a
/// margin of 15 % makes that 296m.
const CPU_OF_240M: &str = "296m";

#[tokio::test]
async fn a_killed_recommender_goes_on_to_the_last_digit_from_what_it_stored() -> Result<()> {
    let fixture = Fixture::new("killed").await?;
    fixture.deploy("web", 2, "240m", "300Mi").await?;
    fixture.autoscale("web", json!({})).await?;
    let recommender = Recommender::start(&fixture.namespace).await?;
    fixture
        .await_recommendation("web", |containers| {
            containers[0]["target"]["cpu"] == CPU_OF_240M
        })
        .await?;
    let while_measured = fixture
        .await_checkpoint("web-app", "it holds some samples", |status| {
            status["totalSamplesCount"].as_i64() > Some(3)
        })
        .await?;
    let open_window = &while_measured["status"]["memoryHistogram"]["bucketWeights"];
    assert!(open_window.is_object(), "the peak of the open window");

    let more = usage("680m", "400Mi");
    fixture.annotate_pods("web", &more).await?;
    fixture
        .await_checkpoint("web-app", "it holds both usages", |status| {
            status["cpuHistogram"]["bucketWeights"]
                .as_object()
                .is_some_and(|weights| weights.len() >= 2)
        })
        .await?;
    let none = json!({"spec": {"replicas": 0}});
    fixture.patch::<Deployment>("web", none).await?;
    let condition = "NoPodsMatched";
    fixture
        .when::<Vpa>("web", condition, |object| {
            object["status"]["conditions"][0]["type"] == condition
        })
        .await?;
    recommender.await_looks().await?;
    let stored = fixture.get::<Checkpoint>("web-app").await?;
    recommender.await_looks().await?;
    assert_eq!(
        fixture.get::<Checkpoint>("web-app").await?,
        stored,
        "what does not change is not written"
    );
    let before = fixture.get::<Vpa>("web").await?["status"]["recommendation"].clone();

    recommender.kill().await?;
    // Taken away, so that it can be seen to come back.
    let wiped = json!({"recommendation": null, "conditions": null});
    fixture.patch_status::<Vpa>("web", &wiped).await?;
    let recommender = Recommender::start(&fixture.namespace).await?;
    fixture
        .await_recommendation("web", |containers| !containers.is_null())
        .await?;
    assert_eq!(
        fixture.get::<Vpa>("web").await?["status"]["recommendation"],
        before
    );
    recommender.await_looks().await?;
    assert_eq!(
        fixture.get::<Checkpoint>("web-app").await?,
        stored,
        "what was loaded is what is stored"
    );
    Ok(())
}

/// A recorded run of upstream: what its checkpoint of the container `gone`, which no pod had, led
/// to.
struct Recorded {
    autoscaler: String,
    resource_policy: Value,
    status: Value,
    expected: Value,
}

fn recorded() -> Vec<Recorded> {
    let cases: Vec<Value> = testing::vectors::load("vpa/recommend_checkpoint");
    let cases = cases.iter().enumerate();
    cases
        .filter_map(|(index, case)| recorded_case(format!("recommend-checkpoint-{index}"), case))
        .collect()
}

/// None for runs with other flags than the defaults, and for runs without such a checkpoint.
fn recorded_case(autoscaler: String, case: &Value) -> Option<Recorded> {
    let config = &case["config"];
    let defaults = json!({
        "recommendation_margin_fraction": 0.15, "pod_min_cpu_millicores": 25, "pod_min_memory_mb": 250,
        "target_cpu_percentile": 0.9, "lower_bound_cpu_percentile": 0.5, "upper_bound_cpu_percentile": 0.95,
        "target_memory_percentile": 0.9, "lower_bound_memory_percentile": 0.5, "upper_bound_memory_percentile": 0.95,
        "confidence_interval_cpu_ns": 86_400_000_000_000_i64, "confidence_interval_memory_ns": 86_400_000_000_000_i64,
        "humanize_memory": false, "round_cpu_millicores": 1, "round_memory_bytes": 1,
        "memory_half_life_ns": 86_400_000_000_000_i64, "cpu_half_life_ns": 86_400_000_000_000_i64,
        "cpu_integer_post_processor": false, "max_allowed_cpu": null, "max_allowed_memory": null,
    });
    if defaults
        .as_object()?
        .iter()
        .any(|(flag, value)| config[flag] != *value)
    {
        return None;
    }
    let ops = case["ops"].as_array()?;
    let is_gone = |op: &&Value| {
        op["op"] == "checkpoint" && op["container"] == "gone" && op["expect"]["accepted"] == true
    };
    let status = ops.iter().find(is_gone)?["status"].clone();
    let recommended =
        ops.iter().find(|op| op["op"] == "recommend")?["expect"]["recommendation"].clone();
    let mut containers = recommended["containerRecommendations"].as_array()?.iter();
    let expected = containers
        .find(|container| container["containerName"] == "gone")?
        .clone();
    Some(Recorded {
        autoscaler,
        resource_policy: case["vpa"]["spec"]["resourcePolicy"].clone(),
        status,
        expected,
    })
}

#[tokio::test]
async fn checkpoints_that_upstream_wrote_are_taken_over() -> Result<()> {
    let recorded = recorded();
    ensure!(recorded.len() > 3, "only {} recorded runs", recorded.len());
    let fixture = Fixture::new("upstream").await?;
    fixture.deploy("web", 0, "1m", "1Mi").await?;
    let spec = |run: &Recorded| match &run.resource_policy {
        Value::Null => json!({}),
        policy => json!({"resourcePolicy": policy}),
    };
    let (there_before, later) = recorded.split_at(recorded.len() / 2);
    for run in there_before {
        fixture.store(&run.autoscaler, "gone", &run.status).await?;
        fixture.autoscale(&run.autoscaler, spec(run)).await?;
    }
    let _recommender = Recommender::start(&fixture.namespace).await?;
    if let Some(first) = there_before.first() {
        fixture
            .await_recommendation(&first.autoscaler, |containers| !containers.is_null())
            .await?;
    }
    // Upstream reads checkpoints at its start only.
    for run in later {
        fixture.autoscale(&run.autoscaler, spec(run)).await?;
        fixture.store(&run.autoscaler, "gone", &run.status).await?;
    }
    for run in &recorded {
        let object = fixture
            .await_recommendation(&run.autoscaler, |containers| {
                containers[0]["containerName"] == "gone"
            })
            .await?;
        let found = &object["status"]["recommendation"]["containerRecommendations"];
        assert_eq!(*found, json!([run.expected]), "{}", run.autoscaler);
    }
    Ok(())
}

/// A checkpoint of a container whose last sample is this old.
fn last_sample_before(ago: SignedDuration) -> Result<Value> {
    let last = Timestamp::from_second((Timestamp::now() - ago).as_second())?;
    let first = last - SignedDuration::from_hours(48);
    let histogram = json!({"referenceTimestamp": first.to_string(), "bucketWeights": {"20": 10000}, "totalWeight": 1.5});
    Ok(json!({
        "version": "v3", "lastUpdateTime": last.to_string(),
        "cpuHistogram": histogram, "memoryHistogram": histogram,
        "firstSampleStart": first.to_string(), "lastSampleStart": last.to_string(), "totalSamplesCount": 2880,
    }))
}

#[tokio::test]
async fn only_checkpoints_without_an_autoscaler_are_collected() -> Result<()> {
    let fixture = Fixture::new("garbage").await?;
    fixture.deploy("web", 1, "240m", "300Mi").await?;
    fixture.autoscale("web", json!({})).await?;
    let (recent, ancient) = (
        last_sample_before(SignedDuration::from_hours(1))?,
        last_sample_before(SignedDuration::from_hours(9 * 24))?,
    );
    fixture.store("web", "renamed", &ancient).await?;
    fixture.store("web", "paused", &recent).await?;
    fixture.store("gone", "app", &recent).await?;
    // One of a future version, one that no program can read, and one whose VPA object is there but
    // cannot be read.
    let odd = json!({"version": "v9", "lastSampleStart": recent["lastSampleStart"]});
    fixture.store("web", "odd", &odd).await?;
    let broken = json!({"version": "v3", "cpuHistogram": {"bucketWeights": {"x": 1}}});
    fixture.store("web", "broken", &broken).await?;
    let unreadable = json!({"containerName": "*", "minAllowed": {"cpu": "1e1.5"}});
    let unreadable = json!({"resourcePolicy": {"containerPolicies": [unreadable]}});
    fixture.autoscale("unreadable", unreadable).await?;
    fixture.store("unreadable", "app", &recent).await?;

    let _recommender = Recommender::start(&fixture.namespace).await?;
    fixture
        .await_checkpoints("checkpoints without an autoscaler are gone", |names| {
            names.contains(&"web-app")
                && !names.contains(&"gone-app")
                && !names.contains(&"web-renamed")
        })
        .await?;
    fixture
        .await_checkpoints("the others are there", |names| {
            names.join(" ") == "unreadable-app web-app web-broken web-odd web-paused"
        })
        .await?;
    fixture
        .await_recommendation("web", |containers| {
            let names = containers
                .as_array()
                .into_iter()
                .flatten()
                .map(|container| &container["containerName"]);
            names.collect::<Vec<_>>() == ["app", "paused"]
        })
        .await?;

    fixture.delete::<Vpa>("web").await?;
    // What cannot be read is not even seen.
    fixture
        .await_checkpoints("they go with their VPA object", |names| {
            names == ["unreadable-app", "web-broken"]
        })
        .await
}

#[tokio::test]
async fn a_checkpoint_that_was_deleted_is_made_again() -> Result<()> {
    let fixture = Fixture::new("again").await?;
    fixture.deploy("web", 0, "1m", "1Mi").await?;
    fixture.autoscale("web", json!({})).await?;
    let recent = last_sample_before(SignedDuration::from_hours(1))?;
    fixture.store("web", "app", &recent).await?;
    let recommender = Recommender::start(&fixture.namespace).await?;
    recommender.await_looks().await?;
    let mut before = fixture.get::<Checkpoint>("web-app").await?["status"].clone();
    fixture.delete::<Checkpoint>("web-app").await?;
    let after = eventually("it is made again", async || {
        Ok(fixture.get::<Checkpoint>("web-app").await?)
    })
    .await?;
    before["lastUpdateTime"] = after["status"]["lastUpdateTime"].clone();
    assert_eq!(after["status"], before);
    assert_eq!(
        after["spec"],
        json!({"vpaObjectName": "web", "containerName": "app"})
    );
    assert_eq!(after["metadata"]["ownerReferences"], Value::Null);
    Ok(())
}
