//! Rules of one VPA object: growth after an OOM kill (`PerVPAConfig`), and whole cores.

use anyhow::Result;
use api::vpa::VerticalPodAutoscaler as Vpa;
use serde_json::{Value, json};

use super::{CPU_OF_240M, MEMORY_OF_300MI, fixture, shared_room};

/// 450Mi lies in the bucket of memory that ends at 477270988 bytes, and a margin of 15 % makes that
/// 548861636.
pub(crate) const MEMORY_OF_450MI: &str = "548861636";
/// 600Mi lies in the bucket of memory that ends at 664388475 bytes, and a margin of 15 % makes that
/// 764046746.
const MEMORY_OF_600MI: &str = "764046746";

#[tokio::test]
async fn an_oom_kill_raises_memory_by_the_rules_of_the_object() -> Result<()> {
    let fixture = fixture("own-rules").await?;
    // By the flags, an OOM kill would raise the 300Mi to 400Mi.
    let rows = [
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
        let change = json!({"metadata": {"annotations": {key: value}}});
        fixture.patch::<Vpa>("cores", change).await
    };
    annotate(json!("true")).await?;
    let object = fixture.targets("cores", "cpu", "1").await?;
    let memory = &super::first_container(&object)["target"]["memory"];
    assert_eq!(memory, MEMORY_OF_300MI, "memory stays");
    annotate(Value::Null).await?;
    fixture.targets("cores", "cpu", CPU_OF_240M).await?;
    Ok(())
}
