//! Settings of one VPA object: growth after an OOM kill (`PerVPAConfig`), whole cores, percentiles and
//! margin, and the methods of Crane and of Autopilot. The formulas of these are those of their sources,
//! applied to constant usage.

use std::time::Duration;

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{PATIENCE, eventually_within, message_of, target};
use serde_json::{Value, json};

use super::fixture::{Fixture, first_container};
use super::{
    CPU_OF_240M, MEMORY_OF_300MI, MEMORY_OF_400MI, explained_by_steps, fixture, shared_room,
};

/// 450Mi lies in the bucket of memory that ends at 477270988 bytes, and a margin of 15 % makes that
/// 548861636.
pub(crate) const MEMORY_OF_450MI: &str = "548861636";
/// 600Mi lies in the bucket of memory that ends at 664388475 bytes, and a margin of 15 % makes that
/// 764046746.
const MEMORY_OF_600MI: &str = "764046746";

#[tokio::test]
async fn an_oom_kill_raises_memory_by_the_rules_of_the_object() -> Result<()> {
    let fixture = fixture("own-rules").await?;
    // By the flags, by 100Mi, which is more than a fifth.
    let rows = [
        ("flags", json!({}), MEMORY_OF_400MI),
        ("ratio", json!({"oomBumpUpRatio": "2"}), MEMORY_OF_600MI),
        ("amount", json!({"oomMinBumpUp": "150Mi"}), MEMORY_OF_450MI),
    ];
    for (name, rules, _) in &rows {
        fixture.deploy(name, 1, "240m", "300Mi").await?;
        let mut policy = rules.clone();
        policy["containerName"] = "app".into();
        let extra = json!({"resourcePolicy": {"containerPolicies": [policy]}});
        fixture.autoscale_with(name, name, extra).await?;
    }
    for (name, ..) in &rows {
        fixture.targets(name, "memory", MEMORY_OF_300MI).await?;
        fixture
            .annotate_pods(name, &json!({"sandbox.plimsoll.dev/oom-kills": "1"}))
            .await?;
    }
    for (name, _, expected) in &rows {
        fixture.targets(name, "memory", expected).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_container_gets_whole_cores_while_an_annotation_asks_for_them() -> Result<()> {
    let fixture = shared_room().await?;
    fixture.autoscale("cores", "web").await?;
    fixture.targets("cores", "cpu", CPU_OF_240M).await?;
    let annotate = async |value: Value| {
        let key = "vpa-post-processor.kubernetes.io/app_integerCPU";
        fixture.annotate::<Vpa>("cores", json!({key: value})).await
    };
    annotate(json!("true")).await?;
    let object = fixture.targets("cores", "cpu", "1").await?;
    let memory = &super::first_container(&object)["target"]["memory"];
    assert_eq!(memory, MEMORY_OF_300MI, "memory stays");
    annotate(Value::Null).await?;
    fixture.targets("cores", "cpu", CPU_OF_240M).await?;
    Ok(())
}

async fn annotated(
    fixture: &Fixture,
    name: &str,
    deployment: &str,
    annotations: &Value,
) -> Result<()> {
    let spec = json!({
        "targetRef": target("Deployment", deployment), "recommenders": [{"name": "e2e"}],
        "updatePolicy": {"updateMode": "Off"},
    });
    fixture
        .make_annotated::<Vpa>(name, annotations, spec)
        .await?;
    Ok(())
}

#[tokio::test]
async fn percentiles_and_margin_are_set_per_object_and_a_wrong_one_is_reported() -> Result<()> {
    let fixture = shared_room().await?;
    let own = json!({
        "plimsoll.dev/sizing-margin-fraction": "0", "plimsoll.dev/sizing-cpu-percentile": "p50",
    });
    annotated(&fixture, "own-margin", "web", &own).await?;
    let wrong = json!({"plimsoll.dev/sizing-cpu-percentile": "95"});
    annotated(&fixture, "wrong-percentile", "web", &wrong).await?;

    // The ends of the buckets, without 15 %.
    let object = fixture.targets("own-margin", "cpu", "258m").await?;
    assert_eq!(first_container(&object)["target"]["memory"], "330659541");
    let object = fixture
        .targets("wrong-percentile", "cpu", CPU_OF_240M)
        .await?;
    let memory = &first_container(&object)["target"]["memory"];
    assert_eq!(memory, MEMORY_OF_300MI);
    let message = "plimsoll.dev/sizing-cpu-percentile has a value that cannot be used";
    let refused = message_of(&object["status"], "AnnotationRefused");
    ensure!(refused.contains(message), "{object}");
    Ok(())
}

/// 26m lies in the middle of its bucket.
const STEADY: (&str, &str) = ("26m", "300Mi");
/// Time until Autopilot's first window is over.
const WINDOW: Duration = Duration::from_mins(5);

/// VPA object, Deployment, annotations, CPU and memory of each method.
///
/// * Crane's buckets are 0.1 cores and 100 MiB wide, and their upper ends count. 240m gives 0.3
///   cores, and 300Mi, which begin a bucket, give 400 MiB. The margin is 15 %; fractions are cut
///   off.
/// * Autopilot's buckets grow by 5 % from 0.01 cores and 10 MB: 26m lies in the one that ends at
///   0.031525 cores, 300Mi in the one that ends at 330659541.03 bytes. With all usage in one
///   bucket, each statistic is its end. The margin is 50 % here; fractions are rounded up.
/// * For the ensemble, the end of the bucket costs least: usage is never above it. It adds no
///   margin.
fn rows() -> [(&'static str, &'static str, Value, [&'static str; 2]); 3] {
    [
        (
            "crane",
            "web",
            json!({"plimsoll.dev/sizing-policy": "crane"}),
            ["345m", "482344959"],
        ),
        (
            "moving-window",
            "steady",
            json!({
                "plimsoll.dev/sizing-policy": "autopilot-window",
                "plimsoll.dev/sizing-margin-fraction": "0.5",
            }),
            ["48m", "495989312"],
        ),
        (
            "ensemble",
            "steady",
            json!({"plimsoll.dev/sizing-policy": "autopilot-ml"}),
            ["32m", "330659542"],
        ),
    ]
}

pub(crate) async fn begin(fixture: &Fixture) -> Result<()> {
    let (cpu, memory) = STEADY;
    fixture.deploy("steady", 1, cpu, memory).await?;
    for (name, deployment, annotations, _) in rows() {
        annotated(fixture, name, deployment, &annotations).await?;
    }
    Ok(())
}

#[tokio::test]
async fn each_method_publishes_the_number_of_its_formula() -> Result<()> {
    let fixture = shared_room().await?;
    for (name, _, _, [cpu, memory]) in rows() {
        let what = format!("the target of {name} is {cpu} and {memory}");
        eventually_within(WINDOW + PATIENCE, &what, async || {
            let object = fixture.get::<Vpa>(name).await?;
            let found = &first_container(&object)["target"];
            let is_so = *found == json!({"cpu": cpu, "memory": memory});
            ensure!(is_so, "{:#}", object["status"]);
            Ok(())
        })
        .await?;
        explained_by_steps(&fixture, name, cpu).await?;
    }
    Ok(())
}
