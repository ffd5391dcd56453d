//! The numbers that the running recommender publishes by the methods of Crane and of Autopilot. The
//! formulas are those of their sources, applied to constant usage.

use std::time::Duration;

use anyhow::{Result, ensure};
use api::vpa::VerticalPodAutoscaler as Vpa;
use e2e::{PATIENCE, eventually_within, target};
use serde_json::{Value, json};

use super::fixture::{Fixture, first_container};
use super::{explained_by_steps, shared_room};

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

/// Begins the histories.
pub(crate) async fn begin(fixture: &Fixture) -> Result<()> {
    let (cpu, memory) = STEADY;
    fixture.deploy("steady", 1, cpu, memory).await?;
    for (name, deployment, annotations, _) in rows() {
        let spec = json!({
            "targetRef": target("Deployment", deployment), "recommenders": [{"name": "e2e"}],
        });
        let metadata = json!({"name": name, "annotations": annotations});
        fixture
            .create::<Vpa>(json!({"metadata": metadata, "spec": spec}))
            .await?;
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
